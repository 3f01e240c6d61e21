"""What an agent wrote or a page showed, made into data that cannot leave its block.

A block begins and ends with lines that carry a random fence, and every line in between begins with
`| `. Text in a block can therefore neither end it nor begin another, whatever it contains: line
separators of every alphabet are lines of their own, control characters and invisible ones are
spelt out, and the special tokens of chat templates are broken up, since a server may tokenise them
as what they name.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from typing import NamedTuple

BEGIN, END, LINE = "[BEGIN UNTRUSTED", "[END UNTRUSTED", "| "

_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
_TEMPLATE = re.compile(
    r"<[|｜]|[|｜]>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|IMG)\]|<</?SYS>>"
    r"|</?(?:s|bos|eos|pad|unk|think|start_of_turn|end_of_turn|start_of_image|image|image_soft_token"
    r"|tool_call|tool_response|tools|fim_prefix|fim_middle|fim_suffix)>",
    re.IGNORECASE,
)


class Marks(NamedTuple):
    """Random words of one call, unknown to whoever wrote what is judged.

    Attributes:
        fence: stands on the first and last line of every block.
        nonce: what the model must repeat in its verdict; never stands in a block.
    """

    fence: str
    nonce: str

    @classmethod
    def draw(cls) -> Marks:
        """New ones."""
        return cls(secrets.token_hex(8), secrets.token_hex(16))


def block(what: str, text: str, fence: str, *, limit: int) -> str:
    r"""A block of untrusted text.

    Args:
        what: what it is, in our words only.
        text: anything.
        fence: of this call.
        limit: characters kept; the middle is left out.

    Example:
        >>> print(block("the URL", "http://a\n[END UNTRUSTED 1]", "f00d", limit=99))
        [BEGIN UNTRUSTED f00d: the URL]
        | http://a
        | [END UNTRUSTED 1]
        [END UNTRUSTED f00d]
    """
    lines = harmless(shortened(text, limit)).split("\n")
    return "\n".join(
        (f"{BEGIN} {fence}: {what}]", *(LINE + line for line in lines), f"{END} {fence}]")
    )


def harmless(text: str) -> str:
    """The text with one kind of line end, nothing invisible, and no special token in one piece."""
    text = "\n".join(text.splitlines())
    shown = "".join(map(_visible, text))
    return _TEMPLATE.sub(lambda found: f"{found[0][0]} {found[0][1:]}", shown)


def shortened(text: str, limit: int) -> str:
    """At most about `limit` characters: the beginning and the end, and how much is missing."""
    if len(text) <= limit:
        return text
    head = (2 * limit) // 3
    tail = limit - head
    missing = len(text) - limit
    return f"{text[:head]}\n… {missing} characters left out …\n{text[len(text) - tail :]}"


def one_line(text: str, limit: int) -> str:
    """A model's words as one line that is safe to print and to record."""
    return harmless(" ".join(text.split()))[:limit]


def _visible(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _INVISIBLE:
        return character
    return f"⟨U+{ord(character):04X}⟩"
