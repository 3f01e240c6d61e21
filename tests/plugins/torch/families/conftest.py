"""Stock models, fed as transformers' own processors say, and the engine beside them."""

import asyncio
import base64
import copy
import io
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from mintact_plugin_torch.engine.engine import Engine
from mintact_plugin_torch.engine.generation import Replies
from mintact_plugin_torch.engine.request import GenerateBody
from mintact_plugin_torch.engine.runner import Limits
from mintact_plugin_torch.exact import in_float64
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart.tiny_families import make_tiny_family
from PIL import Image
from tokenizers import Tokenizer
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.idefics3.processing_idefics3 import Idefics3Processor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

SIGHTED = ("qwen2_5_vl", "smolvlm", "idefics3")
KINDS = ("qwen3", *SIGHTED)


class Stock:
    """A stock model with transformers' own image processing; nothing of ours but the weights."""

    def __init__(self, path: Path) -> None:
        config = transformers.AutoConfig.from_pretrained(path)
        model = getattr(transformers, config.architectures[0])
        self.config, self.path = config, path
        self.model = model.from_pretrained(path, attn_implementation="sdpa").eval()
        self.tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        self.processor = self.writer = None
        if config.model_type == "qwen2_5_vl":
            self.processor = Qwen2VLImageProcessorPil.from_pretrained(path)
        elif config.model_type == "smolvlm":
            self.processor = SmolVLMImageProcessorPil.from_pretrained(path)
        elif config.model_type == "idefics3":
            self.processor = Idefics3ImageProcessorPil.from_pretrained(path)

    def inputs(self, ids: list[int], images: list[bytes]) -> dict[str, Any]:
        """Arguments of a full forward for collapsed ids, one placeholder an image."""
        if not images:
            return {"input_ids": torch.tensor([ids])}
        shown = [Image.open(io.BytesIO(image)).convert("RGB") for image in images]
        if self.config.model_type == "qwen2_5_vl":
            return self._patches(ids, shown)
        return self._tiles(ids, shown)

    def _patches(self, ids: list[int], images: list[Image.Image]) -> dict[str, Any]:
        read = self.processor(images=images, return_tensors="pt")
        counts = iter((read["image_grid_thw"].prod(-1) // 4).tolist())
        placeholder = self.config.image_token_id
        parts = [[i] * next(counts) if i == placeholder else [i] for i in ids]
        expanded = torch.tensor([[*chain.from_iterable(parts)]])
        return {
            "input_ids": expanded,
            "mm_token_type_ids": (expanded == placeholder).int(),
            "attention_mask": torch.ones_like(expanded),
            **read,
        }

    def _tiles(self, ids: list[int], images: list[Image.Image]) -> dict[str, Any]:
        read = self.processor(images=images, return_row_col_info=True, return_tensors="pt")
        (rows,), (columns,) = read.pop("rows"), read.pop("cols")
        vision = self.config.vision_config
        length = (vision.image_size // vision.patch_size) ** 2 // self.config.scale_factor**2
        lines = {"rows": [rows], "cols": [columns]}
        texts = [self._written(lines, index, length) for index in range(len(images))]
        written = iter(self.tokenizer.encode(text, add_special_tokens=False).ids for text in texts)
        parts = [next(written) if i == self.config.image_token_id else [i] for i in ids]
        return {"input_ids": torch.tensor([[*chain.from_iterable(parts)]]), **read}

    def _written(self, lines: dict[str, Any], index: int, length: int) -> str:
        """What the stock processor writes for an image."""
        if self.config.model_type == "idefics3":
            if self.writer is None:
                tokenizer = transformers.AutoTokenizer.from_pretrained(self.path)
                self.writer = Idefics3Processor(self.processor, tokenizer, image_seq_len=length)
            return self.writer.replace_image_token(lines, index)
        # its processor cannot be made without num2words
        (rows,), (columns,) = lines["rows"], lines["cols"]
        names = ("<fake_token_around_image>", "<image>", "<global-img>")
        return get_image_prompt_string(int(rows[index]), int(columns[index]), length, *names)

    @cached_property
    def exact(self) -> Any:
        """The model in float64."""
        return in_float64(copy.deepcopy(self.model))

    @torch.no_grad()
    def logprobs(
        self, ids: list[int], images: list[bytes], last: int, temperature: float
    ) -> np.ndarray:
        """Log-probabilities of the last ids, of which none is a placeholder, in float64."""
        logits = self.exact(**self.inputs(ids, images)).logits[0, -last - 1 : -1] / temperature
        chosen = torch.tensor(ids[len(ids) - last :], dtype=torch.long)[:, None]
        return logits.log_softmax(-1).gather(1, chosen)[:, 0].numpy()


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A tiny model directory of a family, made once."""
    root, made = tmp_path_factory.mktemp("families"), {}

    def directory(kind: str) -> Path:
        if kind not in made:
            made[kind] = make_tiny_family(root / kind, kind)
        return made[kind]

    return directory


@pytest.fixture(scope="session")
def stock(model_dir: Callable[[str], Path]) -> Callable[..., Stock]:
    made: dict[str, Stock] = {}

    def load(kind: str, path: Path | None = None) -> Stock:
        if path is not None:
            return Stock(path)
        if kind not in made:
            made[kind] = Stock(model_dir(kind))
        return made[kind]

    return load


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=SIGHTED)
def sighted(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def picture() -> Callable[..., bytes]:
    """A PNG of smooth noise: a resize of it depends on the filter, and not on chance."""

    def make(seed: int, width: int = 56, height: int = 56) -> bytes:
        random = np.random.default_rng(seed)
        coarse = random.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()

    return make


@pytest.fixture
def open_engine(model_dir: Callable[[str], Path]) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(kind: str, **limits: int):
        path = model_dir(kind)
        engine = Engine(
            Policy.load(path),
            model_path=str(path),
            version="1",
            limits=Limits(**{"slots": 4, "context": 1024, **limits}),
        )
        engine.scheduler.start()
        try:
            yield engine
        finally:
            await asyncio.to_thread(engine.scheduler.stop)

    return opened


@pytest.fixture(scope="session")
def ask() -> Callable[..., Any]:
    async def generate(
        engine: Engine, ids: list[int], images: list[bytes] = (), **sampling: Any
    ) -> dict[str, Any]:
        body = GenerateBody.model_validate(
            {
                "input_ids": ids,
                "image_data": [base64.b64encode(image).decode() for image in images],
                "return_logprob": True,
                "sampling_params": {"max_new_tokens": 8, "ignore_eos": True, **sampling},
            }
        )
        replies = Replies(lambda: engine.scheduler.version, logprobs=True)
        engine.scheduler.submit(await engine.prepare(body, replies.push))
        return await replies.next()

    return generate
