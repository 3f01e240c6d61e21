"""A contestant in a process of its own that reads a load a line and answers what it took."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from driving import Cost


class Worker:
    """A process that answers one JSON line a load.

    Args:
        python: interpreter.
        script: what it runs.
        model: model directory, its only argument.
        log: where its other output goes.
        environ: added to the environment.
    """

    def __init__(
        self, python: str | Path, script: Path, model: Path, log: Path, **environ: str
    ) -> None:
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [str(python), str(script), str(model)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", **environ},
            )
        self._log = log

    def __enter__(self) -> Self:
        try:
            self._answer()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def measure(self, **load: Any) -> Cost:
        """Do a load."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(load) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return Cost(answer["tokens"], 0, 0, answer["cpu"], answer["wall"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            last = [text for text in self._log.read_text().splitlines() if text.strip()][-1:]
            raise RuntimeError(f"the process ended: {' '.join(last)[:200]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
