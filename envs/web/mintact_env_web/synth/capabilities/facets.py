"""Faceted filters: narrowing, widening, chips, counting and picking what is left."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from mintact_env_web.synth.endings import Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params, answered

_OPEN: dict[str, Any] = {"kinds": [], "places": [], "price": None, "rating": None, "free": False}


def fitting(items: Sequence[Mapping[str, Any]], wish: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The items that pass filters: `kinds`, `places`, `price`, `rating`, `free`."""
    return [
        i
        for i in items
        if (not wish["kinds"] or i["kind"] in wish["kinds"])
        and (not wish["places"] or i["place"] in wish["places"])
        and (wish["price"] is None or i["price"] <= wish["price"])
        and (wish["rating"] is None or i["rating"] >= wish["rating"])
        and (not wish["free"] or i["free"])
    ]


async def _narrow(hand: Hand, p: Params) -> None:
    """Clear what is set, then set `kind place price rating free` as far as they are given."""
    await hand.open("facets")
    await hand.click("clear")
    for key in ("kind", "place", "rating"):
        if p.get(key) is not None:
            await hand.click(f"{key}:{p[key]}")
    if p.get("price") is not None:
        await hand.choose("price", str(p["price"]))
    if p.get("free"):
        await hand.click("free")


def _wish(**some: Any) -> dict[str, Any]:
    lists = {key: [some.pop(one)] for key, one in _LISTS if some.get(one) is not None}
    return {**_OPEN, **some, **lists}


_LISTS = (("kinds", "kind"), ("places", "place"))


class Apply(Slip):
    """Two boxes, and nothing else."""

    name = "facets/apply"
    goals = (
        "Filter the {many}: only {kind} in {place}, no other filter.",
        "Show me just {kind} at {place}, with all other filters off.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        kind, wrong = rng.sample(content["kinds"], 2)
        now = content["state"]["filters"]["places"]
        place = rng.choice([place for place in content["places"] if place not in now])
        own = {"many": content["many"], "kind": kind, "place": place}
        return {**own, "wrong": {"kind": wrong}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {**end.before, "filters": _wish(kind=p["kind"], place=p["place"])}
        return bool(end.after == wanted)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _narrow(hand, p)


class Bounds(Slip):
    """A highest price and a lowest rating."""

    name = "facets/bounds"
    goals = (
        "Filter the {many} by price up to {price_text} and {rating} stars and more, nothing else.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        price, other = rng.sample(content["steps"], 2)
        return {
            "many": content["many"],
            "price": price,
            "price_text": f"{content['currency']}{price}",
            "rating": rng.choice((3, 4)),
            "wrong": {"price": other},
        }

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {**end.before, "filters": _wish(price=p["price"], rating=p["rating"])}
        return bool(end.after == wanted)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _narrow(hand, p)


class Clear(Slip):
    """Everything off."""

    name = "facets/clear"
    goals = ("Clear all filters so that every one of the {many} is shown.",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        kind = content["state"]["filters"]["kinds"][0]
        own = {"many": content["many"], "button": "clear"}
        return {**own, "wrong": {"button": f"chip:kind-{kind}"}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after == {**end.before, "filters": _OPEN})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("facets")
        await hand.click(p["button"])


class Chip(Slip):
    """One of the set filters off, the others kept, one more on."""

    name = "facets/swap"
    goals = (
        "Remove the {kind} filter, keep the other filters, and also show only what is available "
        "now.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {"kind": content["state"]["filters"]["kinds"][0], "wrong": {"more": None}}

    def done(self, end: Ending, p: Params) -> bool:
        filters = {**end.before["filters"], "kinds": [], "free": True}
        return bool(end.after == {**end.before, "filters": filters})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("facets")
        await hand.click(f"chip:kind-{p['kind']}")
        if "more" not in p:
            await hand.click("free")


class Count(Slip):
    """How many pass three filters."""

    name = "facets/count"
    goals = ("How many {many} of the category {kind} have {rating} stars and more?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        kind, rating = rng.choice(content["kinds"]), rng.choice((3, 4))
        truth = len(fitting(content["items"], _wish(kind=kind, rating=rating)))
        if truth == len(fitting(content["items"], _wish(kind=kind))):
            return None
        own = {"many": content["many"], "kind": kind, "rating": rating, "truth": str(truth)}
        return {**own, "wrong": {"rating": None}}

    def done(self, end: Ending, p: Params) -> bool:
        kept = end.after["picked"] == end.before["picked"]
        return kept and answered(end.answer, p["truth"])

    async def solve(self, hand: Hand, p: Params) -> str:
        await _narrow(hand, p)
        return await hand.read("count")


class PickOnly(Slip):
    """The single one that passes."""

    name = "facets/pick_only"
    goals = (
        "Shortlist the only one of the {many} in the category {kind} at {place} that is available "
        "now.",
    )
    level = 3
    most = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        pairs = list(itertools.product(content["kinds"], content["places"]))
        rng.shuffle(pairs)
        for kind, place in pairs:
            good = fitting(content["items"], _wish(kind=kind, place=place, free=True))
            ids = [i["id"] for i in good]
            spare = [i["id"] for i in content["items"] if i["kind"] == kind and i["id"] not in ids]
            if self.low() <= len(ids) <= self.most and not set(ids) & set(_picked(content)):
                return self.values(content, kind, place, ids, spare)
        return None

    def low(self) -> int:
        """At least this many must pass."""
        return min(2, self.most)

    def values(
        self,
        content: Mapping[str, Any],
        kind: str,
        place: str,
        ids: list[str],
        spare: list[str],
    ) -> Params | None:
        """What is drawn; the wrong ending takes one too few, or another one."""
        wrong = ids[:-1] or spare[:1]
        own = {"many": content["many"], "kind": kind, "place": place, "free": True, "ids": ids}
        return {**own, "wrong": {"ids": wrong, "free": False, "place": None}} if wrong else None

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {*end.before["picked"], *p["ids"]}
        return set(end.after["picked"]) == wanted

    async def solve(self, hand: Hand, p: Params) -> None:
        await _narrow(hand, p)
        for id in p["ids"]:
            await hand.click(f"pick:{id}")


class PickAll(PickOnly):
    """All that pass."""

    name = "facets/pick_all"
    goals = (
        "Shortlist all {many} in the category {kind} at {place} that are available now, and no "
        "others.",
    )
    level = 4
    most = 4


def _picked(content: Mapping[str, Any]) -> list[str]:
    return list(content["state"]["picked"])


class Facets(Capability):
    """A long list and filters beside it."""

    name, group, label = "facets", "finding", "Browse"
    templates = (Apply(), Bounds(), Clear(), Chip(), Count(), PickOnly(), PickAll())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        # a place may be called as a category is, which no filter could tell apart
        places = [place for place in category.places if place not in category.kinds]
        items = [
            {**i, "place": rng.choice(places), "free": rng.random() < 0.6}
            for i in category.items(rng, 26)
        ]
        low, high = category.prices
        steps = sorted({low + (high - low) * part // 4 for part in (1, 2, 3)})
        one = rng.choice(items)
        filters = {**_OPEN, "kinds": [one["kind"]], "places": [one["place"]]}
        return {
            "items": items,
            "kinds": sorted(category.kinds),
            "places": sorted(places),
            "steps": steps,
            "many": category.item[1],
            "currency": category.currency,
            "about": f"Narrow {category.item[1]} down to the right one",
            "state": {"filters": filters, "picked": []},
        }
