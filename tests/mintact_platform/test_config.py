import pytest

from mintact_platform.config import parse, read
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


INFINITY = float("inf")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"trainer": {"params": {"x": INFINITY}}}, "trainer.params: x is no finite number"),
        (
            {"objective": {"terms": [{"name": "t", "params": {"a": [1, {"b": -INFINITY}]}}]}},
            "objective.terms.0.params: a.1.b is no finite number",
        ),
        ({"trainer": {"betas": [True, 0.9]}}, "trainer.betas: a truth value is no number"),
        ({"trainer": {"checkpoint_every": True}}, "checkpoint_every: a truth value is no number"),
        ({"seed": 2**64}, "seed: input should be a number of at most 63 bits"),
        ({"trainer": {"steps": "9" * 5000}}, "…"),
    ],
)
def test_what_is_no_number_is_refused_with_its_place(section, said):
    with pytest.raises(ConfigurationError) as caught:
        parse({"name": "run", **section})
    assert said in str(caught.value)
    assert len(str(caught.value)) < 300


def test_truth_values_stay_where_they_are_wanted():
    config = parse({"name": "run", "rollout": {"deterministic": True, "params": {"router": False}}})
    assert config.rollout.deterministic is True
    assert config.rollout.params == {"router": False}


@pytest.mark.parametrize("temperature", [0, 0.001, 1, 100])
def test_an_evaluation_may_be_greedy_and_a_rollout_not(temperature):
    assert parse({"name": "run", "evaluation": {"temperature": temperature}})
    if temperature:
        assert parse({"name": "run", "rollout": {"temperature": temperature}})
    else:
        with pytest.raises(ConfigurationError, match=r"rollout\.temperature"):
            parse({"name": "run", "rollout": {"temperature": temperature}})


@pytest.mark.parametrize("name", ["", "../x", "a/b", " "])
def test_a_domain_has_a_name_that_can_stand_in_a_key(name):
    domain = {"environment": "micro/web", "tasks": "micro/web:train"}
    with pytest.raises(ConfigurationError, match=r"domains: .* is no name for a domain"):
        parse({"name": "run", "domains": {name: domain}})
