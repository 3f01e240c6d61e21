"""An order of one's own: moving up, down, between lists; sorting by hand; dragging."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Hand, Params

_LISTS = (
    ("This month", "Later"),
    ("Shown first", "Reserve"),
    ("My favourites", "Maybe"),
    ("Next", "Some day"),
)


def _moved(order: Sequence[str], id: str, at: int) -> list[str]:
    rest = [x for x in order if x != id]
    return [*rest[:at], id, *rest[at:]]


async def _arrange(hand: Hand, order: Sequence[str], wanted: Sequence[str]) -> None:
    """From one order to another by the buttons, from the top on."""
    order = list(order)
    for at, id in enumerate(wanted):
        while order.index(id) > at:
            if at == 0:
                await hand.click(f"top:{id}")
                order = _moved(order, id, 0)
            else:
                await hand.click(f"up:{id}")
                order = _moved(order, id, order.index(id) - 1)


class _Order(Edit):
    """The first list in another order."""

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        """The order that is wanted, a wrong one, and what the goal names."""
        raise NotImplementedError

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["now"]
        p = self.wish(rng, content, list(now))
        if p is None or p["order"] == now or p["bad"] == p["order"]:
            return None
        names = {i["id"]: i["name"] for i in content["items"]}
        said = {key: names[p[key]] for key in ("item", "mark") if key in p}
        own = {**p, **said, "id": p.get("item"), "now": now, "list": content["names"]["now"]}
        return {**own, "wrong": {"order": p["bad"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["now"] = p["order"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("reorder")
        await _arrange(hand, p["now"], p["order"])
        await hand.click("save")
        return None


class Top(_Order):
    """One thing to the top, saved."""

    name = "reorder/top"
    goals = ('Move {item} to the top of "{list}" and save the order.',)

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        item, other = rng.sample(now[1:], 2)
        return {"item": item, "order": _moved(now, item, 0), "bad": _moved(now, other, 0)}

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await hand.open("reorder")
        await hand.click(f"top:{p['id']}")
        return None


class Steps(_Order):
    """One thing some places down."""

    name = "reorder/steps_down"
    goals = ('Move {item} exactly {n} places down in "{list}" and save the order.',)
    level = 3

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        n, at = rng.randint(2, 3), rng.randrange(len(now) - 3)
        order, bad = _moved(now, now[at], at + n), _moved(now, now[at], at + n - 1)
        return {"item": now[at], "n": n, "order": order, "bad": bad}


class Before(_Order):
    """One thing right before another."""

    name = "reorder/before"
    goals = ('Put {item} right before {mark} in "{list}" and save the order.',)
    level = 3

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        item = rng.choice(now)
        rest = [x for x in now if x != item]
        # not where it stands already, and not where the wrong order is the one at the start
        mark = rng.choice(
            [x for x in rest if rest.index(x) not in (now.index(item), now.index(item) - 1)]
        )
        at = rest.index(mark)
        order, bad = _moved(now, item, at), _moved(now, item, at + 1)
        return {"item": item, "mark": mark, "order": order, "bad": bad}


class Sort(_Order):
    """All of them by price."""

    name = "reorder/by_price"
    goals = ('Order "{list}" by price, {how} first, and save the order.',)
    level = 4

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        down = rng.random() < 0.5
        prices = {i["id"]: i["price"] for i in content["items"]}
        if len({prices[id] for id in now}) < len(now):
            return None
        order = sorted(now, key=lambda id: prices[id], reverse=down)
        bad = _moved(order, order[-1], len(order) - 2)
        return {"how": "dearest" if down else "cheapest", "order": order, "bad": bad}


class Exchange(_Order):
    """The first and the last change places."""

    name = "reorder/exchange"
    goals = (
        'Let the first and the last of "{list}" change places, the others stay where they are. '
        "Save the order.",
    )
    level = 4

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        return {"order": [now[-1], *now[1:-1], now[0]], "bad": [now[-1], now[0], *now[1:-1]]}


class Drag(_Order):
    """One thing dragged to a place."""

    name = "reorder/drag"
    goals = ('Drag {item} to place {n} of "{list}" by its handle and save the order.',)
    needs = frozenset({"drag"})

    def wish(self, rng: random.Random, content: Mapping[str, Any], now: list[str]) -> Params | None:
        at, to, bad = rng.sample(range(4), 3)
        ways = {"order": _moved(now, now[at], to), "bad": _moved(now, now[at], bad)}
        return {"item": now[at], "n": to + 1, **ways}

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("reorder")
        at = p["order"].index(p["id"])
        await hand.drag(f"grip:{p['id']}", f"row:{p['now'][at]}")
        await hand.click("save")
        return None


class Shelve(Edit):
    """Things sent to the other list."""

    name = "reorder/shelve"
    goals = ('Move {a} and then {b} from "{list}" to "{to}", and save.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        a, b = rng.sample(content["state"]["now"], 2)
        names = {i["id"]: i["name"] for i in content["items"]}
        lists = {"list": content["names"]["now"], "to": content["names"]["later"]}
        own = {"ids": [a, b], "a": names[a], "b": names[b], **lists}
        return {**own, "wrong": {"ids": [b, a]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["now"] = [id for id in state["now"] if id not in p["ids"]]
        state["later"] += p["ids"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("reorder")
        for id in p["ids"]:
            await hand.click(f"shift:{id}")
        await hand.click("save")
        return None


class Place(Question):
    """What stands where."""

    name = "reorder/place"
    goals = ('What stands right after {mark} in "{list}"? Change nothing.',)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["now"]
        names = {i["id"]: i["name"] for i in content["items"]}
        at = rng.randrange(len(now) - 2)
        mark, truth, lie = (names[id] for id in now[at : at + 3])
        return {"mark": mark, "list": content["names"]["now"], "truth": truth, "lie": lie}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("reorder")
        return str(p["truth"])


class Reorder(Capability):
    """Two ordered lists."""

    name, group, label = "reorder", "organising", "My order"
    templates = (
        Top(), Steps(), Before(), Sort(), Exchange(), Drag(), Shelve(), Place(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, 9)
        low, high = category.prices
        if high - low >= len(items):
            prices = rng.sample(range(low, high + 1), len(items))
            items = [{**i, "price": n} for i, n in zip(items, prices, strict=True)]
        ids, names = [i["id"] for i in items], rng.choice(_LISTS)
        return {
            "items": items,
            "names": {"now": names[0], "later": names[1]},
            "about": f"Put {category.item[1]} in your own order",
            "state": {"now": ids[:6], "later": ids[6:]},
        }
