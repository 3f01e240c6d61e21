"""`required_plugins`, versions and clashes, on rows without any distribution."""

import pytest

from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry.loader import PluginRow
from mintact_platform.registry.names import Registry

MAZE = PluginRow("acme-maze", "1.2", "maze", targets={"environments": {"acme/maze": "maze:Maze"}})
BROKEN = PluginRow("acme-broken", "2.0", "b", state="failed", error="ImportError: no")
ASIDE = PluginRow("acme-aside", "3.0", "a", state="left out by MINTACT_PLUGINS")


@pytest.fixture
def registry():
    return Registry(None, [MAZE, BROKEN], [ASIDE])


@pytest.mark.parametrize(
    "needs",
    [[], ["acme-maze"], ["Acme_Maze>=1.2,<2"], ["acme-maze==1.2", "packaging>=1"]],
    ids=str,
)
def test_what_is_there_is_enough(registry, needs):
    registry.require(needs)


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        (
            ["acme-maze>=2"],
            "acme-maze>=2 is required, 1.2 is installed; pip install 'acme-maze>=2'",
        ),
        (["acme-hall"], "acme-hall is not installed; pip install 'acme-hall'"),
        (["acme-broken"], "acme-broken 2.0 does not load (ImportError: no); mintact plugins acme-"),
        (["acme-aside"], "acme-aside is left out by MINTACT_PLUGINS; mintact plugins"),
        (
            ["acme-maze>=2", "acme-hall>1"],
            "acme-maze>=2 is required, 1.2 is installed; acme-hall>1 is not installed; "
            "pip install 'acme-maze>=2' 'acme-hall>1'",
        ),
    ],
    ids=str,
)
def test_what_is_missing_is_one_line_with_the_command(registry, needs, expected):
    with pytest.raises(PluginError) as caught:
        registry.require(needs, where="somewhere")
    assert str(caught.value).startswith(f"somewhere: {expected}")
    assert "\n" not in str(caught.value)


def test_only_what_is_about_a_name_s_own_distribution_is_asked_of_who_serves_it(registry):
    registry.require_of("environments", "acme/maze", ["acme-hall>=9", "acme-maze==1.2"], where="x")
    with pytest.raises(PluginError, match=r"x: acme-maze==1\.3 is required, 1\.2 is installed"):
        registry.require_of("environments", "acme/maze", ["acme-maze==1.3"], where="x")
    registry.require_of("environments", "acme/unknown", [], where="x")


def test_a_run_file_takes_requirements_and_refuses_anything_else():
    config = parse({"name": "run", "required_plugins": ["acme-maze>=1.2"]})
    assert config.required_plugins == ("acme-maze>=1.2",)
    with pytest.raises(ConfigurationError, match=r"required_plugins: cannot read 'acme maze 1'; w"):
        parse({"name": "run", "required_plugins": ["acme maze 1"]})


def test_versions_do_not_depend_on_what_went_wrong(registry):
    before = registry.versions()
    registry.rows[0].error = "observer: OSError: no"
    assert registry.versions() == before == {"acme-maze": "1.2", "acme-broken": "2.0"}


def test_names_of_several_distributions_are_listed():
    rows = [PluginRow(f"acme-{n}", "1", n, targets={"judges": {"grid": n, n: n}}) for n in "ab"]
    assert Registry(None, rows).clashes() == {"judges:grid": ("acme-a", "acme-b")}
