"""Recorded rollouts become demonstrations: every response is supervised exactly once."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mintact_platform.actions.ui import BrowserUse, ToolUse
from mintact_platform.config import Deadlines, dump, parse
from mintact_platform.datasets.rollouts import SPACE, rollouts, tools_of
from mintact_platform.datasets.saved import demonstration_of, rows_of_turns
from mintact_platform.datasets.supervised import Renderer
from mintact_platform.environments.protocol.wire import EncodedImage, Observation
from mintact_platform.errors import ConfigurationError
from mintact_platform.models.chat import Qwen3VLChat
from mintact_platform.models.protocol import Generation
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.chat import ChatRecord
from mintact_platform.records.outcome import Failure, Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory, Turn
from mintact_platform.records.verdict import StateCheck, Verdict
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import check
from mintact_platform.rollouts.episode import Episode, EpisodeKey, EpisodeSettings, EpisodeTools
from mintact_platform.storage import ledger
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource
from mintact_platform.storage.images import ImageStore

VISION = VisionSize(16, 2, 1 << 20)
SPACES = {"browser_use": BrowserUse(), "tool_use": ToolUse()}
DOMAIN = {"environment": "micro/web", "tasks": "micro/web:train"}
YES, NO = Verdict("success", reward=1.0), Verdict("failure", reward=0.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model directory that holds a tokenizer of bytes, and nothing else."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad")
    tokenizer.add_special_tokens([AddedToken(f"<|{n}|>", special=True) for n in names])
    path = tmp_path_factory.mktemp("model")
    tokenizer.save(str(path / "tokenizer.json"))
    return path


@pytest.fixture(scope="module")
def chat(model):
    return Qwen3VLChat(Tokenizer.from_file(str(model / "tokenizer.json")))


@pytest.fixture
def recorded(tmp_path, model):
    """`recorded(trajectory, verdict)` adds an evaluation; the run's path is an attribute."""
    values = {"name": "teacher", "domains": {"web": DOMAIN}, "model": {"path": str(model)}}
    directory = RunDirectory.create(
        tmp_path / "teacher",
        config_toml=dump(parse(values)),
        plugins={},
        metadata={SPACE + "web": "browser_use", SPACE + "tools": "tool_use"},
    )

    def add(trajectory, verdict=None):
        path = directory.trajectories.save(trajectory)
        directory.database.submit(
            ledger.add_evaluation(trajectory, path, step=0, label="rollout", verdict=verdict)
        ).result()

    add.path, add.images, add.ids = directory.path, directory.images, UlidSource()
    yield add
    directory.close()


def ended(id, outcome=Outcome.COMPLETED, *, check=None, failure=None, turns=None):
    task = Task("t", "buy tea", "web")
    turns = (Turn(0, "buy tea\na shop", (), "ok"),) if turns is None else turns
    state = None if check is None else StateCheck(check, float(check))
    return Trajectory(id, "", 0, 0, task, outcome, failure=failure, turns=turns,
                      state_check=state, chat=ChatRecord())  # fmt: skip


def test_only_what_succeeded_is_learned_from(recorded):
    crashed = Failure("step", "crash", "died")
    cases = {
        "judged": (ended("A" * 26), YES),
        "judged no success": (ended("B" * 26, check=True), NO),
        "checked": (ended("C" * 26, check=True), None),
        "checked no success": (ended("D" * 26, check=False), None),
        "masked": (ended("E" * 26, Outcome.ENVIRONMENT_FAILURE, failure=crashed), None),
        "cut off": (ended("F" * 26, Outcome.MAX_TURNS, check=True), YES),
    }
    for trajectory, verdict in cases.values():
        recorded(trajectory, verdict)
    given_ = itertools.islice(rollouts(seed=0, path=recorded.path), 6)
    assert sorted(d.extra["id"][0] for d in given_) == ["A", "A", "C", "C", "F", "F"]
    every = itertools.islice(rollouts(seed=0, path=recorded.path, verdict="any"), 5)
    assert sorted(d.extra["id"][0] for d in every) == ["A", "B", "C", "D", "F"]
    (one,) = itertools.islice(rollouts(seed=3, path=recorded.path), 1)
    assert (one.goal, one.turns[0].text, one.action_space) == ("buy tea", "a shop", "browser_use")


def test_a_run_that_teaches_nothing_is_told(recorded, tmp_path):
    recorded(ended("A" * 26), NO)
    with pytest.raises(ConfigurationError, match="none of 1 rollouts may be used"):
        next(rollouts(seed=0, path=recorded.path))
    with pytest.raises(ConfigurationError, match="none of 0 rollouts may be used"):
        next(rollouts(seed=0, path=recorded.path, domains=["mobile"]))
    with pytest.raises(ConfigurationError, match="no run there"):
        check(rollouts, {"seed": 0, "path": str(tmp_path / "no")}, where="x")
    assert Registry.discover().get("demonstrations", "rollouts") is rollouts


class Lease:
    """Three screens, the second with a tool more."""

    instance = "i"

    def __init__(self, changes):
        self.steps, self.changes = 0, changes

    def observation(self):
        buffer = io.BytesIO()
        Image.new("RGB", (70, 64), (self.steps, 9, 9)).save(buffer, "PNG")
        shown = (EncodedImage(buffer.getvalue(), "png", 70, 64),)
        tools = ({"name": "paint", "description": "paint"},) if self.steps else ()
        told = tools if self.changes else None
        return Observation(f"step {self.steps}", shown, told, 0.0, False, False, {})

    async def reset(self, **_):
        return self.observation()

    async def step(self, **_):
        self.steps += 1
        return self.observation()

    async def evaluate(self, **_):
        return StateCheck(True, 1.0)


@pytest.mark.parametrize("domain", ["web", "tools"])
async def test_a_models_own_rollout_comes_back_as_the_very_tokens(domain, recorded, chat):
    space = SPACES["browser_use" if domain == "web" else "tool_use"]
    calls = {
        "web": [{"action": "click", "coordinate": [1, 2]}, {"action": "stop", "response": "ü"}],
        "tools": [{"query": "paint"}, {"status": "success"}],
    }[domain]
    names = ["browser_use"] * 2 if domain == "web" else ["search_tool", "terminate"]
    said = [
        f"<think>«{k}»</think><tool_call>{json.dumps({'name': n, 'arguments': c})}</tool_call>"
        for k, (n, c) in enumerate(zip(names, calls, strict=True))
    ]
    answers = iter(said)

    async def generate(request):
        ids = np.asarray([*chat.encode(next(answers)), chat.end_id], np.int32)
        zeros = np.zeros(len(ids), np.float32)
        size = VISION.tokens(64, 64) - 1
        prompt = len(request.ids) + size * len(request.images)
        return Generation(ids, zeros, zeros.astype(np.int32), "stop", prompt)

    limits = EpisodeSettings(1.0, 64, 10**6, 5, 3, "system", Deadlines(), 0)
    tools = EpisodeTools(generate, chat, VISION, recorded.images, space)
    episode = Episode(Task("t", "go", domain), EpisodeKey(recorded.ids()), limits, tools)
    outcome = await episode.run(Lease(changes=domain == "tools"))
    assert outcome is Outcome.COMPLETED, episode.failure
    trajectory = episode.trajectory(outcome, 1.0)
    recorded(trajectory)
    (found,) = itertools.islice(rollouts(seed=0, path=recorded.path), 1)
    rows = Renderer(chat, VISION, SPACES.__getitem__).rows(found)
    assert len(rows) == len(trajectory.segments) == (2 if domain == "tools" else 1)
    for row, segment in zip(rows, trajectory.segments, strict=True):
        assert (row.ids == segment.ids).all()
        assert (row.mask == segment.mask).all()


TURN = st.tuples(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 2),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
@given(turns=st.lists(TURN, min_size=1, max_size=6), forks=st.booleans())
def test_every_token_of_a_usable_response_is_supervised_once(turns, forks, chat, tmp_path):
    images = ImageStore(tmp_path)
    buffer = io.BytesIO()
    Image.new("RGB", (40, 40), (3, 9, 9)).save(buffer, "PNG")
    digest = images.put(buffer.getvalue(), "png")
    sets: list[tuple] = []
    made = []
    for index, (response, slips, shown, tool) in enumerate(turns):
        callable_now = ({"name": f"tool_{tool}", "description": ""},)
        if not sets or sets[-1] != callable_now:
            sets.append(callable_now)
        made.append(
            Turn(index, "see", (digest,) * shown, response, error="no" if slips else "",
                 segment=len(sets) - 1 if forks else 0, tools=len(sets) - 1)
        )  # fmt: skip
    task, done = Task("t", "g", "tools"), Outcome.COMPLETED
    trajectory = Trajectory("t", "", 0, 0, task, done, turns=tuple(made),
                            tool_sets=tuple(sets), chat=ChatRecord())  # fmt: skip
    row = {
        "id": "t",
        "task": trajectory.task.to_json(),
        "action_space": "tool_use",
        "turns": list(rows_of_turns(trajectory, tools_of(trajectory))),
        "extra": {},
    }
    rows = Renderer(chat, VISION, SPACES.__getitem__).rows(demonstration_of(row, images))
    supervised = [chat.decode(r.ids[r.mask].tolist()) for r in rows]
    end = chat.decode([chat.end_id])
    used = [turn.response for turn in made if not turn.error]
    assert "".join(supervised) == "".join(f"{response}{end}" for response in used)
