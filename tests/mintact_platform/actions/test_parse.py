"""Reading calls out of whatever a model wrote."""

import json

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.actions.parse import read_calls
from mintact_platform.actions.space import ParseError

CLICK = {"name": "f", "arguments": {"action": "click", "coordinate": [1, 2]}}
J = json.dumps(CLICK)


def read(text):
    calls = read_calls(text)
    assert not isinstance(calls, ParseError), calls
    return [call.to_json() for call in calls]


@pytest.mark.parametrize(
    "text",
    [
        f"<think>t</think><tool_call>{J}</tool_call>",
        f"<think>\nt\n</think>\n\n<tool_call>\n{J}\n</tool_call>",
        f"<tool_call>{J}",
        f"<tool_call>{J}</tool_call>\nNow I wait. {{}}",
        f"<tool_call>{J} and so on",
        f"<tool_call>{J[:-1]}</tool_call>",
        f"<tool_call>{J[:-2]}",
        f"<tool_call>```json\n{J[:-1]}\n```",
        f"<tool_call>```json\n{J}\n```</tool_call>",
        f"I click. <tool_call>{J}</tool_call>",
        J,
        f"```json\n{J}\n```",
        f"<tool_call>[{J}]</tool_call>",
        f"<tool_call>{J.replace('2]', '2,]')}</tool_call>",
        f'<tool_call>{{"type": "function", "function": {J}}}</tool_call>',
        '<tool_call>{"name": " f ", "action": "click", "coordinate": [1, 2]}</tool_call>',
        '<tool_call>{"name": "f", "parameters": {"action": "click", "coordinate": [1, 2]}}',
        "<tool_call>" + json.dumps({"name": "f", "arguments": json.dumps(CLICK["arguments"])}),
        f"<think>maybe <tool_call>{{}}</tool_call></think><tool_call>{J}</tool_call>",
    ],
)
def test_one_call_however_it_is_written(text):
    assert read(text) == [CLICK]


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>{J}</tool_call><tool_call>{J}</tool_call>",
        f"<tool_call>{J}\n{J}</tool_call>",
        f"<tool_call>{J}, {J}",
        f"<tool_call>{J}<tool_call>{J}",
        f"<tool_call>[{J}, {J}]</tool_call>",
        f"<tool_call>{J[:-1]}</tool_call> then <tool_call>{J[:-1]}</tool_call>",
    ],
)
def test_several_calls_in_one_turn(text):
    assert read(text) == [CLICK, CLICK]


def test_line_breaks_and_tags_inside_strings_are_text():
    text = 'line\nbreak <tool_call>{"name": "no"}</tool_call> "quoted"'
    whole = json.dumps({"name": "f", "arguments": {"text": text}})
    assert read(f"<tool_call>{whole}</tool_call>")[0]["arguments"]["text"] == text
    assert read('<tool_call>{"name": "f", "arguments": {"text": "a\nb"}}')[0]["arguments"] == {
        "text": "a\nb"
    }


def test_a_single_backslash_that_is_no_escape_is_itself():
    (call,) = read(r'<tool_call>{"name": "f", "arguments": {"text": "C:\dir\\end, ,}\"\n"}}')
    assert call["arguments"]["text"] == 'C:\\dir\\end, ,}"\n'


def test_missing_names_and_arguments_are_left_to_the_action_space():
    assert read('<tool_call>{"action": "click"}') == [
        {"name": "", "arguments": {"action": "click"}}
    ]
    assert read('<tool_call>{"name": "f"}') == [{"name": "f", "arguments": {}}]
    assert read('<tool_call>{"name": "f", "arguments": null}') == [{"name": "f", "arguments": {}}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no tool call found"),
        ("<think>I would click", "no tool call found"),
        (f"<think><tool_call>{J}</tool_call></think>done", "no tool call found"),
        ("<tool_call></tool_call>", "expected a JSON object"),
        ("<tool_call>click(1, 2)</tool_call>", "expected a JSON object"),
        (f"<tool_call>{J[:-3]}", "cut short"),
        ('<tool_call>{"name": "f", "arguments": {"text": "hello wor', "cut short"),
        ('<tool_call>{"name": "f", "arguments": {"pixels": -12', "cut short"),
        ("<tool_call>{click: 1}</tool_call>", "not valid JSON"),
        ("<tool_call>{'name': 'f'}</tool_call>", "not valid JSON"),
        ("<tool_call>[1]</tool_call>", "a call must be a JSON object"),
        ("<tool_call>[]</tool_call>", "no tool call found"),
        ('<tool_call>{"name": 1}</tool_call>', "name must be a string"),
        ('<tool_call>{"name": "f", "arguments": [1]}', "arguments must be a JSON object"),
        ('<tool_call>{"name": "f", "arguments": "go"}', "expected a JSON object"),
        ('<tool_call>{"name": "f", "arguments": {"x": NaN}}', "NaN"),
        ('<tool_call>{"name": "f", "arguments": {"x": 1e999}}', "too large"),
        ('<tool_call>{"name": "f", "arguments": {"x": ' + "9" * 5000 + "}}", "too large"),
        ('<tool_call>{"name": "f", "arguments": ' + '{"a":' * 40, "not valid JSON"),
        ('<tool_call>{"name": "f", "arguments": {"a":' + "[" * 40 + "]" * 40, "nested too deeply"),
        ("<tool_call>" + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_becomes_an_error_the_model_can_use(text, said):
    answer = read_calls(text)
    assert isinstance(answer, ParseError)
    assert said in answer.message


def test_half_a_surrogate_pair_is_replaced_so_that_the_call_can_be_sent():
    (call,) = read(r'<tool_call>{"name": "f", "arguments": {"text": "a\ud83d", "\ud83d": 1}}')
    assert call["arguments"]["text"] == "a\ufffd"
    assert msgpack.unpackb(msgpack.packb(call)) == call


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
pieces = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        '{"name": "f", "arguments": ',
        '"arguments": "',
        '{"',
        "{",
        "}",
        "[",
        "]",
        '"',
        ",",
        ":",
        "\\",
        "\\u",
        "```json",
        J,
        "1e999",
        "NaN",
        "-",
        "\n",
    ]
)


@given(st.lists(pieces | st.text(max_size=4) | values.map(json.dumps), max_size=14).map("".join))
def test_reading_never_raises_and_what_is_read_can_be_sent(text):
    calls = read_calls(text)
    for call in () if isinstance(calls, ParseError) else calls:
        msgpack.packb(call.to_json())
        json.dumps(call.to_json(), allow_nan=False)


finite = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3
        )
    ),
    max_leaves=10,
)
arguments = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5), finite, max_size=4
)


@given(arguments, st.booleans(), st.booleans())
def test_what_json_writes_is_read_back_unchanged(values, as_string, ascii_only):
    body = json.dumps(values, ensure_ascii=ascii_only) if as_string else values
    whole = json.dumps({"name": "f", "arguments": body}, ensure_ascii=ascii_only)
    assert read(f"<tool_call>{whole}</tool_call>") == [{"name": "f", "arguments": values}]
