"""A list that can be ordered: by one or two of its columns, with pinned rows on top."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Question, Slip, amount, answered_amount
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params, answered

_ORDERS = (
    ("price-up", "Price, lowest first"),
    ("price-down", "Price, highest first"),
    ("rating-down", "Best rated"),
    ("rating-up", "Worst rated"),
    ("added-down", "Newest"),
    ("added-up", "Oldest"),
    ("name-up", "Name, A to Z"),
    ("kind-up", "Category"),
)
_SAID = {
    "price-up": "by price, lowest first",
    "price-down": "by price, highest first",
    "rating-down": "by rating, best first",
    "added-down": "by date, newest first",
    "added-up": "by date, oldest first",
    "name-up": "by name, from A to Z",
}
_MOST = {
    "price-up": "cheapest",
    "price-down": "most expensive",
    "rating-down": "best rated",
    "rating-up": "worst rated",
    "added-down": "newest",
    "added-up": "oldest",
}


def _ordered(content: Mapping[str, Any], order: str) -> list[dict[str, Any]]:
    key, _, way = order.partition("-")
    return sorted(content["items"], key=lambda i: i[key], reverse=way == "down")


async def _sort(hand: Hand, order: str, then: str | None = None) -> None:
    await hand.open("sorting")
    await hand.choose("first", order)
    if then:
        await hand.choose("then", then)


class Order(Slip):
    """One order for the whole list."""

    name = "sorting/order"
    goals = ("Sort the {many} {said}.",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        order, other = rng.sample(sorted(_SAID), 2)
        own = {"many": content["many"], "said": _SAID[order], "order": order}
        return {**own, "wrong": {"order": other}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after == {**end.before, "first": p["order"], "then": None})

    async def solve(self, hand: Hand, p: Params) -> None:
        await _sort(hand, p["order"])


class Within(Slip):
    """Two orders, one within the other."""

    name = "sorting/within"
    goals = ("Sort the {many} by category, and within each category {said}.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        then, other = rng.sample(sorted(_SAID), 2)
        own = {"many": content["many"], "said": _SAID[then], "then": then}
        return {**own, "wrong": {"then": other}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after == {**end.before, "first": "kind-up", "then": p["then"]})

    async def solve(self, hand: Hand, p: Params) -> None:
        await _sort(hand, "kind-up", p["then"])


class _Answer(Slip):
    """A question for which one sorts; the pins must stay."""

    def done(self, end: Ending, p: Params) -> bool:
        kept = end.after["pinned"] == end.before["pinned"]
        return kept and answered(end.answer, p["truth"])


class Most(_Answer):
    """What stands first in some order."""

    name = "sorting/most"
    goals = ("What is the {most} of the {many} called?", "Name the {most} of all {many}.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        order = rng.choice(sorted(_MOST))
        first, second, *_ = _ordered(content, order)
        own = {"many": content["many"], "most": _MOST[order], "order": order, "id": first["id"]}
        return {**own, "truth": first["name"], "wrong": {"id": second["id"]}}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _sort(hand, p["order"])
        return await hand.read(f"name:{p['id']}")


class Third(_Answer):
    """What stands at a place further down, pins put aside."""

    name = "sorting/place"
    goals = ("Which of the {many} is the {place} {most}? Answer with its name.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        order, index = rng.choice(sorted(_MOST)), rng.randint(1, 4)
        found = _ordered(content, order)
        return {
            "many": content["many"],
            "most": _MOST[order],
            "place": ("second", "third", "fourth", "fifth")[index - 1],
            "order": order,
            "id": found[index]["id"],
            "truth": found[index]["name"],
            "wrong": {"id": found[index + 1]["id"]},
        }

    async def solve(self, hand: Hand, p: Params) -> str:
        await _sort(hand, p["order"])
        return await hand.read(f"name:{p['id']}")


class Gap(Question):
    """How far the first is from the last; it may be read in any order."""

    name = "sorting/gap"
    goals = ("How much more does the most expensive of the {many} cost than the cheapest?",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        low, *_, near, high = _ordered(content, "price-up")
        own = {"many": content["many"], "low": low["id"], "high": high["id"]}
        truth, lie = (amount(each["price"] - low["price"]) for each in (high, near))
        return {**own, "truth": truth, "lie": lie}

    def done(self, end: Ending, p: Params) -> bool:
        kept = end.after["pinned"] == end.before["pinned"]
        return kept and answered_amount(end.answer, p["truth"])

    async def solve(self, hand: Hand, p: Params) -> str:
        await _sort(hand, "price-up")
        low = await hand.read(f"price:{p['low']}")
        high = await hand.read(f"price:{p['high']}")
        return amount(float(high.strip("$€£")) - float(low.strip("$€£")))


class PinMost(Slip):
    """What stands first in some order onto the top, for good."""

    name = "sorting/pin"
    goals: ClassVar[tuple[str, ...]] = ("Pin the {most} of the {many}; keep the other pins.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        pinned = content["state"]["pinned"]
        orders = [o for o in sorted(_MOST) if _ordered(content, o)[0]["id"] not in pinned]
        if not orders:
            return None
        order = rng.choice(orders)
        found = [i["id"] for i in _ordered(content, order) if i["id"] not in pinned]
        own = {"many": content["many"], "most": _MOST[order], "order": order, "id": found[0]}
        return {**own, "wrong": {"id": found[1]}}

    def done(self, end: Ending, p: Params) -> bool:
        return set(end.after["pinned"]) == {*end.before["pinned"], p["id"]}

    async def solve(self, hand: Hand, p: Params) -> None:
        await _sort(hand, p["order"])
        await hand.click(f"pin:{p['id']}")


class OnlyPin(PinMost):
    """The only pin, after all others are gone."""

    name = "sorting/only_pin"
    goals = ("Unpin everything, then pin only the {most} of the {many}.",)
    level = 3

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after["pinned"] == [p["id"]])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("sorting")
        await hand.click("unpin")
        await super().solve(hand, p)


class Sorting(Capability):
    """A table with orders and pins."""

    name, group, label = "sorting", "finding", "Overview"
    templates = (Order(), Within(), Most(), Third(), Gap(), PinMost(), OnlyPin())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        count, (low, high) = rng.randint(12, 16), category.prices
        # no two alike, so that every question has one answer
        step = 1 if high - low >= 2 * count else 4
        prices = rng.sample(range(low * step, high * step + 1), count)
        ratings = rng.sample(range(20, 51), count)
        days = rng.sample(range(1, 29), count)
        items = [
            {**i, "price": price / step if step > 1 else price, "rating": r / 10, "added": date}
            for i, price, r, date in zip(
                category.items(rng, count),
                prices,
                ratings,
                (f"2025-{rng.randint(1, 6):02d}-{day:02d}" for day in days),
                strict=True,
            )
        ]
        pinned = [i["id"] for i in rng.sample(items, 2)]
        return {
            "items": items,
            "orders": [list(pair) for pair in _ORDERS],
            "many": category.item[1],
            "about": f"All {category.item[1]} at a glance",
            "state": {"first": None, "then": None, "pinned": pinned},
        }
