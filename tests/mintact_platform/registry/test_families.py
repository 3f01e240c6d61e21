"""A family of names, `acme/*`, stands for every name that begins so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry import parameters
from mintact_platform.registry.families import Member, hint, key_of

FAMILY = """
    from mintact_platform import hookimpl

    class Rooms:
        metadata = {"mintact": {"domain": "web"}}

        def __init__(self, *, id: str, size: int = 3, **more):
            self.id, self.size, self.more = id, size, more

        def __repr__(self):
            return f"Rooms({self.id}, {self.size}, {self.more})"

        @classmethod
        def missing(cls, *, id):
            return "a key" if id == "locked" else None

    @hookimpl
    def register_environments():
        return {"acme/*": Rooms, "acme/hall": "acme_rooms:hall", "acme/deep/*": deep}

    def hall():
        return "the hall"

    def deep(*, id):
        return f"deep {id}"
"""
BUILD = """
    from mintact_platform.registry.names import Registry
    registry = Registry.discover()
    for name in {names!r}:
        print(registry.get("environments", name)())
"""


def build(site, *names):
    result = site.python(BUILD.format(names=names))
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_a_member_is_built_with_its_id(site):
    site.install("acme-rooms", FAMILY)
    assert build(site, "acme/cellar", "acme/a:b-v1") == [
        "Rooms(cellar, 3, {})",
        "Rooms(a:b-v1, 3, {})",
    ]


def test_an_exact_name_goes_before_a_family_and_the_longest_family_before_others(site):
    site.install("acme-rooms", FAMILY)
    assert build(site, "acme/hall", "acme/deep/down/1") == ["the hall", "deep down/1"]


def test_the_listing_shows_the_family_once(site):
    site.install("acme-rooms", FAMILY)
    rows = site.rows()
    assert "environments:acme/*" in rows["acme-rooms"]["provides"]
    assert "environments:gym/*" in rows["mintact-platform"]["provides"]
    text = site.python("from mintact_platform.cli.main import main; main(['plugins'])").stdout
    assert "gym/*" in text


def test_a_missing_name_is_answered_with_the_family_that_was_meant(site):
    site.install("acme-rooms", FAMILY)
    assert "did you mean 'acme/cellar'?" in site.ask("environments", "acne/cellar")
    assert "write acme/<id> for a member" in site.ask("environments", "acme/")
    assert "PluginNotFound: no environment named 'cellar'" in site.ask("environments", "cellar")


def test_two_distributions_with_one_family_conflict_when_it_is_asked_for(site):
    code = """
        from mintact_platform import hookimpl

        @hookimpl
        def register_environments():
            return {"acme/*": lambda *, id: id}
    """
    site.install("acme-one", code)
    site.install("acme-two", code)
    answer = site.ask("environments", "acme/cellar")
    assert answer.startswith(
        "PluginConflict: environment 'acme/*' comes from acme-one and acme-two"
    )
    assert "MINTACT_DISABLE_PLUGINS" in answer


def test_the_parameters_of_a_member_are_those_of_the_family_without_the_id():
    def build(*, id: str, size: int = 3) -> None:
        """Nothing."""

    member = Member(build, "cellar")
    assert parameters.check(member, {"size": "4"}, where="here") == {"size": 4}
    for wrong in ({"id": "other"}, {"sise": 4}, {"size": "wide"}):
        with pytest.raises(ConfigurationError, match="here"):
            parameters.check(member, wrong, where="here")


def test_a_family_that_takes_anything_gets_what_its_signature_does_not_name():
    def build(*, id: str, size: int = 3, **more: object) -> dict[str, object]:
        return {"id": id, "size": size, **more}

    member = Member(build, "cellar")
    params = parameters.check(member, {"size": "4", "light": "on"}, where="here")
    assert params == {"size": 4, "light": "on"}
    assert parameters.bind(member, params, where="here")() == {"id": "cellar", **params}


def test_a_member_answers_for_its_family_and_asks_it_with_the_id(site):
    site.install("acme-rooms", FAMILY)
    result = site.python(
        """
        from mintact_platform.registry.names import Registry
        registry = Registry.discover()
        member = registry.get("environments", "acme/locked")
        print(member.metadata["mintact"], member.missing())
        print(registry.get("environments", "acme/cellar").missing())
        """
    )
    assert result.stdout.splitlines() == ["{'domain': 'web'} a key", "None"]


def test_a_target_that_takes_no_id_is_no_family():
    with pytest.raises(PluginError, match="takes no keyword 'id'"):
        Member(lambda *, size: size, "cellar")


def test_keys_and_hints_are_pure():
    names = ["desktop", "gym/*", "gym/own"]
    assert key_of("gym/own", names) == "gym/own"
    assert key_of("gym/", names) == "gym/"
    assert key_of("gymnastics/x", names) == "gymnastics/x"
    assert hint("desktp", names) == "did you mean 'desktop'?"
    assert hint("gim/A-v0", names) == "did you mean 'gym/A-v0'?"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"size": 3, "sise": 4}, "unknown parameter 'sise'; did you mean 'size'"),
        ({"size": "wide"}, "parameter 'size'"),
        ({}, "parameter 'size': field required"),
    ],
)
def test_parameters_of_what_is_not_installed_are_checked_by_their_schema(params, said):
    def build(*, size: int, light: str | None = None) -> None:
        """Nothing."""

    schema = parameters.parameters(build).model_json_schema()
    parameters.check_schema(schema, {"size": 3, "light": "on"}, where="here")
    with pytest.raises(ConfigurationError, match=said):
        parameters.check_schema(schema, params, where="here")


def test_listing_the_families_imports_neither_gymnasium_nor_numpy():
    code = """
import sys
from mintact_platform.registry.names import Registry
assert "gym/*" in Registry.discover().names("environments")
assert not {"gymnasium", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
