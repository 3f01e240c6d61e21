"""`mintact web write`, `mintact web admit`, `mintact web mine`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mintact_env_web.agentic import sampler
from mintact_env_web.agentic.admit import Examination, examine
from mintact_env_web.agentic.client import ChatModel, Endpoint
from mintact_env_web.agentic.mining import GROUPS, mine, read_groups_file
from mintact_env_web.agentic.rollouts import RecordedRun
from mintact_env_web.agentic.scan import safe_name
from mintact_env_web.agentic.site import WrittenSite, load, save, sites_in
from mintact_env_web.agentic.writer import Examine, Written, write_sites
from mintact_env_web.browser.launch import require_chromium
from mintact_env_web.synth.validate import Finding
from mintact_platform.dashboard.history import find_run
from mintact_platform.errors import ConfigurationError

REFUSED = "refused"
REFUSALS = "refused.jsonl"
DROPPED = "dropped.jsonl"
AT_ONCE = 2
"""Sites under examination at a time: each has a context of the one browser."""


# ---- write ----------------------------------------------------------------------------------


def add_write(parser: argparse.ArgumentParser) -> None:
    """Flags of `mintact web write`."""
    parser.epilog = (
        "examples:\n"
        "  mintact web write --base-url http://localhost:8000/v1 --model coder --out sites\n"
        "  mintact web write … --api-key-env MY_KEY --mined mined/capabilities.toml --count 100"
    )
    _add_model(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder of admitted sites")
    parser.add_argument("--count", type=int, default=1, help="sites to write (1)")
    parser.add_argument("--first", type=int, default=0, help="index of the first triple (0)")
    parser.add_argument("--seed", type=int, default=0, help="of the triples (0)")
    parser.add_argument("--tasks", type=int, default=10, help="at least so many a site (10)")
    parser.add_argument("--keep", type=int, help="admit a site with so many good tasks")
    parser.add_argument("--repairs", type=int, default=2, help="times a site is mended (2)")
    parser.add_argument("--mined", type=Path, help=f"a {GROUPS}, from mintact web mine")
    parser.add_argument("--categories", type=Path, help="a file of categories, one a line")
    parser.add_argument("--styles", type=Path, help="a file of styles, one a line")


def run_write(arguments: argparse.Namespace) -> int:
    """Write sites; 1 when none was admitted."""
    groups = read_groups_file(arguments.mined) if arguments.mined else sampler.procedural_groups()
    draws = sampler.Sampler(
        groups,
        _lines(arguments.categories) or sampler.procedural_categories(),
        _lines(arguments.styles) or sampler.procedural_styles(),
        seed=arguments.seed,
    )
    require_chromium()  # before a model is paid for sites that nobody can examine
    first = arguments.first
    triples = [draws.triple(index) for index in range(first, first + arguments.count)]

    async def work() -> list[Written]:
        gate = _gate(arguments.keep)
        async with ChatModel(_endpoint(arguments)) as model:
            return await write_sites(
                model,
                triples,
                gate,
                tasks=arguments.tasks,
                repairs=arguments.repairs,
                done=partial(record, arguments.out),
            )

    written = asyncio.run(work())
    admitted = sum(one.admitted for one in written)
    print(f"{admitted} of {len(written)} sites admitted, {sum(w.tokens for w in written)} tokens")
    return 0 if admitted or not written else 1


def record(out: Path, written: Written) -> None:
    """Put a written site where it belongs, and say why when it is refused."""
    if written.site is not None and written.admitted:
        where = save(written.site, out)
        _note(out / DROPPED, written.site, written.dropped)
        print(f"admitted {where.name}: {len(written.site.tasks)} tasks, {written.rounds} rounds")
        return
    if written.site is not None and all(map(safe_name, written.site.files)):
        save(written.site, out / REFUSED)
    _note(out / REFUSALS, written.site or written.triple.capability, written.findings)
    name = written.site.name if written.site else written.triple.capability
    _tell(name, written.findings)


# ---- admit ----------------------------------------------------------------------------------


def add_admit(parser: argparse.ArgumentParser) -> None:
    """Flags of `mintact web admit`."""
    parser.epilog = "example:\n  mintact web admit drafts --out sites"
    parser.add_argument("drafts", type=Path, help="folder of sites, each with site.json and files/")
    parser.add_argument("--out", type=Path, required=True, help="folder of admitted sites")
    parser.add_argument("--keep", type=int, help="admit a site with so many good tasks")


def run_admit(arguments: argparse.Namespace) -> int:
    """Examine sites that lie on disk; 1 when one is refused."""
    folders = sites_in(arguments.drafts)
    if not folders:
        raise ConfigurationError("no sites there", where=str(arguments.drafts))
    gate = _gate(arguments.keep)

    async def one(folder: Path) -> bool:
        try:
            site = load(folder)
        except ConfigurationError as error:
            found = [Finding("answer", str(error))]
            _note(arguments.out / REFUSALS, folder.name, found)
            _tell(folder.name, found)
            return False
        seen = await gate(site)
        if seen.admitted:
            where = save(seen.site, arguments.out)
            _note(arguments.out / DROPPED, seen.site, seen.dropped)
            print(f"admitted {where.name}: {len(seen.site.tasks)} tasks")
        else:
            _note(arguments.out / REFUSALS, seen.site, seen.findings)
            _tell(folder.name, seen.findings)
        return seen.admitted

    async def work() -> list[bool]:
        return await asyncio.gather(*map(one, folders))

    return 0 if all(asyncio.run(work())) else 1


# ---- mine -----------------------------------------------------------------------------------


def add_mine(parser: argparse.ArgumentParser) -> None:
    """Flags of `mintact web mine`."""
    parser.epilog = (
        "example:\n"
        "  mintact web mine my-run --base-url http://localhost:8000/v1 --model vlm --out mined"
    )
    parser.add_argument("run", help="a run, by name or directory")
    _add_model(parser)
    parser.add_argument("--out", type=Path, required=True, help="folder that mining adds to")
    parser.add_argument("--domain", default="web", help="whose rollouts are read (web)")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs lie (runs/)")


def run_mine(arguments: argparse.Namespace) -> int:
    """Mine a run's rollouts; 1 when they show no capability."""

    async def work() -> int:
        with RecordedRun(find_run(arguments.run, arguments.runs), arguments.domain) as run:
            async with ChatModel(_endpoint(arguments)) as model:
                groups = await mine(model, run, arguments.out)
        for group in groups:
            print(f"{group.weight:6.2f}  {group.name}: {', '.join(group.skills[:4])}")
        print(f"{len(groups)} groups in {arguments.out / GROUPS}")
        return 0 if groups else 1

    return asyncio.run(work())


# ---- shared ---------------------------------------------------------------------------------


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base-url", required=True, help="OpenAI-compatible, up to /v1")
    parser.add_argument("--model", required=True, help="name that the endpoint knows")
    parser.add_argument("--api-key-env", metavar="NAME", help="variable that holds the key")
    parser.add_argument("--max-tokens", type=int, help="of one answer")
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--concurrency", type=int, default=4, help="questions at a time (4)")


def _endpoint(arguments: argparse.Namespace) -> Endpoint:
    return Endpoint(
        arguments.base_url,
        arguments.model,
        arguments.api_key_env,
        max_tokens=arguments.max_tokens,
        temperature=arguments.temperature,
        concurrency=max(1, arguments.concurrency),
    )


def _gate(keep: int | None) -> Examine:
    """Examines a few sites at a time."""
    seats = asyncio.Semaphore(AT_ONCE)

    async def gate(site: WrittenSite) -> Examination:
        async with seats:
            return await examine(site, keep=keep)

    return gate


def _note(path: Path, site: WrittenSite | str, findings: Sequence[Finding]) -> None:
    """Add a line of reasons, if there are any."""
    if not findings:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "site": site if isinstance(site, str) else site.name,
        "reasons": [f"{finding.what}: {finding.reason}" for finding in findings],
    }
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(values, ensure_ascii=False) + "\n")


def _tell(name: str, findings: Sequence[Finding]) -> None:
    more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
    print(f"refused {name}: {findings[0].what}: {findings[0].reason}{more}", file=sys.stderr)


def _lines(path: Path | None) -> list[str]:
    if path is None:
        return []
    found = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in found if line and not line.startswith("#")]
