"""`mintact tasks`: what a task set holds, by split, or its distinct goal templates."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence

from mintact_platform.cli.choices import whole
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import SPLITS, Task
from mintact_platform.registry.families import Member
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind
from mintact_platform.scheduler.tasks import made_tasks, means_split

EXAMPLES = """\
  mintact tasks                               which task sets are installed
  mintact tasks micro/web                     how many tasks and templates a split
  mintact tasks micro/web --split test --limit 5
  mintact tasks micro/web --templates
  mintact tasks micro/web --split train --json > tasks.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's own arguments."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="registered task set")
    parser.add_argument("--split", choices=SPLITS, help="only this split, listed task by task")
    limit = whole("--limit", 1)
    parser.add_argument("--limit", type=limit, default=20, help="tasks listed (20); JSON has all")
    parser.add_argument("--templates", action="store_true", help="distinct templates, counted")


def run(arguments: argparse.Namespace) -> int:
    """List."""
    registry = Registry.discover()
    if arguments.name is None:
        return _list_sets(registry, as_json=arguments.json)
    _check_name(registry, arguments.name)
    splits = [arguments.split] if arguments.split else SPLITS
    tasks = load_tasks(registry, arguments.name, splits)
    if arguments.json:
        for task in (task for split in tasks.values() for task in split):
            print(json.dumps(task.to_json(), ensure_ascii=False))
    elif arguments.templates:
        counts = Counter(template_of(task) for split in tasks.values() for task in split)
        for template, count in counts.most_common():
            print(f"{count:6d}  {template}")
    elif arguments.split:
        for task in tasks[arguments.split][: arguments.limit]:
            print(f"{task.id}  {task.goal}")
    else:
        _summary(tasks)
    return 0


def load_tasks(registry: Registry, name: str, splits: Sequence[str]) -> dict[str, Sequence[Task]]:
    """The tasks of splits; a split that the set has not is empty.

    Raises:
        PluginNotFound: nobody registers the set.
        PluginError: what stands behind it gives no tasks.
        ConfigurationError: a parameter that must be given, or none of the splits is there.
    """
    where = f"task set {name!r}"
    target = registry.get("task_sets", name)
    found: dict[str, Sequence[Task]] = {}
    refused: ConfigurationError | None = None
    for split in splits:
        factory = bind(target, {"split": split}, where=where)
        try:
            found[split] = made_tasks(factory, where=where)
        except ConfigurationError as error:
            found[split], refused = (), refused or error
    if refused is not None and not any(map(len, found.values())):
        raise refused
    return found


def _check_name(registry: Registry, name: str) -> None:
    """Refuse a name with a split, and a member of a family that is none."""
    head, separator, split = name.rpartition(":")
    own_file = ":" in head and split in SPLITS
    if separator and (own_file or means_split(registry, name)):
        raise ConfigurationError(
            f"{name!r} names a split too", next=f"mintact tasks {head} --split {split or SPLITS[0]}"
        )
    if registry.knows("environments", name):
        environment = registry.get("environments", name)
        if isinstance(environment, Member):
            environment.missing()


def template_of(task: Task) -> str:
    """What makes a task distinct: its template, else its goal."""
    return task.template or task.goal


def _summary(tasks: dict[str, Sequence[Task]]) -> None:
    print(f"{'split':12}{'tasks':>8}{'templates':>11}")
    for split, found in tasks.items():
        print(f"{split:12}{len(found):8d}{len({template_of(task) for task in found}):11d}")


def _list_sets(registry: Registry, *, as_json: bool) -> int:
    names = registry.names("task_sets")
    if as_json:
        print(json.dumps(names))
        return 0
    for name in names:
        print(f"{name}  ({registry.provider('task_sets', name)})")
    return 0
