"""Environments and judges that go wrong on purpose."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import gymnasium
import numpy as np

from mintact_platform.records.verdict import StateCheck, Verdict


class Wall(gymnasium.Env):
    """A wall that counts: the shade is the number of calls; some calls do harm."""

    metadata = {"mintact": {"domain": "desktop", "action_space": "computer_use"}}

    def __init__(
        self, *, boots: bool = True, more: bool = False, after: str = "", width: int = 300
    ) -> None:
        while after and not os.path.exists(after):
            time.sleep(0.02)
        if not boots:
            print("the wall has no bricks", file=sys.stderr, flush=True)
            raise RuntimeError("no bricks")
        self.calls: list[dict[str, Any]] = []
        self.more, self.width = more, width

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.calls = []
        return self._seen("a wall"), {"goal": f"paint wall {seed}", "hidden": 7}

    def step(self, action: dict[str, Any]) -> Any:
        self.calls.append(action)
        verb = action["arguments"].get("action")
        if verb == "triple_click":
            print("the wall fell on us", file=sys.stderr, flush=True)
            raise RuntimeError("the wall fell")
        if verb == "middle_click":
            time.sleep(60)
        return self._seen(f"{len(self.calls)} coats"), 0.5, verb == "terminate", False, {}

    def evaluate(self) -> StateCheck:
        return StateCheck(
            len(self.calls) > 1, min(1.0, len(self.calls) / 2), {"coats": len(self.calls)}
        )

    def _seen(self, text: str) -> dict[str, Any]:
        shade = 60 + 20 * len(self.calls)
        screen = np.full((self.width * 2 // 3, self.width, 3), shade, np.uint8)
        if self.more:
            return {"images": [screen[:20, :20] // 2, screen], "text": text}
        return {"screenshot": screen, "text": text}


class Boom:
    """A judge that fails its first two judgements."""

    failures = 2

    def judge(self, task: Any, trajectory: Any) -> Verdict:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the judge lost its glasses")
        return Verdict("success", 1.0, reason="found them")
