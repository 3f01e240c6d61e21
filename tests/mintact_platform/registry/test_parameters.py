"""Parameters of a target are its keyword-only arguments."""

import importlib
import operator
import sys

import pytest

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry.parameters import bind, check, check_schema, made
from mintact_platform.registry.signatures import takes


async def judge(task, trajectory, *, threshold: float = 0.5, names: tuple[str, ...] = ()): ...


class Engine:
    def __init__(self, *, port: int) -> None:
        self.port = port


def test_defaults_are_filled_in_and_types_converted():
    assert check(judge, {"names": ["a"]}, where="judge") == {"threshold": 0.5, "names": ("a",)}


def test_a_class_binds_and_is_called_for_an_instance():
    assert bind(Engine, {"port": "8000"}, where="engine")().port == 8000


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"treshold": 1}, "judge 'x': unknown parameter 'treshold'; did you mean 'threshold'?"),
        ({"threshold": "high"}, "judge 'x': parameter 'threshold': .*got 'high'"),
    ],
)
def test_a_wrong_name_or_type_is_one_line_that_names_the_plugin(params, message):
    with pytest.raises(ConfigurationError, match=message.replace("?", r"\?")) as caught:
        check(judge, params, where="judge 'x'")
    assert "\n" not in str(caught.value)


def test_a_missing_parameter_is_said():
    with pytest.raises(ConfigurationError, match="parameter 'port': field required"):
        bind(Engine, {}, where="engine 'e'")


LAZY = """
from __future__ import annotations
import functools, typing
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from heavy import Made, Size

def makes(*, size: int = 3) -> Made: ...
class Kept:
    def __init__(self, *, size: int = 3) -> Nothing: ...
def takes(*, size: Size = 3) -> None: ...
partial = functools.partial(makes)
def odd(*, size: int = 3) -> typing.nope.Made: ...
def given(task: Made, *others: typing.nope, size: int = 3, **further: Made) -> Made: ...
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A module of a plugin, by its text."""
    names = []

    def write(name, text):
        names.append(name)
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        return importlib.import_module(name)

    yield write
    for name in names:
        monkeypatch.delitem(sys.modules, name)


@pytest.fixture
def lazy(written):
    return written("lazy_plugin", LAZY)


@pytest.mark.parametrize("name", ["makes", "Kept", "partial", "odd", "given"])
def test_types_that_no_parameter_has_may_be_there_for_type_checkers_alone(lazy, name):
    assert check(getattr(lazy, name), {"size": "4"}, where="x") == {"size": 4}
    with pytest.raises(ConfigurationError, match="'size'"):
        check(getattr(lazy, name), {"size": "large"}, where="x")


ODD = """
from __future__ import annotations
import sys

constant = 3
def broken(*, t: "a float"): ...
def absent(*, t: sys.nope): ...
def united(*, t: "int" | None): ...
def divided(*, t: 1 / 0): ...
def based(*, __base__: int = 1): ...
class Hidden:
    def __getattr__(self, name): raise RuntimeError("hidden\\nfrom all")
hidden = Hidden()
class Mute(Exception):
    def __str__(self): raise RuntimeError("cannot even say what it is")
class Silent:
    def __init__(self): raise Mute
class Leaves:
    def __init__(self): sys.exit(3)
class Needs:
    def __init__(self, one): ...
def copies(*, schema: int = 1, json: int = 2, copy: int = 3): ...
"""


@pytest.fixture
def odd(written):
    return written("odd_plugin", ODD)


@pytest.mark.parametrize(
    "name", ["constant", "broken", "absent", "united", "divided", "based", "hidden"]
)
def test_a_target_that_nobody_can_read_is_one_line_that_names_it(odd, name):
    with pytest.raises(PluginError, match=r"^judge 'x': its parameters cannot be ") as caught:
        check(getattr(odd, name), {}, where="judge 'x'")
    assert "\n" not in str(caught.value)


def test_parameters_may_be_named_like_methods_of_the_library_that_checks_them(odd):
    assert check(odd.copies, {"json": "5"}, where="x") == {"schema": 1, "json": 5, "copy": 3}


@pytest.mark.parametrize(
    ("name", "why"), [("Leaves", "SystemExit: 3"), ("Needs", "TypeError"), ("Silent", "Mute")]
)
def test_a_target_that_cannot_be_made_is_one_line_that_names_it(odd, name, why):
    with pytest.raises(PluginError, match=f"^engine 'x': cannot be made: {why}"):
        made(getattr(odd, name), where="engine 'x'")


def test_what_a_target_takes_may_not_and_that_is_one_line(lazy):
    with pytest.raises(PluginError, match=r"^x: .*'size', 'Size'.*TYPE_CH") as caught:
        check(lazy.takes, {}, where="x")
    assert "\n" not in str(caught.value)


def takes_numbers(batch, *, n: int = 1, x: float | None = None, either: bool | int = 0, any=0): ...


@pytest.mark.parametrize("params", [{"n": True}, {"x": False}])
def test_a_truth_value_is_no_number(params):
    with pytest.raises(ConfigurationError, match=r"a truth value is no number, got (True|False)"):
        check(takes_numbers, params, where="x")


def test_a_truth_value_is_taken_where_the_type_says_so_or_says_nothing():
    checked = check(takes_numbers, {"either": True, "any": True}, where="x")
    assert (checked["either"], checked["any"]) == (True, True)


def test_what_is_made_must_have_the_methods_that_are_called(odd):
    assert made(list, where="x", offers=("append",)) == []
    with pytest.raises(PluginError, match=r"^engine 'x': makes a list, without start\(\)"):
        made(list, where="engine 'x'", offers=("append", "start"))


@pytest.mark.parametrize(("count", "fits"), [(0, False), (1, True), (2, False)])
def test_a_target_takes_so_many_arguments_and_no_more(count, fits):
    assert takes(takes_numbers, count) is fits


def test_a_function_of_the_interpreter_is_no_target():
    with pytest.raises(PluginError, match=r"^x: .*it is a function of the interpreter"):
        check(operator.add, {}, where="x")


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"n": {"type": ["integer", "null"]}}},
        {"properties": {"n": True}, "required": None},
        {"properties": None},
        {"properties": {"n": {"type": "integer", "minimum": 0.5, "maximum": float("nan")}}},
        {"properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": True}}},
        {"properties": {"__base__": {}, "copy": {}}, "additionalProperties": False},
    ],
)
def test_a_schema_that_says_odd_things_checks_so_much_less(schema):
    check_schema(schema, {"n": 1}, where="x")


def test_bounds_of_a_schema_are_checked_unless_the_types_themselves_were_asked():
    schema = {"properties": {"n": {"type": "integer", "minimum": 1}}}
    with pytest.raises(ConfigurationError, match=r"'n'.*greater than or equal to 1"):
        check_schema(schema, {"n": 0}, where="x")
    check_schema(schema, {"n": 0}, where="x", names_only=True)
