"""The client of OpenAI-compatible endpoints, against a real server on the loopback interface."""

import base64
import contextlib
import email.utils
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_env_web.agentic.answers import AnswerError, read_files, read_json
from mintact_env_web.agentic.client import ChatModel, Endpoint, said

from mintact_platform.errors import ConfigurationError, ModelServerError
from mintact_platform.models.retry import retry_after

HELLO = [said("user", "hello")]


class Naps:
    """Takes note of waits instead of waiting."""

    def __init__(self):
        self.taken = []

    async def __call__(self, seconds):
        self.taken.append(seconds)


def in_turn(*answers):
    left = list(answers)
    return lambda body: left.pop(0) if len(left) > 1 else left[0]


async def ask(url, messages=HELLO, naps=None, **options):
    async with ChatModel(Endpoint(url, "coder", **options), sleep=naps or Naps()) as model:
        return await model.ask(messages)


async def test_a_question_carries_key_model_and_images(endpoint, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "s3cret")
    server = endpoint(in_turn("fine"))
    png = b"\x89PNG\r\n\x1a\nrest"
    message = said("user", "look", png, b"\xff\xd8jpeg")
    reply = await ask(server.url, [message], api_key_env="SOME_KEY", max_tokens=50, temperature=0.5)
    assert (reply.text, reply.cut, reply.tokens) == ("fine", False, 100)
    body = server.asked[0]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("coder", 50, 0.5)
    text, first, second = body["messages"][0]["content"]
    assert text == {"type": "text", "text": "look"}
    kind, _, data = first["image_url"]["url"].partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data) == png
    assert second["image_url"]["url"].startswith("data:image/jpeg;base64,")
    assert server.headers[0]["authorization"] == "Bearer s3cret"


async def test_a_busy_endpoint_is_asked_again_after_the_time_it_names(endpoint):
    naps = Naps()
    server = endpoint(in_turn((429, {"retry-after": "7"}, {}), (503, {}, b"down"), "at last"))
    assert (await ask(server.url, naps=naps)).text == "at last"
    assert naps.taken[0] == 7
    assert 0 < naps.taken[1] <= 2


async def test_tries_and_patience_are_bounded(endpoint):
    server = endpoint(in_turn((500, {}, {"error": {"message": "overloaded"}})))
    with pytest.raises(ModelServerError, match="overloaded") as error:
        await ask(server.url, tries=3)
    assert error.value.kind == "busy"
    assert len(server.asked) == 3
    patient = endpoint(in_turn((429, {"retry-after": "86400"}, {})))
    with pytest.raises(ModelServerError, match="asks to wait for 86400 s"):
        await ask(patient.url)
    assert len(patient.asked) == 1


@pytest.mark.parametrize(
    ("answer", "kind", "asked"),
    [
        ((401, {}, {"error": {"message": "bad key s3cret"}}), "auth", 1),
        ((400, {}, {"error": "no such model"}), "request", 1),
        ((302, {"location": "http://127.0.0.1:1/"}, b""), "request", 1),
        ((200, {}, b"<html>"), "void", 2),
        ((200, {}, {"choices": []}), "void", 2),
        ((200, {}, [1]), "void", 2),
        ((200, {}, b"[" * 100_000), "void", 2),
    ],
)
async def test_why_there_is_no_answer_is_told_apart(endpoint, monkeypatch, answer, kind, asked):
    monkeypatch.setenv("SOME_KEY", "s3cret")
    server = endpoint(in_turn(answer))
    with pytest.raises(ModelServerError, match=r".*") as error:
        await ask(server.url, api_key_env="SOME_KEY", tries=2)
    assert error.value.kind == kind
    assert len(server.asked) == asked
    assert "s3cret" not in str(error.value)


async def test_a_declined_and_a_cut_answer_are_recognised(endpoint, chat):
    declined = endpoint(in_turn((200, {}, chat(None, refusal="I would rather not"))))
    with pytest.raises(ModelServerError, match="would rather not") as error:
        await ask(declined.url)
    assert error.value.kind == "refused"
    filtered = endpoint(in_turn((200, {}, chat("", "content_filter"))))
    with pytest.raises(ModelServerError, match="content_filter"):
        await ask(filtered.url)
    cut = endpoint(in_turn((200, {}, chat([{"type": "text", "text": "half"}], "length"))))
    reply = await ask(cut.url)
    assert (reply.text, reply.cut) == ("half", True)


async def test_nobody_there_and_nobody_answering(endpoint):
    with pytest.raises(ModelServerError, match="cannot be reached") as error:
        await ask("http://127.0.0.1:9/v1", tries=2)
    assert error.value.kind == "unreachable"
    given_up = threading.Event()

    def never(body):
        given_up.wait(60)
        return 200, {"connection": "close"}, b""

    slow = endpoint(never)
    with pytest.raises(ModelServerError, match="no answer in time") as error:
        await ask(slow.url, timeout_s=0.05, tries=1)
    given_up.set()
    assert error.value.kind == "timeout"


def test_a_key_that_is_not_set_and_a_url_that_is_none_are_named():
    with pytest.raises(ConfigurationError, match="'NO_SUCH_KEY' is not set"):
        ChatModel(Endpoint("http://localhost/v1", "m", "NO_SUCH_KEY"))
    with pytest.raises(ConfigurationError, match="not a URL"):
        ChatModel(Endpoint("localhost", "m"))


def test_retry_after_is_a_number_or_a_date():
    now = 1_700_000_000.0
    later = email.utils.formatdate(now + 30, usegmt=True)
    assert retry_after(later, now=lambda: now) == 30
    assert retry_after("-5") == 0
    assert [retry_after(text) for text in (None, "soon", "nan", "", "inf")] == [None] * 5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('<think>{"no": 0}</think>\n{"a": 1}', {"a": 1}),
        ('Sure!\n```json\n{"a": [1, 2,],}\n```\nBye', {"a": [1, 2]}),
        ('It is {x} or {"a": {"b": "}"}}, I think', {"a": {"b": "}"}}),
        ('First [1] then {"longer": "one"}', {"longer": "one"}),
        ('{"a": NaN} {"b": 2}', {"b": 2}),
    ],
)
def test_json_is_found_in_prose(text, value):
    assert read_json(text) == value


@given(st.text('{}[]",:ab1 \n`', max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_is_json_or_refused(text):
    assert isinstance(read_files(text), dict)
    with contextlib.suppress(AnswerError):
        read_json(text)


def test_long_nonsense_is_refused_in_bounded_time():
    for nonsense in ("[" * 300_000, '{"a":' * 100_000, "{ " * 300_000, "```\n" * 50_000):
        with pytest.raises(AnswerError):
            read_json(nonsense)
        read_files(nonsense)


def test_files_are_found_by_the_names_of_their_blocks():
    text = (
        "### `index.html`\n```html\n<p>\n```\n"
        '```css path="css/site.css"\np {}\n```\n'
        "~~~site.js\nconst a = `x`;\n~~~\n"
        "```\nnameless\n```\n"
    )
    assert read_files(text) == {
        "index.html": "<p>\n",
        "css/site.css": "p {}\n",
        "site.js": "const a = `x`;\n",
    }
