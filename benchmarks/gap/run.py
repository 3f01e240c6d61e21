"""How far an engine's log-probabilities lie from the trainer's, token by token.

    python benchmarks/gap/run.py [--quick] [--sglang PYTHON] [--publish]

A tiny untrained model answers prompts with one to three pictures; the float32 trainer then scores
every sampled token in one full forward. Untrained, it is unsure of every token: log-probabilities
lie near -6, where a step of float32 is 4.8e-7. How far the trainer itself lies from the same model
in float64 is what rounding alone leaves: no engine in float32 can be held to less.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import math
import os
import platform
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from mintact_plugin_sglang.servers import EmbeddedServer, SGLangServer, launch_worker
from mintact_plugin_torch.exact import ExactForward
from mintact_plugin_torch.forward import Forward
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart.tiny import make_tiny
from mintact_plugin_torch.warmstart.tokenizer import IMAGE, VISION_END, VISION_START, special_ids
from PIL import Image
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from mintact_platform.dashboard.charts import Point, Series, line_chart, standalone
from mintact_platform.models.client import ModelServers
from mintact_platform.models.protocol import (
    GenerateRequest,
    Generation,
    ImageFile,
    Sampling,
    WeightsRef,
)
from mintact_platform.records.trajectory import ImageSpan, Segment
from mintact_platform.storage.images import ImageStore

ROOT = Path(__file__).parents[2]
PAGE, PICTURE = ROOT / "docs" / "model-servers.md", ROOT / "docs" / "engine-gap.svg"
BEGIN, END = "<!-- engine gap -->", "<!-- end of engine gap -->"
LIMITS = {"slots": 32, "context": 2048, "slot_bytes": 2**29, "forward_tokens": 1024}
ROUNDING = "none: trainer, against float64"
QUANTILES = (0.5, 0.9, 0.99, 0.999, 1.0)
COLUMNS = ("engine", "tokens", "median", "90 %", "99 %", "99.9 %", "largest", "largest weight")


class Prompt(NamedTuple):
    """Collapsed ids, and the pictures at their placeholders."""

    ids: list[int]
    images: list[ImageFile]
    spans: list[ImageSpan]


class Contestant(NamedTuple):
    """An engine in a precision: how it is launched, or where it runs already."""

    name: str
    server: EmbeddedServer | SGLangServer | None
    url: str = ""


def main() -> None:
    torch.set_num_threads(1)
    options = _options()
    count = 24 if options.quick else options.prompts
    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as directory:
        folder = Path(directory)
        gaps = asyncio.run(measure(_contestants(options), folder, count, options.tokens))
    rows = [(name, *_figures(values)) for name, values in gaps.items()]
    console, table = Console(width=110), Table(*COLUMNS, box=None)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    console.print(_machine())
    options.json.parent.mkdir(parents=True, exist_ok=True)
    values = {name: gap.tolist() for name, gap in gaps.items()}
    options.json.write_text(json.dumps({"machine": _machine(), "gaps": values}) + "\n")
    if options.publish:
        del gaps[ROUNDING]
        PICTURE.write_text(picture(gaps))
        _publish(rows, count)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="24 prompts")
    parser.add_argument("--prompts", type=int, default=200, metavar="N")
    parser.add_argument("--tokens", type=int, default=16, metavar="N", help="of a response (16)")
    parser.add_argument("--sglang", metavar="PYTHON", help="interpreter of an environment with it")
    parser.add_argument(
        "--attach", action="append", default=[], metavar="NAME=URL", help="a server that runs"
    )
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "gap.json")
    parser.add_argument("--publish", action="store_true", help=f"write into {PAGE.name}")
    return parser.parse_args()


def _contestants(options: argparse.Namespace) -> list[Contestant]:
    dtypes = ("float32", "bfloat16")
    found = [Contestant(f"embedded, {d}", EmbeddedServer("cpu", d, LIMITS)) for d in dtypes]
    if options.sglang:
        servers = {d: SGLangServer(options.sglang, "cpu", d, {}) for d in dtypes}
        found += [Contestant(f"SGLang, {d}", server) for d, server in servers.items()]
    return found + [Contestant(name, None, url) for name, url in map(_pair, options.attach)]


def _pair(text: str) -> tuple[str, str]:
    name, _, url = text.partition("=")
    return name, url


# ---- measuring ---------------------------------------------------------------------------------


async def measure(
    contestants: list[Contestant], folder: Path, count: int, tokens: int
) -> dict[str, np.ndarray]:
    """Trainer minus engine of every sampled token, by contestant."""
    weights = WeightsRef(make_tiny(folder / "model", seed=1), 1)
    store = ImageStore(folder / "images")
    prompts = make_prompts(weights.path, store, count)
    forward = Forward(Policy.load(weights.path), store, torch.device("cpu"))
    exact = ExactForward(weights.path, store)
    gaps: dict[str, np.ndarray] = {}
    for number, contestant in enumerate(contestants):
        async with AsyncExitStack() as stack:
            url = contestant.url
            if contestant.server is not None:
                worker = await launch_worker(
                    contestant.server,
                    weights,
                    log=folder / f"{number}.log",
                    mark=f"gap-{os.getpid()}-{number}",
                    deadline=900,
                )
                stack.push_async_callback(worker.child.stop)
                url = worker.url
            answers = await answer(url, weights, prompts, tokens)
        gaps[contestant.name] = scores(forward, prompts, answers)
        if not number:
            rounding = gaps[contestant.name] - scores(exact, prompts, answers)
    return {ROUNDING: rounding, **gaps}


def make_prompts(model: Path, store: ImageStore, count: int) -> list[Prompt]:
    """Prompts of ordinary ids, with one to three pictures of several sizes."""
    special = special_ids(Tokenizer.from_file(str(model / "tokenizer.json")))
    rng = np.random.default_rng(0)
    prompts = []
    for _ in range(count):
        ids = rng.integers(30, 250, rng.integers(20, 120)).tolist()
        images, spans = [], []
        for _ in range(rng.integers(1, 4)):
            width, height = (32 * rng.integers(1, 9, 2)).tolist()
            pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "PNG")
            digest = store.put(buffer.getvalue(), "png")
            images.append(ImageFile(store.path(digest, "png"), digest))
            spans.append(ImageSpan(digest, "png", len(ids) + 1, width, height))
            ids += [special[VISION_START], special[IMAGE], special[VISION_END]]
            ids += rng.integers(30, 250, rng.integers(5, 40)).tolist()
        prompts.append(Prompt(ids, images, spans))
    return prompts


async def answer(
    url: str, weights: WeightsRef, prompts: list[Prompt], tokens: int
) -> list[Generation]:
    """Responses of an engine, 16 at a time; they stop where a rollout's would."""
    special = special_ids(Tokenizer.from_file(str(weights.path / "tokenizer.json")))
    sampling = Sampling(1.0, tokens, tuple(special.values()))
    servers = ModelServers(url, [url], generate_deadline=600, concurrency=16)
    room = asyncio.Semaphore(16)

    async def one(index: int, prompt: Prompt) -> Generation:
        ids = np.array(prompt.ids, dtype=np.int32)
        async with room:
            return await servers.generate(
                GenerateRequest(f"gap-{index}.", ids, prompt.images, sampling)
            )

    try:
        return await asyncio.gather(*(one(i, prompt) for i, prompt in enumerate(prompts)))
    finally:
        await servers.aclose()


def scores(forward: Forward, prompts: list[Prompt], answers: list[Generation]) -> np.ndarray:
    """Trainer minus engine of every sampled token."""
    pairs = zip(prompts, answers, strict=True)
    return np.concatenate([score(forward, prompt, answer) for prompt, answer in pairs])


@torch.no_grad()
def score(forward: Forward, prompt: Prompt, answer: Generation) -> np.ndarray:
    """Trainer minus engine of a response's tokens, a reserved last one left out."""
    kept = len(answer.ids) - (answer.finish == "stop")
    if not kept:
        return np.zeros(0)
    ids = np.array([*prompt.ids, *answer.ids[:kept]], dtype=np.int32)
    sampled = np.arange(len(ids)) >= len(prompt.ids)
    zeros = np.zeros(len(ids))
    segment = Segment(
        ids, sampled, zeros.astype(np.float32), zeros.astype(np.int32), tuple(prompt.spans)
    )
    trained = forward.logprobs(forward.collate([segment], [1.0]))[0][0].numpy()
    return trained.astype(np.float64) - answer.logprobs[:kept]


# ---- telling -----------------------------------------------------------------------------------


def _figures(gap: np.ndarray) -> tuple[str, ...]:
    quantiles = np.quantile(np.abs(gap), QUANTILES, method="higher")
    weight = math.exp(gap.max())
    return (str(len(gap)), *(f"{value:.1e}" for value in quantiles), f"{weight:.6f}")


def picture(gaps: dict[str, np.ndarray]) -> str:
    """The share of tokens whose gap is at most so large, an SVG."""
    series = []
    for colour, (name, gap) in enumerate(gaps.items()):
        values = np.maximum(np.abs(gap), 1e-7)
        shares = np.linspace(0.0, 1.0, 101)
        edges = np.log10(np.quantile(values, shares, method="higher"))
        points = [Point(100 * x, y) for x, y in zip(shares.tolist(), edges.tolist(), strict=True)]
        series.append(Series(name, colour, points))
    chart = line_chart(
        series,
        label="trainer against engine, gap of log-probabilities by share of tokens",
        x_label="% of the tokens lie below",
        y_range=(-7.0, 0.0),
    )
    # four names in full do not fit
    short = [name.replace(", float", " fp").replace(", bfloat", " bf") for name in gaps]
    legend = list(zip(short, range(len(short)), strict=True))
    return standalone(chart, "log10 |log π trainer − log π engine|", legend)


def _publish(rows: list[tuple[str, ...]], count: int) -> None:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    text = "\n".join([*lines, "", f"{count} prompts with pictures. {_machine()}"])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"


if __name__ == "__main__":
    main()
