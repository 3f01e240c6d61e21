"""A third party's environment, found as an installed distribution would be."""

import os
import sys
from pathlib import Path

import pytest

ACME = str(Path(__file__).parents[3] / "third_party" / "acme_miniwob")
sys.path.append(ACME)


@pytest.fixture
def importable_by_workers(monkeypatch):
    paths = os.pathsep.join(filter(None, (ACME, os.environ.get("PYTHONPATH", ""))))
    monkeypatch.setenv("PYTHONPATH", paths)
