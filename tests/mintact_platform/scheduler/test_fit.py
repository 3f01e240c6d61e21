import dataclasses

from mintact_platform.scheduler.fit import fit
from mintact_platform.scheduler.simulate import SimulatedDomain
from mintact_platform.storage import ledger as L
from mintact_platform.storage.database import Database


async def test_a_simulation_is_fitted_to_a_recorded_run(tmp_path):
    database = Database(tmp_path / "run.db", writable=True)
    for n in range(10):
        begin, fate = 100.0 * n, "queued" if n % 2 else "filtered"
        await database.write(
            L.open_group(str(n), "t", "web", begin),
            L.close_group(str(n), fate, "", 0, begin + 150.0),
        )
    await database.write(
        L.metric("train/seconds", "", 3.0, 0.0),
        L.metric("train/seconds", "", 5.0, 1.0),
        L.push(1, 4, 2.0, True),
        L.push(2, 8, 99.0, False),
    )
    fitted = fit(database, {"web": 4, "tools": 2})
    database.close()
    web = dataclasses.replace(fitted.domains["web"], sigma=0.0)
    assert web == SimulatedDomain(4, 150.0, 0.5, producers=2, sigma=0.0)
    assert fitted.domains["web"].sigma < 1e-9
    assert set(fitted.domains) == {"web"}
    assert (fitted.train_seconds, fitted.push_seconds) == (4.0, 2.0)
