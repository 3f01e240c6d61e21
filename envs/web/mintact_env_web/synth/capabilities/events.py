"""A calendar of events: looking into it, making, moving, repeating and deleting."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import date
from typing import Any, ClassVar

from mintact_env_web.synth.dates import after, pick, said
from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_KEYS = ("title", "day", "time", "hours", "place")
_TITLES = (
    "{} evening", "Planning: {}", "{} workshop", "Talk about {}", "{} for beginners", "On {}",
)  # fmt: skip
_OWN = ("Team breakfast", "Fire drill", "Stocktaking", "Press visit", "Open house", "Repair café")
_TIMES = ("08:30", "09:00", "10:00", "11:30", "14:00", "15:30", "17:00", "19:00")


def _kept(event: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(event[key] for key in _KEYS)


def _calendar(state: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """All events, in any order."""
    return sorted(_kept(event) for event in state["events"])


def _monday(day: str) -> str:
    return after(day, -date.fromisoformat(day).weekday())


async def _turn(hand: Hand, shown: str, day: str) -> None:
    """Show another month."""
    away = 12 * int(day[:4]) + int(day[5:7]) - 12 * int(shown[:4]) - int(shown[5:7])
    for _ in range(abs(away)):
        await hand.click("next" if away > 0 else "previous")


class Create(Slip):
    """A new event."""

    name = "events/create"
    goals: ClassVar[tuple[str, ...]] = (
        "Add “{title}” to the calendar: {said} at {time}, {length}, {place}.",
        "Plan “{title}” on {said}, {time}, for {length}, at this place: {place}.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        day, hours = after(content["today"], rng.randint(1, 45)), rng.randint(2, 4)
        time, other = rng.sample(_TIMES, 2)
        new = {"title": rng.choice(_OWN), "day": day, "time": time, "hours": hours}
        told = {"said": said(day), "length": f"{hours} hours", "shown": content["today"]}
        place = rng.choice(content["places"])
        return {**new, **told, "place": place, "times": 1, "wrong": {"time": other}}

    def done(self, end: Ending, p: Params) -> bool:
        new = [_kept({**p, "day": after(p["day"], 7 * n)}) for n in range(p["times"])]
        return _calendar(end.after) == sorted([*_calendar(end.before), *new])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("events")
        await hand.click("new")
        await hand.type("title", p["title"])
        await hand.choose("time", p["time"])
        await hand.choose("hours", str(p["hours"]))
        await hand.choose("where", p["place"])
        if p["times"] > 1:
            await hand.choose("times", str(p["times"]))
        await pick(hand, "day", p["shown"], p["day"])
        await hand.click("save")


class Weekly(Create):
    """A new event, several weeks running."""

    name = "events/weekly"
    goals = (
        "Add “{title}” to the calendar every week, {times} times in all, from {said} on: {time}, "
        "{length}, {place}.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        times = rng.choice((3, 4, 6))
        return {**(super().draw(rng, content) or {}), "times": times, "wrong": {"times": 2}}


class _OfOne(Slip):
    """Something done to one event."""

    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        event, other = rng.sample(content["state"]["events"], 2)
        told = {"id": event["id"], "title": event["title"], "at": event["day"]}
        now = {"said": said(event["day"]), "shown": content["today"]}
        return {**told, **now, "wrong": {"id": other["id"], "at": other["day"]}}

    def changed(self, event: dict[str, Any], p: Params) -> list[dict[str, Any]]:
        """What becomes of it."""
        return []

    def done(self, end: Ending, p: Params) -> bool:
        wanted: list[dict[str, Any]] = []
        for event in end.before["events"]:
            wanted += self.changed(event, p) if event["id"] == p["id"] else [event]
        return bool(end.after["events"] == wanted)

    async def show(self, hand: Hand, p: Params) -> None:
        """Open it."""
        await hand.open("events")
        await _turn(hand, p["shown"], p["at"])
        await hand.click(f"event:{p['id']}")


class Delete(_OfOne):
    """An event that does not take place; it must be confirmed."""

    name = "events/delete"
    goals = ("Delete “{title}” on {said} from the calendar.",)

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.show(hand, p)
        await hand.click("delete")
        await hand.click("yes")


class Move(_OfOne):
    """Another day and time."""

    name = "events/move"
    goals = (
        "Move “{title}” from {said} to {new_said}, {time}.",
        "“{title}” on {said} takes place on {new_said} at {time} instead. Change the calendar.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        event = next(e for e in content["state"]["events"] if e["id"] == p["id"])
        day = after(content["today"], rng.randint(1, 45))
        time, other = rng.sample([t for t in _TIMES if t != event["time"]], 2)
        if day == event["day"]:
            return None
        return {**p, "day": day, "new_said": said(day), "time": time, "wrong": {"time": other}}

    def changed(self, event: dict[str, Any], p: Params) -> list[dict[str, Any]]:
        return [{**event, "day": p["day"], "time": p["time"]}]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.show(hand, p)
        await hand.click("edit")
        await hand.choose("time", p["time"])
        await pick(hand, "day", p["at"], p["day"])
        await hand.click("save")


class Drag(_OfOne):
    """Another day, in one movement."""

    name = "events/drag"
    goals = ("Drag “{title}” in the calendar from {said} to {new_said}.",)
    needs = frozenset({"drag"})

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        # the same week or the one before it, so that both days are on the screen
        first = after(_monday(p["at"]), -7)
        near = [after(first, n) for n in range(14)]
        days = [day for day in near if day[:7] == p["at"][:7] and day != p["at"]]
        if len(days) < 2:
            return None
        day, other = rng.sample(days, 2)
        return {**p, "day": day, "new_said": said(day), "wrong": {"day": other}}

    def changed(self, event: dict[str, Any], p: Params) -> list[dict[str, Any]]:
        return [{**event, "day": p["day"]}]

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("events")
        await _turn(hand, p["shown"], p["at"])
        await hand.drag(f"event:{p['id']}", f"cell:{p['day']}")


class Where(Question):
    """The place of an event."""

    name = "events/where"
    goals = ("Where does “{title}” on {said} take place?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        event = rng.choice(content["state"]["events"])
        lie = rng.choice([place for place in content["places"] if place != event["place"]])
        told = {"title": event["title"], "said": said(event["day"]), "id": event["id"]}
        when = {"at": event["day"], "shown": content["today"]}
        return {**told, **when, "truth": event["place"], "lie": lie}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("events")
        await _turn(hand, p["shown"], p["at"])
        await hand.click(f"event:{p['id']}")
        return await hand.read("place")


class Week(Question):
    """How much there is in a week."""

    name = "events/week"
    goals = ("How many events are in the calendar from Monday {said} to the Sunday after it?",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        weeks = rng.randint(1, 5)
        monday = after(_monday(content["today"]), 7 * weeks)
        days = [after(monday, n) for n in range(7)]
        truth = sum(event["day"] in days for event in content["state"]["events"])
        told = {"said": said(monday), "weeks": weeks}
        return {**told, "truth": str(truth), "lie": str(truth + rng.choice((1, 2)))}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("events")
        await hand.click("view:week")
        for _ in range(p["weeks"]):
            await hand.click("next")
        return await hand.read("count")


class Events(Capability):
    """A calendar."""

    name, group, label = "events", "planning", "Calendar"
    templates = (Create(), Weekly(), Delete(), Move(), Drag(), Where(), Week())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        today = rng.choice(("2025-03-11", "2025-05-13", "2025-09-09", "2026-02-10"))
        names = [title.format(kind) for kind in category.kinds for title in _TITLES]
        days = [after(today, n) for n in range(-8, 48)]
        events = [
            {
                "id": f"e{index}",
                "title": title,
                "day": rng.choice(days),
                "time": rng.choice(_TIMES),
                "hours": rng.randint(1, 4),
                "place": rng.choice(category.places),
            }
            for index, title in enumerate(rng.sample(names, rng.randint(16, 22)))
        ]
        return {
            "today": today,
            "places": list(category.places),
            "about": "What happens when",
            "state": {"events": events, "next": 1},
        }
