"""What is refused before anything is made: training, secrets in the run file, wrong parameters."""

from __future__ import annotations

import pytest

from mintact_platform.cli.main import main
from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.plan import plan

REGISTRY = Registry.discover()
DOMAIN = {"environment": "micro/mobile", "tasks": "micro/mobile:train", "judge": "state"}


def planned(*, messages=True, domain=DOMAIN, **params):
    params = {"base_url": "https://host/v1", "model": "m", **params}
    values = {
        "name": "run",
        "domains": {"mobile": domain},
        "rollout": {"engine": "openai", "params": params},
    }
    return plan(parse(values), REGISTRY, messages=messages)


def test_no_model_directory_is_needed():
    checked = planned()
    assert checked.messages
    assert checked.chat is None
    assert checked.vision.fit(641, 479) == (641, 479)


def test_training_is_refused_in_one_line_that_says_what_to_do():
    with pytest.raises(ConfigurationError) as refused:
        planned(messages=False)
    line = "rollout.engine: engine 'openai' answers in text, training needs the tokens"
    assert str(refused.value).startswith(line)
    assert "mintact rollout" in refused.value.next


def test_train_and_sft_make_no_run_directory(tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text(
        'name = "run"\n[rollout]\nengine = "openai"\n'
        'params = { base_url = "https://host/v1", model = "m" }\n'
        '[domains.mobile]\nenvironment = "micro/mobile"\ntasks = "micro/mobile:train"\n'
    )
    for words in (["train"], ["sft"]):
        assert main([*words, str(path), "--runs", str(tmp_path / "runs")]) == 2
        assert "answers in text" in capsys.readouterr().err
    assert main(["rollout", str(path), "--count", "0", "--runs", str(tmp_path / "runs")]) == 2
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("key", ["sk-proj-0123456789abcdef", "AIzaSyA0123456789abcdef", "a b"])
def test_a_literal_key_is_refused_and_not_repeated(key):
    with pytest.raises(ConfigurationError, match="not the name of an environment") as refused:
        planned(api_key_env=key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"api_key": "sk-1"}, "unknown parameter 'api_key'; did you mean 'api_key_env'?"),
        ({"api_key_env": "NO_SUCH_KEY"}, "the environment variable 'NO_SUCH_KEY' holds no key"),
        ({"base_url": "host/v1"}, "not a URL"),
        ({"base_url": "http://[::1/v1"}, "not a URL"),
        ({"base_url": "https://me:secret@host/v1"}, "would be recorded with the run"),
        ({"base_url": "https://host/v1?key=secret"}, "would be recorded with the run"),
        ({"extra_body": {"stream": True}}, "extra_body may not set 'stream'"),
        ({"max_cost": 1.0}, "max_cost without prices"),
        ({"price_in": -1.0}, "a price is negative"),
        ({"max_retries": -1}, "parameter 'max_retries'"),
        ({"timeout": 0}, "parameter 'timeout'"),
        ({"tools": "both"}, "parameter 'tools'"),
    ],
)
def test_wrong_parameters_are_told_in_one_line(params, message):
    with pytest.raises(ConfigurationError) as refused:
        planned(**params)
    assert message in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


class Silent:
    """An action space that does not describe itself."""

    name, domain = "silent", "mobile"

    def said(self, *of):
        """Never asked here."""

    system_prompt = parse = to_pixels = observation_text = said


def test_native_tools_need_a_space_that_describes_its_functions(monkeypatch):
    monkeypatch.setitem(REGISTRY.tables["action_spaces"], "silent", {"here": Silent})
    domain = {**DOMAIN, "action_space": "silent"}
    assert planned(domain=domain).domains["mobile"].space.name == "silent"
    with pytest.raises(ConfigurationError, match="does not describe its functions") as refused:
        planned(domain=domain, tools="native")
    assert "rollout.params.tools = 'text'" in refused.value.next
