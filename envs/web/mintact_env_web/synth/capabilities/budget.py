"""A budget whose parts must add up: moving money, limits, new parts, a new total."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params, answered

_NEW = ("Reserve", "Repairs", "Summer party", "Training", "Gifts")


def _part(state: Mapping[str, Any], id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in state["parts"] if p["id"] == id)
    return found


class _Amounts(Edit):
    """Some fields filled in and saved: `steps` are pairs of a field and its text, or a button."""

    async def fill(self, hand: Hand, p: Params) -> None:
        """Everything but saving."""
        await hand.open("budget")
        for step in p["steps"]:
            if isinstance(step, str):
                await hand.click(step)
            else:
                await hand.type(step[0], str(step[1]))

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        await hand.click("save")
        return None


class Shift(_Amounts):
    """Money from one part to another."""

    name = "budget/shift"
    goals = ("Move {n} from {a} to {b} in the budget and save it.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        step, parts = content["step"], content["state"]["parts"]
        a, b, other = rng.sample([p for p in parts if p["amount"] > 3 * step], 3)
        n = step * rng.randint(1, a["amount"] // step - 1)
        ids = {"a": a["name"], "b": b["name"], "ids": [a["id"], b["id"]], "n": n}
        less = (f"amount:{a['id']}", a["amount"] - n)
        steps = [less, (f"amount:{b['id']}", b["amount"] + n)]
        wrong = {"steps": [less, (f"amount:{other['id']}", other["amount"] + n)]}
        return {**ids, "steps": steps, "wrong": wrong}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _part(state, p["ids"][0])["amount"] -= p["n"]
        _part(state, p["ids"][1])["amount"] += p["n"]


class Limit(_Amounts):
    """A limit for a part, another one lifted."""

    name = "budget/limit"
    goals = ("Give {a} a limit of {n}, remove the limit of {b}, and save the budget.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        parts = content["state"]["parts"]
        b = rng.choice([p for p in parts if p["limit"] is not None])
        a, other = rng.sample([p for p in parts if p is not b], 2)
        n = rng.choice([n for n in range(100, 1000, 50) if n != a["limit"]])
        lift = (f"limit:{b['id']}", "")
        own = {"a": a["name"], "b": b["name"], "ids": [a["id"], b["id"]], "n": n}
        steps = {"steps": [(f"limit:{a['id']}", n), lift]}
        return {**own, **steps, "wrong": {"steps": [(f"limit:{other['id']}", n), lift]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _part(state, p["ids"][0])["limit"] = p["n"]
        _part(state, p["ids"][1])["limit"] = None


class Raise(_Amounts):
    """More in all, and all of that for one part."""

    name = "budget/raise_total"
    goals = ("Raise the total of the budget to {total}, give all that is added to {a}, and save.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        state, more = content["state"], content["step"] * rng.randint(2, 9)
        a, other = rng.sample(state["parts"], 2)
        total = state["total"] + more
        own = {"total": total, "id": a["id"], "a": a["name"], "more": more}
        first = ("total", total)
        steps = {"steps": [first, (f"amount:{a['id']}", a["amount"] + more)]}
        wrong = {"steps": [first, (f"amount:{other['id']}", other["amount"] + more)]}
        return {**own, **steps, "wrong": wrong}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["total"] = p["total"]
        _part(state, p["id"])["amount"] += p["more"]


class Add(_Amounts):
    """A new part, paid from another."""

    name = "budget/new_part"
    goals = ('Add a part "{name}" of {n} to the budget, take that from {a}, and save.',)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        step, parts = content["step"], content["state"]["parts"]
        a = rng.choice([p for p in parts if p["amount"] > 3 * step])
        n = step * rng.randint(1, a["amount"] // step - 1)
        own = {"name": rng.choice(_NEW), "n": n, "id": a["id"], "a": a["name"]}
        new = f"n{len(parts)}"
        steps = [("name", own["name"]), "add", (f"amount:{new}", n)]
        steps.append((f"amount:{a['id']}", a["amount"] - n))
        return {**own, "new": new, "steps": steps}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _part(state, p["id"])["amount"] -= p["n"]
        state["parts"].append({"id": p["new"], "name": p["name"], "amount": p["n"], "limit": None})

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        return None


class Remove(_Amounts):
    """A part given up for another."""

    name = "budget/remove_part"
    goals = ("Remove {a} from the budget, give its amount to {b}, and save.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        a, b, other = rng.sample([p for p in content["state"]["parts"] if p["amount"]], 3)
        drop = f"drop:{a['id']}"
        steps = [drop, (f"amount:{b['id']}", a["amount"] + b["amount"])]
        wrong = {"steps": [drop, (f"amount:{other['id']}", a["amount"] + other["amount"])]}
        own = {"a": a["name"], "b": b["name"], "ids": [a["id"], b["id"]], "steps": steps}
        return {**own, "wrong": wrong}

    def change(self, state: dict[str, Any], p: Params) -> None:
        a, b = (_part(state, id) for id in p["ids"])
        b["amount"] += a["amount"]
        state["parts"].remove(a)


class Even(_Amounts):
    """The same for each."""

    name = "budget/even"
    goals = ("Split the budget evenly among its parts and save it.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {"steps": ["even"]}

    def change(self, state: dict[str, Any], p: Params) -> None:
        share, rest = divmod(state["total"], len(state["parts"]))
        for i, part in enumerate(state["parts"]):
            part["amount"] = share + (i < rest)

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        return None


class Over(Question):
    """The part that is above its limit."""

    name = "budget/over_limit"
    goals = ("Which part of the budget is over its limit, and by how much?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        parts = [p for p in content["state"]["parts"] if p["limit"] is not None]
        over = [p for p in parts if p["amount"] > p["limit"]]
        if len(over) != 1:
            return None
        part = over[0]
        more = part["amount"] - part["limit"]
        lie = f"{part['name']}, by {part['limit']}"
        return {"name": part["name"], "truth": str(more), "lie": lie}

    def done(self, end: Ending, p: Params) -> bool:
        return super().done(end, p) and answered(end.answer, p["name"])

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("budget")
        return f"{p['name']}, by {p['truth']}"


class Budget(Capability):
    """A budget in parts."""

    name, group, label = "budget", "tools", "Budget"
    templates = (Shift(), Limit(), Raise(), Add(), Remove(), Even(), Over())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        step = 50
        names = [*category.kinds[:4], *rng.sample(("Rent", "Travel", "Printing", "Helpers"), 2)]
        amounts = [step * n for n in rng.sample(range(4, 20), len(names))]
        over, fine = rng.sample(range(len(names)), 2)
        parts = [
            {"id": f"p{i}", "name": name, "amount": amount, "limit": None}
            for i, (name, amount) in enumerate(zip(names, amounts, strict=True))
        ]
        parts[over]["limit"] = amounts[over] - rng.choice((20, 30, 70, 80))
        parts[fine]["limit"] = amounts[fine] + step * rng.randint(0, 3)
        total = sum(amounts)
        about = "Give your money its places"
        return {"step": step, "about": about, "state": {"total": total, "parts": parts}}
