"""Append-only chat formats: conversations as token ids that are never written anew.

A context grows by whole messages, each encoded alone at special-token borders, and by the ids the
model sampled, verbatim. The stock template of Qwen3 is *not* append-only (a later user message
deletes earlier thinking), so the layout is ours: Qwen's markers, nothing ever removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from tokenizers import Tokenizer

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.parameters import made

if TYPE_CHECKING:
    from mintact_platform.registry.names import Registry


NO_IMAGE = -1
"""Placeholder of a format without images: no token has this id."""


@runtime_checkable
class ChatFormat(Protocol):
    """How a model family's conversations become token ids. Built from a `tokenizers.Tokenizer`.

    Ids are collapsed: one placeholder an image. A conversation is `begin`, then per turn `user`,
    the sampled ids, `close_assistant` of them.

    Attributes:
        image_id: the placeholder of an image; `NO_IMAGE` in a format without images.
        end_id: ends the assistant's turn.
        reserved_ids: ids a response may never hold: vision placeholders, other turn markers.
        stop_ids: `end_id` and the reserved ids; where generation stops.
    """

    image_id: int
    end_id: int
    reserved_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]

    def begin(self, system: str) -> list[int]:
        """The system message with its end."""
        ...

    def user(self, text: str, images: int) -> list[int]:
        """One user message, images before text, and the marker after which the model writes."""
        ...

    def close_assistant(self, ids: Sequence[int]) -> list[int]:
        """What follows sampled ids, so that the next `user` stands in a well-formed context."""
        ...

    def encode(self, text: str) -> list[int]:
        """A text alone, markers in it taken as plain text: a demonstrator's response."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, verbatim, special tokens included."""
        ...

    def strip(self, ids: Sequence[int]) -> str:
        """The text of a response without the token it stopped at."""
        ...


class MarkedText:
    """Text between special tokens: what the formats of all model families share.

    Special tokens written out inside a text (`<|im_end|>` on a web page) are encoded as plain
    text: nothing an environment shows can open or close a turn. For that the tokenizer is set to
    encode special tokens as text; give this object its own.

    Args:
        tokenizer: of the model.
        end: the token that ends a turn.

    Raises:
        ConfigurationError: naming a special token the tokenizer lacks.

    Attributes:
        name: the format's registered name.
    """

    name: ClassVar[str]
    image_id: int
    reserved_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]

    def __init__(self, tokenizer: Tokenizer, end: str) -> None:
        self._tokenizer = tokenizer
        tokenizer.encode_special_tokens = True
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.end_id = self.special(end)
        self._newline = self.encode("\n")

    def encode(self, text: str) -> list[int]:
        """A text alone, special tokens in it as plain text."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, verbatim, special tokens included."""
        return str(self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))

    def strip(self, ids: Sequence[int]) -> str:
        """The text of a response without the token it stopped at."""
        last = len(ids) - 1 if len(ids) and int(ids[-1]) in self.stop_ids else len(ids)
        return self.decode(ids[:last])

    def close_assistant(self, ids: Sequence[int]) -> list[int]:
        """The end of turn if the sampled ids lack it, and the line break after it."""
        ended = len(ids) > 0 and int(ids[-1]) == self.end_id
        return [*([] if ended else [self.end_id]), *self._newline]

    def special(self, name: str) -> int:
        """The id of a special token.

        Raises:
            ConfigurationError: when the tokenizer lacks it.
        """
        index = self._tokenizer.token_to_id(name)
        if index is None:
            raise ConfigurationError(
                f"the tokenizer has no {name!r}",
                where=f"chat format {self.name}",
                next="use the tokenizer.json of a model of this family or add the token to yours",
            )
        return int(index)

    def reserve(self, ids: Iterable[int], names: Iterable[str]) -> None:
        """Set `reserved_ids` and `stop_ids`: these ids, and those of the names there are."""
        others = (self._tokenizer.token_to_id(name) for name in names)
        self.reserved_ids = tuple(sorted({*ids, *(i for i in others if i is not None)}))
        self.stop_ids = (self.end_id, *self.reserved_ids)


class Qwen3VLChat(MarkedText):
    r"""Qwen's layout, `<|im_start|>role\n…<|im_end|>\n`, thinking kept.

    Args:
        tokenizer: with Qwen's special tokens; give this object its own.

    Raises:
        ConfigurationError: naming a special token the tokenizer lacks.
    """

    name = "qwen3-vl"

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer, "<|im_end|>")
        self._start = self.special("<|im_start|>")
        self._image = self._placeholder()
        self.image_id = self._image[1] if self._image else NO_IMAGE
        self.reserve((self._start, *self._image), _OTHER_RESERVED)
        self._generate = [self._start, *self.encode("assistant\n")]

    def begin(self, system: str) -> list[int]:
        """The system message with its end."""
        return [self._start, *self.encode(f"system\n{system}"), self.end_id, *self._newline]

    def user(self, text: str, images: int) -> list[int]:
        """One user message, images before text, and the assistant's opening."""
        head = [*self.encode("user\n"), *self._image * images, *self.encode(text)]
        body = head if images else self.encode(f"user\n{text}")
        return [self._start, *body, self.end_id, *self._newline, *self._generate]

    def _placeholder(self) -> list[int]:
        """What stands for an image; the middle id is expanded."""
        return [self.special(name) for name in _VISION]


_VISION = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
_OTHER_RESERVED = ("<|endoftext|>", "<|vision_pad|>", "<|video_pad|>", *_VISION)


def load_chat(name: str, model_path: Path, registry: Registry) -> ChatFormat:
    """The registered chat format over the model's own `tokenizer.json`.

    Raises:
        ConfigurationError: when there is no such file, or it does not fit the format.
        PluginNotFound: when no plugin registers the name.
    """
    target = registry.get("chat_formats", name)
    path = model_path / "tokenizer.json"
    if not path.is_file():
        raise ConfigurationError(
            f"no tokenizer.json in {str(model_path)!r}",
            where="model.path",
            next="give a directory in Hugging Face layout",
        )
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise ConfigurationError(f"cannot read {str(path)!r}: {error}", where="model") from error
    chat: ChatFormat = made(target, tokenizer, where=f"chat format {name!r}")
    return chat


def check_prefix(chat: ChatFormat) -> None:
    """Prove on a probe conversation that a context only grows and that borders are stable.

    Rendered from its start for every length k, each rendering must be a prefix of the next, hold
    the replies verbatim, and hold one placeholder an image.

    Raises:
        ConfigurationError: saying which turn breaks the property.
    """
    replies = [chat.encode(reply) for reply in _PROBE_REPLIES]
    images = _PROBE_IMAGES if chat.image_id != NO_IMAGE else (0,) * len(replies)
    before: list[int] = []
    for turns in range(len(replies) + 1):
        ids, places = _render(chat, replies[:turns], images)
        if ids[: len(before)] != before:
            raise _unfit(chat, f"turn {turns} rewrites the context before it")
        if ids.count(chat.image_id) != sum(images[:turns]):
            raise _unfit(chat, f"turn {turns} does not hold one placeholder an image")
        for place, reply in zip(places, replies, strict=False):
            if ids[place : place + len(reply)] != reply:
                raise _unfit(chat, f"turn {turns} does not hold the replies verbatim")
        before = ids
    ended = [*replies[0], chat.end_id]
    if replies[0] + chat.close_assistant(replies[0]) != ended + chat.close_assistant(ended):
        raise _unfit(chat, "a reply cut by length is closed unlike one that ended itself")
    if not {chat.end_id, *chat.reserved_ids} <= set(chat.stop_ids):
        raise _unfit(chat, "generation would not stop at its end or at a reserved id")


_PROBE_REPLIES = (
    "<think>open it</think><tool_call>{}</tool_call>",
    "<think>\nnow, the second\n\n</think>\n\n",
    " 42 ",
)
_PROBE_IMAGES = (1, 0, 2)


def _render(
    chat: ChatFormat, replies: Sequence[list[int]], images: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The conversation from its start, and where each reply stands."""
    ids, places = chat.begin("You act.\n"), []
    for index, reply in enumerate(replies):
        ids = ids + chat.user(f"\nobservation {index}\n", images[index])
        places.append(len(ids))
        ids = ids + reply + chat.close_assistant(reply)
    return ids, places


def _unfit(chat: ChatFormat, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"not append-only: {what}",
        where=f"chat format {type(chat).__name__}",
        next="its messages must depend on nothing but their own text",
    )
