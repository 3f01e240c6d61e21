"""`check_environment`: gymnasium's checker, a random agent, resets, a lease, a killed worker."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env

from mintact_platform.actions.space import ActionSpace
from mintact_platform.environments.worker.main import describe
from mintact_platform.errors import PluginError
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind
from mintact_platform.testing.conformance import Subject, find
from mintact_platform.testing.episodes import (
    check_end,
    check_random_agent,
    check_resets,
    check_useless_calls,
    choose_actions,
    played,
)
from mintact_platform.testing.playing import Case
from mintact_platform.testing.served import check_served

_TASKS = 3


def check_environment(
    factory_or_name: str | Callable[..., Any],
    *,
    params: Mapping[str, Any] | None = None,
    tasks: Iterable[Task] | None = None,
    seed: int = 0,
    http: bool = True,
) -> None:
    """Whether an environment keeps its contract, here and on the far side of a lease.

    Args:
        factory_or_name: registered name, `module:attribute`, or class or factory. Only a name can
            be served to another process: a class is checked in this one.
        params: its parameters.
        tasks: to play; None takes some of the task set of the same name, else one without params.
        seed: of the resets, where a task names none, and of the random agent.
        http: also lease it from a real environment server, and kill its worker.

    Raises:
        ConformanceError: the first thing that is wrong.
    """
    subject = find("environments", factory_or_name, params)
    _check_machine(subject)
    space = _space(subject)
    case = Case(subject, _tasks(subject, tasks), seed)
    with played(case) as instance:
        if isinstance(instance.environment, gymnasium.Env):
            _check_with_gymnasium(case, instance.environment, instance.call)
        actions = choose_actions(case, instance, space)
    check_resets(case, actions)
    check_random_agent(case, actions)
    if space is not None and space.name not in {action["name"] for action in actions}:
        check_useless_calls(case, actions)
    check_end(case, actions)
    if http and isinstance(factory_or_name, str):
        check_served(case, factory_or_name, actions)


def _check_machine(subject: Subject) -> None:
    missing = getattr(subject.target, "missing", None)
    lacks = missing() if callable(missing) else None
    if lacks:
        fix = "install it; where it cannot be had, skip the test by what `missing()` says"
        raise subject.error("this machine can run it", seen=lacks, fix=fix)


class _Tasked(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Resets with a task, as the platform always does."""

    def __init__(self, environment: gymnasium.Env[Any, Any], task: Task) -> None:
        super().__init__(environment)
        self._task = task.to_json()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Add the task where none is given."""
        return self.env.reset(seed=seed, options={"task": self._task, **(options or {})})


def _check_with_gymnasium(
    case: Case, environment: gymnasium.Env[Any, Any], call: Callable[..., Any]
) -> None:
    def check() -> str | None:
        try:
            check_env(
                _Tasked(environment, case.tasks[0]), skip_render_check=True, skip_close_check=True
            )
        except (AssertionError, AttributeError, TypeError, gymnasium.error.Error) as error:
            failures.append(error)
        return None

    failures: list[Exception] = []
    with warnings.catch_warnings():
        # its advice, e.g. to normalise a Box, is about other learners
        warnings.simplefilter("ignore")
        call("reset", check)
    if failures:
        raise case.subject.raised(
            "gymnasium's own checker accepts it",
            failures[0],
            fix="see https://gymnasium.farama.org/api/env; use CallSpace and ScreenSpace of "
            "mintact_platform.environments as spaces, call super().reset(seed=seed), and return "
            "new objects each time",
        ) from failures[0]


def _space(subject: Subject) -> ActionSpace | None:
    """The action space that the environment names, with its domain compared."""
    told = describe(subject.target)
    domain, name = told.get("domain"), told.get("action_space")
    if not domain or not name:
        raise subject.error(
            "metadata names the domain and its action space",
            seen=f'metadata["mintact"] is {told or "missing"}',
            fix='metadata = {"mintact": {"domain": "mobile", "action_space": "mobile_use"}}',
        )
    try:
        space: ActionSpace = Registry.discover().get("action_spaces", name)()
    except PluginError as error:
        raise subject.error(
            "its action space is installed",
            seen=str(error),
            fix="name one that `mintact plugins` lists; depend on the distribution that brings it",
        ) from error
    return space


def _tasks(subject: Subject, tasks: Iterable[Task] | None) -> Sequence[Task]:
    if tasks is not None:
        chosen = list(itertools.islice(tasks, _TASKS))
    else:
        chosen = _registered(subject)
    if not chosen:
        raise subject.error(
            "there is a task to play", seen="no task", fix="hand tasks to the check"
        )
    return chosen


def _registered(subject: Subject) -> list[Task]:
    """Some tasks of the set that has the environment's name."""
    registry, name = Registry.discover(), subject.name
    domain = str(describe(subject.target)["domain"])
    if ":" in name or not registry.knows("task_sets", name):
        return [Task(f"{name}/conformance", "", domain)]
    try:
        where = f"task set {name!r}"
        found = bind(registry.get("task_sets", name), {"split": "train"}, where=where)()
        return [task for task in itertools.islice(found, _TASKS) if _is_task(subject, task, domain)]
    except PluginError as error:
        raise subject.error(
            "its task set can be made", seen=str(error), fix="see `mintact tasks` for the error"
        ) from error


def _is_task(subject: Subject, task: Any, domain: str) -> bool:
    if isinstance(task, Task) and task.domain == domain:
        return True
    seen = f"{type(task).__name__}" if not isinstance(task, Task) else f"domain {task.domain!r}"
    raise subject.error(
        f"its task set holds tasks of domain {domain!r}",
        seen=seen,
        fix="return a sequence of mintact_platform.Task whose domain is the environment's",
    )
