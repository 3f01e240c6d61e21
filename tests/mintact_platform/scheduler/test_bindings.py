"""A domain whose environment is installed elsewhere: its servers or its interpreter describe it."""

from __future__ import annotations

import asyncio
import stat
import sys
from types import SimpleNamespace

import pytest

from mintact_platform import processes
from mintact_platform.actions.ui import MobileUse
from mintact_platform.config import Deadlines, DomainSection, RunConfig
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.pools.manager import EnvironmentManager
from mintact_platform.errors import ConfigurationError, PluginNotFound
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.bindings import action_space
from mintact_platform.scheduler.plan import plan
from mintact_platform.scheduler.runtime import pools

PLUGIN = '''
from typing import Annotated, Literal

import gymnasium
from annotated_types import Interval
from mintact_platform import hookimpl
from mintact_platform.actions.arguments import Action, Click, Point, Terminate
from mintact_platform.actions.ui import MobileUse
from mintact_platform.environments import CallSpace, ScreenSpace
from mintact_platform.records.verdict import StateCheck


class Sprinkle(Action):
    """Sprinkle water on a position."""

    action: Literal["sprinkle"]
    coordinate: Point
    litres: int = 1


class GardenUse(MobileUse):
    name, title = "garden_use", "Garden"
    description = "Look after a garden."
    main_actions = ("sprinkle",)
    all_actions = (Sprinkle, Click, Terminate)


class Garden(gymnasium.Env):
    metadata = {"mintact": {"domain": "garden", "action_space": "garden_use"}}
    action_space, observation_space = CallSpace(), ScreenSpace()

    def __init__(self, *, beds: int = 2, shade: Annotated[float, Interval(ge=0, le=1)] = 0.5):
        self.beds = beds

    def reset(self, *, seed=None, options=None):
        self.watered = 0
        return {"text": f"{self.beds} dry beds"}, {}

    def step(self, action):
        self.watered += action["arguments"]["action"] == "sprinkle"
        return {"text": f"{action['arguments']}"}, 0.0, self.watered >= self.beds, False, {}

    def evaluate(self):
        return StateCheck(self.watered >= self.beds, 1.0)


@hookimpl
def register_environments():
    return {"acme/garden": Garden}


@hookimpl
def register_action_spaces():
    return {"garden_use": GardenUse}
'''
TASK = Task("t", "water both beds", "garden")
REGISTRY = Registry.discover()
BEARER = "GARDEN_BEARER"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """An interpreter that has a distribution which this one has not."""
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "acme_garden.py").write_text(PLUGIN)
    information = folder / "acme_garden-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-garden\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text("[mintact]\nmain = acme_garden\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    return SimpleNamespace(folder=folder, python=str(python))


@pytest.fixture(scope="module")
def start(elsewhere, tmp_path_factory):
    """Start environment servers that can import the plugin."""
    children = []

    def one(**spec):
        logs = tmp_path_factory.mktemp("logs")
        child = asyncio.run(
            processes.spawn(
                [sys.executable, "-m", "mintact_platform.environments.server.app"],
                {"logs": str(logs), **spec},
                log=logs / "server.log",
                mark=f"garden-{len(children)}-{id(children):x}",
                deadline=60,
                environ={"PYTHONPATH": str(elsewhere.folder)},
            )
        )
        children.append(child)
        return child.ready["url"]

    yield one
    for child in children:
        child.kill()


@pytest.fixture(scope="module")
def url(start):
    return start()


def section(**changes):
    values = {"environment": "acme/garden", "tasks": "micro/tools:train", "instances": 1}
    return DomainSection(**{**values, **changes})


def bound(deadline=60.0, **changes):
    return action_space(section(**changes), REGISTRY, where="domains.garden", deadline=deadline)


async def water(config_section, space, tmp_path):
    """Play an episode through the manager, as a rollout does."""
    config = RunConfig(name="garden", domains={"garden": config_section})
    manager = EnvironmentManager(
        pools(config), deadlines=Deadlines(), log_directory=tmp_path, incarnation=0
    )
    await manager.start()
    try:
        async with manager.acquire("garden") as lease:
            seen = await lease.reset(episode="e", task=TASK, seed=0, deadline=60)
            texts = [seen.text]
            for step in range(2):
                (call,) = space.parse('{"action": "sprinkle", "coordinate": "(500, 999)"}')
                pixels = space.to_pixels(call, 100, 50)
                seen = await lease.step(step=step, action=pixels.to_json(), deadline=60)
                texts.append(seen.text)
            assert seen.terminated
            assert (await lease.evaluate(deadline=60)).success
    finally:
        await manager.close()
    return texts


def test_the_plugin_is_not_installed_here():
    with pytest.raises(PluginNotFound, match="no environment named 'acme/garden'"):
        bound()


async def test_a_server_describes_environment_and_action_space_and_serves_them(url, tmp_path):
    chosen = section(servers=[url])
    space = action_space(chosen, REGISTRY, where="domains.garden", deadline=60)
    assert (space.name, space.domain) == ("garden_use", "mobile")
    assert "Sprinkle water on a position." in space.system_prompt(TASK)
    texts = await water(chosen, space, tmp_path)
    assert texts[0] == "2 dry beds"
    assert texts[1] == "{'action': 'sprinkle', 'coordinate': [50, 49]}"


async def test_an_interpreter_describes_what_only_it_can_import(elsewhere, tmp_path):
    chosen = section(python=elsewhere.python, params={"beds": 2})
    space = action_space(chosen, REGISTRY, where="domains.garden", deadline=60)
    assert space.name == "garden_use"
    assert len(await water(chosen, space, tmp_path)) == 3


def test_a_server_describes_what_only_another_of_its_interpreters_can_import(elsewhere, start):
    server = start(pythons=[elsewhere.python])
    assert bound(servers=[server], python=elsewhere.python).name == "garden_use"
    with pytest.raises(ConfigurationError, match="interpreter '/bin/false' is not allowed here"):
        bound(servers=[server], python="/bin/false")


def test_the_whole_plan_of_a_run_takes_it(url, untrained):
    run = RunConfig(
        name="garden",
        model={"path": str(untrained)},
        domains={
            "garden": section(
                servers=[url],
                action_space={"name": "garden_use", "params": {"prompt": "short", "grid": 1000}},
            )
        },
    )
    space = plan(run, REGISTRY).domains["garden"].space
    assert space.system_prompt(TASK) == "Garden. garden_use: sprinkle."
    assert space.grid.steps == 1000


def test_an_installed_action_space_of_the_name_goes_before_the_description(url):
    assert isinstance(bound(servers=[url], action_space="mobile_use"), MobileUse)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"bads": 3}, "domains.garden.params: unknown parameter 'bads'; did you mean 'beds'"),
        ({"beds": "many"}, "parameter 'beds'"),
    ],
)
def test_parameters_are_checked_before_anything_starts(url, params, said):
    with pytest.raises(ConfigurationError, match=said):
        bound(servers=[url], params=params)


def test_an_action_space_nobody_describes_is_not_found(url):
    with pytest.raises(PluginNotFound, match="no action space named 'garden_uze'"):
        bound(servers=[url], action_space="garden_uze")


def test_a_parameter_of_a_described_action_space_is_checked(url):
    with pytest.raises(ConfigurationError, match="unknown parameter 'promt'; did you mean"):
        bound(servers=[url], action_space={"name": "garden_use", "params": {"promt": "short"}})


def test_the_first_server_that_knows_it_answers(url):
    assert bound(servers=["http://127.0.0.1:9", url]).name == "garden_use"


async def test_a_server_whose_scheme_is_in_capitals_is_asked_and_played_on(url):
    loud = url.replace("http", "HTTP")
    assert bound(servers=[loud]).name == "garden_use"
    assert bound(servers=[loud], environment="micro/tools").domain == "tools"
    lease = await Lease.create(loud, environment="acme/garden", key="loud", deadline=60)
    await lease.reset(episode="e", task=TASK, seed=0, deadline=60)
    await lease.release()


def test_no_server_that_answers_is_one_line_that_says_what_each_said(start):
    other = start(environments=["micro/tools"])
    with pytest.raises(ConfigurationError) as raised:
        bound(servers=["http://127.0.0.1:9", other, "not a url"])
    said = str(raised.value)
    assert "\n" not in said
    assert "'acme/garden' is not installed here, and no server describes it" in said
    assert "http://127.0.0.1:9: ConnectError" in said
    assert f"{other}: environment 'acme/garden' is not served here" in said
    assert "mintact serve acme/garden" in said


def test_a_server_that_wants_a_bearer_token_gets_it_from_the_environment(start, monkeypatch):
    server = start(bearer="secret")
    with pytest.raises(ConfigurationError, match="no bearer token; name its bearer token in"):
        bound(servers=[server])
    with pytest.raises(ConfigurationError, match=f"variable '{BEARER}' is not set"):
        bound(servers=[server], bearer_env=BEARER)
    monkeypatch.setenv(BEARER, "secret")
    assert bound(servers=[server], bearer_env=BEARER).name == "garden_use"


def test_an_interpreter_that_cannot_describe_it_says_why(elsewhere):
    for python, said in (
        ("/nowhere/python", "cannot be run"),
        ("/bin/false", "exit code 1"),
        (elsewhere.python, "did you mean 'acme/garden'"),
    ):
        with pytest.raises(ConfigurationError, match=said) as raised:
            bound(python=python, environment="acme/gardn")
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 3 8", "is Python 3.8; take 3.11+"),
        ("echo hello", "is no Python interpreter: exit code 0"),
        ("echo >&2 broken; exit 3", "is no Python interpreter: broken"),
        ("exec sleep 600", "did not answer within 0.5 s"),
    ],
)
def test_an_interpreter_that_no_worker_runs_on_is_refused(tmp_path, script, said):
    other = tmp_path / "python"
    other.write_text(f"#!/bin/sh\n{script}\n")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(ConfigurationError) as raised:
        bound(python=str(other), deadline=0.5 if "sleep" in script else 60.0)
    assert str(raised.value).startswith(f"domains.garden.python: interpreter '{other}': {said}")


def test_an_interpreter_that_lacks_an_environment_of_ours_is_refused(elsewhere):
    plain = f"MINTACT_DISABLE_PLUGINS=mintact-env-micro exec {elsewhere.python}"
    other = elsewhere.folder / "without"
    other.write_text(f'#!/bin/sh\n{plain} "$@"\n')
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    assert bound(environment="micro/tools", python=elsewhere.python).domain == "tools"
    with pytest.raises(
        ConfigurationError, match=r"garden\.python: .* no environment named 'micro/"
    ):
        bound(environment="micro/tools", python=str(other))


def test_a_range_of_a_parameter_is_looked_at_wherever_the_environment_is(
    monkeypatch, elsewhere, url
):
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.folder))
    own_file, interpreter = {"environment": "acme_garden:Garden"}, {"python": elsewhere.python}
    for named in (own_file, interpreter, {"servers": [url]}):
        with pytest.raises(ConfigurationError) as raised:
            bound(**named, params={"shade": 2})
        assert str(raised.value) == (
            "domains.garden.params: parameter 'shade': input should be less than or equal to 1, "
            "got 2"
        )
        assert bound(**named, params={"shade": 1}).name == "garden_use"


def test_ones_own_file_is_described_by_this_interpreter(monkeypatch, elsewhere):
    monkeypatch.setenv("PYTHONPATH", str(elsewhere.folder))
    assert bound(environment="acme_garden:Garden").name == "garden_use"
