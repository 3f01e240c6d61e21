"""An episode in messages: what the engine is told, what is recorded, and whose fault an end is."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from mintact_platform.actions.space import Call, ParseError
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse, ToolUse
from mintact_platform.config import Deadlines
from mintact_platform.environments.protocol.wire import EncodedImage, Observation
from mintact_platform.errors import ModelServerError
from mintact_platform.models.messages import ChatReply, ToolCall, function_schemas
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.chat import Usage
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.rollouts.episode import Episode, EpisodeKey, EpisodeSettings, EpisodeTools
from mintact_platform.rollouts.messages import worded
from mintact_platform.storage.images import ImageStore

CLICK = {"action": "click", "coordinate": [1, 2]}
STOP = {"action": "stop", "response": "done"}


def screen(shade):
    buffer = io.BytesIO()
    Image.new("RGB", (50, 30), (shade, 0, 0)).save(buffer, "PNG")
    return EncodedImage(buffer.getvalue(), "png", 50, 30)


def text(**arguments):
    call = json.dumps({"name": "browser_use", "arguments": arguments})
    return f"<think>so</think><tool_call>{call}</tool_call>"


def native(name="browser_use", id="c", said="so", **arguments):
    return ChatReply(said, (ToolCall(id, name, json.dumps(arguments)),), model="m")


class Lease:
    """Counts its steps; after the first, another tool can be called."""

    instance = "i"

    def __init__(self, tools=None, text=True):
        self.steps, self.tools, self.text, self.actions = 0, tools, text, []

    def observation(self):
        said = f"step {self.steps}" if self.text else ""
        tools = None if self.tools is None else self.tools[: self.steps]
        return Observation(said, (screen(250 - self.steps),), tools, 0.0, False, False, {})

    async def reset(self, **_):
        return self.observation()

    async def step(self, *, action, **_):
        self.steps += 1
        self.actions.append(action)
        return self.observation()

    async def evaluate(self, **_):
        return None


class Engine:
    """Gives what it was told, and keeps what it was asked."""

    speaks, model, spent = "messages", "m", Usage()

    def __init__(self, *replies, native_tools=False):
        self.replies, self.native_tools, self.requests = list(replies), native_tools, []

    async def chat(self, request):
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return ChatReply(reply, model="m") if isinstance(reply, str) else reply


def episode(engine, folder, space=None, tools_in="system", turns=8):
    settings = EpisodeSettings(0.5, 64, 1, turns, 2, tools_in, Deadlines(), 0)

    async def never(request):
        raise AssertionError("a message engine generates no tokens")

    tools = EpisodeTools(
        never, None, VisionSize(1, 1, 10_000), ImageStore(folder), space or BrowserUse(), engine
    )
    return Episode(Task("t", "find it", "web"), EpisodeKey("e"), settings, tools)


async def test_a_conversation_holds_images_texts_and_replies_verbatim(tmp_path):
    engine = Engine(text(**CLICK), "hm", text(**STOP))
    played = episode(engine, tmp_path)
    assert await played.run(Lease()) is Outcome.COMPLETED, played.failure
    last = engine.requests[-1]
    assert (last.rid, last.temperature, last.max_new_tokens) == ("e-2", 0.5, 64)
    assert last.tools == ()
    system, *messages = last.messages
    assert (system.role, system.text) == ("system", BrowserUse().system_prompt(played.task))
    assert [(m.role, m.text, len(m.images)) for m in messages] == [
        ("user", "find it\nstep 0", 1),
        ("assistant", text(**CLICK), 0),
        ("user", "step 1", 1),
        ("assistant", "hm", 0),
        ("user", played.turns[1].error, 0),
    ]
    image = messages[0].images[0]
    with Image.open(image.path) as picture:
        assert (picture.size, picture.getpixel((0, 0))) == ((50, 30), (250, 0, 0))
    for earlier, later in zip(engine.requests, engine.requests[1:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
    assert len({request.seed for request in engine.requests}) == 3


async def test_the_record_has_turns_and_usage_but_nothing_to_train_on(tmp_path):
    paid = ChatReply(text(**STOP), model="m-1", usage=Usage(90, 30, 7, 0.25), attempts=2,
                     logprobs=(("a", -0.5),))  # fmt: skip
    first = ChatReply(text(**CLICK), usage=Usage(50, 0, 3, 0.5))
    played = episode(Engine(first, paid), tmp_path)
    trajectory = played.trajectory(await played.run(Lease()), 1.0)
    again = Trajectory.from_json(json.loads(json.dumps(trajectory.to_json())), ())
    assert again.to_json() == trajectory.to_json()
    assert again.segments == ()
    assert again.version_range == (-1, -1)
    assert again.tokens == 10
    assert again.chat.usage == Usage(140, 30, 10, 0.75)
    assert again.chat.replies[1].logprobs == (("a", -0.5),)
    assert (again.chat.replies[1].model, again.chat.replies[1].attempts) == ("m-1", 2)
    assert [turn.response for turn in again.turns] == [text(**CLICK), text(**STOP)]


def test_a_record_from_before_there_were_messages_is_read():
    old = Trajectory("t", "g", 0, 0, Task("t", "g", "web"), Outcome.COMPLETED).to_json()
    del old["chat"], old["tool_sets"]
    assert (Trajectory.from_json(old, ()).chat, Trajectory.from_json(old, ()).tool_sets) == (
        None,
        (),
    )


@pytest.mark.parametrize("shows_text", [True, False])
async def test_native_calls_get_results_and_are_recorded_in_words(shows_text, tmp_path):
    engine = Engine(native(**CLICK), native(id="d", action="fly"), native(**STOP),
                    native_tools=True)  # fmt: skip
    lease = Lease(text=shows_text)
    played = episode(engine, tmp_path)
    assert await played.run(lease) is Outcome.COMPLETED, played.failure
    _, *messages = engine.requests[-1].messages
    assert [(m.role, m.call_id, len(m.images)) for m in messages] == [
        ("user", "", 1),
        ("assistant", "", 0),
        ("tool", "c", 0),
        ("user", "", 1),
        ("assistant", "", 0),
        ("tool", "d", 0),
    ]
    assert messages[2].text == ("step 1" if shows_text else "done")
    assert messages[5].text == played.turns[1].error != ""
    assert messages[1].calls[0].arguments == json.dumps(CLICK)
    assert played.turns[0].response == BrowserUse().render("so", Call("browser_use", CLICK))
    assert lease.actions[0]["arguments"]["coordinate"] == [0, 0]
    (function,) = engine.requests[0].tools
    assert function == BrowserUse().schema()
    assert "<tool_call>" not in engine.requests[0].messages[0].text
    assert "`stop`" in engine.requests[0].messages[0].text


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize("tools_in", ["system", "message"])
async def test_tools_that_change_are_shown_from_then_on(is_native, tools_in, tmp_path):
    schema = {"name": "paint_3", "description": "paint", "parameters": {"type": "object"}}

    def call(id, name, **arguments):
        if is_native:
            return native(name, id, "so", **arguments)
        return ToolUse().render("so", Call(name, arguments))

    replies = [call("1", "search_tool", query="paint"), call("2", "paint_3"),
               call("3", "terminate", status="success")]  # fmt: skip
    engine = Engine(*replies, native_tools=is_native)
    played = episode(engine, tmp_path, ToolUse(), tools_in)
    outcome = await played.run(Lease(tools=(schema,)))
    assert outcome is Outcome.COMPLETED, played.failure
    before, after, _ = engine.requests
    if is_native:
        assert [t["function"]["name"] for t in before.tools][-1] == "terminate"
        assert [t["function"]["name"] for t in after.tools][-1] == "paint_3"
    elif tools_in == "system":
        assert "paint_3" not in before.messages[0].text
        assert "paint_3" in after.messages[0].text
    else:
        assert after.messages[0] == before.messages[0]
        assert "callable tools now: paint_3" in after.messages[-1].text
    trajectory = played.trajectory(outcome, 1.0)
    assert trajectory.tool_sets == ((), (schema,))
    assert [turn.tools for turn in trajectory.turns] == [0, 1, 1]
    forks = is_native or tools_in == "system"
    assert [turn.segment for turn in trajectory.turns] == ([0, 1, 1] if forks else [0, 0, 0])


@pytest.mark.parametrize(
    ("reply", "outcome", "turns"),
    [
        (ChatReply("I will not", refused=True), Outcome.AGENT_ERROR, 1),
        (ModelServerError("too long", kind="context"), Outcome.MODEL_FAILURE, 0),
        (ModelServerError("late", kind="timeout"), Outcome.TIMEOUT, 0),
        (ModelServerError("down", kind="http"), Outcome.MODEL_FAILURE, 0),
        (ModelServerError("withheld", kind="content_filter"), Outcome.MODEL_FAILURE, 0),
    ],
)
async def test_only_what_the_model_did_is_the_agents(reply, outcome, turns, tmp_path):
    played = episode(Engine(reply), tmp_path)
    assert await played.run(Lease()) is outcome
    assert len(played.turns) == turns
    assert (played.failure is None) == outcome.counts
    if played.failure is not None:
        assert (played.failure.phase, played.failure.kind) == ("generate", reply.kind)


async def test_a_conversation_that_has_become_too_long_ends(tmp_path):
    played = episode(Engine(text(**CLICK), ModelServerError("too long", kind="context")), tmp_path)
    assert await played.run(Lease()) is Outcome.CONTEXT_OVERFLOW
    assert (len(played.turns), played._last[0]) == (1, "step 1")


async def test_a_reply_that_was_cut_off_is_an_error_turn(tmp_path):
    cut = ChatReply(text(**STOP), finish="length")
    played = episode(Engine(cut, text(**STOP)), tmp_path)
    assert await played.run(Lease()) is Outcome.COMPLETED
    assert "cut off" in played.turns[0].error


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
SPACES = (MobileUse(), ComputerUse(), BrowserUse(), ToolUse(unlisted="call"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@UNHURRIED
@given(
    space=st.sampled_from(SPACES),
    name=st.sampled_from(["mobile_use", "computer_use", "browser_use", "terminate", "paint_3"]),
    arguments=st.dictionaries(st.text(min_size=1, max_size=8), JSON, max_size=3),
    action=st.sampled_from(["click", "type", "left_click", "stop", "terminate", "fly"]),
    said=st.text(max_size=30),
)
def test_a_native_call_is_read_like_the_written_one(space, name, arguments, action, said):
    given_ = {"action": action, **arguments}
    reply = ChatReply(said, (ToolCall("c", name, json.dumps(given_)),))
    through, written = (
        space.parse(worded(reply, space)),
        space.parse(space.render("", Call(name, given_))),
    )
    assert type(through) is type(written)
    assert through == written


@UNHURRIED
@given(arguments=st.text(max_size=40), said=st.text(max_size=20), space=st.sampled_from(SPACES))
def test_whatever_a_model_puts_into_a_call_is_words_for_the_parser(arguments, said, space):
    reply = ChatReply(said, (ToolCall("c", "terminate", arguments), ToolCall("d", "f", "{}")))
    parsed = space.parse(worded(reply, space))
    assert isinstance(parsed, ParseError) or all(isinstance(call, Call) for call in parsed)


def test_thinking_given_apart_is_put_before_the_words():
    space = BrowserUse()
    call = ToolCall("c", "browser_use", json.dumps(STOP))
    assert worded(ChatReply("", (call,), reasoning="why"), space) == text(**STOP).replace(
        "<think>so", "<think>why"
    )
    assert worded(ChatReply("hi", reasoning="why"), space) == "<think>why</think>hi"
    own = "<think>own</think>hi"
    assert worded(ChatReply(own, reasoning="why"), space) == own


def test_the_environments_tools_override_those_of_the_space():
    mine = {"name": "terminate", "description": "mine"}
    found = function_schemas(ToolUse().describe(), [mine])
    (one,) = [f["function"] for f in found if f["function"]["name"] == "terminate"]
    assert one["description"] == "mine"
    assert one["parameters"] == {"type": "object", "properties": {}}
