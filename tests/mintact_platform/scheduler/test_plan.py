"""What is looked up before anything starts, and what that costs."""

import pytest

PLAN = """
import sys
from pathlib import Path
from mintact_platform import config
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.plan import plan

planned = plan(config.load(Path("run.toml")), Registry.discover())
assert planned.config.trainer.name == "torch"
print(sorted({"torch", "transformers", "playwright", "sglang"} & set(sys.modules)))
"""


@pytest.fixture
def model(untrained):
    return untrained


def test_a_run_is_planned_without_what_only_its_children_need(mintact):
    mintact.run_file("mobile", "desktop", "web", "tools")
    assert mintact.python(PLAN) == "[]\n"
