"""Environments of gymnasium's registry as an agent plays them: `gym/<id>`."""

from __future__ import annotations

import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from mintact_platform.actions.ui import ToolUse
from mintact_platform.environments.gym import GymEnvironment, find, tasks
from mintact_platform.environments.gymwords import schema_of, state_text
from mintact_platform.environments.protocol.spacevalues import to_jsonable
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import SPLITS
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry


class Painter(gymnasium.Env):
    """Draws, counts, and offers a state check."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}
    observation_space = spaces.Dict({"count": spaces.Discrete(100), "at": spaces.Box(0, 1, (2,))})
    action_space = spaces.Dict(
        {"where": spaces.Box(0, 1, (2,)), "colour": spaces.Discrete(3), "note": spaces.Text(4)}
    )

    def __init__(self, render_mode=None, size=4, broken=False):
        self.render_mode, self.size, self.count = render_mode, size, 0
        if broken:
            raise gymnasium.error.DependencyNotInstalled(
                'paint is missing, run `pip install "gymnasium[paint]"`'
            )

    def _see(self):
        return {"count": self.count, "at": np.full(2, 1 / 3, np.float32)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = (options or {}).get("start", 0)
        return self._see(), {"draw": float(self.np_random.random())}

    def step(self, action):
        self.count += 1
        return self._see(), 0.5, False, False, {"mask": np.array([1, 0], np.int8)}

    def render(self):
        return np.full((self.size, self.size, 3), self.count, np.uint8)

    def evaluate(self):
        return "a state check"


@pytest.fixture(autouse=True, scope="module")
def painter():
    gymnasium.register("trial/Painter-v0", entry_point=Painter, max_episode_steps=3)
    yield
    gymnasium.registry.pop("trial/Painter-v0")


@pytest.fixture
def made():
    """Build environments that are closed at the end."""
    built = []

    def make(id, **params):
        built.append(GymEnvironment(id=id, **params))
        return built[-1]

    yield make
    for environment in built:
        environment.close()


def act(action):
    return {"name": "act", "arguments": {"action": action}}


GOOD = act({"where": [0, 0.5], "colour": 1, "note": "ab"})


def test_the_registry_builds_any_id_and_checks_its_parameters():
    target = Registry.discover().get("environments", "gym/CartPole-v1")
    checked = parameters.check(target, {"screenshot": False, "sutton_barto_reward": True}, where="")
    environment = target(**checked)
    assert environment.unwrapped.metadata["mintact"]["action_space"] == "tool_use"
    with pytest.raises(ConfigurationError, match="parameter 'screenshot'"):
        parameters.check(target, {"screenshot": "dim"}, where="here")


def test_an_agent_reads_names_of_dimensions_and_of_actions(made):
    environment = made("CartPole-v1", screenshot=False)
    observation, info = environment.reset(seed=1)
    assert observation == {
        "text": "cart position 0.001182, cart velocity 0.04505, "
        "pole angle -0.03558, pole angular velocity 0.04486"
    }
    (tool,) = info["tools"]
    assert tool["function"]["name"] == "act"
    assert tool["function"]["parameters"]["properties"]["action"] == {
        "type": "integer",
        "enum": [0, 1],
        "description": "0: push left, 1: push right",
    }


def test_the_action_space_of_tools_reads_what_an_agent_writes_for_it(made):
    environment = made("CartPole-v1", screenshot=False)
    _, info = environment.reset(seed=1)
    (call,) = ToolUse().parse('{"name": "act", "arguments": {"action": 1}}', info["tools"])
    observation, reward, *_ = environment.step(call.to_json())
    assert reward == 1.0
    assert observation["text"].endswith("\nreward 1, return 1")


def test_a_drawing_in_characters_is_shown_with_the_place_marked(made):
    environment = made("FrozenLake-v1", screenshot=False, is_slippery=False)
    observation, _ = environment.reset(seed=1)
    assert observation["text"] == "0\n[S]FFF\nFHFH\nFFFH\nHFFG"


def test_what_an_environment_draws_is_the_screenshot(made):
    environment = made("trial/Painter-v0", size=6)
    observation, _ = environment.reset(seed=1)
    assert observation["text"] == "at (0.3333, 0.3333), count 0"
    observation, *_ = environment.step(GOOD)
    assert observation["screenshot"].shape == (6, 6, 3)
    assert observation["screenshot"][0, 0, 0] == 1
    assert np.array_equal(environment.render(), observation["screenshot"])
    assert "screenshot" not in made("trial/Painter-v0", screenshot=False).reset()[0]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (act({"where": [0, 2], "colour": 1, "note": "a"}), "action.where must be a list of 2"),
        (act({"where": [0, 0], "colour": 3, "note": "a"}), "an integer from 0 to 2, got 3"),
        (act({"where": [0, 0], "colour": 0}), "an object with the keys"),
        (act("left"), "got 'left'"),
        ({"name": "act", "arguments": {}}, "needs the argument 'action'"),
        ({"name": "act", "arguments": None}, "needs the argument 'action'"),
        ({"name": "paint", "arguments": {}}, "no tool 'paint' here, only 'act'"),
    ],
)
def test_an_invalid_action_is_refused_in_words_and_nothing_is_stepped(made, call, said):
    environment = made("trial/Painter-v0")
    environment.reset(seed=1)
    environment.step(GOOD)
    observation, reward, terminated, truncated, info = environment.step(call)
    assert said in observation["text"]
    assert "nothing happened" in observation["text"]
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info["observation"]["count"] == 1


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["where", "colour", "note", "x"]), inner)
        ),
        max_leaves=6,
    )
)
@settings(deadline=None)
def test_no_json_value_makes_a_step_raise(value):
    environment = GymEnvironment(id="trial/Painter-v0", screenshot=False)
    environment.reset(seed=1)
    observation, *_ = environment.step(act(value))
    assert isinstance(observation["text"], str)


def test_rewards_pass_through_and_the_time_limit_truncates(made):
    environment = made("trial/Painter-v0")
    environment.reset(seed=1)
    replies = [environment.step(GOOD) for _ in range(3)]
    assert [reply[1] for reply in replies] == [0.5] * 3
    assert [reply[3] for reply in replies] == [False, False, True]
    assert replies[-1][0]["text"].endswith("return 1.5; the episode is over")
    assert replies[-1][4]["return"] == 1.5


def test_terminate_ends_the_episode(made):
    environment = made("trial/Painter-v0")
    environment.reset(seed=1)
    call = {"name": "terminate", "arguments": {"status": "success"}}
    assert environment.step(call)[1:4] == (0.0, True, False)


def test_seeds_and_options_reach_the_environment(made):
    one, other = made("trial/Painter-v0"), made("trial/Painter-v0")
    options = {"task": {"params": {"options": {"start": 7}}}}
    first, second = one.reset(seed=3, options=options), other.reset(seed=3, options=options)
    assert first[1]["info"] == second[1]["info"]
    assert first[1]["observation"]["count"] == 7
    assert one.reset(seed=4)[1]["info"] != first[1]["info"]


def test_the_environments_own_state_check_is_read_where_it_has_one(made):
    assert made("trial/Painter-v0").evaluate() == "a state check"
    assert made("CartPole-v1", screenshot=False).evaluate() is None


@pytest.mark.parametrize(
    ("id", "said"),
    [
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
        ("CartPole-v7", "did you mean 'CartPole-v1'"),
        ("nowhere:X-v0", "No module named 'nowhere'"),
        ("!!", "no gymnasium environment '!!'"),
    ],
)
def test_an_unknown_id_is_answered_with_near_matches(id, said):
    with pytest.raises(ConfigurationError, match=said) as raised:
        find(id)
    assert "\n" not in str(raised.value)
    with pytest.raises(ConfigurationError, match=said):
        GymEnvironment.missing(id=id)


def test_a_missing_package_is_named_with_its_installation():
    with pytest.raises(ConfigurationError, match=r'pip install "gymnasium\[paint\]"'):
        GymEnvironment(id="trial/Painter-v0", broken=True)
    assert GymEnvironment.missing(id="trial/Painter-v0") is None
    assert Registry.discover().get("environments", "gym/*").missing() is None


def test_without_a_drawing_library_the_way_out_is_named(monkeypatch):
    def render(self):
        raise gymnasium.error.DependencyNotInstalled(
            'pygame is not installed, run `pip install "gymnasium[classic-control]"`'
        )

    monkeypatch.setattr(Painter, "render", render)
    with pytest.raises(ConfigurationError, match=r"classic-control.*screenshot = false"):
        GymEnvironment(id="trial/Painter-v0")


def test_a_wrong_parameter_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="unexpected keyword argument 'sise'"):
        GymEnvironment(id="trial/Painter-v0", sise=3)


@pytest.mark.parametrize("id", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "trial/Painter-v0"])
@pytest.mark.filterwarnings("ignore:.*not having a spec")
def test_the_adapter_itself_passes_gymnasiums_checker(made, id):
    check_env(made(id, screenshot=id.startswith("trial")))


def test_its_examples_are_actions_it_takes(made):
    environment = made("trial/Painter-v0")
    environment.reset(seed=1)
    environment.action_space.seed(0)
    for _ in range(3):
        assert "refused" not in environment.step(environment.action_space.sample())[4]


@pytest.mark.parametrize(
    ("space", "schema"),
    [
        (spaces.Discrete(2, start=-1), {"type": "integer", "enum": [-1, 0]}),
        (spaces.Discrete(100), {"type": "integer", "minimum": 0, "maximum": 99}),
        (spaces.Box(0, 1, ()), {"type": "number", "minimum": 0.0, "maximum": 1.0}),
        (
            spaces.Box(-np.inf, 1, (2,)),
            {
                "type": "array",
                "items": {"type": "number", "maximum": 1.0},
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (
            spaces.MultiDiscrete([2, 3]),
            {
                "type": "array",
                "prefixItems": [
                    {"type": "integer", "minimum": 0, "maximum": 1},
                    {"type": "integer", "minimum": 0, "maximum": 2},
                ],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
    ],
)
def test_a_schema_says_what_the_space_holds(space, schema):
    assert schema_of(space) == schema


EVERY_KIND = [
    spaces.Box(-1, 1, (2, 2)),
    spaces.MultiBinary([2, 2]),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.Text(3),
    spaces.Tuple((spaces.Discrete(2), spaces.Text(2))),
    spaces.Dict({"a": spaces.Discrete(2)}),
    spaces.Sequence(spaces.Discrete(2)),
    spaces.OneOf((spaces.Discrete(2), spaces.Text(2))),
    spaces.Graph(spaces.Discrete(2), spaces.Box(0, 1, (1,))),
    spaces.Graph(spaces.Discrete(2), None),
]


@pytest.mark.parametrize("space", EVERY_KIND, ids=lambda space: type(space).__name__)
def test_every_kind_has_a_schema_that_is_json_and_a_state_in_words(space):
    json.dumps(schema_of(space), allow_nan=False)
    space.seed(0)
    value = space.sample()
    json.dumps(to_jsonable(space, value))
    assert state_text("trial/Painter-v0", space, value)


def test_a_long_observation_is_summed_up():
    picture = np.zeros((64, 64, 3), np.uint8)
    text = state_text("Any-v0", spaces.Box(0, 255, picture.shape, np.uint8), picture)
    assert text == "uint8 [64, 64, 3] from 0 to 0, mean 0"


def test_every_id_is_a_task_set_whose_splits_share_no_seed():
    seeds = {split: {t.seed for t in tasks(id="CartPole-v1", split=split)} for split in SPLITS}
    assert all(len(of_split) == 256 for of_split in seeds.values())
    assert not seeds["train"] & seeds["test"]
    target = Registry.discover().get("task_sets", "gym/CartPole-v1")
    (task,) = parameters.bind(target, {"split": "test", "count": 1}, where="")()
    assert task.domain == "tools"
    assert "CartPole-v1" in task.goal
