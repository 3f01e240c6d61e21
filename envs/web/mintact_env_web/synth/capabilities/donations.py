"""Giving: once or monthly, in somebody's honour, with a receipt; changing and stopping gifts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_PRESETS = (10, 25, 50, 100)
_DAYS = (1, 5, 10, 15, 20, 28)
_STREETS = ("Mill Lane", "Rose Square", "Park Avenue", "Bridge Street", "Elm Road")
_TOWNS = ("Leeds", "Graz", "Ghent", "Porto", "Tartu", "Lund")
_PLAIN = {"often": "once", "day": None, "honour": None, "receipt": None, "anonymous": False}


class Once(Edit):
    """One gift of a usual amount."""

    name = "donations/once"
    goals: ClassVar[tuple[str, ...]] = (
        'Give {money} once for "{purpose}".',
        'Donate {money} for "{purpose}", just once.',
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        purpose, other = rng.sample(content["purposes"], 2)
        gift = {**_PLAIN, "purpose": purpose["id"], "amount": rng.choice(_PRESETS)}
        gift |= self.more(rng)
        said = {"purpose": purpose["name"], "money": f"{content['currency']}{gift['amount']}"}
        id = f"g{len(content['state']['gifts'])}"
        wrong = {"gift": {**gift, "purpose": other["id"]}}
        return {**gift, **said, "gift": gift, "id": id, "wrong": wrong}

    def more(self, rng: random.Random) -> dict[str, Any]:
        """What is special about the gift."""
        return {}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["gifts"].append({"id": p["id"], **p["gift"]})

    async def fill(self, hand: Hand, gift: Mapping[str, Any]) -> None:
        """Everything but the last confirmation."""
        await hand.open("donations")
        await hand.choose("purpose", gift["purpose"])
        if gift["often"] == "monthly":
            await hand.click("often:monthly")
            await hand.choose("day", str(gift["day"]))
        if gift["amount"] in _PRESETS:
            await hand.click(f"amount:{gift['amount']}")
        else:
            await hand.click("amount:other")
            await hand.type("other", str(gift["amount"]))
        if gift["honour"]:
            await hand.click("honour")
            await hand.type("name", gift["honour"])
        if gift["receipt"]:
            await hand.click("receipt")
            street, _, town = gift["receipt"].partition(", ")
            await hand.type("street", street)
            await hand.type("town", town)
        if gift["anonymous"]:
            await hand.click("anonymous")
        await hand.click("check")

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p["gift"])
        await hand.click("give")
        return None


class Monthly(Once):
    """A gift each month, of an amount of one's own."""

    name = "donations/monthly"
    goals = ('Give {money} for "{purpose}" every month, on day {day} of the month.',)
    level = 3

    def more(self, rng: random.Random) -> dict[str, Any]:
        odd = rng.choice([n for n in range(11, 90) if n not in _PRESETS])
        return {"often": "monthly", "day": rng.choice(_DAYS), "amount": odd}

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p["gift"])
        return None


class Honour(Once):
    """A gift in somebody's honour, one's own name not shown."""

    name = "donations/in_honour"
    goals = ('Give {money} once for "{purpose}" in honour of {honour}; do not show my name.',)
    level = 3

    def more(self, rng: random.Random) -> dict[str, Any]:
        return {"honour": rng.choice(PEOPLE), "anonymous": True}


class Receipt(Once):
    """A gift with a receipt by post."""

    name = "donations/receipt"
    goals = ('Give {money} once for "{purpose}" and have a receipt sent to {receipt}.',)
    level = 4

    def more(self, rng: random.Random) -> dict[str, Any]:
        street = f"{rng.choice(_STREETS)} {rng.randint(1, 60)}"
        return {"receipt": f"{street}, {rng.choice(_TOWNS)}"}


class Stop(Edit):
    """A monthly gift stopped."""

    name = "donations/stop"
    goals = ('Stop the monthly gift for "{purpose}".',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one, other = rng.sample([g for g in content["state"]["gifts"] if g["day"]], 2)
        names = {p["id"]: p["name"] for p in content["purposes"]}
        amount = rng.choice([n for n in range(5, 60) if n != one["amount"]])
        own = {"id": one["id"], "purpose": names[one["purpose"]], "amount": amount}
        return {**own, "wrong": {"id": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["gifts"] = [g for g in state["gifts"] if g["id"] != p["id"]]
        state["stopped"] += 1

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("donations")
        await hand.click(f"stop:{p['id']}")
        await hand.click("confirm")
        return None


class Amount(Stop):
    """Another amount for a monthly gift."""

    name = "donations/change_amount"
    goals = ('From now on, give {amount} a month for "{purpose}" instead of what it is now.',)

    def change(self, state: dict[str, Any], p: Params) -> None:
        next(g for g in state["gifts"] if g["id"] == p["id"])["amount"] = p["amount"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("donations")
        await hand.click(f"change:{p['id']}")
        await hand.type("new-amount", str(p["amount"]))
        await hand.click("save")
        return None


class Sum(Question):
    """What all monthly gifts come to."""

    name = "donations/monthly_sum"
    goals = ("How much do I give every month, all monthly gifts together?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        gifts = content["state"]["gifts"]
        monthly, every = (
            sum(g["amount"] for g in gs) for gs in ([g for g in gifts if g["day"]], gifts)
        )
        return {"truth": str(monthly), "lie": str(every)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("donations")
        return str(p["truth"])


class Donations(Capability):
    """Gifts of money."""

    name, group, label = "donations", "forms", "Give"
    templates = (Once(), Monthly(), Honour(), Receipt(), Stop(), Amount(), Sum())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        names = [f"Friends of {place}" for place in category.places[:3]]
        names += [f"{kind} for everybody" for kind in category.kinds[:3]]
        purposes = [{"id": f"u{i}", "name": name} for i, name in enumerate(names)]
        ids = rng.sample([p["id"] for p in purposes], 5)
        amounts = rng.sample(range(6, 60), 5)
        gifts = [
            {"id": f"g{i}", **_PLAIN, "purpose": id, "amount": amounts[i]}
            | ({"often": "monthly", "day": rng.choice(_DAYS)} if i % 2 == 0 else {})
            for i, id in enumerate(ids)
        ]
        return {
            **{"purposes": purposes, "presets": list(_PRESETS), "days": list(_DAYS)},
            "currency": category.currency,
            "about": "Help us with a gift",
            "state": {"gifts": gifts, "stopped": 0},
        }
