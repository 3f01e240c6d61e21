"""What a user installs: wheels, in a fresh environment, outside the checkout."""

from __future__ import annotations

import json
import zipfile
from email.parser import BytesParser
from pathlib import Path

import pytest

NAMES = {
    "mintact_platform": "mintact_platform",
    "mintact_env_micro": "mintact_env_micro",
    "mintact_env_web": "mintact_env_web",
    "mintact_reward_state": "mintact_reward_state",
    "mintact_reward_vlm": "mintact_reward_vlm",
    "mintact_reward_panel": "mintact_reward_panel",
    "mintact_algorithm_grpo": "mintact_algorithm_grpo",
    "mintact_plugin_torch": "mintact_plugin_torch",
    "mintact_plugin_openai": "mintact_plugin_openai",
    "mintact_plugin_openenv": "mintact_plugin_openenv",
    "mintact_plugin_sglang": "mintact_plugin_sglang",
    "mintact_plugin_mcp": "mintact_plugin_mcp",
    "mintact_plugin_verifiers": "mintact_plugin_verifiers",
    "mintact_plugin_verl": "mintact_plugin_verl",
    "acme_counter": "acme_counter",
    "acme_cispo": "acme_cispo",
}


def test_every_distribution_has_a_wheel(wheels):
    assert {wheel.name.split("-")[0] for wheel in wheels} == set(NAMES)


def test_a_wheel_holds_one_package_typed_and_without_tests(wheels):
    for wheel in wheels:
        package = NAMES[wheel.name.split("-")[0]]
        names = zipfile.ZipFile(wheel).namelist()
        tops = {name.split("/")[0] for name in names}
        assert {top for top in tops if not top.endswith(".dist-info")} == {package}
        assert not [name for name in names if "test_" in name or "conftest" in name]
        if package.startswith("mintact_"):
            assert f"{package}/py.typed" in names


def test_a_wheel_holds_every_file_of_its_package(wheels):
    root = Path(__file__).parents[2]
    families = ("envs", "rewards", "algorithms", "plugins", "tests/third_party")
    # not everywhere below the root: other tests make folders and delete them
    projects = [root, *(project for family in families for project in (root / family).iterdir())]
    for wheel in wheels:
        package = NAMES[wheel.name.split("-")[0]]
        (source,) = (p / package for p in projects if (p / package).is_dir())
        expected = {
            str(path.relative_to(source.parent))
            for path in source.rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert expected <= set(zipfile.ZipFile(wheel).namelist())


def test_the_core_needs_no_heavy_library(wheels):
    (core,) = (wheel for wheel in wheels if wheel.name.startswith("mintact_platform"))
    archive = zipfile.ZipFile(core)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    requires = BytesParser().parsebytes(archive.read(metadata)).get_all("Requires-Dist")
    always = [need.split(";")[0] for need in requires if "extra ==" not in need]
    heavy = ("torch", "ray", "sglang", "transformers", "playwright", "vllm", "megatron")
    assert not [need for need in always if need.startswith(heavy)]


def test_the_command_finds_every_plugin_outside_the_checkout(installed, tmp_path):
    result = installed.run("mintact", "plugins", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    rows = {row["distribution"]: row for row in json.loads(result.stdout)}
    assert {name.replace("_", "-") for name in NAMES} == set(rows)
    assert {row["error"] for row in rows.values()} == {None}
    assert "environments:acme/counter" in rows["acme-counter"]["provides"]


@pytest.mark.parametrize("package", sorted(NAMES))
def test_packages_come_from_the_wheels_not_from_the_checkout(package, installed, tmp_path):
    code = f"import {package}; print({package}.__file__)"
    result = installed.run("python", "-c", code, cwd=tmp_path)
    assert Path(result.stdout.strip()).is_relative_to(installed.folder), result.stderr


def test_every_module_of_the_core_can_be_imported_from_the_wheel(installed, tmp_path):
    code = """
import importlib, pkgutil, mintact_platform
for module in pkgutil.walk_packages(mintact_platform.__path__, "mintact_platform."):
    importlib.import_module(module.name)
"""
    result = installed.run("python", "-c", code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
