"""Appointments: booking one on a free day and time, moving, cancelling, looking at a calendar."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.dates import after, pick, said, working_days
from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_REASONS = (
    "First visit",
    "Questions about the invoice",
    "Yearly review",
    "Something is wrong",
    "A second opinion",
)
_NOTES = ("Please call before", "I come by wheelchair", "My sister comes along", "I may be late")
_HOURS = ("08:30", "09:15", "10:00", "11:30", "13:00", "14:15", "15:30", "16:45")
_VISITS = ("consultation", "first meeting")
_TODAYS = ("2025-03-11", "2025-05-20", "2025-09-16", "2026-01-13")


def _booked(state: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Who, what, when and why of every appointment, in any order."""
    return sorted(tuple(b[key] for key in _KEYS) for b in state["booked"])


_KEYS = ("who", "service", "day", "time", "reason")


def _open(content: Mapping[str, Any], who: str) -> list[tuple[str, str]]:
    """All free days and times of a person, earliest first."""
    taken = {(b["who"], b["day"], b["time"]) for b in content["state"]["booked"]}
    free = content["free"][who]
    return [(d, t) for d in sorted(free) for t in free[d] if (who, d, t) not in taken]


def _free(content: Mapping[str, Any], who: str, day: str) -> int:
    return sum(d == day for d, _ in _open(content, who))


class Book(Slip):
    """A new one at a given time."""

    name = "appointments/book"
    goals: ClassVar[tuple[str, ...]] = (
        "Book {what} with {who} on {said} at {time}, with the reason “{reason}”.",
        "Make an appointment: {what}, {who}, {said}, {time}. Give “{reason}” as the reason.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        who, service = rng.choice(content["staff"])["name"], rng.choice(content["services"])
        (day, time), (other_day, other_time) = rng.sample(_open(content, who), 2)
        what = {"who": who, "service": service["id"], "what": service["name"]}
        when = {"day": day, "said": said(day), "time": time, "shown": content["today"]}
        wrong = {"day": other_day, "time": other_time}
        return {**what, **when, "reason": rng.choice(_REASONS), "wrong": wrong}

    def done(self, end: Ending, p: Params) -> bool:
        new = tuple(p[key] for key in _KEYS)
        return _booked(end.after) == sorted([*_booked(end.before), new])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("appointments")
        await hand.click("new")
        await hand.choose("who", p["who"])
        await hand.choose("service", p["service"])
        await pick(hand, "day", p["shown"], p["day"])
        await hand.click(f"time:{p['time']}")
        await hand.type("reason", p["reason"])
        await hand.click("book")


class Earliest(Book):
    """The first free time from a day on."""

    name = "appointments/earliest"
    goals = (
        "Book the earliest free time of {who} from {from_said} on, for {what}; reason: “{reason}”.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        since = after(content["today"], rng.randint(6, 24))
        coming = [slot for slot in _open(content, p["who"]) if slot[0] >= since]
        if len(coming) < 2:
            return None
        (day, time), (other_day, other_time) = coming[0], coming[1]
        wrong = {"day": other_day, "time": other_time}
        return {**p, "day": day, "time": time, "from_said": said(since), "wrong": wrong}


class _OfOne(Slip):
    """Something done to an appointment one has."""

    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        booked, other = rng.sample(content["state"]["booked"], 2)
        what = next(s["name"] for s in content["services"] if s["id"] == booked["service"])
        told = {"what": what, "who": booked["who"], "said": said(booked["day"])}
        return {"id": booked["id"], **told, "wrong": {"id": other["id"]}}

    def changed(self, booked: dict[str, Any], p: Params) -> list[dict[str, Any]]:
        """What becomes of it."""
        return []

    def done(self, end: Ending, p: Params) -> bool:
        kept: list[dict[str, Any]] = []
        for booked in end.before["booked"]:
            kept += self.changed(booked, p) if booked["id"] == p["id"] else [booked]
        return bool(end.after["booked"] == kept)


class Cancel(_OfOne):
    """It is not needed any more."""

    name = "appointments/cancel"
    goals = (
        "Cancel the appointment with {who} on {said}.",
        "I cannot come on {said}: cancel {what} with {who}.",
    )

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("appointments")
        await hand.click(f"cancel:{p['id']}")
        await hand.click("yes")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("appointments")
        await hand.click(f"cancel:{p['id']}")
        await hand.click("no")


class Note(_OfOne):
    """What one wants to have said beforehand."""

    name = "appointments/note"
    goals = ("Change the note of my appointment with {who} on {said} to “{reason}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {**(super().draw(rng, content) or {}), "reason": rng.choice(_NOTES)}

    def changed(self, booked: dict[str, Any], p: Params) -> list[dict[str, Any]]:
        return [{**booked, "reason": p["reason"]}]

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("appointments")
        await hand.click(f"note:{p['id']}")
        await hand.type("reason", p["reason"])
        await hand.click("save")


class Reschedule(_OfOne):
    """Another day and time with the same person."""

    name = "appointments/reschedule"
    goals = ("Move my appointment with {who} on {said} to {new_said} at {time}.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        slots = _open(content, p["who"])
        day, time = rng.choice(slots)
        others = [t for d, t in slots if d == day and t != time]
        if not others:
            return None
        when = {"day": day, "new_said": said(day), "time": time, "shown": content["today"]}
        return {**p, **when, "wrong": {"time": rng.choice(others)}}

    def changed(self, booked: dict[str, Any], p: Params) -> list[dict[str, Any]]:
        return [{**booked, "day": p["day"], "time": p["time"]}]

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("appointments")
        await hand.click(f"move:{p['id']}")
        await pick(hand, "day", p["shown"], p["day"])
        await hand.click(f"time:{p['time']}")
        await hand.click("book")


class FreeTimes(Question):
    """How full a day is."""

    name = "appointments/free_times"
    goals = ("How many free times does {who} have on {said}? Answer with the number.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        who = rng.choice(content["staff"])["name"]
        day = rng.choice(sorted({d for d, _ in _open(content, who)}))
        truth = _free(content, who, day)
        lie = rng.choice([n for n in range(1, 6) if n != truth])
        told = {"who": who, "day": day, "said": said(day), "shown": content["today"]}
        return {**told, "truth": str(truth), "lie": str(lie)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("appointments")
        await hand.click("new")
        await hand.choose("who", p["who"])
        await pick(hand, "day", p["shown"], p["day"])
        return await hand.read("free")


class Appointments(Capability):
    """A calendar with free times, and the appointments one has."""

    name, group, label = "appointments", "booking", "Appointments"
    templates = (Book(), Earliest(), Cancel(), Note(), Reschedule(), FreeTimes())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        today, services = (
            rng.choice(_TODAYS),
            [
                {"id": f"s{n}", "name": f"{kind} {what}"}
                for n, (kind, what) in enumerate((k, w) for k in category.kinds for w in _VISITS)
            ],
        )
        staff = [{"name": n, "kind": rng.choice(category.kinds)} for n in rng.sample(PEOPLE, 4)]
        days = working_days(today, 38)
        free = {
            p["name"]: {
                d: sorted(rng.sample(_HOURS, rng.randint(2, 5))) for d in days if rng.random() < 0.6
            }
            for p in staff
        }
        booked = [
            {
                "id": f"b{index}",
                "who": rng.choice(staff)["name"],
                "service": rng.choice(services)["id"],
                "day": day,
                "time": rng.choice(_HOURS),
                "reason": rng.choice(_REASONS),
            }
            for index, day in enumerate(rng.sample(days, rng.randint(3, 5)))
        ]
        return {
            "today": today,
            "staff": staff,
            "services": services,
            "free": free,
            "about": "Book, move or cancel a visit",
            "state": {"booked": booked, "next": 1},
        }
