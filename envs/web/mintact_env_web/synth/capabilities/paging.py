"""Results over many pages: going through them, counting, favourites."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_SIZE = 6


def _page(content: Mapping[str, Any], id: str) -> int:
    return next(n for n, i in enumerate(content["items"]) if i["id"] == id) // _SIZE + 1


def _free(content: Mapping[str, Any], start: int = 0) -> list[dict[str, Any]]:
    """What is no favourite yet, from an index on."""
    hearts = content["state"]["hearts"]
    return [i for i in content["items"][start:] if i["id"] not in hearts]


class _Hearts(Slip):
    """Favourites on and off: the ids under `ids`, on the pages under `pages`."""

    def done(self, end: Ending, p: Params) -> bool:
        wanted = set(end.before["hearts"]) ^ set(p["ids"])
        return set(end.after["hearts"]) == wanted

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("paging")
        for id, page in zip(p["ids"], p["pages"], strict=True):
            await hand.click(f"page:{page}")
            await hand.click(f"heart:{id}")


def _marks(content: Mapping[str, Any], ids: list[str], wrong: list[str]) -> dict[str, Any]:
    wrongly = {"ids": wrong, "pages": [_page(content, id) for id in wrong]}
    pages = [_page(content, id) for id in ids]
    return {"many": content["many"], "ids": ids, "pages": pages, "wrong": wrongly}


class Find(_Hearts):
    """Something on a later page."""

    name = "paging/find"
    goals = ("Mark {item} as a favourite.", "Find {item} in the list and make it a favourite.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        item, other = rng.sample(_free(content, _SIZE), 2)
        return {"item": item["name"], **_marks(content, [item["id"]], [other["id"]])}


class Drop(_Hearts):
    """A favourite, somewhere, that no longer is one."""

    name = "paging/drop"
    goals = ("{item} is no longer a favourite of mine; take the mark off.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        id, other = rng.sample(content["state"]["hearts"], 2)
        item = next(i for i in content["items"] if i["id"] == id)
        return {"item": item["name"], **_marks(content, [id], [other])}


class Last(_Hearts):
    """The very end of the list."""

    name = "paging/last"
    goals = ("Make the very last one in the list of {many} a favourite.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        *_, near, last = (i["id"] for i in content["items"])
        hearts = content["state"]["hearts"]
        return None if {near, last} & set(hearts) else _marks(content, [last], [near])


class Every(_Hearts):
    """All of a category at a place, over the pages."""

    name = "paging/every"
    goals = ("Mark all {many} of the category {kind} at {place} as favourites; none else.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        items, hearts = content["items"], set(content["state"]["hearts"])
        pairs = sorted({(i["kind"], i["place"]) for i in items})
        rng.shuffle(pairs)
        for kind, place in pairs:
            ids = [i["id"] for i in items if (i["kind"], i["place"]) == (kind, place)]
            pages = {_page(content, id) for id in ids}
            if 2 <= len(ids) <= 4 and len(pages) > 1 and not hearts & set(ids):
                return {"kind": kind, "place": place, **_marks(content, ids, ids[:-1])}
        return None


class Cheapest(_Hearts):
    """The best of a category over all pages."""

    name = "paging/cheapest"
    goals = ("Make the cheapest of all {many} in the category {kind} a favourite.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        kinds = sorted({i["kind"] for i in content["items"]})
        for kind in rng.sample(kinds, len(kinds)):
            found = sorted(
                (i for i in content["items"] if i["kind"] == kind), key=lambda i: i["price"]
            )
            if len(found) < 3 or found[0]["price"] == found[1]["price"]:
                continue
            if found[0] in _free(content):
                return {"kind": kind, **_marks(content, [found[0]["id"]], [found[1]["id"]])}
        return None


class Price(Question):
    """What something on a later page costs."""

    name = "paging/price"
    goals = ("What does {item} cost?", "Find {item} and answer with its price.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        item, other = rng.sample(content["items"][_SIZE:], 2)
        if item["price"] == other["price"]:
            return None
        own = {"item": item["name"], "id": item["id"], "page": _page(content, item["id"])}
        return {**own, "truth": str(item["price"]), "lie": str(other["price"])}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("paging")
        await hand.click(f"page:{p['page']}")
        return await hand.read(f"price:{p['id']}")


class HowMany(Question):
    """How many of a category there are, over all pages."""

    name = "paging/how_many"
    goals = ("How many {many} of the category {kind} are in the whole list?",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        kind = rng.choice(sorted({i["kind"] for i in content["items"]}))
        counts = [sum(i["kind"] == kind for i in part) for part in self._parts(content)]
        if counts[0] == sum(counts):
            return None
        own = {"many": content["many"], "kind": kind, "pages": len(counts)}
        return {**own, "truth": str(sum(counts)), "lie": str(counts[0])}

    def _parts(self, content: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
        items = content["items"]
        return [items[at : at + _SIZE] for at in range(0, len(items), _SIZE)]

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("paging")
        for _ in range(p["pages"] - 1):
            await hand.click("page:next")
        return str(p["truth"])


class Paging(Capability):
    """A long list in pages."""

    name, group, label = "paging", "finding", "All results"
    templates = (Find(), Drop(), Last(), Every(), Cheapest(), Price(), HowMany())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, rng.randint(26, 34))
        return {
            "items": items,
            "many": category.item[1],
            "about": f"{len(items)} {category.item[1]}, page by page",
            "state": {"hearts": [i["id"] for i in rng.sample(items[_SIZE:-2], 3)]},
        }
