"""Every hook has a first-party user and a test; this file fails when one has none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from mintact_platform.registry.loader import HOOKS
from mintact_platform.registry.names import KINDS, Registry

ROOT = Path(__file__).parents[3]
FAMILIES = ("mintact_platform", "envs", "rewards", "algorithms", "plugins")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return Registry.discover({"MINTACT_STRICT_PLUGINS": "1"})


@pytest.fixture(scope="module")
def called() -> set[str]:
    """Strings and attributes that first-party code mentions, hook specifications left out."""
    names: set[str] = set()
    for family in FAMILIES:
        for path in (ROOT / family).rglob("*.py"):
            if path.name != "hookspecs.py":
                for node in ast.walk(ast.parse(path.read_text())):
                    names.add(str(getattr(node, "value", getattr(node, "attr", ""))))
                    names.add(str(getattr(node, "attr", "")))
    return names


@pytest.fixture(scope="module")
def tests() -> str:
    """The text of all other test files."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    return "\n".join(path.read_text() for path in files if path != Path(__file__))


@pytest.mark.parametrize("kind", KINDS)
def test_something_first_party_is_registered_of_every_kind(kind, registry):
    first_party = [n for n in registry.names(kind)
                   if registry.provider(kind, n).startswith("mintact-")]  # fmt: skip
    assert first_party, f"register_{kind} has no first-party user"


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
