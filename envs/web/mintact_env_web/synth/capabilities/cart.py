"""Putting things into a cart: quantities, removal, totals."""

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


def _lines(state: Mapping[str, Any]) -> dict[str, int]:
    return {line["id"]: line["count"] for line in state["lines"]}


class AddOne(Template):
    """One thing, once."""

    name = "cart/add_one"
    goals: ClassVar[tuple[str, ...]] = (
        "Add {item} to the {cart}.",
        "Put one {item} into the {cart}.",
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        absent = [i for i in content["items"] if i["id"] not in _lines(content["state"])]
        item, other = rng.sample(absent, 2)
        return {
            "id": item["id"],
            "item": item["name"],
            "cart": content["cart"],
            "other": other["id"],
        }

    def done(self, end: Ending, p: Params) -> bool:
        return _lines(end.after) == {**_lines(end.before), p["id"]: 1}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("cart")
        await hand.click(f"add:{p['id']}")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("cart")
        await hand.click(f"add:{p['other']}")


class AddSeveral(AddOne):
    """One thing, several times."""

    name = "cart/add_several"
    goals = ("Add {n} × {item} to the {cart}.", "Put exactly {n} of {item} into the {cart}.")
    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {**(super().draw(rng, content) or {}), "n": rng.randint(2, 4)}

    def done(self, end: Ending, p: Params) -> bool:
        return _lines(end.after) == {**_lines(end.before), p["id"]: p["n"]}

    async def solve(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)
        await hand.click("cart")
        for _ in range(p["n"] - 1):
            await hand.click(f"more:{p['id']}")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("cart")
        await hand.click(f"add:{p['id']}")


class AddTwo(AddOne):
    """Two different things."""

    name = "cart/add_two"
    goals = ("Add {item} and {second} to the {cart}, one of each.",)
    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        second = next(i for i in content["items"] if i["id"] == p["other"])
        return {**p, "second": second["name"]}

    def done(self, end: Ending, p: Params) -> bool:
        return _lines(end.after) == {**_lines(end.before), p["id"]: 1, p["other"]: 1}

    async def solve(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)
        await hand.click(f"add:{p['other']}")


class Remove(Template):
    """One thing out of a cart that holds several."""

    name = "cart/remove"
    goals: ClassVar[tuple[str, ...]] = (
        "Remove {item} from the {cart}.",
        "Take {item} out of the {cart}; keep the rest.",
    )
    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        names = {i["id"]: i["name"] for i in content["items"]}
        chosen, other = rng.sample(sorted(_lines(content["state"])), 2)
        return {"id": chosen, "item": names[chosen], "cart": content["cart"], "other": other}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = _lines(end.before)
        del wanted[p["id"]]
        return _lines(end.after) == wanted

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("cart")
        await hand.click("cart")
        await hand.click(f"drop:{p['id']}")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("cart")
        await hand.click("cart")
        await hand.click(f"drop:{p['other']}")


class SetQuantity(Remove):
    """The quantity of a thing that is in the cart already."""

    name = "cart/set_quantity"
    goals = ("Change the quantity of {item} in the {cart} to {n}.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        now = _lines(content["state"])[p["id"]]
        return {**p, "n": rng.choice([n for n in range(1, 6) if n != now]), "now": now}

    def done(self, end: Ending, p: Params) -> bool:
        return _lines(end.after) == {**_lines(end.before), p["id"]: p["n"]}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("cart")
        await hand.click("cart")
        button = "more" if p["n"] > p["now"] else "less"
        for _ in range(abs(p["n"] - p["now"])):
            await hand.click(f"{button}:{p['id']}")


class Total(Template):
    """What the cart costs, after one more thing went in."""

    name = "cart/total"
    goals = ("Add one {item} to the {cart} and answer with the new total.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        lines, prices = _lines(content["state"]), {i["id"]: i["price"] for i in content["items"]}
        item = rng.choice([i for i in content["items"] if i["id"] not in lines])
        before = sum(n * prices[id] for id, n in lines.items())
        total = before + item["price"]
        return {
            "id": item["id"],
            "item": item["name"],
            "cart": content["cart"],
            "total": str(total),
            "before": str(before),
        }

    def done(self, end: Ending, p: Params) -> bool:
        added = _lines(end.after) == {**_lines(end.before), p["id"]: 1}
        return added and answered(end.answer, p["total"])

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("cart")
        await hand.click(f"add:{p['id']}")
        await hand.click("cart")
        return await hand.read("total")

    async def miss(self, hand: Hand, p: Params) -> str:
        await hand.open("cart")
        await hand.click(f"add:{p['id']}")
        return str(p["before"])


class Cart(Capability):
    """A shop's shelf and its cart."""

    name, group, label = "cart", "shopping", "Shop"
    templates = (AddOne(), AddSeveral(), AddTwo(), Remove(), SetQuantity(), Total())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, rng.randint(9, 15))
        held = rng.sample(items, 3)
        return {
            "items": items,
            "cart": category.label("cart", "Cart").lower(),
            "about": f"Browse our {category.item[1]}",
            "state": {"lines": [{"id": i["id"], "count": rng.randint(1, 3)} for i in held]},
        }
