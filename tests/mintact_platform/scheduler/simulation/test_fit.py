"""A fitted simulation of a recorded run; the run is itself simulated, written as a real run.db."""

import json

import pytest

from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError
from mintact_platform.scheduler.simulation.fit import concurrency, fit, line
from mintact_platform.scheduler.simulation.journal import MemoryJournal
from mintact_platform.scheduler.simulation.simulate import builder, simulate
from mintact_platform.scheduler.simulation.world import World
from mintact_platform.storage import ledger
from mintact_platform.storage.database import Database


class Recording(MemoryJournal):
    """A journal that also writes what a real run would."""

    def __init__(self, domains, database):
        super().__init__(domains)
        self.database = database

    def write(self, *operations):
        self.database.submit(*operations).result()

    def opened(self, id, domain, now):
        super().opened(id, domain, now)
        self.write(ledger.open_group(id, "task", domain, now))

    def closed(self, id, fate, group, now, reward):
        super().closed(id, fate, group, now, reward)
        self.write(ledger.close_group(id, fate, "", 0, now))

    def step_begun(self, batch, version):
        super().step_begun(batch, version)
        self.began = self.world.now
        ids = [group.id for group in batch.groups]
        self.write(ledger.begin_step(batch.step, ids, version, batch.realised, 0, "x"))

    def step_done(self, step):
        super().step_done(step)
        metrics = {"train/seconds": {"": self.world.now - self.began}}
        self.write(ledger.finish_step(step, metrics, at=self.world.now))

    def pushed(self, version, step):
        super().pushed(version, step)
        self.write(ledger.push(version, step, 20.0, True))


@pytest.mark.parametrize("train_seconds", [100.0, 600.0])
def test_a_fitted_simulation_goes_as_fast_as_the_run(
    assumptions, registry, tmp_path, train_seconds
):
    one = assumptions(
        train_seconds=train_seconds, max_staleness=2, on_stale="evict", steps=25,
        changes=[
            ("trainer.push_seconds", 20.0), ("trainer.sigma", 0.2),
            ("domains.slow.informative", [[0, 0.6], [25, 0.2]]),
            ("domains.slow.failures", 0.05),
        ],
    )  # fmt: skip
    database = Database(tmp_path / "run.db", writable=True)
    journal = Recording(one.domains, database)
    world = World(one, builder(one, registry), journal, seed=7)
    journal.world = world
    assert world.run()
    sections = {
        name: {"environment": "e", "tasks": "t:train", "quota": quota}
        for name, quota in one.quotas.items()
    }
    schedule = json.loads(one.schedule.model_dump_json())
    fitted = fit(database, parse({"name": "run", "domains": sections, "schedule": schedule}))
    database.close()
    slow = fitted.domains["slow"]
    assert slow.seconds == pytest.approx(one.domains["slow"].seconds, rel=0.1)
    assert slow.sigma == pytest.approx(0.6, abs=0.1)
    assert slow.failures == pytest.approx(0.05, abs=0.03)
    assert slow.informative[0][1] > slow.informative[-1][1]
    assert fitted.trainer.push_seconds == pytest.approx(20.0)
    pace = 3600 * 25 / world.now
    again = [simulate(fitted, registry, seed=seed).steps_per_hour for seed in range(3)]
    assert sum(again) / 3 == pytest.approx(pace, rel=0.15)


def test_a_run_that_has_not_trained_cannot_be_fitted(tmp_path):
    database = Database(tmp_path / "run.db", writable=True)
    with pytest.raises(ConfigurationError, match="no trainer step is recorded"):
        fit(database, parse({"name": "run"}))
    database.close()


def test_a_line_through_the_steps_never_has_negative_parts():
    assert line([(0, 1), (2, 5)]) == pytest.approx((1.0, 2.0))
    assert line([(1, 5), (2, 3)]) == pytest.approx((4.0, 0.0))
    assert line([(2, 1), (4, 3)]) == pytest.approx((0.0, 2 / 3))


def test_groups_open_at_once_are_counted_over_time_not_by_moments():
    together = [(0.0, 100.0), (0.0, 100.0)]
    assert concurrency(together) == 2
    assert concurrency([*together, (50.0, 51.0)]) == 2
    assert concurrency([(0.0, 1.0), (5.0, 6.0)]) == 1
