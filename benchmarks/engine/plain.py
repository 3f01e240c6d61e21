"""`transformers.generate` as a contestant: a process that reads one load a line and times it.

Nothing is kept between calls: its cache dies with each of them, as it ships.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import workload
from mintact_plugin_torch.layout import expand
from mintact_plugin_torch.policy import Policy
from transformers import Qwen3VLForConditionalGeneration
from workload import Call, Episode


class Plain:
    """The stock model, its inputs built as its processor would.

    Args:
        path: model directory.
    """

    def __init__(self, path: str) -> None:
        self._policy = Policy.load(path)
        self._model: Any = Qwen3VLForConditionalGeneration.from_pretrained(path).eval()

    @property
    def placeholder(self) -> int:
        """Id of an image."""
        return self._policy.image_token_id

    @torch.inference_mode()
    def generate(self, calls: Sequence[Call]) -> list[list[int]]:
        """One batch, padded on the left; rows that wanted fewer tokens are cut afterwards."""
        tokens = max(call.tokens for call in calls)
        output = self._model.generate(
            **self._inputs(calls),
            max_new_tokens=tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            eos_token_id=None,
            pad_token_id=0,
        )
        new = output[:, -tokens:].tolist()
        return [row[: call.tokens] for row, call in zip(new, calls, strict=True)]

    def _inputs(self, calls: Sequence[Call]) -> dict[str, torch.Tensor]:
        cut = [[self._policy.patches(image) for image in call.images] for call in calls]
        rows = [self._expanded(call, patches) for call, patches in zip(calls, cut, strict=True)]
        width = max(len(ids) for ids, _ in rows)
        ids, kinds, mask = (np.zeros((len(rows), width), dtype=np.int64) for _ in range(3))
        for number, (row, is_image) in enumerate(rows):
            ids[number, width - len(row) :] = row
            kinds[number, width - len(row) :] = is_image
            mask[number, width - len(row) :] = 1
        inputs = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
        images = [patches for of in cut for patches in of]
        if images:
            pixels = torch.cat([patches.pixels for patches in images])
            inputs["pixel_values"] = pixels.float() / 127.5 - 1
            inputs["image_grid_thw"] = torch.tensor([patches.grid for patches in images])
            inputs["mm_token_type_ids"] = torch.from_numpy(kinds)
        return inputs

    def _expanded(self, call: Call, cut: Sequence[Any]) -> tuple[Any, Any]:
        places = [at for at, token in enumerate(call.ids) if token == self.placeholder]
        side = self._policy.layout.patch
        sizes = [
            (place, patches.grid[2] * side, patches.grid[1] * side)
            for place, patches in zip(places, cut, strict=True)
        ]
        expanded = expand(call.ids, sizes, self._policy.layout)
        return expanded.ids, expanded.is_image


def play(model: Plain, episodes: list[Episode], turns: int, together: int) -> int:
    """Turn after turn, so many episodes a batch; returns the tokens that were wanted."""
    wanted = 0
    for turn in range(turns):
        for first in range(0, len(episodes), together):
            some = episodes[first : first + together]
            replies = model.generate([episode.call(turn) for episode in some])
            wanted += sum(map(len, replies))
            for episode, ids in zip(some, replies, strict=True):
                episode.reply(ids)
    return wanted


def run(model: Plain, load: dict[str, Any]) -> int:
    """Do one load; returns the tokens that were wanted."""
    match load["kind"]:
        case "batch":
            return sum(map(len, model.generate(workload.batch(load["count"], load["draw"]))))
        case "ragged":
            episodes = workload.ragged(model.placeholder, load["draw"], load["episodes"])
            return play(model, episodes, workload.TURNS, load["together"])
        case kind:
            raise ValueError(kind)


def main() -> None:
    """Serve loads until the input ends."""
    torch.set_num_threads(1)
    model = Plain(sys.argv[1])
    run(model, {"kind": "batch", "count": 2, "draw": 0})
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        start = time.process_time(), time.perf_counter()
        tokens = run(model, json.loads(line))
        spent = time.process_time() - start[0], time.perf_counter() - start[1]
        print(json.dumps({"tokens": tokens, "cpu": spent[0], "wall": spent[1]}), flush=True)


if __name__ == "__main__":
    main()
