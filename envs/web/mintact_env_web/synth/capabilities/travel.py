"""Journeys: searching connections, choosing among them, booking and cancelling."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from mintact_env_web.synth.dates import after, pick, said
from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_TOWNS = ("Aldmoor", "Brackwater", "Corvale", "Dunmere", "Estholm", "Farrow", "Glenport", "Hartsea")
_MODES = {
    "train": ("Second class", "First class"),
    "flight": ("Economy", "Business"),
    "coach": ("Standard", "Comfort"),
    "ferry": ("Deck", "Cabin"),
}
_MANY = {"train": "trains", "flight": "flights", "coach": "coaches", "ferry": "ferries"}
_KEYS = ("from", "to", "out", "home", "people", "cabin", "lines")


def _trips(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{key: trip[key] for key in _KEYS} for trip in state["trips"]]


def _lines(content: Mapping[str, Any], start: str, end: str) -> list[dict[str, Any]]:
    return [line for line in content["lines"] if (line["from"], line["to"]) == (start, end)]


def _asked(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any]:
    """What one fills in: a one-way search."""
    start, to = rng.sample(content["towns"], 2)
    out, cabin = after(content["today"], rng.randint(2, 50)), rng.choice(content["cabins"])
    people = rng.randint(1, 4)
    return {
        "from": start,
        "to": to,
        "out": out,
        "out_said": said(out),
        "home": None,
        "people": people,
        "folk": f"{people} passenger" + "s" * (people > 1),
        "cabin": cabin["id"],
        "cabin_name": cabin["name"],
        "mode": content["mode"],
        "shown": content["today"],
    }


async def _search(hand: Hand, p: Params) -> None:
    await hand.open("travel")
    if p["home"]:
        await hand.click("way:true")
    await hand.choose("from", p["from"])
    await hand.choose("to", p["to"])
    await hand.click("out")
    await pick(hand, "out-day", p["shown"], p["out"])
    if p["home"]:
        await hand.click("home")
        await pick(hand, "home-day", p["out"], p["home"])
    for _ in range(p["people"] - 1):
        await hand.click("more")
    await hand.choose("cabin", p["cabin"])
    await hand.click("search")


class _Booking(Slip):
    """One more trip as wanted."""

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {key: p[key] for key in _KEYS}
        return _trips(end.after) == [*_trips(end.before), wanted]

    async def solve(self, hand: Hand, p: Params) -> None:
        await _search(hand, p)
        for line in p["lines"]:
            await hand.click(f"choose:{line}")
        await hand.click("confirm")


class OneWay(_Booking):
    """There, at a given time."""

    name = "travel/one_way"
    goals = (
        "Book the {mode} at {time} from {from} to {to} on {out_said}, one way, {folk}, "
        "{cabin_name}.",
        "{folk} need to get from {from} to {to} on {out_said}: book the {mode} leaving at {time}, "
        "{cabin_name}, one way.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _asked(rng, content)
        line, other = rng.sample(_lines(content, p["from"], p["to"]), 2)
        lines = {"lines": [line["id"]], "time": line["departure"]}
        return {**p, **lines, "wrong": {"lines": [other["id"]]}}


class Return(_Booking):
    """There and back."""

    name = "travel/return"
    goals = (
        "Book a return trip for {folk}, {cabin_name}: {from} to {to} on {out_said} at {time}, back "
        "on {home_said} at {home_time}.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _asked(rng, content)
        home = after(p["out"], rng.randint(1, 12))
        line = rng.choice(_lines(content, p["from"], p["to"]))
        back = rng.choice(_lines(content, p["to"], p["from"]))
        times = {"time": line["departure"], "home_time": back["departure"]}
        later = {"home": after(home, 1)}
        lines = [line["id"], back["id"]]
        return {**p, **times, "home": home, "home_said": said(home), "lines": lines, "wrong": later}


class _Best(_Booking):
    """The best connection by some measure."""

    level = 4

    def measure(self, line: Mapping[str, Any]) -> float | None:
        """Lower is better; None is out of the question."""
        raise NotImplementedError

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _asked(rng, content)
        return _best(p, _lines(content, p["from"], p["to"]), self.measure)


def _best(
    p: dict[str, Any],
    lines: list[dict[str, Any]],
    measure: Callable[[Mapping[str, Any]], float | None],
) -> Params | None:
    marks = {line["id"]: mark for line in lines if (mark := measure(line)) is not None}
    ranked = sorted(marks, key=lambda id: marks[id])
    if not ranked or (len(ranked) > 1 and marks[ranked[0]] == marks[ranked[1]]):
        return None
    other = next(line["id"] for line in lines if line["id"] != ranked[0])
    return {**p, "lines": ranked[:1], "wrong": {"lines": [other]}}


class Cheapest(_Best):
    """The cheapest of the day."""

    name = "travel/cheapest"
    goals = (
        "Book the cheapest {mode} from {from} to {to} on {out_said}: one way, {folk}, "
        "{cabin_name}.",
    )

    def measure(self, line: Mapping[str, Any]) -> float | None:
        return float(line["price"])


class FastestDirect(_Best):
    """The fastest without changes."""

    name = "travel/fastest_direct"
    goals = (
        "Book the shortest direct {mode} (no changes) from {from} to {to} on {out_said}, one way, "
        "for {folk} in {cabin_name}.",
    )

    def measure(self, line: Mapping[str, Any]) -> float | None:
        return None if line["changes"] else float(line["minutes"])


class Fare(Question):
    """What it would cost."""

    name = "travel/fare"
    goals = (
        "What does the {mode} at {time} from {from} to {to} on {out_said} cost in all, one way, "
        "for {folk} in {cabin_name}? Only answer; book nothing.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _asked(rng, content)
        line = rng.choice(_lines(content, p["from"], p["to"]))
        factor = next(c["factor"] for c in content["cabins"] if c["id"] == p["cabin"])
        truth = line["price"] * factor * p["people"]
        if truth == line["price"]:
            return None
        own = {"line": line["id"], "time": line["departure"]}
        return {**p, **own, "truth": str(truth), "lie": str(line["price"])}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _search(hand, p)
        return await hand.read(f"price:{p['line']}")


class CancelTrip(Slip):
    """A trip one does not make."""

    name = "travel/cancel"
    goals = ("Cancel my trip from {from} to {to} on {said}.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        trip, other = rng.sample(content["state"]["trips"], 2)
        told = {"from": trip["from"], "to": trip["to"], "said": said(trip["out"])}
        return {"id": trip["id"], **told, "wrong": {"id": other["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after["trips"] == [t for t in end.before["trips"] if t["id"] != p["id"]])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("travel")
        await hand.click("part:trips")
        await hand.click(f"cancel:{p['id']}")
        await hand.click("yes")


class Travel(Capability):
    """A timetable, and the trips one has booked."""

    name, group, label = "travel", "booking", "Travel"
    templates = (OneWay(), Return(), Cheapest(), FastestDirect(), Fare(), CancelTrip())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        mode, towns = rng.choice(sorted(_MODES)), sorted(rng.sample(_TOWNS, 5))
        cabins = [{"id": f"c{n}", "name": x, "factor": n + 1} for n, x in enumerate(_MODES[mode])]
        pairs = [(a, b) for a in towns for b in towns if a != b]
        lines = [line for a, b in pairs for line in _timetable(rng, a, b)]
        today = rng.choice(("2025-04-08", "2025-06-17", "2025-10-07", "2026-02-10"))
        return {
            "mode": mode,
            "modes": _MANY[mode],
            "towns": towns,
            "cabins": cabins,
            "lines": [{"id": f"l{n}", **line} for n, line in enumerate(lines)],
            "today": today,
            "about": f"Getting here: {_MANY[mode]} from {towns[0]}, {towns[1]} and {towns[2]}",
            "state": {"trips": _start(rng, pairs, lines, today), "next": 1},
        }


def _timetable(rng: random.Random, start: str, end: str) -> list[dict[str, Any]]:
    found = []
    for hour in sorted(rng.sample(range(6, 20), rng.randint(5, 7))):
        minutes, begin = 5 * rng.randint(14, 60), 60 * hour + 5 * rng.randrange(12)
        stop = (begin + minutes) % 1440
        found.append(
            {
                "from": start,
                "to": end,
                "departure": f"{begin // 60:02}:{begin % 60:02}",
                "arrival": f"{stop // 60:02}:{stop % 60:02}",
                "minutes": minutes,
                "changes": rng.choice((0, 0, 1, 2)),
                "price": rng.randint(12, 95),
            }
        )
    return found


def _start(
    rng: random.Random, pairs: list[tuple[str, str]], lines: list[dict[str, Any]], today: str
) -> list[dict[str, Any]]:
    """Three trips booked before."""
    trips = []
    for index, (start, end) in enumerate(rng.sample(pairs, 3)):
        at = next(n for n, x in enumerate(lines) if (x["from"], x["to"]) == (start, end))
        out = after(today, rng.randint(3, 40))
        trip = {"out": out, "home": None, "people": rng.randint(1, 3), "lines": [f"l{at}"]}
        trips.append({"id": f"t{index}", "from": start, "to": end, "cabin": "c0", **trip})
    return trips
