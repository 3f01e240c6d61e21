"""A leased environment is an ordinary gymnasium environment: checker, spaces, rendering, lookup."""

from __future__ import annotations

import gymnasium
import httpx
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence

from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

KINDS = (
    "box",
    "scalar",
    "discrete",
    "multi discrete",
    "multi binary",
    "text",
    "tuple",
    "dict",
    "sequence",
    "stack",
    "graph",
    "one of",
)
KIND = "gym/trial_gyms:trial/Kind-v0"


no_spec = pytest.mark.filterwarnings("ignore:.*not having a spec")


@no_spec
@pytest.mark.filterwarnings("ignore:.*infinity. This is probably too")
def test_cartpole_passes_gymnasiums_checker(make):
    check_env(make("gym/CartPole-v1"))


@no_spec
@pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array")  # scalars in a Box
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_space_passes_gymnasiums_checker(make, kind):
    environment = make(KIND, params={"kind": kind})
    check_env(environment)


@pytest.mark.parametrize("name", ["micro/mobile", "micro/desktop", "micro/tools", KIND])
def test_it_passes_the_checker_when_gymnasium_makes_it_by_its_id(server, name):
    made = gymnasium.make("mintact/Remote-v0", url=server.url, environment=name)
    check_env(made.unwrapped)
    made.close()


def test_screens_are_decoded_to_what_the_environment_drew(make):
    environment = make("trial_envs:Shared", params={"size": 6}, render_mode="rgb_array")
    environment.reset()
    observation, reward, *_ = environment.step({"name": "look", "arguments": {}})
    assert observation["screenshot"].dtype == np.uint8
    assert observation["screenshot"].shape == (6, 6, 3)
    assert (observation["screenshot"] == 1).all()
    assert observation["text"].startswith("1 in ")
    assert observation in environment.observation_space
    assert np.array_equal(environment.render(), observation["screenshot"])
    assert reward == 0.5
    assert environment.evaluate() == StateCheck(False, 0.5, {"count": 1})


def test_the_tools_of_an_environment_are_in_info(make):
    environment = make("micro/tools", params={"announce": "registry"})
    assert environment.reset(seed=1)[1]["tools"] == ()


@pytest.mark.parametrize(
    ("id", "params"),
    [("CartPole-v1", {}), ("FrozenLake-v1", {"is_slippery": True}), ("Taxi-v4", {})],
)
def test_it_plays_exactly_as_the_local_environment_does(make, id, params):
    remote, local = make(f"gym/{id}", params=params), gymnasium.make(id, **params)
    assert remote.observation_space == local.observation_space
    assert remote.action_space == local.action_space
    local.action_space.seed(5)
    assert data_equivalence(as_arrays(remote.reset(seed=7)), as_arrays(local.reset(seed=7)))
    for _ in range(20):
        action = local.action_space.sample()
        reply, expected = remote.step(action), local.step(action)
        assert data_equivalence(as_arrays(reply), as_arrays(expected), exact=True)
        if expected[2] or expected[3]:
            break
    local.close()


def as_arrays(value):
    """Numbers in one type: gymnasium's toy environments return Python's own."""
    if isinstance(value, tuple):
        return tuple(as_arrays(item) for item in value)
    if isinstance(value, dict):
        return {key: as_arrays(item) for key, item in value.items()}
    return np.asarray(value, float) if isinstance(value, int | float | np.generic) else value


def test_resets_without_a_seed_go_on_from_the_last_seed(make):
    one, other = make(KIND), make(KIND)

    def episodes(environment):
        return [environment.reset(seed=9), environment.reset(), environment.reset()]

    first, second = episodes(one), episodes(other)
    assert data_equivalence(first, second)
    assert not data_equivalence(first[1], first[2])
    one.reset(seed=10)
    assert not data_equivalence(one.reset(), first[1])


def test_never_seeded_environments_differ(make):
    # a thousand observations there are: one may well be drawn twice, five in a row not
    one, other = ([env.reset()[0] for _ in range(5)] for env in (make(KIND), make(KIND)))
    assert not data_equivalence(one, other)


def test_rendering_is_asked_for_as_gymnasium_does(make):
    drawing, blind = make(KIND, render_mode="rgb_array"), make(KIND)
    drawing.reset(seed=1)
    drawing.step(np.zeros(3, np.float32))
    assert drawing.render().shape == (5, 6, 3)
    assert (drawing.render() == 1).all()
    blind.reset(seed=1)
    assert blind.render() is None
    with pytest.raises(ConfigurationError, match="use rgb_array"):
        make(KIND, render_mode="human")


def test_a_task_and_further_options_reach_the_environment(make):
    task = Task("t1", "reach two", "web")
    for given in (task, task.to_json()):
        _, info = make("trial_envs:Shared").reset(options={"task": given})
        assert info["goal"] == "reach two"
    _, info = make(KIND).reset(options={"level": 3})
    assert info["options"] == {"level": 3}
    assert info["mask"].dtype == np.int8


def test_an_action_outside_of_a_box_is_the_environments_own_affair(make):
    environment = make(KIND)
    environment.reset(seed=1)
    far = np.array([5, -7, 0], np.float32)
    assert np.array_equal(environment.step(far)[4]["told"], far)


@pytest.mark.parametrize(
    ("kind", "action"), [("box", np.zeros(4, np.float32)), ("box", "left"), ("discrete", 7)]
)
def test_an_action_of_another_form_is_refused_before_it_travels(make, kind, action):
    environment = make(KIND, params={"kind": kind})
    environment.reset(seed=1)
    with pytest.raises(ValueError, match="the action must be"):
        environment.step(action)
    assert environment.step(environment.action_space.sample())[1] == 1.0


def test_a_call_of_another_form_is_refused(make):
    environment = make("trial_envs:Shared")
    environment.reset()
    with pytest.raises(ValueError, match="'name', 'arguments'"):
        environment.step(3)


def test_before_a_reset_there_is_nothing_to_step(make):
    environment = make()
    for call in (lambda: environment.step(0), environment.evaluate):
        with pytest.raises(gymnasium.error.ResetNeeded):
            call()


def test_an_awaited_environment_is_seen_through_calls_and_screens(make):
    environment = make("trial_envs:Awaited", params={"start": 3})
    assert environment.reset()[0] == {"text": "3"}
    assert environment.step({"name": "go", "arguments": {}})[0] == {"text": "4"}


async def test_a_lease_tells_native_spaces_and_the_action_spaces_schema(lease_of):
    described = (await lease_of(KIND)).description
    assert described["native"]["action_space"]["type"] == "Box"
    assert described["action_space_schema"]["style"] == "tools"
    described = (await lease_of("trial_envs:Shared")).description
    assert described["native"]["observation_space"]["type"] == "ScreenSpace"
    assert described["action_space_schema"]["name"] == "browser_use"
    described = (await lease_of("trial_envs:Awaited")).description
    assert described["native"] is described["action_space_schema"] is None


def test_a_server_says_all_about_an_environment_it_is_asked_for(server):
    def ask(name):
        query = {"name": name}
        reply = httpx.get(
            f"{server.url}/v1/environments", params=query, trust_env=False, timeout=60
        )
        return reply.status_code, reply.json()

    status, reply = ask("trial_envs:Shared")
    about = reply["environments"]["trial_envs:Shared"]
    assert status == 200
    assert about["domain"] == "web"
    assert about["action_space_schema"]["functions"][0]["name"] == "browser_use"
    assert about["parameters"]["properties"]["size"] == {
        "default": 8,
        "title": "Size",
        "type": "integer",
    }
    for wrong in ("micro/wed", "", "nowhere:Env"):
        status, reply = ask(wrong)
        assert status == 400
        assert reply["error"]["kind"] == "configuration"


async def test_a_server_may_be_told_to_serve_a_family(start_server):
    narrow = await start_server(environments=["gym/*"])
    lease = await narrow.lease("gym/FrozenLake-v1", params={"screenshot": False})
    await lease.release()
    for other in ("micro/mobile", "gym/"):
        with pytest.raises(ConfigurationError, match="is not served here"):
            await narrow.lease(other)
