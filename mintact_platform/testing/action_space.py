"""`check_action_space`: what an agent is told is what is read, and nothing else is."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from mintact_platform.actions.described import described_space
from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse
from mintact_platform.errors import MintactError
from mintact_platform.testing.calls import (
    TASK,
    functions_of,
    points_of,
    sample_calls,
    verbs_of,
)
from mintact_platform.testing.conformance import ConformanceError, Subject, find

SIZES = ((1280, 720), (128, 128), (1, 1))
_MAX_MESSAGE = 2000
_TOOL = {
    "name": "conformance_tool",
    "description": "Of the environment.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
_HOSTILE = (
    "",
    " ",
    "no call at all",
    "<tool_call>",
    "</think></think><tool_call>{",
    '<tool_call>{"name": 7, "arguments": []}</tool_call>',
    '<tool_call>{"name": "", "arguments": {}}</tool_call>',
    '<tool_call>[[[[[["deep"]]]]]]</tool_call>',
    '<tool_call>{"name": "x", "arguments": "not json"}</tool_call>',
    "<tool_call>" + '{"a":' * 200,
    "\ud800 half a character",
    "x" * 50_000,
)


def check_action_space(space_or_name: Any, **params: Any) -> None:
    """Whether an action space prompts, reads, converts and refuses as the platform relies on.

    Args:
        space_or_name: registered name, class or factory, or a space that is made already.
        params: its parameters.

    Raises:
        ConformanceError: the first thing that is wrong.
    """
    made = not isinstance(space_or_name, str) and not callable(space_or_name)
    if made:
        subject = Subject("action space", type(space_or_name).__name__, space_or_name, {})
    else:
        subject = find("action_spaces", space_or_name, params)
    space = space_or_name if made else _make(subject)
    _check_protocol(subject, space)
    _check_prompt(subject, space)
    calls = _check_calls(subject, space)
    _check_foreign(subject, space)
    _check_hostile(subject, space)
    _check_positions(subject, space, calls)
    _check_tools(subject, space)
    _check_description(subject, space)


def _make(subject: Subject) -> Any:
    check = "it can be made, twice alike"
    try:
        one, two = (subject.target(**subject.params) for _ in range(2))
        prompts = {space.system_prompt(TASK) for space in (one, two)}
    except Exception as error:
        fix = "parameters need defaults; see `ActionSpace` for the methods"
        raise subject.raised(check, error, fix=fix) from error
    if len(prompts) > 1:
        raise subject.error(
            check,
            seen="two of them prompt differently",
            fix="let the prompt depend on parameters and tools only: runs cache its tokens",
        )
    return one


def _check_protocol(subject: Subject, space: Any) -> None:
    wanted = [name for name in vars(ActionSpace) if not name.startswith("_")]
    wanted += [name for name in inspect.get_annotations(ActionSpace) if name not in wanted]
    missing = [name for name in wanted if not hasattr(space, name)]
    if missing:
        raise subject.error(
            "it has all of ActionSpace",
            seen=f"no {', '.join(missing)}",
            fix="see mintact_platform.ActionSpace; deriving from ScreenSpace or ToolUse has all",
        )


def _check_prompt(subject: Subject, space: ActionSpace) -> None:
    prompt = _call(subject, "system_prompt answers", space.system_prompt, TASK)
    if not isinstance(prompt, str) or not prompt.strip():
        raise subject.error(
            "system_prompt returns text", seen=f"{prompt!r:.80}", fix="say what may be called"
        )
    for text in ("", "a screen"):
        shown = _call(subject, "observation_text answers", space.observation_text, text)
        if not isinstance(shown, str):
            raise subject.error(
                "observation_text returns text", seen=f"{shown!r:.80}", fix="return a str"
            )


def _check_calls(subject: Subject, space: ActionSpace) -> list[Call]:
    """Every call an agent is told of renders, and parses back to itself."""
    calls: list[Call] = _call(subject, "its tools can be told", sample_calls, space)
    if not calls:
        raise subject.error(
            "it says what its tools are",
            seen="no <tools> lines in the prompt and no describe()",
            fix="give describe() -> dict with 'functions', JSON schemas as ScreenSpace.describe",
        )
    for call in calls:
        text = _call(subject, "render answers", space.render, "looking", call)
        parsed = _parse(subject, space, text)
        if isinstance(parsed, ParseError):
            raise subject.error(
                "every tool that the prompt names can be called",
                seen=f"{text!r:.160} is refused: {parsed.message}",
                fix="let prompt and parser be made from one list of tools",
            )
        if [c.to_json() for c in parsed] != [call.to_json()]:
            raise subject.error(
                "a rendered call parses back to itself",
                seen=f"{call.to_json()} became {[c.to_json() for c in parsed]}"[:300],
                fix="let render write all arguments, and parse change no value that is valid",
            )
    return calls


def _check_foreign(subject: Subject, space: ActionSpace) -> None:
    """What the prompt does not name is refused in words."""
    functions = functions_of(space)
    offered = {str(function["name"]): verbs_of(function) for function in functions}
    for text in _foreign(offered, _says(space, "unlisted") == "call"):
        parsed = _parse(subject, space, text)
        strange = [] if isinstance(parsed, ParseError) else [c for c in parsed if _odd(c, offered)]
        if strange:
            raise subject.error(
                "the parser takes exactly the tools that the prompt names",
                seen=f"{text!r} is taken as {strange[0].to_json()}",
                fix="return ParseError for every name and action that is not offered",
            )


def _foreign(offered: Mapping[str, Sequence[str]], takes_any: bool) -> Iterator[str]:
    if not takes_any:
        yield _text("fly_to_the_moon", {})
    for name in (name for name, verbs in offered.items() if verbs):
        yield _text(name, {"action": "fly_to_the_moon"})
        for call in _all_calls():
            if call.arguments["action"] not in offered[name]:
                yield _text(name, call.arguments)


def _all_calls() -> list[Call]:
    """Calls of every action that any of our own spaces knows."""
    spaces: tuple[Any, ...] = (MobileUse(), ComputerUse(), BrowserUse())
    return [call for space in spaces for call in sample_calls(space)]


def _odd(call: Call, offered: Mapping[str, Sequence[str]]) -> bool:
    verbs = offered.get(call.name)
    return verbs is None or bool(verbs and call.arguments.get("action") not in verbs)


def _check_hostile(subject: Subject, space: ActionSpace) -> None:
    """Nothing a model writes makes the parser raise, and its refusals can be read."""
    for text in _HOSTILE:
        one, two = _parse(subject, space, text), _parse(subject, space, text)
        if one != two:
            raise subject.error(
                "the same words are always read alike",
                seen=f"{text!r:.60} was read as {one!r:.80} and as {two!r:.80}",
                fix="let parse depend on its arguments only",
            )


def _check_positions(subject: Subject, space: ActionSpace, calls: Sequence[Call]) -> None:
    for call in calls:
        for name in points_of(call):
            for width, height in SIZES:
                _check_round_trip(subject, space, call, name, (width, height))


def _check_round_trip(
    subject: Subject, space: ActionSpace, call: Call, name: str, size: tuple[int, int]
) -> None:
    """A pixel goes to the grid and back near to itself; what is far outside comes back inside."""
    width, height = size
    check = "positions go from pixels to the grid and back"
    fix = "use actions.grid.Grid: scale by the side, round, clamp to [0, side - 1]"
    for x, y in ((0, 0), (width - 1, height - 1), (width // 2, height // 3)):
        there = space.to_grid(_moved(call, name, [x, y]), width, height)
        back = space.to_pixels(there, width, height)
        point = back.arguments[name]
        near = all(abs(a - b) <= 2 + s / 500 for a, b, s in zip(point, (x, y), size, strict=True))
        if not near or not _inside(point, size):
            seen = f"[{x}, {y}] of {width} × {height} became {there.arguments[name]} and {point}"
            raise subject.error(check, seen=seen, fix=fix)
        if _without_points(back) != _without_points(call):
            seen = f"{call.to_json()} became {back.to_json()}"
            raise subject.error(check, seen=seen, fix="change the positions and nothing else")
    for far in (10**6, -(10**6)):
        point = space.to_pixels(_moved(call, name, [far, far]), width, height).arguments[name]
        if not _inside(point, size):
            seen = f"[{far}, {far}] became {point} on a screen of {width} × {height}"
            raise subject.error("positions stay on the screen", seen=seen, fix=fix)


def _moved(call: Call, name: str, point: list[int]) -> Call:
    return Call(call.name, {**copy.deepcopy(dict(call.arguments)), name: point}, call.ends)


def _without_points(call: Call) -> tuple[str, dict[str, Any], bool]:
    points = points_of(call)
    return call.name, {k: v for k, v in call.arguments.items() if k not in points}, call.ends


def _inside(point: Any, size: tuple[int, int]) -> bool:
    return all(isinstance(v, int) and 0 <= v < side for v, side in zip(point, size, strict=True))


def _check_tools(subject: Subject, space: ActionSpace) -> None:
    """An environment's tool is offered where, and only where, it is listed."""
    tools = [_TOOL]
    before = copy.deepcopy(tools)
    prompt = _call(subject, "system_prompt answers", space.system_prompt, TASK, tools)
    text = _text("conformance_tool", {"city": "Oslo"})
    parsed = _parse(subject, space, text, tools)
    if tools != before:
        raise subject.error(
            "the callable tools are only read",
            seen="the schemas that were handed in changed",
            fix="copy a schema before changing it",
        )
    told, taken = "conformance_tool" in prompt, not isinstance(parsed, ParseError)
    if told != taken:
        seen = "named in the prompt and refused" if told else "taken and not named in the prompt"
        raise subject.error(
            "the environment's tools are in the prompt and in the parser, or in neither",
            seen=f"a listed tool is {seen}",
            fix="make both from the `tools` argument",
        )
    takes_any = _says(space, "unlisted") == "call"
    if taken and not takes_any and not isinstance(_parse(subject, space, text), ParseError):
        raise subject.error(
            "a tool that is not listed is refused",
            seen=f"{text!r} is taken without being listed",
            fix="look names up among `tools`",
        )


def _check_description(subject: Subject, space: ActionSpace) -> None:
    """A client without the plugin builds its equal."""
    describe = getattr(space, "describe", None)
    if not callable(describe):
        return
    check = "describe() is enough to build an equal"
    try:
        described = json.loads(json.dumps(describe()))
        if described.get("style") not in ("ui", "tools"):
            return
        same = described_space(described)().system_prompt(TASK) == space.system_prompt(TASK)
    except (TypeError, ValueError, MintactError) as error:
        fix = "return JSON values, as ScreenSpace.describe does; or leave describe out"
        raise subject.raised(check, error, fix=fix) from error
    if not same:
        raise subject.error(
            check,
            seen="the one built from it prompts differently",
            fix="derive from ScreenSpace or ToolUse, or give describe() a style of your own",
        )


def _parse(
    subject: Subject, space: ActionSpace, text: str, tools: Sequence[Mapping[str, Any]] = ()
) -> tuple[Call, ...] | ParseError:
    """What parse answers: calls, or an error with words for the model."""
    parsed = _call(subject, "parse never raises", space.parse, text, tools)
    if isinstance(parsed, ParseError):
        if isinstance(parsed.message, str) and 0 < len(parsed.message.strip()) <= _MAX_MESSAGE:
            return parsed
        raise subject.error(
            "a refusal says why",
            seen=f"{text!r:.60} is refused with {parsed.message!r:.60}",
            fix="the model reads the message: name what was wrong and what is offered",
        )
    if isinstance(parsed, tuple) and parsed and all(isinstance(call, Call) for call in parsed):
        return parsed
    raise subject.error(
        "parse returns calls or a ParseError",
        seen=f"{text!r:.60} gave {parsed!r:.80}",
        fix="return a tuple of at least one Call, or ParseError(message)",
    )


def _call(subject: Subject, check: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except ConformanceError:
        raise
    except Exception as error:
        shown = ", ".join(f"{argument!r:.60}" for argument in arguments if argument is not TASK)
        fix = f"it was called with ({shown}); return a ParseError where words cannot be used"
        raise subject.raised(check, error, fix=fix) from error


def _says(space: ActionSpace, key: str) -> Any:
    describe = getattr(space, "describe", None)
    return describe().get(key) if callable(describe) else None


def _text(name: str, arguments: Mapping[str, Any]) -> str:
    call = json.dumps({"name": name, "arguments": dict(arguments)})
    return f"<think>looking</think><tool_call>{call}</tool_call>"
