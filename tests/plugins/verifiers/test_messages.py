"""What an agent reads of verifiers' messages."""

import base64
import io

from mintact_plugin_verifiers.messages import news, pictures, schemas, words
from PIL import Image


def user(content):
    return {"role": "user", "content": content}


def drawn(kind):
    buffer = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(buffer, kind)
    url = f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return {"type": "image_url", "image_url": {"url": url}}


def test_a_prompt_reads_as_its_words():
    system = {"role": "system", "content": "Be brief."}
    assert words([system, user("Hello")]) == "Be brief.\n\nHello"
    assert words("plain") == "plain"
    assert words([user(None), user([])]) == ""


def test_speakers_are_named_where_the_agent_is_among_them():
    said = {"role": "assistant", "content": "4", "tool_calls": None}
    assert (
        words([user("2 + 2"), said, user("3 + 3")]) == "user: 2 + 2\n\nassistant: 4\n\nuser: 3 + 3"
    )


def test_calls_of_a_shown_conversation_are_words_too():
    call = {"id": "1", "name": "add", "arguments": '{"a": 1}'}
    assert words([{"role": "assistant", "content": "", "tool_calls": [call]}]) == (
        'assistant: add({"a": 1})'
    )


def test_parts_that_cannot_be_shown_are_named():
    parts = [
        {"type": "text", "text": "look"},
        drawn("PNG"),
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {}},
    ]
    assert words([user(parts)]) == "look\n[picture at https://example.org/a.png]\n[input_audio]"
    assert len(pictures([user(parts)])) == 1


def test_pictures_of_other_kinds_become_png():
    shown = pictures([user([drawn("JPEG"), drawn("BMP")])])
    assert [data[:3] for data in shown] == [b"\xff\xd8\xff", b"\x89PN"]


def test_news_is_what_came_after_the_agents_own_words():
    before = [user("a")]
    said = {"role": "assistant", "content": "b"}
    assert news(before, [*before, said, user("c"), user("d")]) == [user("c"), user("d")]
    assert news(before, [user("z"), said, user("c")]) == [user("z"), said, user("c")]
    assert news(before, [user("a"), user("c")]) == [user("a"), user("c")]


def test_tools_become_function_schemas():
    assert schemas([{"name": "add", "description": None, "parameters": None}]) == [
        {"type": "function", "function": {"name": "add", "description": "", "parameters": {}}}
    ]
