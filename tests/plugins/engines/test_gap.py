"""The measured distance between trainer and embedded engine."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "gap" / "run.py"


@pytest.mark.slow
def test_the_embedded_engines_gap_is_what_float32_leaves(tmp_path, record_property):
    result = tmp_path / "gap.json"
    subprocess.run([sys.executable, str(SCRIPT), "--quick", "--json", str(result)], check=True)
    gaps = {name: np.abs(gap) for name, gap in json.loads(result.read_text())["gaps"].items()}
    record_property("note", f"largest gap in float32: {gaps['embedded, float32'].max():.1e}")
    # near -6 a float32 has steps of 5e-7, and both sides round
    assert np.quantile(gaps["embedded, float32"], 0.99) <= 2e-6
    assert gaps["embedded, float32"].max() <= 4e-6
    assert gaps["embedded, bfloat16"].max() < 0.2
