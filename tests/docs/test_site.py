"""The manual builds without a warning, and every page of it can be reached."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = set(re.findall(r"[\w/-]+\.md", navigation))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert named == pages


@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs zensical")
def test_the_manual_builds_strictly(tmp_path):
    # the builder writes beside its configuration, so both are copied
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    text = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(text.replace("paths: [.]", f"paths: ['{ROOT}']"))
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "Verdict" in (tmp_path / "build/site/reference/records/index.html").read_text()
