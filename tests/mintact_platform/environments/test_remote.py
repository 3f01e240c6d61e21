"""A leased environment is an ordinary gymnasium environment: checker, wrappers, vectors, ends."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import time

import gymnasium
import httpx
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import (
    FrameStackObservation,
    RecordEpisodeStatistics,
    TimeLimit,
    TransformObservation,
)

from mintact_platform.config import Deadlines
from mintact_platform.environments.client import background as background_module
from mintact_platform.environments.client.background import background
from mintact_platform.environments.client.remote import RemoteEnvironment
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

GYMS = '''
import gymnasium, numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (3,))
KINDS = {
    "box": BOX,
    "scalar": spaces.Box(-1, 1, ()),
    "discrete": spaces.Discrete(4, start=-1),
    "multi discrete": spaces.MultiDiscrete([2, 3]),
    "multi binary": spaces.MultiBinary(4),
    "text": spaces.Text(5),
    "tuple": spaces.Tuple((spaces.Discrete(2), BOX)),
    "dict": spaces.Dict({"a": BOX, "b": spaces.Dict({"c": spaces.Text(3)})}),
    "sequence": spaces.Sequence(BOX),
    "stack": spaces.Sequence(BOX, stack=True),
    "graph": spaces.Graph(BOX, spaces.Discrete(3)),
    "one of": spaces.OneOf((spaces.Discrete(2), BOX)),
}


class Kind(gymnasium.Env):
    """Observes what its space draws, and says in info what it was told."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}

    def __init__(self, kind="box", render_mode=None):
        self.observation_space = self.action_space = KINDS[kind]
        self.render_mode = render_mode

    def see(self):
        self.observation_space.seed(int(self.np_random.integers(1000)))
        return self.observation_space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.see(), {"options": options, "mask": np.array([1, 0], np.int8)}

    def step(self, action):
        self.steps += 1
        if self.action_space == BOX and action[0] > 8:
            raise RuntimeError("far out")
        return self.see(), float(self.steps), self.steps >= 5, False, {"told": np.asarray(
            action if isinstance(action, np.ndarray) else 0.0)}

    def render(self):
        return np.full((5, 6, 3), self.steps, np.uint8)


gymnasium.register("trial/Kind-v0", entry_point=Kind)
'''
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

# a process of several threads that forks is no news to gymnasium's AsyncVectorEnv
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module", autouse=True)
def gyms(trial_path):
    (trial_path / "trial_gyms.py").write_text(GYMS)


@pytest.fixture
def make(server):
    """Make remote environments that are closed at the end of the test."""
    made = []

    def one(environment="gym/CartPole-v1", **options):
        made.append(RemoteEnvironment(server.url, environment, **options))
        return made[-1]

    yield one
    for environment in made:
        environment.close()


@pytest.fixture
def leases(server):
    """How many leases the server holds."""

    def count():
        reply = httpx.get(f"{server.url}/v1/environments", trust_env=False)
        return reply.json()["leases"]

    return count


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


# ---- it is a gymnasium environment --------------------------------------------------------------

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
    one, other = make(KIND), make(KIND)
    assert not data_equivalence(one.reset()[0], other.reset()[0])


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


# ---- with what gymnasium offers -----------------------------------------------------------------


def test_ordinary_wrappers_wrap_it(make):
    stacked = FrameStackObservation(make(), 4)
    halved = TransformObservation(
        stacked, lambda o: o / 2, spaces.Box(-np.inf, np.inf, (4, 4), np.float32)
    )
    environment = RecordEpisodeStatistics(TimeLimit(halved, 3))
    observation, _ = environment.reset(seed=1)
    assert observation.shape == (4, 4)
    for _ in range(3):
        _, _, terminated, truncated, info = environment.step(0)
    assert (terminated, truncated) == (False, True)
    assert info["episode"]["r"] == 3.0


def play(vector):
    observations, _ = vector.reset(seed=3)
    rewards = [vector.step(vector.action_space.sample())[1] for _ in range(4)]
    vector.close()
    return observations, np.array(rewards)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_play_many_and_leave_nothing(server, leases, kind):
    before = leases()
    local = play(SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2))
    remote = play(kind([lambda: RemoteEnvironment(server.url, "gym/CartPole-v1")] * 2))
    assert np.array_equal(remote[0], local[0])
    assert np.array_equal(remote[1], local[1])
    until(lambda: leases() == before)


def test_gymnasium_makes_many_of_it_by_its_id(server):
    vector = gymnasium.make_vec(
        "mintact/Remote-v0", 2, "sync", url=server.url, environment="gym/CartPole-v1"
    )
    assert vector.reset(seed=1)[0].shape == (2, 4)
    vector.close()


def test_a_spawned_vector_environment_works_too(server, leases):
    before = leases()
    _, rewards = play(
        AsyncVectorEnv(
            [lambda url=server.url: RemoteEnvironment(url, "gym/CartPole-v1")] * 2, context="spawn"
        )
    )
    assert rewards.shape == (4, 2)
    until(lambda: leases() == before)


def test_screens_and_calls_vectorise(server):
    vector = SyncVectorEnv([lambda: RemoteEnvironment(server.url, "micro/mobile")] * 2)
    observations, _ = vector.reset(seed=1)
    assert [sorted(one) for one in observations] == [["screenshot", "text"]] * 2
    vector.close()


def test_it_is_pickled_as_the_recipe_for_another_lease(make, leases):
    environment = make(KIND, params={"kind": "dict"})
    before = leases()
    copy = pickle.loads(pickle.dumps(environment))
    assert leases() == before + 1
    assert data_equivalence(copy.reset(seed=1), environment.reset(seed=1))
    copy.close()
    until(lambda: leases() == before)


def test_a_forked_child_takes_a_lease_of_its_own(make, leases):
    environment = make(KIND)
    environment.reset(seed=1)
    before = leases()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(gymnasium.error.ResetNeeded):
                environment.step(np.zeros(3, np.float32))
            environment.reset(seed=1)
            reward = environment.step(np.zeros(3, np.float32))[1]
            held = leases()
            environment.close()
            os.write(writer, f"{reward} {held}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() == f"1.0 {before + 1}"
    os.close(reader)
    os.close(writer)
    assert environment.step(np.zeros(3, np.float32))[1] == 1.0
    assert leases() == before


# ---- its end ------------------------------------------------------------------------------------


def test_closing_gives_the_lease_back_once_and_a_reset_takes_another(make, leases):
    before = leases()
    environment = make(KIND)
    assert leases() == before + 1
    environment.close()
    environment.close()
    assert leases() == before
    environment.reset(seed=1)
    assert leases() == before + 1


def test_one_that_is_forgotten_gives_its_lease_back(server, leases):
    before = leases()
    environment = RemoteEnvironment(server.url, KIND)
    assert leases() == before + 1
    del environment
    gc.collect()
    until(lambda: leases() == before)


@pytest.mark.parametrize("end", ["", "1 / 0"])
def test_a_process_that_ends_gives_its_leases_back(server, leases, end):
    before = leases()
    code = f"""
from mintact_platform.environments import RemoteEnvironment
environment = RemoteEnvironment({server.url!r}, {KIND!r})
other = RemoteEnvironment({server.url!r}, {KIND!r}, transport="http")
environment.reset()
{end}
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert leases() == before


def test_a_lease_is_kept_alive_while_nobody_steps(make, monkeypatch):
    monkeypatch.setattr(background_module, "TTL", 1.5)
    monkeypatch.setattr(background_module, "_BEAT", 0.3)
    # the loop of this process sleeps at its usual pace: one with the faster one
    faster = background_module.Background()
    monkeypatch.setattr(background_module._process, "background", faster)
    environment = make(KIND)
    environment.reset(seed=1)
    time.sleep(2.5)
    assert environment.step(np.zeros(3, np.float32))[1] == 1.0


# ---- failures -----------------------------------------------------------------------------------


def test_a_step_that_raises_is_a_failure_and_the_next_reset_has_another_instance(make):
    environment = make(KIND)
    environment.reset(seed=1)
    with pytest.raises(EnvironmentFailure, match="far out") as raised:
        environment.step(np.full(3, 9, np.float32))
    assert (raised.value.phase, raised.value.kind) == ("step", "RuntimeError")
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(np.zeros(3, np.float32))
    environment.reset(seed=1)
    assert environment.step(np.zeros(3, np.float32))[1] == 1.0


@pytest.mark.parametrize(
    ("name", "kind", "deadline"), [("hang", "timeout", 1.0), ("crash", "crash", 60.0)]
)
def test_a_hang_and_a_crash_are_failures_within_their_deadline(make, leases, name, kind, deadline):
    environment = make("trial_envs:Counter", deadlines=Deadlines(step=deadline))
    held, broken = leases(), environment.instance
    environment.reset()
    with pytest.raises(EnvironmentFailure) as raised:
        environment.step({"name": name, "arguments": {}})
    assert (raised.value.phase, raised.value.kind) == ("step", kind)
    environment.reset()
    assert environment.instance != broken
    until(lambda: leases() == held)


def test_a_refused_lease_is_a_configuration_error(make):
    with pytest.raises(ConfigurationError, match="did you mean 'CartPole-v1'"):
        make("gym/CartPol-v1")
    with pytest.raises(EnvironmentFailure) as raised:
        RemoteEnvironment("http://127.0.0.1:9", KIND, deadlines=Deadlines(create=1.0))
    assert raised.value.kind in ("unreachable", "timeout")


def test_an_interrupted_wait_leaves_a_lease_that_is_not_used_again(make, monkeypatch):
    environment = make("trial_envs:Counter")
    environment.reset()
    interrupted_at = environment.instance

    def interrupted(future, timeout=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environment.step({"name": "hang", "arguments": {}})
    environment.reset()
    assert environment.instance != interrupted_at


def test_one_loop_serves_all_of_a_process(make):
    make(KIND)
    loop = background().loop
    make(KIND)
    assert background().loop is loop
