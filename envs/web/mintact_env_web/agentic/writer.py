"""The agentic generator: a model writes a site, code examines it, the model mends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mintact_env_web.agentic import prompts
from mintact_env_web.agentic.admit import Examination
from mintact_env_web.agentic.answers import AnswerError, read_files, read_json
from mintact_env_web.agentic.client import ChatModel, Message, Reply, said
from mintact_env_web.agentic.site import Triple, WrittenSite, read_site, to_json
from mintact_env_web.synth.validate import Finding
from mintact_platform.errors import ModelServerError, first_cause

Examine = Callable[[WrittenSite], Awaitable[Examination]]

_SITE = "site.json"
_SHOWN = 4_000
_HOPELESS = frozenset({"auth"})


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a triple.

    Attributes:
        triple: what was asked for.
        site: admitted, or the last one that could be read; None when none could.
        findings: why it is refused; empty when it is admitted.
        dropped: why tasks of an admitted site were left out.
        rounds: answers of the model.
        tokens: spent.
    """

    triple: Triple
    site: WrittenSite | None
    findings: tuple[Finding, ...]
    dropped: tuple[Finding, ...] = ()
    rounds: int = 0
    tokens: int = 0

    @property
    def admitted(self) -> bool:
        """Whether it may be used."""
        return self.site is not None and not self.findings


async def write_sites(
    model: ChatModel,
    triples: Iterable[Triple],
    examine: Examine,
    *,
    tasks: int = 10,
    repairs: int = 2,
    done: Callable[[Written], None] = lambda written: None,
) -> list[Written]:
    """Write a site for every triple, as many at a time as the model takes questions.

    Args:
        model: writes.
        triples: what is wanted.
        examine: judges.
        tasks: at least so many on a site.
        repairs: times that a model may mend a refused site.
        done: told of each site at once.

    Raises:
        ModelServerError: the endpoint does not take our key; other failures of the endpoint
            refuse the one site.
    """
    seats = asyncio.Semaphore(model.endpoint.concurrency)

    async def one(triple: Triple) -> Written:
        async with seats:
            written = await write_site(model, triple, examine, tasks=tasks, repairs=repairs)
        done(written)
        return written

    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(one(triple)) for triple in triples]
    except BaseExceptionGroup as failures:
        raise first_cause(failures) from None
    return [task.result() for task in running]


async def write_site(
    model: ChatModel, triple: Triple, examine: Examine, *, tasks: int = 10, repairs: int = 2
) -> Written:
    """Write one site, and mend it for as long as it is refused.

    Raises:
        ModelServerError: the endpoint does not take our key.
    """
    opening = [said("system", prompts.contract()), said("user", prompts.wish(triple, tasks))]
    written = Written(triple, None, (Finding("answer", "nothing was written"),))
    messages: list[Message] = opening
    for _ in range(repairs + 1):
        try:
            reply = await model.ask(messages)
        except ModelServerError as error:
            if error.kind in _HOPELESS:
                raise
            refused = Finding("model", str(error))
            return replace(written, findings=(*_lasting(written), refused))
        written = await _judged(reply, written, examine, tasks)
        if written.admitted:
            return written
        messages = [*opening, *_again(reply, written)]
    return written


def read_answer(
    reply: Reply, triple: Triple, base: WrittenSite | None
) -> tuple[WrittenSite | None, list[Finding]]:
    """The site in an answer, laid over the one that it mends; or what is wrong with the answer."""
    found = read_files(reply.text)
    try:
        values = read_json(found.pop(_SITE) if _SITE in found else reply.text)
        if not isinstance(values, dict):
            raise AnswerError("the site is no JSON object")
    except AnswerError as error:
        if not (base and found):
            cut = "it was cut off at the token limit; write less" if reply.cut else str(error)
            return None, [Finding("answer", cut)]
        values = {}
    inline = values.pop("files", None)
    if isinstance(inline, dict):
        found |= {str(path): text for path, text in inline.items() if isinstance(text, str)}
    if base is None:
        return read_site(values, found, triple)
    whole = to_json(base)
    merged = {key: values.get(key, whole[key]) for key in ("name", "key")}
    merged["tasks"] = _overlaid(whole["tasks"], values.get("tasks"))
    return read_site(merged, {**base.files, **found}, triple)


async def _judged(reply: Reply, last: Written, examine: Examine, tasks: int) -> Written:
    site, found = read_answer(reply, last.triple, last.site)
    now = replace(last, rounds=last.rounds + 1, tokens=last.tokens + reply.tokens)
    if site is None:
        return replace(now, findings=tuple(found))
    if len(site.tasks) < tasks:
        few = Finding("answer", f"{len(site.tasks)} tasks are fewer than {tasks}")
        return replace(now, site=site, findings=(few,))
    seen = await examine(site)
    return replace(now, site=seen.site, findings=seen.findings, dropped=seen.dropped)


def _again(reply: Reply, written: Written) -> list[Message]:
    """What is said after a refusal: the site as it stands, and what is wrong with it."""
    if written.site is None:
        return [
            said("assistant", reply.text[:_SHOWN]),
            said("user", prompts.complaint(written.findings, whole=True)),
        ]
    return [
        said("assistant", prompts.rendered(written.site)),
        said("user", prompts.complaint(written.findings, whole=False)),
    ]


def _lasting(written: Written) -> tuple[Finding, ...]:
    return written.findings if written.rounds else ()


def _overlaid(tasks: list[dict[str, Any]], changes: Any) -> list[Any]:
    """Tasks with the changed ones in their places, new ones behind, dropped ones gone."""
    if not isinstance(changes, list):
        return list(tasks)
    named: dict[Any, Any] = {task["name"]: task for task in tasks}
    for index, change in enumerate(changes):
        name = change.get("name") if isinstance(change, Mapping) else None
        if not isinstance(name, str):
            named[index] = change  # no task: reading refuses it, with the reason
        elif change.get("drop") is True:
            named.pop(name, None)
        else:
            named[name] = change
    return list(named.values())
