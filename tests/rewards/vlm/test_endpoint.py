"""A real endpoint, misbehaving in every way: no verdict is invented, no key is told."""

from __future__ import annotations

import functools
import json
import logging

import pytest
from mintact_reward_vlm import endpoint as endpoints
from mintact_reward_vlm.vlm import Vlm

from mintact_platform.errors import ConfigurationError, JudgeError
from mintact_platform.models.retry import retry_after

GOOD = '{"nonce": "NONCE", "verdict": "success", "reason": "the cart shows the cap"}'


def judge(endpoint, **params):
    given = {"url": endpoint.url, "model": "m", "api_key_env": "JUDGE_KEY", "timeout": 60.0}
    return functools.partial(Vlm, **{**given, **params})


def completion(**choice):
    return json.dumps({"choices": [choice]}).encode()


BROKEN = {
    "is silent": (lambda e: e.hanging(after_headers=False), "no reply within 0.3 s"),
    "hangs after the headers": (lambda e: e.hanging(after_headers=True), "no reply within"),
    "streams unasked": (lambda e: e.streaming(), "stream of events"),
    "closes at once": (lambda e: e.breaking(promised=0), "cannot be reached"),
    "closes in mid-body": (lambda e: e.breaking(), "cannot be reached"),
    "never ends": (lambda e: e.endless(), "longer than 4194304 bytes"),
    "compresses unasked": (lambda e: e.sending(200, b"x", content_encoding="gzip"), "compressed"),
    "sends half a JSON": (lambda e: e.sending(200, b'{"choices": [{"mess'), "no JSON"),
    "sends HTML": (lambda e: e.sending(200, b"<p>hi", content_type="text/html"), r"text/html"),
    "sends nothing": (lambda e: e.sending(200, b""), "no JSON"),
    "sends a deep JSON": (lambda e: e.sending(200, b"[" * 100_000), "no JSON"),
    "sends no bytes of text": (lambda e: e.sending(200, b"\xff\xfe\x00"), "no JSON"),
    "sends a list": (lambda e: e.sending(200, b"[]"), "no chat completion"),
    "sends an error as success": (
        lambda e: e.sending(200, b'{"error": {"message": "no credit"}}'),
        "yet an error: no credit",
    ),
    "has no choice": (lambda e: e.sending(200, b'{"choices": []}'), "one choice"),
    "has two choices": (lambda e: e.sending(200, b'{"choices": [{}, {}]}'), "one choice"),
    "has choices of text": (lambda e: e.sending(200, b'{"choices": "x"}'), "no chat completion"),
    "has no message": (lambda e: e.sending(200, completion(message=None)), "no chat completion"),
    "has a number as content": (
        lambda e: e.sending(200, completion(message={"content": 1})),
        "no chat completion",
    ),
    "refuses in its field": (lambda e: e.completing(GOOD, refusal="I cannot"), "refuses to judge"),
    "is filtered": (lambda e: e.completing(GOOD, finish="content_filter"), "refuses to judge"),
    "refuses in prose": (lambda e: e.completing("I'm sorry, I can't help."), "no verdict"),
    "says nothing": (lambda e: e.completing(None), "it is empty"),
    "is cut off": (lambda e: e.completing(GOOD, finish="length"), "raise max_tokens"),
    "fails": (lambda e: e.sending(500, b'{"error": {"message": "oops"}}'), "HTTP 500: oops"),
    "redirects": (lambda e: e.sending(307, location="http://127.0.0.1:9/"), "redirects are not"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_an_endpoint_that_misbehaves_gives_no_verdict(case, endpoint, key, ask, view):
    make, said = BROKEN[case]
    endpoint.does(make(endpoint))
    slow = case in ("is silent", "hangs after the headers")
    with pytest.raises(JudgeError, match=said) as caught:
        await ask(judge(endpoint, timeout=0.3 if slow else 60.0), view)
    assert len(str(caught.value).splitlines()) == 1


LIES = {
    "another label": GOOD.replace("success", "excellent"),
    "a label in capitals": GOOD.replace("success", "SUCCESS"),
    "a list of labels": GOOD.replace('"success"', '["success"]'),
    "no label": '{"nonce": "NONCE", "reason": "r"}',
    "no reason": '{"nonce": "NONCE", "verdict": "success"}',
    "a number as reason": GOOD.replace('"the cart shows the cap"', "1"),
    "one key more": GOOD.replace("{", '{"confidence": 1, '),
    "a key twice": GOOD.replace("{", '{"verdict": "failure", '),
    "another nonce": GOOD.replace("NONCE", "0" * 32),
    "no nonce": '{"verdict": "success", "reason": "r"}',
    "a nonce of another type": GOOD.replace('"NONCE"', "null"),
    "two objects": GOOD + GOOD,
    "two objects on two lines": f"{GOOD}\n{GOOD}",
    "a list of objects": f"[{GOOD}]",
    "prose before": f"Here it is: {GOOD}",
    "prose after": f"{GOOD}\nI hope that helps.",
    "prose around a fence": f"Sure:\n```json\n{GOOD}\n```",
    "two fences": f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```",
    "an open thought": f"<think>{GOOD}",
    "a text": json.dumps(GOOD),
    "a number that is none": GOOD.replace("{", '{"x": NaN, '),
    "a comment": GOOD.replace("{", "{ // yes\n"),
    "single quotes": GOOD.replace('"', "'"),
}


@pytest.mark.parametrize("case", LIES)
async def test_a_model_that_lies_about_the_schema_gives_no_verdict(case, endpoint, key, ask, view):
    endpoint.says(LIES[case])
    with pytest.raises(JudgeError, match="the reply is no verdict"):
        await ask(judge(endpoint), view)


@pytest.mark.parametrize(
    "form", ["{}", "\n {}\n", "```json\n{}\n```", "```\n{}\n```", "<think>is it? {{</think>\n{}"]
)
async def test_the_whole_reply_may_stand_in_one_fence_or_after_a_thought(
    form, endpoint, key, ask, view
):
    endpoint.says(form.format(GOOD))
    verdict = await ask(judge(endpoint, price_in=2.0, price_out=10.0), view)
    assert (verdict.label, verdict.reward) == ("success", 1.0)
    assert verdict.reason == "the cart shows the cap"
    assert verdict.cost == pytest.approx(0.0025)
    assert endpoint.keys == [f"Bearer {key}"]


@pytest.mark.parametrize("label", ["failure", "environment_failure", "abstain"])
async def test_the_other_verdicts_are_taken_as_they_are(label, endpoint, key, ask, view):
    endpoint.says(GOOD.replace("success", label))
    verdict = await ask(judge(endpoint), view)
    assert (verdict.label, verdict.cost) == (label, None)
    assert verdict.reward == (0.0 if label == "failure" else None)


async def test_content_in_parts_is_read_as_one_text(endpoint, key, ask, view):
    def answer(handler):
        half = GOOD.replace("NONCE", endpoint.nonce())
        parts = [{"type": "text", "text": half[:30]}, {"type": "text", "text": half[30:]}]
        handler.send(200, completion(message={"content": parts}))

    endpoint.does(answer)
    assert (await ask(judge(endpoint), view)).label == "success"


async def test_an_endpoint_that_fails_and_recovers_is_asked_again_with_a_new_nonce(
    endpoint, key, ask, view
):
    endpoint.does(endpoint.sending(500), endpoint.sending(502), endpoint.completing(GOOD))
    assert (await ask(judge(endpoint), view, retries=2)).label == "success"
    systems = [request["messages"][0]["content"] for request in endpoint.requests]
    assert len(set(systems)) == 3


@pytest.mark.parametrize("status", [401, 403, 404, 400])
async def test_what_will_never_be_answered_is_asked_once(status, endpoint, key, ask, view):
    endpoint.does(endpoint.sending(status, b'{"error": {"message": "no"}}'))
    with pytest.raises(JudgeError, match=f"after 1 attempt: HTTP {status}: no"):
        await ask(judge(endpoint), view, retries=3)
    assert len(endpoint.requests) == 1


async def test_a_busy_endpoint_is_waited_for_and_the_wait_is_no_attempt(
    endpoint, key, ask, view, clock, monkeypatch
):
    now = functools.partial(retry_after, now=lambda: 10.0)
    monkeypatch.setattr(endpoints, "retry_after", now)
    endpoint.does(
        endpoint.sending(429, b"slow down", retry_after="3"),
        endpoint.sending(503, retry_after="Thu, 01 Jan 1970 00:00:17 GMT"),
        endpoint.sending(429, retry_after="soon"),
        endpoint.completing(GOOD),
    )
    assert (await ask(judge(endpoint), view, deadline=20.0)).label == "success"
    assert clock.slept == [3.0, 7.0, 2.0]


async def test_a_wait_that_is_longer_than_the_deadline_allows_is_not_waited(
    endpoint, key, ask, view, clock
):
    endpoint.does(endpoint.sending(429, retry_after="3600"))
    with pytest.raises(JudgeError, match=r"asked to wait 3600 s, more than the 10 s"):
        await ask(judge(endpoint), view, deadline=10.0)
    assert clock.slept == []


async def test_an_endpoint_that_is_busy_for_ever_ends_in_a_failure(endpoint, key, ask, view, clock):
    endpoint.does(endpoint.sending(429, retry_after="0"))
    with pytest.raises(JudgeError, match="after 10 attempts: HTTP 429"):
        await ask(judge(endpoint), view, retries=1, backoff=0.01)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("2.5", 2.5),
        ("-4", 0.0),
        ("nan", None),
        ("inf", None),
        ("tomorrow", None),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 20.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("Thu, 99 Jan 1970 00:00:01 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header, seconds):
    assert retry_after(header, now=lambda: 10.0) == seconds


ECHOES = [
    lambda e, k: e.sending(401, json.dumps({"error": {"message": f"bad key {k}"}}).encode()),
    lambda e, k: e.sending(500, f"traceback: Authorization: Bearer {k}".encode()),
    lambda e, k: e.sending(429, f"quota of {k}".encode(), retry_after="9999"),
    lambda e, k: e.sending(200, b"<p>", content_type=f"text/{k}"),
    lambda e, k: e.sending(200, json.dumps({"error": f"key {k}"}).encode()),
]


@pytest.mark.parametrize("echo", ECHOES)
async def test_an_endpoint_that_repeats_the_key_does_not_get_it_told(
    echo, endpoint, key, ask, view, caplog
):
    endpoint.does(echo(endpoint, key))
    with caplog.at_level(logging.INFO), pytest.raises(JudgeError) as caught:
        await ask(judge(endpoint), view, retries=1)
    assert endpoint.keys[0] == f"Bearer {key}"
    told = [str(caught.value), repr(caught.value), caplog.text]
    assert not [text for text in told if key in text]


async def test_a_reason_is_one_harmless_line_without_the_key(endpoint, key, ask, view):
    endpoint.says(GOOD.replace("the cart", f"\\n<|im_start|>\\u202e{key} "))
    reason = (await ask(judge(endpoint), view)).reason
    assert reason == "< |im_start| >⟨U+202E⟩… shows the cap"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"url": "ftp://host"}, "not a URL"),
        ({"url": "host/v1"}, "not a URL"),
        ({"url": "http:///v1"}, "not a URL"),
        ({"url": "https://me:hidden@host/v1"}, "password"),
        ({"api_key_env": "NO_SUCH_KEY"}, "'NO_SUCH_KEY' holds no key"),
        ({"api_key_env": "BROKEN_KEY"}, "'BROKEN_KEY' holds no key"),
        ({"extra": {"messages": []}}, "may not set messages"),
    ],
)
def test_a_wrong_parameter_is_refused_when_the_judge_is_made(params, said, monkeypatch):
    monkeypatch.setenv("BROKEN_KEY", "a\nb: c")
    with pytest.raises(ConfigurationError, match=said) as caught:
        Vlm(**{"url": "http://127.0.0.1:1/v1", "model": "m", **params})
    assert "hidden" not in str(caught.value)


async def test_a_request_says_what_was_configured(endpoint, ask, view):
    endpoint.says(GOOD)
    extra = {"response_format": {"type": "json_object"}}
    params = {"temperature": None, "max_tokens": 77, "extra": extra, "detail": "low"}
    await ask(judge(endpoint, api_key_env=None, **params), view)
    (request,) = endpoint.requests
    assert request["model"] == "m"
    assert (request["max_tokens"], "temperature" in request) == (77, False)
    assert request["response_format"] == {"type": "json_object"}
    assert endpoint.keys == [None]
    parts = request["messages"][1]["content"]
    urls = [part["image_url"] for part in parts if part["type"] == "image_url"]
    assert len(urls) == 2
    assert all(u["url"].startswith("data:image/png;base64,") for u in urls)
    assert {u["detail"] for u in urls} == {"low"}
