"""Append-only chat formats of further model families; Qwen3-VL's is in `chat`."""

from __future__ import annotations

from tokenizers import Tokenizer

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.chat import MarkedText, Qwen3VLChat


class Qwen25VLChat(Qwen3VLChat):
    """The layout of Qwen2.5-VL: Qwen3-VL's markers."""

    name = "qwen2.5-vl"


class Qwen3Chat(Qwen3VLChat):
    """The layout of Qwen's text models: Qwen3-VL's without images."""

    name = "qwen3"

    def user(self, text: str, images: int) -> list[int]:
        """One user message, and the assistant's opening.

        Raises:
            ConfigurationError: when there is an image.
        """
        if images:
            raise ConfigurationError(
                "an image arrived, and the format has none",
                where=f"chat format {self.name}",
                next="choose a vision-language model and its format as model.chat",
            )
        return super().user(text, 0)

    def _placeholder(self) -> list[int]:
        return []


class SmolVLMChat(MarkedText):
    r"""The layout of SmolVLM and Idefics3, `Role: text<end_of_utterance>\n` after one first token.

    An image is one `<image>` here; tiles and the markers between them are part of its expansion.

    Args:
        tokenizer: with the family's special tokens; give this object its own.

    Raises:
        ConfigurationError: naming a special token the tokenizer lacks.
    """

    name = "smolvlm"

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer, "<end_of_utterance>")
        llama = tokenizer.token_to_id("<|begin_of_text|>")
        self._first = self.special("<|im_start|>") if llama is None else int(llama)
        self.image_id = self.special("<image>")
        self.reserve((self._first, self.image_id), _SMOLVLM_RESERVED)
        self._generate = self.encode("Assistant:")

    def begin(self, system: str) -> list[int]:
        """The first token and the system message with its end."""
        return [self._first, *self.encode(f"System: {system}"), self.end_id, *self._newline]

    def user(self, text: str, images: int) -> list[int]:
        """One user message, images before text, and the assistant's opening."""
        head = [*self.encode("User:"), *[self.image_id] * images, *self.encode(text)]
        body = head if images else self.encode(f"User: {text}")
        return [*body, self.end_id, *self._newline, *self._generate]


_SMOLVLM_RESERVED = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<fake_token_around_image>",
    "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in range(1, 9) for column in range(1, 9)),
)
