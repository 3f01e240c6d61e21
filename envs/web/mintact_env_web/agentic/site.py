"""A written site: its files and tasks, as a model gives them and as they lie on disk."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mintact_env_web.agentic.forms import Unfit, check_form
from mintact_env_web.agentic.scan import safe_name
from mintact_env_web.agentic.steps import Step, read_steps
from mintact_env_web.synth.validate import Finding
from mintact_platform.errors import ConfigurationError

FORMAT = 1
META = "site.json"
FILES = "files"
MAX_TASKS = 60
_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}\Z")
_KEY = re.compile(r"[\w.:-]{1,60}\Z")


@dataclass(frozen=True, slots=True)
class Triple:
    """What a site is to be: what it trains, what it is about, how it looks.

    Attributes:
        capability: name of a group of capabilities.
        skills: fine capabilities of that group.
        category: of the site.
        style: of its looks.
    """

    capability: str
    skills: tuple[str, ...]
    category: str
    style: str

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "capability": self.capability,
            "skills": list(self.skills),
            "category": self.category,
            "style": self.style,
        }


@dataclass(frozen=True, slots=True)
class WrittenTask:
    """A task on a written site.

    Attributes:
        name: unique on the site.
        goal: what the agent reads.
        check: see `checks`.
        solve: script that reaches the goal.
        miss: script of a plausible wrong ending; empty for none.
        level: 1 (one or two actions) to 4.
    """

    name: str
    goal: str
    check: Mapping[str, Any]
    solve: tuple[Step, ...]
    miss: tuple[Step, ...] = ()
    level: int = 2

    def to_json(self) -> dict[str, Any]:
        """As the model writes it."""
        return {
            "name": self.name,
            "goal": self.goal,
            "level": self.level,
            "check": self.check,
            "solve": [step.to_json() for step in self.solve],
            "miss": [step.to_json() for step in self.miss],
        }


@dataclass(frozen=True, slots=True)
class WrittenSite:
    """A site.

    Attributes:
        title: slug that the model chose.
        key: of the one entry in localStorage that holds the state as JSON.
        files: text by path; `index.html` is where one starts.
        tasks: on it.
        triple: what it was to be; None for a site from elsewhere.
        start: state after the first load, known once it was examined.
    """

    title: str
    key: str
    files: Mapping[str, str]
    tasks: tuple[WrittenTask, ...]
    triple: Triple | None = None
    start: Mapping[str, Any] | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """Unique: the title, and a hash of all that the site is."""
        return f"{self.title}-{_digest(self)}"

    @property
    def host(self) -> str:
        """Made-up host name, served without a network."""
        return f"{self.title.replace('_', '-')}-{_digest(self)}.test"

    def task(self, name: str) -> WrittenTask:
        """The task of a name.

        Raises:
            KeyError: there is none.
        """
        return {task.name: task for task in self.tasks}[name]


def read_site(
    values: Any, files: Mapping[str, str], triple: Triple | None = None
) -> tuple[WrittenSite | None, list[Finding]]:
    """A site from what a model wrote, or everything that is wrong with it.

    Args:
        values: `{"name", "key", "tasks": […]}`.
        files: text by path.
        triple: what was asked for.
    """
    if not isinstance(values, dict):
        return None, [Finding("answer", "the site is no JSON object")]
    found = []
    title, key, tasks = values.get("name"), values.get("key"), values.get("tasks")
    if not isinstance(title, str) or not _SLUG.match(title):
        found.append(Finding("answer", "'name' must be a slug of small letters, digits and -"))
    if not isinstance(key, str) or not _KEY.match(key):
        found.append(Finding("answer", "'key' must be the key of the state in localStorage"))
    if not isinstance(tasks, list) or not 1 <= len(tasks) <= MAX_TASKS:
        found.append(Finding("answer", f"'tasks' must be a list of 1 to {MAX_TASKS} tasks"))
        tasks = []
    read: dict[str, WrittenTask] = {}
    for index, task in enumerate(tasks):
        try:
            one = read_task(task, f"tasks[{index}]")
            if one.name in read:
                raise Unfit("two tasks have this name", where=one.name)
            read[one.name] = one
        except Unfit as error:
            found.append(Finding("task", str(error)))
    if found:
        return None, found
    return WrittenSite(str(title), str(key), dict(files), tuple(read.values()), triple), []


def read_task(values: Any, where: str) -> WrittenTask:
    """A task from JSON.

    Raises:
        Unfit: says what is wrong with it.
    """
    if not isinstance(values, dict):
        raise Unfit("a task is an object", where=where)
    name, goal, level = values.get("name"), values.get("goal"), values.get("level", 2)
    if not isinstance(name, str) or not _SLUG.match(name):
        raise Unfit("'name' must be a slug of small letters, digits, - and _", where=where)
    if not isinstance(goal, str) or not 8 <= len(goal.strip()) <= 800:
        raise Unfit("'goal' must be a request of 8 to 800 characters", where=name)
    if isinstance(level, bool) or not isinstance(level, int) or not 1 <= level <= 4:
        raise Unfit("'level' must be 1 to 4", where=name)
    try:
        check_form(values.get("check"))
        solve = read_steps(values.get("solve"), "solve")
        miss = read_steps(values["miss"], "miss") if values.get("miss") else ()
    except Unfit as error:
        raise Unfit(error.what, where=f"{name} {error.where}", next=error.next) from None
    return WrittenTask(name, goal.strip(), values["check"], solve, miss, level)


def to_json(site: WrittenSite) -> dict[str, Any]:
    """All of a site but its files, as JSON values."""
    return {
        "format": FORMAT,
        "name": site.title,
        "key": site.key,
        "triple": None if site.triple is None else site.triple.to_json(),
        "start": site.start,
        "tasks": [task.to_json() for task in site.tasks],
    }


def save(site: WrittenSite, root: Path) -> Path:
    """Write a site into a folder of sites, all of it or nothing; the same site once.

    Returns:
        Its folder, `<root>/<name>`.
    """
    target = root / site.name
    root.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=".site-", dir=root))
    try:
        aside.chmod(0o755)
        for path, text in site.files.items():
            if not safe_name(path):
                raise ConfigurationError(f"not a file of a site: {path!r}", where=site.name)
            file = aside / FILES / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode(errors="replace"))
        meta = json.dumps(to_json(site), ensure_ascii=False, indent=1)
        (aside / META).write_bytes(f"{meta}\n".encode(errors="replace"))
        if target.exists():
            shutil.rmtree(target)
        os.rename(aside, target)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return target


def load(folder: Path) -> WrittenSite:
    """Read a site.

    Raises:
        ConfigurationError: not a site, or one whose check or script is of no known form.
    """
    values = _meta(folder)
    root = folder / FILES
    files = {
        path.relative_to(root).as_posix(): path.read_bytes().decode(errors="replace")
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    site, found = read_site(values, files, _triple(values.get("triple")))
    if site is None:
        raise ConfigurationError(found[0].reason, where=str(folder / META))
    start = values.get("start")
    return replace(site, start=start if isinstance(start, dict) else None)


def sites_in(root: Path) -> list[Path]:
    """Folders of sites directly below a folder, or the folder itself when it is one."""
    if (root / META).is_file():
        return [root]
    return sorted(path.parent for path in root.glob(f"*/{META}") if path.parent.name[0] != ".")


def _meta(folder: Path) -> Any:
    path = folder / META
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(
            "not a written site", where=str(folder), next=f"a site has a file {META!r}"
        ) from None
    except (ValueError, RecursionError):
        raise ConfigurationError("not JSON", where=str(path)) from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ConfigurationError(f"format must be {FORMAT}", where=str(path))
    return values


def _triple(values: Any) -> Triple | None:
    if not isinstance(values, dict):
        return None
    skills = values.get("skills")
    return Triple(
        str(values.get("capability", "")),
        tuple(map(str, skills)) if isinstance(skills, list) else (),
        str(values.get("category", "")),
        str(values.get("style", "")),
    )


def _digest(site: WrittenSite) -> str:
    content = [site.title, site.key, sorted(site.files.items()), [t.to_json() for t in site.tasks]]
    text = json.dumps(content, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
