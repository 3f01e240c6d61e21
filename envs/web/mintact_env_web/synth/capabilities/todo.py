"""A list of jobs: adding, ticking off, priorities, clearing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.site import (
    Capability,
    Category,
    Ending,
    Hand,
    Params,
    Template,
    answered,
)

_VERBS = ("Order", "Check", "Clean", "Call about", "Photograph", "Pack", "Label", "Replace")


def _jobs(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**job} for job in state["jobs"]]


class Add(Template):
    """A new job."""

    name = "todo/add"
    goals: ClassVar[tuple[str, ...]] = (
        'Add "{text}" to the to-do list.',
        "Put a new job on the list: {text}",
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        taken = {job["text"] for job in content["state"]["jobs"]}
        free = [text for text in content["ideas"] if text not in taken]
        text, other = rng.sample(free, 2)
        return {"text": text, "other": other, "priority": rng.choice(("high", "low"))}

    def wanted(self, end: Ending, p: Params) -> list[dict[str, Any]]:
        """The list afterwards."""
        new = {"id": f"n{end.before['next']}", "text": p["text"], "done": False}
        return [*_jobs(end.before), {**new, "priority": "normal"}]

    def done(self, end: Ending, p: Params) -> bool:
        return _jobs(end.after) == self.wanted(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("todo")
        await hand.type("new", p["text"])
        await hand.click("add")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("todo")
        await hand.type("new", p["other"])
        await hand.click("add")


class AddUrgent(Add):
    """A new job that is not of normal priority."""

    name = "todo/add_with_priority"
    goals = ('Add "{text}" to the to-do list and give it {priority} priority.',)
    level = 2

    def wanted(self, end: Ending, p: Params) -> list[dict[str, Any]]:
        *old, new = super().wanted(end, p)
        return [*old, {**new, "priority": p["priority"]}]

    async def solve(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)
        await hand.choose(f"priority:{p['next']}", p["priority"])

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {**(super().draw(rng, content) or {}), "next": f"n{content['state']['next']}"}

    async def miss(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)


class Finish(Template):
    """One job ticked off."""

    name = "todo/finish"
    goals: ClassVar[tuple[str, ...]] = (
        'Mark "{text}" as done.',
        '"{text}" is finished: tick it off.',
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        job, other = rng.sample([j for j in content["state"]["jobs"] if not j["done"]], 2)
        return {"id": job["id"], "text": job["text"], "other": other["id"]}

    def change(self, jobs: list[dict[str, Any]], p: Params) -> list[dict[str, Any]]:
        """The list afterwards."""
        return [{**job, "done": job["done"] or job["id"] == p["id"]} for job in jobs]

    def done(self, end: Ending, p: Params) -> bool:
        return _jobs(end.after) == self.change(_jobs(end.before), p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("todo")
        await hand.click(f"done:{p['id']}")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("todo")
        await hand.click(f"done:{p['other']}")


class Delete(Finish):
    """One job deleted."""

    name = "todo/delete"
    goals = ('Delete "{text}" from the list.',)

    def change(self, jobs: list[dict[str, Any]], p: Params) -> list[dict[str, Any]]:
        return [job for job in jobs if job["id"] != p["id"]]

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("todo")
        await hand.click(f"delete:{p['id']}")


class FinishAndClear(Finish):
    """One job ticked off, then everything done is deleted."""

    name = "todo/finish_and_clear"
    goals = ('Tick off "{text}", then delete all finished jobs at once.',)
    level = 2

    def change(self, jobs: list[dict[str, Any]], p: Params) -> list[dict[str, Any]]:
        return [job for job in super().change(jobs, p) if not job["done"]]

    async def solve(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)
        await hand.click("clear")


class CountOpen(Template):
    """How many open jobs have a priority."""

    name = "todo/count_open"
    goals = ("How many jobs that are not done have {priority} priority? Answer with the number.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        priority = rng.choice(("high", "normal", "low"))
        jobs = [j for j in content["state"]["jobs"] if j["priority"] == priority]
        count = sum(not j["done"] for j in jobs)
        return {"priority": priority, "count": str(count), "wrong": str(count + 1)}

    def done(self, end: Ending, p: Params) -> bool:
        return end.after == end.before and answered(end.answer, p["count"])

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("todo")
        await hand.click("show:open")
        return str(p["count"])

    async def miss(self, hand: Hand, p: Params) -> str:
        await hand.open("todo")
        return str(p["wrong"])


class Todo(Capability):
    """A to-do list."""

    name, group, label = "todo", "organising", "To do"
    templates = (Add(), AddUrgent(), Finish(), Delete(), FinishAndClear(), CountOpen())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        things = [item["name"].lower() for item in category.items(rng, 14)]
        ideas = [f"{rng.choice(_VERBS)} {thing}" for thing in things]
        jobs = [
            {
                "id": f"j{index}",
                "text": text,
                "done": index % 4 == 3,
                "priority": rng.choice(("high", "normal", "low")),
            }
            for index, text in enumerate(ideas[: rng.randint(6, 9)])
        ]
        about = "What is still to be done"
        return {"ideas": ideas, "about": about, "state": {"jobs": jobs, "next": 1}}
