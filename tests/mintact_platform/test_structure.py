"""The shape of the code: rooms, sizes, versions, what may be imported from where."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "mintact_platform"
PROJECTS = [ROOT, *(p.parent for p in sorted(ROOT.glob("[erap]*/*/pyproject.toml")))]
PLUGINS = [p for p in PROJECTS if p != ROOT]
ROOMS = (
    "errors",
    "records",
    "hookspecs",
    "registry",
    "overrides",
    "config",
    "trees",
    "processes",
    "actions",
    "judging",
    "models",
    "storage",
    "environments",
    "rollouts",
    "training",
    "datasets",
    "scheduler",
    "evaluation",
    "dashboard",
    "play",
    "testing",
    "scaffold",
    "cli",
)
"""Ground floor first; a room imports only from itself and from rooms before it."""

FREE = {"__init__", "builtins"}
"""The public names and the core's own plugin module: they name everything lazily."""


def sources(*roots: Path) -> list[Path]:
    return sorted(
        path
        for root in roots
        for path in root.rglob("*.py")
        if not {"build", ".venv"} & set(path.relative_to(root).parts)
    )


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def imports(tree: ast.AST) -> Iterator[str]:
    """Modules imported at run time; what stands under `if TYPE_CHECKING` is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


def room(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("path", sources(CORE), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_only_from_rooms_before_it(path):
    own = path.relative_to(CORE).parts[0].removesuffix(".py")
    if own in FREE:
        return
    assert own in ROOMS, f"{own} has no floor; add it to architecture.md and to ROOMS"
    above = {*ROOMS[: ROOMS.index(own) + 1], *FREE}
    for module in imports(parsed(path)):
        if module.startswith("mintact_platform.") and room(module) in {*ROOMS, *FREE}:
            assert room(module) in above, f"{path.name} imports {module}"


def test_the_core_never_imports_a_plugin():
    for path in sources(CORE):
        for module in imports(parsed(path)):
            top = module.split(".")[0]
            assert not top.startswith("mintact_") or top == "mintact_platform", f"{path}: {module}"


def test_plugins_import_no_private_name_of_the_core_and_no_other_plugin():
    for project in PLUGINS:
        (package,) = project.glob("mintact_*/__init__.py")
        for path in sources(package.parent):
            for module in imports(parsed(path)):
                parts = module.split(".")
                if parts[0].startswith("mintact_"):
                    assert parts[0] in ("mintact_platform", package.parent.name), (
                        f"{path}: {module}"
                    )
                    assert not any(p.startswith("_") and p != "__version__" for p in parts), path


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: parsed(path) for path in sources(*PLUGINS, CORE)}


@pytest.fixture(scope="module")
def functions(trees) -> dict[str, int]:
    """Lines of every function, its docstring left out."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}": node.end_lineno
        - _body_start(node)
        + 1
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }


def test_no_file_has_more_than_500_lines(trees):
    files = [*trees, *sources(ROOT / "tests")]
    lengths = {path: path.read_text().count("\n") for path in files}
    assert not {path: length for path, length in lengths.items() if length > 500}


def test_no_function_has_more_than_50_lines_and_nine_of_ten_fit_35(functions):
    assert not {name: length for name, length in functions.items() if length > 50}
    assert sorted(functions.values())[int(len(functions) * 0.9)] <= 35


def _body_start(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The first line after the docstring: documentation is never too long."""
    documented = ast.get_docstring(node) is not None and len(node.body) > 1
    return node.body[1].lineno if documented else node.lineno


def test_every_file_says_what_it_is(trees):
    assert not [path for path, tree in trees.items() if not ast.get_docstring(tree)]


def test_first_party_versions_move_in_lockstep():
    versions = {p.name: tomllib.loads((p / "pyproject.toml").read_text()) for p in PROJECTS}
    assert len({values["project"]["version"] for values in versions.values()}) == 1
    core = versions[ROOT.name]["project"]["version"]
    code = "import mintact_platform; print(mintact_platform.__version__)"
    assert _python(code).stdout.strip() == core


def test_every_distribution_is_in_the_development_requirements():
    lines = (ROOT / "requirements-dev.txt").read_text().splitlines()
    editable = {line.removeprefix("-e ").removeprefix("./") for line in lines if line[:2] == "-e"}
    assert editable == {".", *(str(p.relative_to(ROOT)) for p in PLUGINS)}


def test_plugin_folders_hold_no_package_and_no_tests():
    for family in ("envs", "rewards", "algorithms", "plugins"):
        assert not (ROOT / family / "__init__.py").exists()
        assert not list((ROOT / family).glob("*/tests"))


@pytest.mark.parametrize("folder", ["envs", "rewards", "algorithms", "plugins", "tests"])
def test_folder_names_cannot_be_imported_outside_the_checkout(folder, tmp_path):
    result = _python(f"import {folder}", cwd=tmp_path)
    assert "ModuleNotFoundError" in result.stderr


@pytest.mark.parametrize(
    "code",
    [
        "import mintact_platform",
        "import mintact_platform.cli.main",
        "from mintact_platform.cli.main import main; main(['--help'])",
        "from mintact_platform.cli.main import main; main(['plugins'])",
    ],
)
def test_the_command_line_loads_nothing_heavy(code, tmp_path):
    heavy = {"torch", "ray", "fastapi", "playwright", "transformers", "sglang", "numpy", "PIL"}
    check = f"\nimport sys; print('loaded', sorted({heavy!r} & set(sys.modules)))"
    result = _python(code + check, cwd=tmp_path)
    assert result.stdout.strip().endswith("loaded []"), result.stdout[-300:] + result.stderr


def _python(code: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, timeout=60
    )
