"""A checkout in steps: address, delivery, payment, review, and the order at its end."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_STREETS = ("Lime Street", "Canal Walk", "Abbey Road", "Quay", "Linden Way", "Chapel Hill")
_PAYMENTS = ("Card ending in 4417", "Invoice", "Bank transfer", "Cash on delivery", "Gift balance")
_MESSAGES = ("Happy birthday!", "With love from all of us", "Thank you so much", "Get well soon")


def _home(rng: random.Random, places: list[str]) -> dict[str, str]:
    street = f"{rng.choice(_STREETS)} {rng.randint(1, 99)}"
    return {"name": rng.choice(PEOPLE), "street": street, "town": rng.choice(places)}


def _draw(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any]:
    """An address, a delivery, a payment, as one says them and as they are kept."""
    index, elsewhere = rng.sample(range(len(content["addresses"])), 2)
    pay, other_pay = rng.sample(content["payments"], 2)
    way = rng.choice([way for way in content["ways"] if way["id"] != "pickup"])
    address = content["addresses"][index]
    return {
        "address": str(index),
        "elsewhere": str(elsewhere),
        "label": address["label"],
        "kept": address,
        "way": way["id"],
        "way_name": way["name"],
        "place": None,
        "payment": pay,
        "other_payment": other_pay,
        "gift": None,
        "out": None,
        "fee": way["price"],
    }


class _Order(Slip):
    """One more order as wanted."""

    level = 3

    def done(self, end: Ending, p: Params) -> bool:
        prices = {i["id"]: i["price"] for i in end.content["items"]}
        lines = [line for line in end.before["basket"] if line["id"] != p["out"]]
        wanted = {
            "number": f"A-{end.before['next']}",
            "lines": lines,
            "address": p["kept"],
            "way": p["way"],
            "place": p["place"],
            "payment": p["payment"],
            "gift": p["gift"],
            "total": sum(line["count"] * prices[line["id"]] for line in lines) + p["fee"],
        }
        left = [line for line in end.before["basket"] if line["id"] == p["out"]]
        orders = [*end.before["orders"], wanted]
        return bool(end.after["orders"] == orders and end.after["basket"] == left)

    async def until_review(self, hand: Hand, p: Params) -> None:
        """All steps but the last."""
        await hand.open("checkout")
        if p["out"]:
            await hand.click(f"out:{p['out']}")
        await hand.click(f"address:{p['address']}")
        if p["address"] == "new":
            for key in ("name", "street", "town"):
                await hand.type(key, p[key])
        await hand.click("next")
        await self.pay(hand, p)

    async def pay(self, hand: Hand, p: Params) -> None:
        """Delivery and payment."""
        await hand.click(f"way:{p['way']}")
        if p["place"]:
            await hand.choose("place", p["place"])
        await hand.click("next")
        await hand.click(f"pay:{p['payment']}")
        if p["gift"]:
            await hand.click("gift")
            await hand.type("message", p["gift"])
        await hand.click("next")

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.until_review(hand, p)
        await hand.click("place-order")


class Plain(_Order):
    """What is on file."""

    name = "checkout/plain"
    goals = (
        "Place the order: address “{label}”, delivery “{way_name}”, payment “{payment}”.",
        "Check out with the delivery “{way_name}” to “{label}” and pay by “{payment}”.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _draw(rng, content)
        return {**p, "wrong": {"address": p["elsewhere"]}}


class Elsewhere(_Order):
    """To an address one types in; the last click is easily forgotten."""

    name = "checkout/new_address"
    goals = (
        "Send the order to {name}, {street}, {town}; delivery “{way_name}”, payment “{payment}”.",
        "Place the order with “{way_name}” delivery and the payment “{payment}” to a new "
        "address: {name}, {street}, {town}.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        home = _home(rng, content["places"])
        kept = {"label": "Other", **home}
        return {**_draw(rng, content), **home, "address": "new", "kept": kept, "wrong": {}}

    async def miss(self, hand: Hand, p: Params) -> None:
        await self.until_review(hand, p)


class PickUp(_Order):
    """Where one fetches it oneself."""

    name = "checkout/pick_up"
    goals = (
        "Order for pick-up at {place}, with the address “{label}” and the payment “{payment}”.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        place, other = rng.sample(content["places"], 2)
        own = {"way": "pickup", "place": place, "fee": 0}
        return {**_draw(rng, content), **own, "wrong": {"place": other}}


class Present(_Order):
    """With a card and words on it."""

    name = "checkout/present"
    goals = (
        "Place the order as a present with the message “{gift}”: address “{label}”, delivery "
        "“{way_name}”, payment “{payment}”.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {**_draw(rng, content), "gift": rng.choice(_MESSAGES), "wrong": {"gift": None}}


class LeaveOut(_Order):
    """Without one of the things."""

    name = "checkout/leave_out"
    goals = (
        "Place the order without {item}: address “{label}”, delivery “{way_name}”, payment "
        "“{payment}”. "
        "{item} stays for another time.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        ids = [line["id"] for line in content["state"]["basket"]]
        out, other = rng.sample(ids, 2)
        name = next(i["name"] for i in content["items"] if i["id"] == out)
        return {**_draw(rng, content), "item": name, "out": out, "wrong": {"out": other}}


class Cost(Question):
    """What it would cost, without placing it."""

    name = "checkout/cost"
    goals = (
        "What would the order cost in all with “{way_name}” as delivery? Answer with the total; do "
        "not place it.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        prices = {i["id"]: i["price"] for i in content["items"]}
        goods = sum(line["count"] * prices[line["id"]] for line in content["state"]["basket"])
        way = rng.choice([way for way in content["ways"] if way["price"]])
        own = {"way": way["id"], "way_name": way["name"]}
        return {**own, "truth": str(goods + way["price"]), "lie": str(goods)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("checkout")
        await hand.click("address:0")
        await hand.click("next")
        await hand.click(f"way:{p['way']}")
        return await hand.read("total")


class Checkout(Capability):
    """A basket on its way to be paid."""

    name, group, label = "checkout", "shopping", "Checkout"
    templates = (Plain(), Elsewhere(), PickUp(), Present(), LeaveOut(), Cost())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items, places = category.items(rng, 3), list(category.places)
        towns = [f"{place} district" for place in places]
        labels = rng.sample(("Home", "Work", "Parents", "Holiday house", "Studio"), 3)
        base = max(2, category.prices[1] // 40)
        return {
            "items": items,
            "places": places,
            "addresses": [{"label": label, **_home(rng, towns)} for label in labels],
            "payments": rng.sample(_PAYMENTS, 4),
            "ways": [
                {"id": "standard", "name": "Standard", "price": base, "text": "In 3 to 5 days"},
                {"id": "express", "name": "Express", "price": base * 3, "text": "Tomorrow"},
                {"id": "evening", "name": "Evening slot", "price": base * 2, "text": "6 to 9 pm"},
                {"id": "pickup", "name": "Pick-up", "price": 0, "text": "You fetch it yourself"},
            ],
            "about": "Finish your order in four steps",
            "state": {
                "basket": [{"id": i["id"], "count": rng.randint(1, 3)} for i in items],
                "orders": [],
                "next": rng.randint(2000, 8000),
            },
        }
