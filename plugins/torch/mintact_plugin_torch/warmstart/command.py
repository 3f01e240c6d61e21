"""`mintact torch new-model`: a small model that can be trained on a CPU, made from nothing."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.names import Registry

STAMP = "new-model.json"
Progress = Callable[[str], None]


def main(argv: list[str]) -> int:
    """Command line of `mintact torch`."""
    options = _parser().parse_args(argv)

    def progress(line: str) -> None:
        if not options.quiet:
            print(line, file=sys.stderr, flush=True)

    path = new_model(
        options.out,
        Registry.discover(),
        demonstrations=options.demonstrations,
        elements=options.elements,
        seed=options.seed,
        align_steps=options.align_steps,
        progress=progress,
    )
    print(path)
    return 0


def new_model(
    out: Path,
    registry: Registry,
    *,
    demonstrations: Sequence[str],
    elements: str,
    seed: int,
    align_steps: int,
    progress: Progress = lambda line: None,
) -> Path:
    """Make a model directory, or leave one made from the same inputs alone.

    Args:
        out: the directory; it appears only when complete.
        registry: where the demonstrations are found.
        demonstrations: registered names whose texts train the tokenizer.
        elements: registered name whose screens align vision with words.
        seed: of the weights and of all data.
        align_steps: steps of the alignment; 0 for none.
        progress: called with a line now and then.

    Raises:
        ConfigurationError: something else is in the directory.
        PluginNotFound: a name no plugin registers.
    """
    inputs = _inputs(registry, demonstrations, elements, seed, align_steps)
    if _made_from(out, inputs):
        progress(f"{out}: up to date")
        return out
    # torch is imported only where there is something to do
    from mintact_plugin_torch.warmstart.making import make

    aside = out.with_name(f"{out.name}.part")
    shutil.rmtree(aside, ignore_errors=True)
    make(
        aside,
        registry,
        demonstrations=demonstrations,
        elements=elements,
        seed=seed,
        align_steps=align_steps,
        progress=progress,
    )
    stamp = {"inputs": inputs, "digest": digest(aside)}
    (aside / STAMP).write_text(json.dumps(stamp, indent=2) + "\n")
    aside.replace(out)
    return out


def digest(directory: Path) -> str:
    """Hash of a model directory's files and their names, the stamp left out."""
    total = blake2b(digest_size=16)
    for file in sorted(path for path in directory.iterdir() if path.name != STAMP):
        total.update(f"{file.name}\0{file.stat().st_size}\0".encode())
        total.update(file.read_bytes())
    return total.hexdigest()


def _inputs(
    registry: Registry, demonstrations: Sequence[str], elements: str, seed: int, align_steps: int
) -> dict[str, Any]:
    names = (*demonstrations, elements)
    providers = {registry.provider("demonstrations", name) for name in names}
    installed = registry.versions()
    versions = {name: installed[name] for name in sorted(providers)}
    libraries = {name: version(name) for name in ("torch", "transformers")}
    return {
        "demonstrations": list(demonstrations),
        "elements": elements,
        "seed": seed,
        "align_steps": align_steps,
        "versions": {**versions, **libraries},
    }


def _made_from(out: Path, inputs: dict[str, Any]) -> bool:
    """Whether the directory is there, whole, and made from these inputs."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return False
    stamp = out / STAMP
    if not stamp.is_file():
        raise ConfigurationError(
            "is there and no model of ours", where=str(out), next="choose another"
        )
    made = json.loads(stamp.read_text())
    if made["inputs"] != inputs:
        changed = sorted(key for key in inputs if made["inputs"].get(key) != inputs[key])
        raise ConfigurationError(
            f"holds a model made with other {', '.join(changed)}",
            where=str(out),
            next="delete it or choose another directory",
        )
    if made["digest"] != digest(out):
        raise ConfigurationError(
            "holds a model whose files changed since it was made",
            where=str(out),
            next="delete it or choose another directory",
        )
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mintact torch", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser(
        "new-model",
        help="make a tiny Qwen3-VL, its words aligned with what it sees",
        description="Make a tiny Qwen3-VL and its tokenizer, no download. Repeating it is quick.",
    )
    verb.add_argument("out", type=Path, nargs="?", default=Path("models/tiny"))
    verb.add_argument(
        "--demonstrations",
        nargs="+",
        default=["micro/episodes", "micro/grounding"],
        help="registered demonstrations whose texts train the tokenizer",
    )
    verb.add_argument(
        "--elements", default="micro/elements", help="registered screens with named elements"
    )
    verb.add_argument("--seed", type=int, default=0)
    verb.add_argument("--align-steps", type=int, default=80)
    verb.add_argument("--quiet", action="store_true")
    return parser
