"""Past orders and returns: all of a line, a part of it, everything; changed and withdrawn."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_REASONS = ("Does not fit", "Arrived damaged", "Ordered by mistake", "Not as described", "Too late")
_REFUNDS = ("Money back", "Voucher", "Exchange")
_COMMENTS = ("the box is still closed", "please call before", "the corner is broken", "gift")
_TODAY = datetime.date(2025, 3, 14)


def _open(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Orders that can be returned and of which nothing is on its way back."""
    back = {r["order"] for r in content["state"]["returns"]}
    orders = content["orders"]
    return [o for o in orders if o["until"] >= content["today"] and o["number"] not in back]


def _name(content: Mapping[str, Any], id: str) -> str:
    return str(next(i["name"] for i in content["items"] if i["id"] == id))


def _why(rng: random.Random) -> dict[str, Any]:
    reason, other = rng.sample(_REASONS, 2)
    return {"reason": reason, "other_reason": other, "refund": rng.choice(_REFUNDS), "comment": ""}


class _Return(Slip):
    """One more return as wanted: `order`, `lines`, `reason`, `refund`, `comment`."""

    level = 3

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {key: p[key] for key in ("order", "lines", "reason", "refund", "comment")}
        wanted["id"] = f"R{end.before['next']}"
        return bool(end.after["returns"] == [*end.before["returns"], wanted])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("returns")
        await hand.click(f"start:{p['order']}")
        for line in p["lines"]:
            for _ in range(line["count"]):
                await hand.click(f"more:{line['id']}")
        await hand.choose("reason", p["reason"])
        await hand.click(f"refund:{p['refund']}")
        if p["comment"]:
            await hand.type("comment", p["comment"])
        await hand.click("send")


class Line(_Return):
    """All of one line of an order."""

    name = "returns/line"
    goals = (
        "From order {order}, return {n} × {item}. Reason: {reason}. For it I want: {refund}.",
        "Send {item} ({n}, that is all of it) from order {order} back because of “{reason}”; for "
        "it I want “{refund}”.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        order = rng.choice(_open(content))
        line, other = rng.sample(order["lines"], 2)
        why = _why(rng)
        own = {"order": order["number"], "item": _name(content, line["id"]), "n": line["count"]}
        return {**own, **why, "lines": [line], "wrong": {"lines": [other]}}


class Part(_Return):
    """Fewer than were ordered, with a comment."""

    name = "returns/part"
    goals = (
        "From order {order}, return only {n} of the {all} × {item}: {reason}, for “{refund}”, "
        "with the comment “{comment}”.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        pairs = [(o, line) for o in _open(content) for line in o["lines"] if line["count"] > 1]
        if not pairs:
            return None
        order, line = rng.choice(pairs)
        count = rng.randint(1, line["count"] - 1)
        own = {"order": order["number"], "item": _name(content, line["id"])}
        wrong = {"lines": [line]}
        more = {"n": count, "all": line["count"], "lines": [{**line, "count": count}]}
        return {**own, **_why(rng), **more, "comment": rng.choice(_COMMENTS), "wrong": wrong}


class Everything(_Return):
    """A whole order."""

    name = "returns/everything"
    goals = ("Return everything from order {order} ({reason}) and ask for “{refund}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        order, why = rng.choice(_open(content)), _why(rng)
        own = {"order": order["number"], "lines": order["lines"]}
        return {**own, **why, "wrong": {"reason": why["other_reason"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("returns")
        await hand.click(f"start:{p['order']}")
        await hand.click("all")
        await hand.choose("reason", p["reason"])
        await hand.click(f"refund:{p['refund']}")
        await hand.click("send")


class Withdraw(Slip):
    """A return that will not be, after a question."""

    name = "returns/withdraw"
    goals = ("Withdraw the return {id}; I keep the things.", "I changed my mind: undo return {id}.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        id = rng.choice(content["state"]["returns"])["id"]
        return {"id": id, "button": "sure", "wrong": {"button": "close"}}

    def done(self, end: Ending, p: Params) -> bool:
        rest = [r for r in end.before["returns"] if r["id"] != p["id"]]
        return bool(end.after["returns"] == rest)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("returns")
        await hand.click("returns")
        await hand.click(f"stop:{p['id']}")
        await hand.click(p["button"])


class Refund(Slip):
    """Something else for what is on its way back."""

    name = "returns/refund"
    goals = ("For the return from order {order}, ask for “{refund}” instead.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one, other = rng.sample(content["state"]["returns"], 2)
        refund = rng.choice([r for r in content["refunds"] if r != one["refund"]])
        own = {"order": one["order"], "id": one["id"], "target": one["id"], "refund": refund}
        return {**own, "wrong": {"target": other["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        new = {"refund": p["refund"]}
        wanted = [{**r, **(new if r["id"] == p["id"] else {})} for r in end.before["returns"]]
        return bool(end.after["returns"] == wanted)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("returns")
        await hand.click("returns")
        await hand.click(f"edit:{p['target']}")
        await hand.click(f"refund:{p['refund']}")
        await hand.click("keep")


class Until(Question):
    """Until when an order, known by what is in it, may be returned."""

    name = "returns/until"
    goals = ("Until which day can the order with {item} be returned? Answer as year-month-day.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        count: dict[str, list[dict[str, Any]]] = {}
        for order in content["orders"]:
            for line in order["lines"]:
                count.setdefault(line["id"], []).append(order)
        single = sorted(id for id, orders in count.items() if len(orders) == 1)
        if not single:
            return None
        [order] = count[id := rng.choice(single)]
        own = {"item": _name(content, id), "order": order["number"]}
        return {**own, "truth": order["until"], "lie": order["date"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("returns")
        return await hand.read(f"until:{p['order']}")


class Returns(Capability):
    """Orders of the past weeks and what goes back."""

    name, group, label = "returns", "shopping", "Orders & returns"
    templates = (Line(), Part(), Everything(), Withdraw(), Refund(), Until())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, 9)
        ages = [*sorted(rng.sample(range(2, 29), 5)), rng.randint(35, 60)]
        numbers = rng.sample(range(10_000, 99_999), len(ages))
        orders = [
            _order(rng, items, f"{number}", age) for number, age in zip(numbers, ages, strict=True)
        ]
        next_id = rng.randint(200, 800)
        back = [
            {"id": f"R{next_id - 2 + n}", "order": order["number"], "lines": order["lines"][:1]}
            | {"reason": rng.choice(_REASONS), "refund": rng.choice(_REFUNDS), "comment": ""}
            for n, order in enumerate(rng.sample(orders[:5], 2))
        ]
        return {
            "items": items,
            "orders": orders,
            "reasons": list(_REASONS),
            "refunds": list(_REFUNDS),
            "today": _TODAY.isoformat(),
            "about": "What you ordered, and sending it back",
            "state": {"returns": back, "next": next_id},
        }


def _order(
    rng: random.Random, items: list[dict[str, Any]], number: str, age: int
) -> dict[str, Any]:
    date = _TODAY - datetime.timedelta(days=age)
    chosen = rng.sample(items, rng.randint(2, 3))
    return {
        "number": number,
        "date": date.isoformat(),
        "until": (date + datetime.timedelta(days=30)).isoformat(),
        "lines": [{"id": i["id"], "count": rng.randint(1, 4)} for i in chosen],
    }
