"""Observers and decisions of plugins, which can fail in every way without hurting a run."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pluggy
import pytest

from mintact_platform import hookimpl, hookspecs
from mintact_platform.config import parse
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Segment, Trajectory, Turn
from mintact_platform.registry.guard import Airlock
from mintact_platform.registry.loader import PluginRow
from mintact_platform.registry.names import Registry
from mintact_platform.scheduler.deciding import admitted
from mintact_platform.scheduler.observe import Observers, configure


@pytest.fixture
def registry_of():
    """A registry of plugins given as `name={hook: function}`."""

    def build(**plugins):
        manager = pluggy.PluginManager("mintact")
        manager.add_hookspecs(hookspecs)
        for name, hooks in plugins.items():
            marked = {hook: hookimpl(function) for hook, function in hooks.items()}
            manager.register(SimpleNamespace(**marked), name=name)
        return Registry(manager, [PluginRow(name, "1", name) for name in plugins])

    return build


@pytest.fixture
def errors_of():
    return lambda registry: {row.distribution: row.error for row in registry.rows}


def test_one_that_never_returns_is_left_behind_and_the_others_are_told(registry_of, errors_of):
    never, hangs, seen, now = threading.Event(), threading.Event(), [], [0.0]
    registry = registry_of(
        early={"step_finished": lambda step: seen.append(("early", step))},
        hangs={"step_finished": lambda step: hangs.set() or never.wait()},
        late={"step_finished": lambda step: seen.append(("late", step))},
    )
    observers = Observers(registry, seconds=1.0, clock=lambda: now[0])
    for step in (1, 2):
        observers.notify("step_finished", step=step, metrics={})
    assert hangs.wait(60)
    now[0] += 1.0
    assert observers.close(seconds=60) == [
        "plugin hangs was silenced: observer: step_finished did not end within 1 s"
    ]
    never.set()
    assert sorted(seen) == [("early", 1), ("early", 2), ("late", 1), ("late", 2)]
    assert errors_of(registry)["early"] is None


def test_one_that_exits_three_times_is_silenced_and_one_that_recovers_is_not(registry_of):
    calls = []

    def exits():
        raise SystemExit(1)

    def now_and_then(version):
        calls.append(version)
        if version % 3:
            raise KeyError(version)

    registry = registry_of(exits={"weights_synced": exits}, moody={"weights_synced": now_and_then})
    observers = Observers(registry, clock=lambda: 0.0)
    for version in range(9):
        observers.notify("weights_synced", version=version)
    assert observers.close(seconds=60) == ["plugin exits was silenced: observer: SystemExit: 1"]
    assert calls == list(range(9))


def test_a_full_queue_drops_and_says_who_was_slow(registry_of):
    gate = threading.Event()
    registry = registry_of(slow={"weights_synced": lambda: gate.wait()})
    observers = Observers(registry, limit=2, clock=lambda: 0.0)
    for version in range(20):
        observers.notify("weights_synced", version=version)
    gate.set()
    (line,) = observers.close(seconds=60)
    assert line.startswith(f"{observers.dropped} notices to observers were dropped; slow took ")
    assert observers.dropped >= 17


def test_what_an_observer_changes_is_its_own(registry_of):
    metrics = {"loss": {"": 1.0}}
    zeros = np.zeros(2, np.int32)
    segment = Segment(zeros, zeros.astype(bool), zeros.astype(np.float32), zeros)
    task = Task("t", "goal", "web", "train", {"n": 1})
    turn = Turn(0, "text", (), "said", calls=({"name": "x"},))
    whole = Trajectory("i", "g", 0, 0, task, Outcome.COMPLETED, None, (turn,), (segment,))
    errors = []

    def vandal(metrics):
        metrics["loss"].clear()

    def scribbler(trajectory):
        trajectory.task.params.clear()
        trajectory.turns[0].calls[0].clear()
        try:
            trajectory.segments[0].versions[:] = 9
        except ValueError as error:
            errors.append(error)

    registry = registry_of(
        vandal={"step_finished": vandal}, scribbler={"trajectory_finished": scribbler}
    )
    observers = Observers(registry, clock=lambda: 0.0)
    observers.notify("step_finished", step=1, metrics=metrics)
    observers.notify("trajectory_finished", trajectory=whole)
    assert observers.close(seconds=60) == []
    assert metrics == {"loss": {"": 1.0}}
    assert (task.params, turn.calls, zeros.tolist()) == ({"n": 1}, ({"name": "x"},), [0, 0])
    assert len(errors) == 1


def test_configure_cannot_change_or_stop_a_run(registry_of, errors_of, monkeypatch):
    domain = {"environment": "e", "tasks": "e:train", "params": {"n": 1}}
    config = parse({"name": "run", "domains": {"web": domain}})
    never, hanging, seen = threading.Event(), threading.Event(), []

    def fails(config):
        raise OSError("two\nlines")

    def hangs(config):
        hanging.set()
        never.wait()

    def late(airlock, batch):
        """The time of one that hangs is up, and that of no other."""
        while not batch.done.wait(0.01):
            if hanging.is_set():
                hanging.clear()
                return batch.now
        return None

    registry = registry_of(
        fails={"configure": fails},
        changes={"configure": lambda config: config.domains["web"].params.clear()},
        hangs={"configure": hangs},
        sees={"configure": lambda config: seen.append(config.domains["web"].params)},
    )
    monkeypatch.setattr(Airlock, "_wait", late)
    lines = configure(registry, config, seconds=1.0)
    never.set()
    assert sorted(lines) == [
        "plugin fails: configure: OSError: two",
        "plugin hangs: configure did not end within 1 s",
    ]
    assert config.domains["web"].params == {"n": 1}
    assert seen == [{"n": 1}]
    assert errors_of(registry)["sees"] is None


def test_the_first_plugin_with_an_opinion_decides_and_a_failure_is_none(registry_of):
    def fails():
        raise SystemExit(2)

    registry = registry_of(
        core={"admit_group": lambda rewards: len(set(rewards)) > 1},
        asked={"admit_group": lambda domain: True if domain == "web" else None},
        fails={"admit_group": fails},
    )
    hooks, blamed = registry.manager.hook, []

    def ask(domain, *rewards):
        return admitted(hooks, domain, rewards, failed=lambda *what: blamed.append(what))

    assert [ask("web", 1.0, 1.0), ask("mobile", 1.0, 1.0), ask("mobile", 1.0, 0.0)] == [
        True,
        False,
        True,
    ]
    assert set(blamed) == {("fails", "admit_group: SystemExit: 2")}
