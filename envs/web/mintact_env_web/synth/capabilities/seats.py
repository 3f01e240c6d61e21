"""A seat plan: seats held, changed, released, booked; prices and places that are free."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_ROWS, _WIDE = "ABCDEFG", 10
_LEVELS = (0, 0, 1, 1, 1, 2, 2)


def _level(seat: str) -> int:
    return _LEVELS[_ROWS.index(seat[0])]


def _order(seats: Sequence[str]) -> list[str]:
    return sorted(seats, key=lambda seat: (seat[0], int(seat[1:])))


def _free(content: Mapping[str, Any], show: str) -> list[str]:
    state = content["state"]
    taken = set(next(s for s in content["shows"] if s["id"] == show)["taken"])
    taken |= {
        x for own in state["holds"] + state["booked"] if own["show"] == show for x in own["seats"]
    }
    return [
        seat for row in _ROWS for n in range(1, _WIDE + 1) if (seat := f"{row}{n}") not in taken
    ]


def _runs(free: Sequence[str], length: int, level: int) -> list[list[str]]:
    starts = [seat for seat in free if _level(seat) == level]
    rows = [[f"{s[0]}{int(s[1:]) + k}" for k in range(length)] for s in starts]
    return [row for row in rows if set(row) <= set(free)]


class Hold(Edit):
    """Certain seats held."""

    name = "seats/hold"
    goals: ClassVar[tuple[str, ...]] = (
        "Hold the seats {a} and {b} for {title}.",
        "Reserve (hold) seats {a} and {b}: {title}.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        show = rng.choice(content["shows"])
        a, b, other = rng.sample(_free(content, show["id"]), 3)
        own = {"a": a, "b": b, "seats": _order([a, b]), "show": show["id"], "title": show["said"]}
        return {**own, "wrong": {"seats": _order([a, other])}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        hold = {"id": f"h{state['next']}", "show": p["show"], "seats": p["seats"]}
        state["holds"].append(hold)
        state["next"] += 1

    async def pick(self, hand: Hand, p: Params) -> None:
        """Everything but holding."""
        await hand.open("seats")
        await hand.choose("show", p["show"])
        for seat in p["seats"]:
            await hand.click(f"seat:{seat}")

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.pick(hand, p)
        await hand.click("hold")
        return None


class Together(Hold):
    """Any seats side by side in a price class."""

    name = "seats/together"
    goals = (
        "Hold {n} free seats next to each other in one row of the price class {level} for {title}.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        show, n = rng.choice(content["shows"]), rng.randint(2, 3)
        free = _free(content, show["id"])
        runs = [_runs(free, n, level) for level in range(3)]
        levels = [level for level in range(3) if runs[level] and runs[(level + 1) % 3]]
        if not levels:
            return None
        level = rng.choice(levels)
        good, bad = runs[level], runs[(level + 1) % 3]
        own = {"n": n, "level": show["prices"][level]["name"], "title": show["said"]}
        more = {"show": show["id"], "seats": rng.choice(good), "good": good}
        return {**own, **more, "wrong": {"seats": rng.choice(bad)}}

    def done(self, end: Ending, p: Params) -> bool:
        *old, new = end.after["holds"] or [None]
        if new is None or new["show"] != p["show"] or new["seats"] not in p["good"]:
            return False
        return bool(old == end.before["holds"] and end.after["booked"] == end.before["booked"])


class Release(Edit):
    """A hold given up."""

    name = "seats/release"
    goals: ClassVar[tuple[str, ...]] = (
        "Release the seats that are held for {title}; book nothing.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        hold, other = rng.sample(content["state"]["holds"], 2)
        title = next(s["said"] for s in content["shows"] if s["id"] == hold["show"])
        return {"id": hold["id"], "title": title, "wrong": {"id": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["holds"] = [x for x in state["holds"] if x["id"] != p["id"]]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("seats")
        await hand.click("mine")
        await hand.click(f"drop:{p['id']}")
        return None


class Book(Release):
    """What is held booked."""

    name = "seats/book"
    goals = ("Book the seats that are held for {title}.", "I will take my seats for {title}: book.")
    level = 3

    def change(self, state: dict[str, Any], p: Params) -> None:
        hold = next(x for x in state["holds"] if x["id"] == p["id"])
        super().change(state, p)
        state["booked"].append(hold)

    async def ask(self, hand: Hand, p: Params) -> None:
        """Everything but the confirmation."""
        await hand.open("seats")
        await hand.click("mine")
        await hand.click(f"book:{p['id']}")

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.ask(hand, p)
        await hand.click("confirm")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.ask(hand, p)
        return None


class Swap(Edit):
    """One seat of a hold for another."""

    name = "seats/swap"
    goals = ("In what is held for {title}, take seat {new} instead of {old}.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        hold = rng.choice(content["state"]["holds"])
        title = next(s["said"] for s in content["shows"] if s["id"] == hold["show"])
        old = rng.choice(hold["seats"])
        new, other = rng.sample(_free(content, hold["show"]), 2)
        own = {"id": hold["id"], "title": title, "old": old, "new": new}
        return {**own, "wrong": {"new": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        hold = next(x for x in state["holds"] if x["id"] == p["id"])
        hold["seats"] = _order([p["new"], *(s for s in hold["seats"] if s != p["old"])])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("seats")
        await hand.click("mine")
        await hand.click(f"change:{p['id']}")
        for seat in (p["old"], p["new"]):
            await hand.click(f"seat:{seat}")
        await hand.click("hold")
        return None


class Price(Question):
    """What seats cost together."""

    name = "seats/price"
    goals = ("What do the seats {a} and {b} for {title} cost together? Hold nothing.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        show = rng.choice(content["shows"])
        a, b = rng.sample(_free(content, show["id"]), 2)
        one, two = (show["prices"][_level(seat)]["price"] for seat in (a, b))
        own = {"a": a, "b": b, "show": show["id"], "title": show["said"]}
        return {**own, "truth": str(one + two), "lie": str(one + two + 3)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await Hold().pick(hand, {**p, "seats": [p["a"], p["b"]]})
        return await hand.read("total")


class Left(Question):
    """How many seats are free in a row."""

    name = "seats/free_in_row"
    goals = ("How many seats are still free in row {row} for {title}?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        show, row = rng.choice(content["shows"]), rng.choice(_ROWS)
        free = sum(seat[0] == row for seat in _free(content, show["id"]))
        own = {"row": row, "show": show["id"], "title": show["said"]}
        return {**own, "truth": str(free), "lie": str(_WIDE - free + (2 * free == _WIDE))}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("seats")
        await hand.choose("show", p["show"])
        return str(p["truth"])


class Seats(Capability):
    """A hall's seat plan."""

    name, group, label = "seats", "booking", "Seats"
    templates = (Hold(), Together(), Release(), Book(), Swap(), Price(), Left())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        names = rng.sample(("Open evening", "Members' night", "Guided talk", "Premiere"), 3)
        shows, holds, days = [], [], sorted(rng.sample(range(3, 28), 3))
        every = [f"{row}{n}" for row in _ROWS for n in range(1, _WIDE + 1)]
        for i, name in enumerate(names):
            start = rng.randint(1, _WIDE - 2)
            held = [f"{rng.choice(_ROWS)}{start}"]
            held.append(f"{held[0][0]}{start + 1}")
            low = rng.randint(9, 20)
            prices = [{"name": "Front", "price": low + 2 * rng.randint(8, 12)}]
            prices.append({"name": "Middle", "price": low + rng.randint(5, 9)})
            prices.append({"name": "Back", "price": low})
            when = f"{days[i]} April, {rng.choice(('18:00', '19:30', '20:15'))}"
            taken = [s for s in rng.sample(every, rng.randint(22, 36)) if s not in held]
            said = f'"{name}" on {days[i]} April'
            show = {"id": f"s{i}", "title": name, "when": when, "said": said}
            shows.append({**show, "prices": prices, "taken": taken})
            if i:
                holds.append({"id": f"h{i}", "show": f"s{i}", "seats": held})
        return {
            "shows": shows,
            "rows": [
                {"row": row, "level": level} for row, level in zip(_ROWS, _LEVELS, strict=True)
            ],
            "wide": _WIDE,
            "front": rng.choice(("Stage", "Screen", "Platform")),
            "about": f"Seats for talks about our {category.item[1]}",
            "state": {"holds": holds, "booked": [], "next": 3},
        }
