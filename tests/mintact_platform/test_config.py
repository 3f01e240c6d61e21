import pytest

from mintact_platform.config import read
from mintact_platform.errors import ConfigurationError

RUN_FILE = """
name = "run"
[domains.web]
environment = "micro/web"
tasks = "micro/web:train"
judge = { name = "panel", params = { of = 3 }, cache = true }
[schedule]
flow_control = "none"
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(RUN_FILE)
    return file


@pytest.mark.parametrize("words", [
    ["domains.web.judge.name=vlm", "domains.web.judge.params.model=m"],
    ["domains.web.judge.params.model=m", "domains.web.judge.name=vlm"],
])  # fmt: skip
def test_another_plugin_leaves_the_parameters_of_the_one_before_behind(path, words):
    judge = read(path, words)["domains"]["web"]["judge"]
    assert judge == {"name": "vlm", "params": {"model": "m"}, "cache": True}


def test_the_same_plugin_keeps_its_parameters(path):
    words = ["domains.web.judge.name=panel", "domains.web.judge.params.at=1"]
    assert read(path, words)["domains"]["web"]["judge"]["params"] == {"of": 3, "at": 1}


@pytest.mark.parametrize("word", ["domains.wbe.quota=3", "domains.wbe.judge.name=vlm"])
def test_a_detail_of_a_domain_that_there_is_not_is_refused_with_the_near_one(path, word):
    with pytest.raises(ConfigurationError, match=r"no domain 'wbe'.*did you mean 'web'"):
        read(path, [word])


def test_a_whole_domain_may_be_added(path):
    words = ["domains.tools.quota=3", "domains.tools.environment=micro/tools"]
    values = read(path, [*words, "domains.tools.tasks=micro/tools:train"])
    assert values["domains"]["tools"]["quota"] == 3
    assert values["domains"]["web"]["environment"] == "micro/web"
