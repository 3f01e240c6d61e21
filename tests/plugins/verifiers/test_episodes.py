"""Episodes of verifiers 0.4 through an endpoint behind which the agent answers."""

import asyncio
import json
import sys
from pathlib import Path

import httpx
import pytest
from mintact_plugin_verifiers.endpoint import Endpoint

from mintact_platform.errors import ConfigurationError, EnvironmentFailure

HERE = Path(__file__).parent


def answer(text):
    return {"name": "answer", "arguments": {"text": text}}


def price(item):
    return {"name": "shop_price", "arguments": {"item": item}}


END = {"name": "terminate", "arguments": {"status": "success"}}


@pytest.fixture
def make(monkeypatch):
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(HERE / "standin_v1"))
    monkeypatch.syspath_prepend(str(HERE / "standin_v1_toys"))
    from mintact_plugin_verifiers.environment import VerifiersEnvironment

    yield lambda **args: VerifiersEnvironment(id="toy-chat", args=args)
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("verifiers", "toy_chat") or name.endswith(".episodes"):
            del sys.modules[name]


async def begin(environment, row):
    return await environment.reset(seed=0, options={"task": {"params": {"row": row}}})


async def test_an_episode_is_asked_answered_and_scored(make):
    environment = make()
    seen, info = await begin(environment, 0)
    assert seen == {"text": "Answer with the word alone.\n\nReverse abc."}
    assert info["tools"][0]["function"]["name"] == "shop_price"
    _, reward, terminated, _, info = await environment.step(answer("cba"))
    assert (reward, terminated, info["stop"]) == (1.0, True, "agent_completed")
    check = await environment.evaluate()
    assert check.details["metrics"] == {"right": 1.0, "length": 3.0}
    await environment.close()
    assert len(asyncio.all_tasks()) == 1


async def test_tools_of_an_episode_are_called_and_answered(make):
    environment = make()
    await begin(environment, 1)
    told = [(await environment.step(call))[0]["text"] for call in (price("pear"), price("plum"))]
    assert told == ["3", "2"]
    assert (await environment.step(answer("8")))[1] == 1.0
    await environment.close()


async def test_an_agent_may_end_an_episode_before_and_after_its_first_word(make):
    environment = make()
    await begin(environment, 1)
    assert (await environment.step(END))[1:3] == (0.0, True)
    await begin(environment, 1)
    await environment.step(price("pear"))
    assert (await environment.step(END))[1:3] == (0.0, True)
    await environment.close()


async def test_an_error_of_an_episode_is_the_environments_failure(make):
    environment = make()
    await begin(environment, 0)
    with pytest.raises(EnvironmentFailure, match="the judge is down") as caught:
        await environment.step(answer("unreadable"))
    assert caught.value.kind == "TaskError"
    await environment.close()


async def test_an_episode_that_is_left_leaves_nothing(make):
    environment = make()
    for _ in range(3):
        await begin(environment, 0)
    await environment.close()
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)


def test_a_wrong_argument_and_a_second_seat_are_refused_in_one_line(make):
    with pytest.raises(ConfigurationError, match=r"'toy-chat': ValidationError: .*agnet"):
        make(agnet={})
    with pytest.raises(ConfigurationError, match=r"seats 2 agents .* \(agent, other\)"):
        make(id="two-seats")
    assert make(id="two-seats", other={"model": "a judge's"})


def test_a_classic_environment_says_which_release_it_needs(make, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "toys"))
    (module := type(sys)("toy_old")).load_environment = print
    monkeypatch.setitem(sys.modules, "toy_old", module)
    module.__spec__ = sys.modules["json"].__spec__
    from mintact_plugin_verifiers.loading import load

    with pytest.raises(ConfigurationError, match=r"before 0.4, and 0.4.0 .*verifiers<0.4"):
        load("toy-old", {})


@pytest.fixture
async def endpoint():
    async def ask(messages, tools):
        function = {"name": "add", "arguments": "{}"}
        calls = [{"id": "1", "type": "function", "function": function}] if tools else None
        return {"role": "assistant", "content": messages[-1]["content"], "tool_calls": calls}

    served = Endpoint(ask)
    async with httpx.AsyncClient(base_url=await served.open(), trust_env=False) as client:
        client.served = served
        yield client
    await served.close()


async def test_the_endpoint_answers_whole_and_streamed(endpoint):
    asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": [{}]}
    whole = (await endpoint.post("chat/completions", json=asked)).json()
    assert whole["choices"][0]["message"]["content"] == "hi"
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    streamed = await endpoint.post("chat/completions", json={**asked, "stream": True})
    first, last = streamed.text.split("\n\n")[:2]
    delta = json.loads(first.removeprefix("data: "))["choices"][0]["delta"]
    assert delta["tool_calls"][0]["index"] == 0
    assert last == "data: [DONE]"


async def test_the_endpoint_refuses_what_is_no_chat_and_who_does_not_know_its_path(endpoint):
    assert (await endpoint.post("chat/completions", content=b"{")).status_code == 400
    assert (await endpoint.post("chat/completions", json=[])).status_code == 400
    assert (await endpoint.get("models")).status_code == 404
    url = endpoint.base_url.copy_with(path="/guessed/v1/chat/completions")
    assert (await endpoint.post(url, json={"messages": []})).status_code == 404


async def test_the_endpoint_survives_other_protocols_and_early_hang_ups(endpoint):
    for data in (b"\x16\x03\x01\x02\x00 hello\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Le"):
        host, port = endpoint.base_url.host, endpoint.base_url.port
        _, writer = await asyncio.open_connection(host, port)
        writer.write(data)
        writer.close()
        await writer.wait_closed()
    asked = {"messages": [{"role": "user", "content": "still there"}]}
    assert (await endpoint.post("chat/completions", json=asked)).status_code == 200


async def test_closing_the_endpoint_ends_connections_that_are_being_closed_too(
    endpoint, monkeypatch
):
    async def never(writer):
        await asyncio.Event().wait()

    others = asyncio.all_tasks()
    monkeypatch.setattr(asyncio.StreamWriter, "wait_closed", never)
    assert (await endpoint.get("models")).status_code == 404
    assert asyncio.all_tasks() > others
    await endpoint.served.close()
    assert asyncio.all_tasks() <= others
