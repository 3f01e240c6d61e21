"""Codes with rules: applying, replacing, stacking, finding the best, reaching a minimum."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Slip, amount, answered_amount
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_WORDS = ("SPRING", "HELLO", "THANKS", "WEEKEND", "FRIEND", "SUNNY", "EXTRA", "BONUS")


def _goods(content: Mapping[str, Any], kind: str | None = None) -> int:
    items = {i["id"]: i for i in content["items"]}
    pairs = ((items[line["id"]], line["count"]) for line in content["state"]["lines"])
    return sum(i["price"] * count for i, count in pairs if kind in (None, i["kind"]))


def _worth(content: Mapping[str, Any], code: Mapping[str, Any]) -> float:
    """What a code takes off at the start; 0 when its rule refuses it."""
    goods = _goods(content)
    if goods < (code.get("least") or 0):
        return 0
    if code["type"] == "amount":
        return float(min(code["value"], goods))
    return float(code["value"] * _goods(content, code.get("kind")) / 100)


def _discounts(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The codes that a fresh order accepts, apart from free delivery and what is applied."""
    now = content["state"]["applied"]
    found = [c for c in content["codes"] if c["type"] != "delivery" and c["code"] not in now]
    return [c for c in found if _worth(content, c)]


async def _apply(hand: Hand, p: Params) -> None:
    await hand.open("coupon")
    for old in p["drop"]:
        await hand.click(f"drop:{old}")
    for code in p["codes"]:
        await hand.type("code", code)
        await hand.click("apply")


class _Codes(Slip):
    """Some codes applied, the order as it was."""

    def done(self, end: Ending, p: Params) -> bool:
        same = sorted(end.after["applied"]) == sorted(p["codes"])
        return bool(same and end.after["lines"] == end.before["lines"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _apply(hand, p)
        return None


class Replace(_Codes):
    """The one that is applied, for another."""

    name = "coupon/replace"
    goals = ("Use the code {code} in place of {old}.", "Replace the code {old} by {code}.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        [old] = content["state"]["applied"]
        code = rng.choice(_discounts(content))["code"]
        return {"code": code, "old": old, "codes": [code], "drop": [old], "wrong": {"drop": []}}


class Remove(Slip):
    """No code at all."""

    name = "coupon/remove"
    goals = ("Take the code off the order.", "Remove the code {code} so that none is applied.")
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        code, line = content["state"]["applied"][0], content["state"]["lines"][0]
        return {"code": code, "button": f"drop:{code}", "wrong": {"button": f"more:{line['id']}"}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after == {**end.before, "applied": []})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("coupon")
        await hand.click(p["button"])


class Both(_Codes):
    """Free delivery on top of what is applied."""

    name = "coupon/both"
    goals = (
        "Find the code for free delivery and apply it as well; keep the code that is applied.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = next(c["code"] for c in content["codes"] if c["type"] == "delivery")
        return {"codes": [*content["state"]["applied"], free], "free": free, "wrong": {"free": ""}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await _apply(hand, {"drop": [], "codes": [p["free"]]})


class Best(_Codes):
    """The discount that saves the most."""

    name = "coupon/best"
    goals: ClassVar[tuple[str, ...]] = (
        "Apply the one discount code that saves the most on this order, and no other code.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        ranked = sorted(_discounts(content), key=lambda c: _worth(content, c), reverse=True)
        [old] = content["state"]["applied"]
        old_worth = next(_worth(content, c) for c in content["codes"] if c["code"] == old)
        best, second = ranked[0], ranked[1]
        rest = (old_worth, _worth(content, second), content["delivery"])
        if _worth(content, best) <= max(rest):
            return None
        wrong = {"codes": [second["code"]]}
        return {"codes": [best["code"]], "drop": [old], "wrong": wrong}


class Pay(Slip):
    """What is left to pay with another code."""

    name = "coupon/pay"
    goals = ("Apply {code} in place of {old} and answer with what is left to pay.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        [old] = content["state"]["applied"]
        code = rng.choice(_discounts(content))
        full = _goods(content) + content["delivery"]
        left = full - _worth(content, code)
        own = {"code": code["code"], "old": old, "codes": [code["code"]], "drop": [old]}
        return {**own, "truth": amount(left), "said": None, "wrong": {"said": str(full)}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {**end.before, "applied": p["codes"]}
        return bool(end.after == wanted and answered_amount(end.answer, p["truth"]))

    async def solve(self, hand: Hand, p: Params) -> str:
        await _apply(hand, p)
        return p["said"] or await hand.read("total")


class Reach(Slip):
    """More of one thing until a code's minimum is reached, but no more than that."""

    name = "coupon/reach"
    goals = (
        "Order just enough more of {item} that the code {code} is accepted, and use it in place "
        "of {old}.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        [old] = content["state"]["applied"]
        code = next(c for c in content["codes"] if not _worth(content, {"value": 1, **c}))
        line = max(content["state"]["lines"], key=lambda each: self._price(content, each))
        price = self._price(content, line)
        more = -(-(code["least"] - _goods(content)) // price) if price else 0
        if not 1 <= more <= 5:
            return None
        name = next(i["name"] for i in content["items"] if i["id"] == line["id"])
        own = {"id": line["id"], "item": name, "more": more, "code": code["code"], "old": old}
        return {**own, "wrong": {"more": more + 1}}

    def _price(self, content: Mapping[str, Any], line: Mapping[str, Any]) -> int:
        return int(next(i["price"] for i in content["items"] if i["id"] == line["id"]))

    def done(self, end: Ending, p: Params) -> bool:
        more = {p["id"]: p["more"]}
        lines = [
            {**each, "count": each["count"] + more.get(each["id"], 0)}
            for each in end.before["lines"]
        ]
        return bool(end.after == {"lines": lines, "applied": [p["code"]]})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("coupon")
        for _ in range(p["more"]):
            await hand.click(f"more:{p['id']}")
        await _apply(hand, {"drop": [p["old"]], "codes": [p["code"]]})


class Coupon(Capability):
    """An order with a field for codes."""

    name, group, label = "coupon", "shopping", "Codes & savings"
    templates = (Replace(), Remove(), Both(), Best(), Pay(), Reach())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = [{**i, "price": max(1, i["price"])} for i in category.items(rng, 4)]
        lines = [{"id": i["id"], "count": rng.randint(1, 3)} for i in items]
        counts = {line["id"]: line["count"] for line in lines}
        goods = sum(i["price"] * counts[i["id"]] for i in items)
        dearest = max(i["price"] for i in items)
        codes = _codes(rng, items, goods, dearest, category.currency)
        first = codes[0]["code"]
        rng.shuffle(codes)
        return {
            "items": items,
            "codes": codes,
            "delivery": max(2, category.prices[1] // 40),
            "about": "Codes that make your order cheaper",
            "state": {"lines": lines, "applied": [first]},
        }


def _codes(
    rng: random.Random, items: list[dict[str, Any]], goods: int, dearest: int, sign: str
) -> list[dict[str, Any]]:
    """A weak code first, then better ones, one out of reach, and free delivery."""
    words = rng.sample(_WORDS, 6)
    kind, few = rng.choice(items)["kind"], max(1, goods // 50)
    share, part, amount = rng.randint(3, 9), rng.choice((15, 20, 25, 30)), max(2, goods // 9)
    least = goods + dearest * rng.randint(1, 2) + rng.randint(0, max(0, dearest - 1))
    drafts: list[tuple[str, dict[str, Any], str]] = [
        (f"{few}", {"type": "amount", "value": few}, f"{sign}{few} off any order"),
        (f"{share}", {"type": "percent", "value": share}, f"{share}% off everything"),
        (f"{part}", {"type": "percent", "value": part, "kind": kind}, f"{part}% off {kind}"),
        (f"{amount}", {"type": "amount", "value": amount}, f"{sign}{amount} off any order"),
        (
            "50",
            {"type": "percent", "value": 50, "least": least},
            f"50% off everything from {sign}{least}",
        ),
        ("SHIP", {"type": "delivery"}, "Free delivery"),
    ]
    return [
        {"code": word + end, **rule, "text": text}
        for word, (end, rule, text) in zip(words, drafts, strict=True)
    ]
