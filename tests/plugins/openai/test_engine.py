"""The engine against a real endpoint: what is sent, what is read, whose fault a failure is."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys

import pytest
from fastapi import Response
from mintact_plugin_openai import endpoint as requests
from mintact_plugin_openai.engine import OpenAIEngine
from mintact_plugin_openai.trouble import trouble

from mintact_platform.errors import ModelServerError
from mintact_platform.models.messages import ChatRequest, ChatSpec, Message, ToolCall
from mintact_platform.models.protocol import ImageFile
from mintact_platform.records.chat import Usage

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ASK = ChatRequest("r-0", (Message("system", "Act."), Message("user", "go")), (), 0.5, 64, seed=3)


@pytest.fixture
async def engine(endpoint, tmp_path):
    """`engine(**params)`: started; closed at the end."""
    made = []

    async def start(deadline=60.0, **params):
        params = {"max_retries": 2, "timeout": 60.0, **params}
        one = OpenAIEngine(base_url=endpoint.url, model="teacher-1", **params)
        made.append(one)
        await one.start(ChatSpec(tmp_path, 4, deadline=60.0, reply_deadline=deadline))
        one._endpoint._first_wait = 0.001
        return one

    yield start
    for one in made:
        await one.close()


async def test_a_request_holds_the_conversation_and_the_sampling(endpoint, engine, tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    image = ImageFile(file, "a")
    call = ToolCall("c1", "browser_use", '{"action": "go_back"}')
    request = ChatRequest(
        "r-1",
        (
            Message("system", "Act."),
            Message("user", "find it", (image,)),
            Message("assistant", "back", calls=(call,)),
            Message("tool", "done", call_id="c1"),
            Message("user", "", (image,)),
        ),
        ({"type": "function", "function": {"name": "browser_use"}},),
        0.5,
        64,
        seed=3,
    )
    one = await engine(image_detail="high", send_seed=True, extra_body={"top_p": 0.9})
    reply = await one.chat(request)
    assert (reply.text, reply.model, reply.attempts) == ("hello", "teacher-1", 1)
    url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
    shown = {"type": "image_url", "image_url": {"url": url, "detail": "high"}}
    (body,) = endpoint.requests
    assert body.pop("messages") == [
        {"role": "system", "content": "Act."},
        {"role": "user", "content": [shown, {"type": "text", "text": "find it"}]},
        {
            "role": "assistant",
            "content": "back",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "browser_use", "arguments": call.arguments},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
        {"role": "user", "content": [shown]},
    ]
    assert body == {
        "model": "teacher-1",
        "temperature": 0.5,
        "max_completion_tokens": 64,
        "seed": 3,
        "top_p": 0.9,
        "tools": list(request.tools),
        "parallel_tool_calls": False,
    }


async def test_fields_that_an_endpoint_refuses_are_left_out(endpoint, engine):
    omitted = ("temperature", "max_tokens")
    await (await engine(omit=omitted, max_tokens_field="max_tokens")).chat(ASK)
    assert set(endpoint.requests[0]) == {"model", "messages"}


async def test_the_key_is_sent_and_without_one_nothing_is(endpoint, engine, say, monkeypatch):
    monkeypatch.setenv("TEACHER_KEY", say.key)
    monkeypatch.setenv("OPENAI_API_KEY", "of another account")
    monkeypatch.setenv("OPENAI_ORG_ID", "another-account")
    await (await engine(api_key_env="TEACHER_KEY")).chat(ASK)
    await (await engine()).chat(ASK)
    with_key, without = endpoint.headers
    assert with_key["authorization"] == f"Bearer {say.key}"
    assert "authorization" not in without
    assert "openai-organization" not in with_key


PASSING = [
    lambda say: say.refuses(429, retry_after="0"),
    lambda say: say.refuses(500),
    lambda say: say.refuses(503, retry_after="0.01"),
    lambda say: Response("<html>bad gateway</html>", media_type="text/html"),
    lambda say: Response("{not json", media_type="application/json"),
    lambda say: Response("[]", media_type="application/json"),
    lambda say: Response("null", media_type="application/json"),
    lambda say: {"error": {"message": "overloaded", "code": 502}},
    lambda say: {"choices": []},
    lambda say: {"choices": [None]},
    lambda say: {"choices": [{"message": None}]},
    lambda say: {"choices": [{"message": {"content": [{"type": "text"}]}}]},
]


async def test_what_may_pass_is_asked_again(endpoint, engine, say):
    one = await engine()
    for number, first in enumerate(PASSING, 1):
        endpoint.does(first(say), say.completion("at last"))
        reply = await one.chat(ASK)
        assert (reply.text, reply.attempts) == ("at last", 2), number
        assert len(endpoint.requests) == 2 * number


LASTING = [
    (lambda say: say.refuses(500), "http"),
    (lambda say: say.refuses(429), "rate_limit"),
    (lambda say: {"error": {"message": "down"}}, "void"),
    (lambda say: Response("?", media_type="text/plain"), "void"),
]


async def test_after_its_retries_the_last_failure_is_told(endpoint, engine, say):
    one = await engine()
    for number, (answer, kind) in enumerate(LASTING, 1):
        endpoint.does(answer(say))
        with pytest.raises(ModelServerError) as failed:
            await one.chat(ASK)
        assert failed.value.kind == kind
        assert len(endpoint.requests) == 3 * number


FINAL = [
    (lambda say: say.refuses(400, "temperature must be 1"), "invalid"),
    (lambda say: say.refuses(401), "credentials"),
    (lambda say: say.refuses(403), "credentials"),
    (lambda say: say.refuses(404), "not_found"),
    (lambda say: say.refuses(307, location="http://elsewhere/"), "http"),
    (lambda say: say.refuses(429, code="insufficient_quota"), "quota"),
    (lambda say: say.refuses(400, code="content_filter"), "content_filter"),
    (lambda say: say.refuses(400, code="context_length_exceeded"), "context"),
    (lambda say: say.refuses(400, "maximum context length is 8192 tokens"), "context"),
    (lambda say: say.completion("…", finish="content_filter"), "content_filter"),
    (lambda say: say.refuses(429, retry_after="3600"), "rate_limit"),
]


async def test_what_cannot_pass_is_told_at_once(endpoint, engine, say):
    one = await engine()
    for number, (answer, kind) in enumerate(FINAL, 1):
        endpoint.does(answer(say))
        with pytest.raises(ModelServerError) as failed:
            await one.chat(ASK)
        assert failed.value.kind == kind, number
        assert len(endpoint.requests) == number


async def test_a_failure_never_repeats_the_key(endpoint, engine, say, monkeypatch):
    monkeypatch.setenv("TEACHER_KEY", say.key)
    one = await engine(api_key_env="TEACHER_KEY", max_retries=0)
    for answer in (
        say.refuses(401, f"wrong key {say.key}"),
        {"error": {"message": f"wrong key {say.key}"}},
        Response(f"wrong key {say.key}", 500),
    ):
        endpoint.does(answer)
        with pytest.raises(ModelServerError) as failed:
            await one.chat(ASK)
        assert say.key not in str(failed.value)


async def test_a_hanging_request_ends_by_its_own_deadline(endpoint, engine, say, monkeypatch):
    endpoint.does("hang")
    one, told = await engine(), []

    def answers_from_now_on(error, access, seconds):
        told.append((type(error), seconds))
        endpoint.does(say.completion("at last"))
        one._endpoint._timeout = 60.0
        return trouble(error, access, seconds)

    monkeypatch.setattr(requests, "trouble", answers_from_now_on)
    # of the first request: the second has all the time that a busy machine needs
    one._endpoint._timeout = 0.3
    reply = await one.chat(ASK)
    assert (reply.text, reply.attempts) == ("at last", 2)
    assert told == [(TimeoutError, 0.3)]


async def test_the_deadline_of_a_reply_ends_all_retries(endpoint, engine):
    endpoint.does("hang")
    one = await engine(deadline=0.5)
    with pytest.raises(ModelServerError, match=r"within 0\.5 s, retries included") as failed:
        await one.chat(ASK)
    assert failed.value.kind == "timeout"


async def test_cancelling_lets_go_of_the_request(endpoint, engine):
    endpoint.does("hang")
    asking = asyncio.create_task((await engine()).chat(ASK))
    assert await asyncio.to_thread(endpoint.asked.wait, 60)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await asyncio.to_thread(endpoint.left.wait, 60)


async def test_a_busy_endpoint_is_not_asked_by_others_meanwhile(endpoint, engine, say):
    one = await engine()
    endpoint.does(say.refuses(429, retry_after="0.2"), say.completion("ok"))
    loop = asyncio.get_running_loop()
    assert (await one.chat(ASK)).attempts == 2
    one._endpoint._quiet_until = until = loop.time() + 0.2
    assert (await one.chat(ASK)).attempts == 1
    assert loop.time() >= until
    endpoint.does(say.refuses(429, retry_after="3600"))
    for _ in range(2):
        with pytest.raises(ModelServerError, match=r"asks to wait 3\d\d\d s, more than") as failed:
            await one.chat(ASK)
        assert failed.value.kind == "rate_limit"
    assert len(endpoint.requests) == 4


async def test_native_calls_thinking_and_parts_are_read(endpoint, engine, say):
    calls = [
        {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
        {"type": "function", "function": {"name": "g", "arguments": {"y": 2}}},
    ]
    endpoint.does(say.completion(None, finish="tool_calls", tool_calls=calls))
    one = await engine()
    reply = await one.chat(ASK)
    assert reply.text == ""
    assert [(c.id, c.name, c.arguments) for c in reply.calls] == [
        ("a", "f", '{"x": 1}'),
        ("call_1", "g", '{"y": 2}'),
    ]
    endpoint.says("42", reasoning_content="six by seven")
    assert (await one.chat(ASK)).reasoning == "six by seven"
    endpoint.does(say.completion([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
    assert (await one.chat(ASK)).text == "ab"


async def test_refusal_and_length_are_the_models_own(endpoint, engine, say):
    one = await engine()
    endpoint.does(say.completion(None, refusal="I will not."))
    reply = await one.chat(ASK)
    assert (reply.refused, reply.text) == (True, "I will not.")
    endpoint.does(say.completion("half a", finish="length"))
    assert (await one.chat(ASK)).finish == "length"


async def test_log_probabilities_are_given_or_missed(endpoint, engine, say):
    one = await engine(logprobs=True)
    endpoint.does(say.completion("ab", logprobs=[("a", -0.5), ("b", -1.0)]))
    assert (await one.chat(ASK)).logprobs == (("a", -0.5), ("b", -1.0))
    assert endpoint.requests[-1]["logprobs"] is True
    endpoint.says("ab")
    with pytest.raises(ModelServerError, match="no log-probabilities in the reply") as failed:
        await one.chat(ASK)
    assert failed.value.kind == "logprobs"
    plain = await engine()
    assert (await plain.chat(ASK)).logprobs is None


async def test_every_reply_is_paid_for_also_one_that_cannot_be_used(endpoint, engine, say):
    usage = {"prompt_tokens": 1_000_000, "completion_tokens": 500_000,
             "prompt_tokens_details": {"cached_tokens": 400_000}}  # fmt: skip
    one = await engine(price_in=2.0, price_out=8.0, price_cached=0.5, max_cost=10.0)
    endpoint.says("yes", usage=usage)
    assert (await one.chat(ASK)).usage == Usage(1_000_000, 400_000, 500_000, 5.4)
    endpoint.does(say.completion("…", finish="content_filter", usage=usage))
    with pytest.raises(ModelServerError, match="filter"):
        await one.chat(ASK)
    assert one.spent == Usage(2_000_000, 800_000, 1_000_000, 10.8)
    with pytest.raises(ModelServerError, match="max_cost is spent") as failed:
        await one.chat(ASK)
    assert failed.value.kind == "budget"
    assert len(endpoint.requests) == 2


async def test_without_prices_or_usage_nothing_is_claimed(endpoint, engine, say):
    endpoint.says("yes", usage={"prompt_tokens": None})
    one = await engine()
    assert (await one.chat(ASK)).usage == Usage(0, 0, 0, None)


@pytest.mark.parametrize("status", [404, 500, 307])
async def test_an_endpoint_without_a_list_of_models_will_do(status, endpoint, engine, say):
    endpoint.models = say.refuses(status)
    assert (await (await engine()).chat(ASK)).text == "hello"


async def test_a_wrong_key_is_told_at_the_start(endpoint, engine, say, monkeypatch):
    monkeypatch.setenv("TEACHER_KEY", say.key)
    endpoint.models = say.refuses(401, f"no such key {say.key}")
    with pytest.raises(ModelServerError, match="HTTP 401") as failed:
        await engine(api_key_env="TEACHER_KEY")
    assert failed.value.kind == "credentials"
    assert say.key not in str(failed.value)


async def test_nobody_at_home_is_told_at_the_start(tmp_path):
    one = OpenAIEngine(base_url="http://127.0.0.1:9/v1", model="m")
    with pytest.raises(ModelServerError, match="cannot be reached") as failed:
        await one.start(ChatSpec(tmp_path, 1))
    assert failed.value.kind == "unreachable"
    await one.close()


def test_the_client_library_is_not_loaded_before_the_start():
    code = (
        "import sys, mintact_plugin_openai, mintact_plugin_openai.engine as e;"
        "e.OpenAIEngine(base_url='http://h/v1', model='m');"
        "sys.exit('openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
