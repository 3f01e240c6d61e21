from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mintact_platform.datasets.shards import write_rows
from mintact_platform.datasets.supervised import Guidance, SupervisedRow
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.trajectory import ImageSpan
from mintact_platform.training.trainer import SupervisedRequest

IMAGE = 5


def write(path: Path, count: int = 6) -> tuple[str, ...]:
    rng = np.random.default_rng(0)
    rows = []
    for index in range(count):
        prompt, response = 3 + index % 3, 4 + index
        ids = [*rng.integers(40, 280, 4), IMAGE, *rng.integers(40, 280, prompt + response)]
        mask = [False] * (5 + prompt) + [True] * response
        last = len(ids) - 1
        rows.append(
            SupervisedRow(
                ids=np.array(ids, np.int32),
                mask=np.array(mask),
                images=(ImageSpan("0", "", 4, 64, 64),),
                pixels=(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8),),
                guidance=(Guidance(last - 1, last - 2, 0, (1, 2)),) * (index % 3),
                domain=("web", "tools")[index % 2],
            )
        )
    return write_rows(path, rows)


def test_supervised_steps_lower_the_cross_entropy(run: Any, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.safetensors")
    trainer = run.started()
    params = {"guidance": 0.3, "betas": [0.9, 0.95]}
    reports = [
        trainer.supervised(SupervisedRequest(step, rows, 3e-3, params)) for step in range(1, 16)
    ]
    for metric in ("cross_entropy", "guidance"):
        assert reports[-1].metrics[metric][""] < reports[0].metrics[metric][""]
    assert set(reports[0].metrics["cross_entropy"]) == {"", "web", "tools"}
    assert reports[0].tokens == sum(range(4, 10))
    assert trainer.optimiser.adam.param_groups[0]["betas"] == (0.9, 0.95)


@pytest.mark.parametrize("guidance", [0.0, 0.3])
def test_the_budget_does_not_change_a_supervised_step(
    run: Any, tmp_path: Path, guidance: float
) -> None:
    rows = write(tmp_path / "rows.safetensors")
    reports = [
        run.started({"micro_batch_tokens": budget}).supervised(
            SupervisedRequest(1, rows, 1e-3, {"guidance": guidance})
        )
        for budget in (1, 40, 10_000)
    ]
    for report in reports[1:]:
        assert report.loss == pytest.approx(reports[0].loss, rel=1e-5)
        assert report.grad_norm == pytest.approx(reports[0].grad_norm, rel=1e-4)
        assert report.metrics["cross_entropy"][""] == pytest.approx(
            reports[0].metrics["cross_entropy"][""], rel=1e-5
        )


def test_an_unknown_parameter_is_refused(run: Any, tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.safetensors", 1)
    with pytest.raises(ConfigurationError, match="unknown parameter 'guidence'"):
        run.started().supervised(SupervisedRequest(1, rows, 1e-3, {"guidence": 1.0}))
