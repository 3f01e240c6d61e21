"""Which distributions a run is made of, and whether it may go on with other versions of them."""

from __future__ import annotations

import json

import pytest

from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.loader import PluginRow
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.used import accept, pinned, used
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ledger import get_meta
from mintact_platform.training.objective import Preset


@pytest.fixture
def registry():
    rows = [
        PluginRow("mintact-platform", "0.1.0", "core", hooks=("admit_group",)),
        PluginRow("acme-maze", "1.2", "m", targets={"environments": {"acme/maze": "m:Maze"}}),
        PluginRow("acme-family", "3", "f", targets={"environments": {"acme-f/*": "m:F"}}),
        PluginRow("acme-tasks", "1", "t", targets={"task_sets": {"acme/maze": "t:tasks"}}),
        PluginRow("acme-inner", "1", "i", targets={"judges": {"acme/inner": "i:judge"}}),
        PluginRow("acme-loss", "odd version", "l", targets={"objectives": {"acme/l": "l:loss"}}),
        PluginRow("acme-preset", "1", "p", targets={"presets": {"acme/p": Preset("a", "acme/l")}}),
        PluginRow("acme-admits", "1", "a", hooks=("admit_group",)),
        PluginRow("acme-unused", "1", "u", targets={"judges": {"acme/other": "u:judge"}}),
    ]
    return Registry(None, rows)


@pytest.fixture
def config():
    inner = [{"name": "acme/inner", "params": {}}, {"name": "nobody's"}]
    domain = {
        "environment": "acme/maze",
        "tasks": "acme/maze:train",
        "judge": {"name": "own_file:judge", "params": {"judges": inner}},
    }
    return parse({"name": "run", "objective": {"preset": "acme/p"}, "domains": {"web": domain}})


@pytest.fixture
def directory(tmp_path, registry):
    before = {**registry.versions(), "acme-maze": "1.1", "acme-unused": "0", "acme-gone": "5"}
    path = tmp_path / "run"
    directory = RunDirectory.create(path, config_toml="", plugins=before, metadata={})
    yield directory
    directory.close()


def test_everything_a_run_file_names_counts_nested_judges_and_parts_of_presets_too(
    config, registry
):
    assert used(config, registry) == {
        "mintact-platform",
        "acme-maze",
        "acme-tasks",
        "acme-inner",
        "acme-loss",
        "acme-preset",
        "acme-admits",
    }


def test_a_changed_plugin_stops_a_resumed_run_with_both_versions(directory, config, registry):
    with pytest.raises(ConfigurationError) as caught:
        accept(directory, config, registry, changes=False)
    line = str(caught.value)
    assert "the run was started with acme-maze 1.1, now 1.2; " in line
    assert "--accept-changed-plugins" in line
    assert directory.plugins["acme-maze"] == "1.1"


def test_when_it_is_accepted_the_old_versions_are_kept(directory, config, registry):
    directory.begin_incarnation()
    found = accept(directory, config, registry, changes=True)
    assert found == ["acme-maze 1.1, now 1.2"]
    assert directory.plugins == registry.versions()
    kept = json.loads(get_meta(directory.database, "plugins until start 1"))
    assert kept["acme-maze"] == "1.1"
    assert accept(directory, config, registry, changes=False) == []


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [
        ("environments", "acme/maze", ("acme-maze==1.2",)),
        ("environments", "acme-f/anything", ("acme-family==3",)),
        ("environments", "own_file:Maze", ()),
        ("environments", "unknown", ()),
        ("objectives", "acme/l", ()),
    ],
)
def test_other_processes_must_have_the_same_version(registry, kind, name, expected):
    assert pinned(registry, kind, name) == expected
