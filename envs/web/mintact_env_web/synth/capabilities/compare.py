"""Putting up to three things side by side, reading differences, deciding."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from mintact_env_web.synth.endings import Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params, answered

_BEST = (
    ("price", False, "cheapest"),
    ("price", True, "most expensive"),
    ("rating", True, "best rated"),
    ("days", False, "ready soonest"),
    ("months", True, "under guarantee for the longest time"),
    ("people", True, "chosen by the most people"),
)


def _some(rng: random.Random, content: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Things that are not being compared at the start."""
    free = [i for i in content["items"] if i["id"] not in content["state"]["chosen"]]
    return rng.sample(free, count)


def _names(items: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return dict(zip(("first", "second", "third"), (i["name"] for i in items), strict=False))


async def _gather(hand: Hand, ids: Sequence[str]) -> None:
    """Exactly these onto the tray, then the table."""
    await hand.open("compare")
    await hand.click("empty")
    for id in ids:
        await hand.click(f"tick:{id}")
    await hand.click("compare")


class Exactly(Slip):
    """Two, in place of what is there."""

    name = "compare/exactly"
    goals = ("Compare {first} and {second}, without anything else in the comparison.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        items = _some(rng, content, 3)
        ids = [i["id"] for i in items]
        return {**_names(items), "ids": ids[:2], "wrong": {"ids": ids[1:]}}

    def done(self, end: Ending, p: Params) -> bool:
        same = set(end.after["chosen"]) == set(p["ids"])
        return bool(same and end.after["decision"] == end.before["decision"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await _gather(hand, p["ids"])


class Replace(Slip):
    """One taken out, one put in."""

    name = "compare/replace"
    goals = ("In the comparison, replace {old} with {new}; keep the other one.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        old, kept = rng.sample(content["state"]["chosen"], 2)
        name = next(i["name"] for i in content["items"] if i["id"] == old)
        [new] = _some(rng, content, 1)
        own = {"old": name, "out": old, "new": new["name"], "id": new["id"], "kept": kept}
        return {**own, "wrong": {"out": kept}}

    def done(self, end: Ending, p: Params) -> bool:
        same = set(end.after["chosen"]) == {p["kept"], p["id"]}
        return bool(same and end.after["decision"] == end.before["decision"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("compare")
        await hand.click(f"tray:{p['out']}")
        await hand.click(f"tick:{p['id']}")


class Clear(Slip):
    """Nothing left to compare."""

    name = "compare/clear"
    goals = ("Empty the comparison.",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = f"tray:{content['state']['chosen'][0]}"
        return {"button": "empty", "wrong": {"button": one}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after == {**end.before, "chosen": []})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("compare")
        await hand.click(p["button"])


class Decide(Slip):
    """The best of three in one respect."""

    name = "compare/decide"
    goals = ("Compare {first}, {second} and {third}, and choose the one that is {best}.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        items = _some(rng, content, 3)
        key, high, said = rng.choice(_BEST)
        ranked = sorted(items, key=lambda i: i[key], reverse=high)
        if ranked[0][key] == ranked[1][key]:
            return None
        ids = [i["id"] for i in items]
        own = {**_names(items), "best": said, "ids": ids, "winner": ranked[0]["id"]}
        return {**own, "wrong": {"winner": ranked[1]["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        same = set(end.after["chosen"]) == set(p["ids"])
        return bool(same and end.after["decision"] == p["winner"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await _gather(hand, p["ids"])
        await hand.click(f"decide:{p['winner']}")


class _Answer(Slip):
    """A question; what is being compared does not matter, the decision must stay."""

    def done(self, end: Ending, p: Params) -> bool:
        kept = end.after["decision"] == end.before["decision"]
        return bool(kept and answered(end.answer, p["truth"]))


class Difference(_Answer):
    """By how much two differ in a number."""

    name = "compare/difference"
    goals = ("By how many {unit} do {first} and {second} differ in {what}?",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one, two = items = _some(rng, content, 2)
        key, unit, what = rng.choice(
            [
                ("days", "days", "how soon they are ready"),
                ("months", "months", "the length of their guarantee"),
            ]
        )
        gap = abs(one[key] - two[key])
        own = {**_names(items), "ids": [i["id"] for i in items], "key": key, "said": str(gap)}
        lie = {"said": str(max(one[key], two[key]) if gap == 0 else gap + one[key])}
        return {**own, "unit": unit, "what": what, "truth": str(gap), "wrong": lie}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _gather(hand, p["ids"])
        return str(p["said"])


class Which(_Answer):
    """The name of the best of three."""

    name = "compare/which"
    goals = ("Which one is {best}: {first}, {second} or {third}? Answer with its name.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        items = _some(rng, content, 3)
        key, high, said = rng.choice(_BEST[2:])
        ranked = sorted(items, key=lambda i: i[key], reverse=high)
        if ranked[0][key] == ranked[1][key]:
            return None
        own = {**_names(items), "best": said, "ids": [i["id"] for i in items]}
        truth, lie = ranked[0]["name"], ranked[1]["name"]
        return {**own, "truth": truth, "said": truth, "wrong": {"said": lie}}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _gather(hand, p["ids"])
        return str(p["said"])


class Compare(Capability):
    """A tray of three and a table."""

    name, group, label = "compare", "shopping", "Compare"
    templates = (Exactly(), Replace(), Clear(), Decide(), Difference(), Which())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = [
            {
                **i,
                "days": rng.randint(1, 21),
                "months": rng.choice((3, 6, 12, 18, 24, 36, 48)),
                "people": rng.randint(12, 980),
            }
            for i in category.items(rng, rng.randint(9, 12))
        ]
        chosen = [i["id"] for i in rng.sample(items, 2)]
        return {
            "items": items,
            "many": category.item[1],
            "about": f"Put {category.item[1]} side by side",
            "state": {"chosen": chosen, "decision": None},
        }
