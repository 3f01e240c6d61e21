"""A scheduler killed with signal 9, again and again, loses nothing it was told is written."""

import json
import random
import signal
import subprocess
import sys

import pytest

from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ledger import check, ledger

SCRIPT = """
import asyncio, json, random, sys
from pathlib import Path
from mintact_platform.storage import ledger as L
from mintact_platform.storage.directory import RunDirectory
from mintact_platform.storage.ids import UlidSource

async def main(path, seed):
    run = RunDirectory.open(Path(path), writable=True)
    run.lock()
    run.begin_incarnation()
    rng, ids, database = random.Random(seed), UlidSource(), run.database

    def say(*what):
        print(json.dumps(what), flush=True)

    async def group(domain):
        id = ids()
        await database.write(L.open_group(id, "t", domain, 0.0))
        say("open", id)
        fate = rng.choice(["queued", "queued", "filtered", "dropped", "cancelled"])
        await database.write(L.close_group(id, fate, "", 0, 1.0))
        say(fate, id)

    async def produce(domain):
        while True:
            await group(domain)

    async def train():
        while True:
            queued = database.read("SELECT id, domain FROM groups WHERE fate = 'queued' LIMIT 4")
            step = database.read("SELECT coalesce(max(step), 0) + 1 AS n FROM steps")[0]["n"]
            undone = database.read("SELECT step FROM steps WHERE done_at IS NULL")
            if undone:
                await database.write(L.finish_step(undone[0]["step"], {}))
                say("done", undone[0]["step"])
            elif len(queued) == 4:
                mix = {d: sum(r["domain"] == d for r in queued) for d in ("web", "tools")}
                await database.write(L.begin_step(step, [r["id"] for r in queued], 0, mix, 0, "h"))
                say("step", step)
            else:
                await asyncio.sleep(0)

    await asyncio.gather(produce("web"), produce("tools"), produce("web"), train())

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_ledger_adds_up_after_a_kill(directory, seed):
    directory.close()
    said = []
    for start in range(2):
        command = [sys.executable, "-c", SCRIPT, str(directory.path), str(10 * seed + start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(random.Random(seed).randrange(30, 200)):
                said.append(json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGKILL)
            said += [json.loads(line) for line in process.stdout if line.endswith("\n")]
    run = RunDirectory.open(directory.path)
    assert check(run.database, run.path) == []
    assert all(row.balanced for row in ledger(run.database).values())
    fates = {row["id"]: row["fate"] for row in run.database.read("SELECT id, fate FROM groups")}
    steps = {row["step"]: row["done_at"] for row in run.database.read("SELECT * FROM steps")}
    after_queued = {"queued", "batched", "trained"}
    for what, about in said:
        if what == "done":
            assert steps[about] is not None
        elif what == "step":
            assert about in steps
        elif what == "open":
            assert about in fates
        else:
            assert fates[about] in (after_queued if what == "queued" else {what})
    run.close()
