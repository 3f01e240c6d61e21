"""Every hook has a first-party user and a test; this file fails when one has none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mintact_platform.registry.hooks import HOOKS
from mintact_platform.registry.names import KINDS, Registry

ROOT = Path(__file__).parents[3]
FAMILIES = ("mintact_platform", "envs", "rewards", "algorithms", "plugins")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.discover({"MINTACT_STRICT_PLUGINS": "1"})


@pytest.fixture(scope="module")
def called() -> set[str]:
    """Hooks that first-party code calls: `….hook.NAME`, `hooks.NAME`, `….notify("NAME", …)`."""
    names: set[str] = set()
    for family in FAMILIES:
        for path in (ROOT / family).rglob("*.py"):
            if not {"build", ".venv"} & set(path.parts):
                names |= {name for node in ast.walk(ast.parse(path.read_text()))
                          if (name := called_by(node))}  # fmt: skip
    return names


def called_by(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
        return node.attr if owner in ("hook", "hooks") else ""
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "notify" and node.args:
        return str(getattr(node.args[0], "value", ""))
    return ""


@pytest.fixture(scope="module")
def tests() -> str:
    """The text of all other test files."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    return "\n".join(path.read_text() for path in files if path != Path(__file__))


def first_party(kind: str, registry: Registry) -> list[str]:
    """Names of a kind that distributions of ours register."""
    names = registry.names(kind)
    return [name for name in names if registry.provider(kind, name).startswith("mintact-")]


@pytest.mark.parametrize("kind", KINDS)
def test_something_first_party_is_registered_of_every_kind(kind, registry):
    assert first_party(kind, registry), f"register_{kind} has no first-party user"


def test_these_checks_fail_for_a_hook_without_a_user_or_a_test(called, tests):
    core_alone = Registry.discover({"MINTACT_PLUGINS": "mintact-platform"})
    assert not first_party("judges", core_alone)
    invented = "_".join(("moon", "rose"))
    assert invented not in called
    assert invented not in tests


@pytest.mark.parametrize("hook", sorted(h for h in HOOKS if not h.startswith("register_")))
def test_the_core_calls_every_other_hook(hook, called):
    assert hook in called, f"nothing calls {hook}"


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_every_hook_is_named_in_a_test(hook, tests):
    assert hook in tests, f"no test names {hook}"


@pytest.mark.parametrize("kind", KINDS)
def test_every_registered_first_party_target_can_be_imported(kind, registry):
    for name in registry.names(kind):
        assert registry.get(kind, name) is not None
