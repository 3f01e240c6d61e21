"""Search with suggestions, results by category, saved searches and bookmarks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params


def _hits(content: Mapping[str, Any], text: str) -> list[dict[str, Any]]:
    return [i for i in content["items"] if text.lower() in f"{i['name']} {i['kind']}".lower()]


def _fresh(content: Mapping[str, Any]) -> list[str]:
    """Words that find something and are no saved search yet."""
    saved = {s["text"] for s in content["state"]["saved"]}
    return [word for word in content["words"] if _hits(content, word) and word not in saved]


def _marked(end: Ending, *ids: str) -> bool:
    return bool(end.after == {**end.before, "marked": [*end.before["marked"], *ids]})


async def _look(hand: Hand, text: str) -> None:
    await hand.open("search")
    await hand.type("query", text, enter=True)


class SaveSearch(Slip):
    """A search worth keeping."""

    name = "search/save"
    goals: ClassVar[tuple[str, ...]] = (
        "Search for “{word}” and save the search.",
        "Save a search for {word}.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        word, other = rng.sample(_fresh(content), 2)
        return {"word": word, "kind": None, "wrong": {"word": other}}

    def done(self, end: Ending, p: Params) -> bool:
        *old, new = end.after["saved"]
        found = (new["text"].casefold(), new["kind"], new["alert"])
        wanted = (p["word"].casefold(), p["kind"], p.get("alert", False))
        kept = end.after["marked"] == end.before["marked"]
        return bool(kept and old == end.before["saved"] and found == wanted)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _look(hand, p["word"])
        if p["kind"]:
            await hand.click(f"within:{p['kind']}")
        await hand.click("save")


class SaveAlert(SaveSearch):
    """A search within a category, with messages about what is new."""

    name = "search/alert_new"
    goals = ("Save a search for “{word}” within {kind} and turn its e-mails on.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        word = rng.choice(_fresh(content))
        kind = rng.choice(_hits(content, word))["kind"]
        id = f"s{content['state']['made']}"
        return {"word": word, "kind": kind, "alert": True, "id": id, "wrong": {"kind": None}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)
        await hand.open("search")
        await hand.click(f"alert:{p['id']}")


class Forget(Slip):
    """A saved search no longer needed."""

    name = "search/forget"
    goals = ("Delete the saved search for “{word}”.",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        here, there = rng.sample(content["state"]["saved"], 2)
        return {"word": here["text"], "id": here["id"], "wrong": {"id": there["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        rest = [s for s in end.before["saved"] if s["id"] != p["id"]]
        return bool(end.after == {**end.before, "saved": rest})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("search")
        await hand.click(f"forget:{p['id']}")


class Quiet(Slip):
    """No more messages from any saved search."""

    name = "search/quiet"
    goals = ("Stop the e-mails of all my saved searches, but keep the searches.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        ids = [s["id"] for s in content["state"]["saved"] if s["alert"]]
        return {"ids": ids, "wrong": {"ids": ids[1:]}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = [{**s, "alert": False} for s in end.before["saved"]]
        return bool(end.after == {**end.before, "saved": wanted})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("search")
        for id in p["ids"]:
            await hand.click(f"alert:{id}")


class Bookmark(Slip):
    """Something found, opened and kept."""

    name = "search/bookmark"
    goals = ("Search for {item} and bookmark it.", "Find {item} and set a bookmark on its page.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        marked = content["state"]["marked"]
        item, other = rng.sample([i for i in content["items"] if i["id"] not in marked], 2)
        wrong = {"item": other["name"], "id": other["id"]}
        return {"item": item["name"], "id": item["id"], "wrong": wrong}

    def done(self, end: Ending, p: Params) -> bool:
        return _marked(end, p["id"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await _look(hand, p["item"])
        await hand.click(f"open:{p['id']}")
        await hand.click("star")


class BestHit(Slip):
    """The cheapest among the results."""

    name = "search/best_hit"
    goals = ("Search for “{word}” and bookmark the cheapest of the results.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        for word in rng.sample(content["words"], len(content["words"])):
            found = sorted(_hits(content, word), key=lambda i: i["price"])
            if len(found) < 2 or found[0]["price"] == found[1]["price"]:
                continue
            if not {i["id"] for i in found[:2]} & set(content["state"]["marked"]):
                return {"word": word, "id": found[0]["id"], "wrong": {"id": found[1]["id"]}}
        return None

    def done(self, end: Ending, p: Params) -> bool:
        return _marked(end, p["id"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await _look(hand, p["word"])
        await hand.click(f"open:{p['id']}")
        await hand.click("star")


class Count(Question):
    """How much a search finds."""

    name = "search/count"
    goals = ("How many results does a search for “{word}” give?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        word = rng.choice(content["words"])
        count = len(_hits(content, word))
        return {"word": word, "truth": str(count), "lie": str(count + rng.choice((1, 2)))}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _look(hand, p["word"])
        return await hand.read("count")


class Lookup(Question):
    """A detail that stands on its page only, reached by a suggestion."""

    name = "search/lookup"
    goals = (
        "What is the reference number of {item}?",
        "Look up the reference number of {item} and answer with it.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        item, other = rng.sample(content["items"], 2)
        own = {"item": item["name"], "id": item["id"]}
        return {**own, "truth": item["number"], "lie": other["number"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("search")
        await hand.type("query", p["item"])
        await hand.click(f"suggest:{p['id']}")
        return await hand.read("number")


class Search(Capability):
    """A box, and what it finds."""

    name, group, label = "search", "finding", "Search"
    templates = (
        SaveSearch(),
        SaveAlert(),
        Forget(),
        Quiet(),
        Bookmark(),
        BestHit(),
        Count(),
        Lookup(),
    )

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        numbers = rng.sample(range(1000, 9999), 24)
        items = [
            {**i, "number": f"{i['kind'][0]}-{number}"}
            for i, number in zip(category.items(rng, 24), numbers, strict=True)
        ]
        words = rng.sample(sorted({*category.nouns, *category.adjectives}), 10)
        saved = [
            {"id": f"s{n}", "text": word, "kind": None, "alert": n != 1}
            for n, word in enumerate(words[:3])
        ]
        return {
            "items": items,
            "words": words,
            "popular": words[6:9],
            "many": category.item[1],
            "about": f"Look through all {category.item[1]}",
            "state": {"saved": saved, "marked": [rng.choice(items)["id"]], "made": 3},
        }
