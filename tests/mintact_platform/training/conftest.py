from __future__ import annotations

import importlib
from pathlib import Path
from textwrap import dedent

import pytest


@pytest.fixture
def toy_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install a distribution with a trainer whose behaviour is told by its requests."""
    site = tmp_path / "site"
    info = site / "acme_trainer-0.3.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-trainer\nVersion: 0.3\n")
    (info / "entry_points.txt").write_text("[mintact]\nacme = acme_trainer\n")
    (site / "acme_trainer.py").write_text(
        dedent(
            """
            import os
            import threading

            from mintact_platform import hookimpl
            from mintact_platform.errors import CheckpointCorrupt, PluginError
            from mintact_platform.training.trainer import StepReport


            @hookimpl
            def register_trainers():
                return {"acme/toy": ToyTrainer}


            class ToyTrainer:
                def __init__(self, *, greeting: str = "hello"):
                    self.greeting = greeting

                def start(self, spec):
                    print(self.greeting, flush=True)
                    self.spec = spec

                def step(self, request):
                    if request.rows[0].id == "bad loss":
                        raise PluginError("surrogate is not finite", where="objective 'acme/loss'")
                    metrics = {"rows": {row.domain: row.reward for row in request.rows}}
                    return StepReport(request.step, 0.5, 1.0, metrics, len(request.rows), 0.0)

                def supervised(self, request):
                    return StepReport(request.step, request.lr, 0.0, {}, len(request.rows), 0.0)

                def score(self, path, *, temperature, noise=0.0):
                    if path == "for ever":
                        print("busy", flush=True)
                        threading.Event().wait()
                    if path:
                        # stands until the test has opened and closed the other end of this fifo
                        open(path).read()
                    return {"logprobs": [[-temperature, -noise]], "tokens": [2]}

                def export(self, version, path, *, noise=0.0):
                    print("about to die", flush=True)
                    os._exit(3)

                def confirm(self, version):
                    raise ValueError(f"no version {version}\\nsecond line")

                def save(self, path, *, step):
                    pass

                def load(self, path):
                    raise CheckpointCorrupt("is cut short", where=path, next="take another")

                def close(self):
                    print("closed", flush=True)
            """
        )
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    importlib.invalidate_caches()
    return "acme/toy"
