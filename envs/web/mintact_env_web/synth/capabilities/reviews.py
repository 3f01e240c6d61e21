"""Reviews: reading them, writing and editing one, votes and reports."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_TITLES = {
    1: ("Not again", "Very disappointed", "Avoid"),
    2: ("Could be better", "Expected more", "Meh"),
    3: ("It is fine", "Good and bad", "Average"),
    4: ("Very good", "Nearly perfect", "Happy with it"),
    5: ("Wonderful", "Could not be better", "Best of its kind"),
}
_TEXTS = (
    "Exactly as described, and they answered my question within an hour.",
    "I would have liked a little more for the price.",
    "My neighbour told me about it, and now I tell everybody else.",
    "It took longer than they said.",
    "We have been here three times already.",
    "Read the details first, then you know what you get.",
)
_REASONS = ("Advertising", "Insulting", "Wrong thing", "Private data")
_MINE = (
    ("Worth it", "I would choose it again."),
    ("Solid", "Nothing to complain about."),
    ("So-so", "Fine, but I have seen better."),
    ("A surprise", "Much better than it looks."),
)


def _reviews(content: Mapping[str, Any], item: str) -> list[dict[str, Any]]:
    """What others wrote about an item."""
    found = content["state"]["reviews"]
    return [r for r in found if r["item"] == item and r["author"] != "You"]


def _name(content: Mapping[str, Any], id: str) -> str:
    return str(next(i["name"] for i in content["items"] if i["id"] == id))


def _own(content: Mapping[str, Any]) -> dict[str, Any]:
    found = content["state"]["reviews"]
    return next(r for r in found if r["author"] == "You")


class _One(Slip):
    """One review changed in some of its fields."""

    def done(self, end: Ending, p: Params) -> bool:
        wanted = [
            {**r, **(p["fields"] if r["id"] == p["id"] else {})} for r in end.before["reviews"]
        ]
        return bool(end.after["reviews"] == wanted)


def _others(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any]:
    """Somebody's review of something, and another one of the same."""
    item = rng.choice(content["items"])
    review, other = rng.sample(_reviews(content, item["id"]), 2)
    return {
        "of": item["id"],
        "item": item["name"],
        "author": review["author"],
        "id": review["id"],
        "target": review["id"],
        "before": review["helpful"],
        "wrong": {"target": other["id"]},
    }


class Write(Slip):
    """Stars, a title and a text."""

    name = "reviews/write"
    goals = ("Review {item}: {stars} stars, title “{title}”, text “{text}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        mine = _own(content)["item"]
        item = rng.choice([i for i in content["items"] if i["id"] != mine])
        (title, text), stars = rng.choice(_MINE), rng.randint(2, 5)
        own = {"item": item["name"], "of": item["id"], "title": title, "text": text}
        return {**own, "stars": stars, "wrong": {"stars": stars - 1}}

    def done(self, end: Ending, p: Params) -> bool:
        *old, new = end.after["reviews"]
        wanted = {"item": p["of"], "author": "You"} | {k: p[k] for k in ("stars", "title", "text")}
        return bool(old == end.before["reviews"] and new | wanted == new)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.click("write")
        await hand.click(f"star:{p['stars']}")
        await hand.type("title", p["title"])
        await hand.type("text", p["text"])
        await hand.click("send")


class Edit(_One):
    """One's own, with other stars and another title."""

    name = "reviews/edit"
    goals = ("In my review of {item}, change the rating to {stars} stars; leave the text.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        mine = _own(content)
        stars, other = rng.sample([n for n in range(1, 6) if n != mine["stars"]], 2)
        own = {"item": _name(content, mine["item"]), "of": mine["item"], "id": mine["id"]}
        return {**own, "stars": stars, "fields": {"stars": stars}, "wrong": {"stars": other}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.click(f"edit:{p['id']}")
        await hand.click(f"star:{p['stars']}")
        await hand.click("send")


class Delete(Slip):
    """One's own, wherever it is."""

    name = "reviews/delete"
    goals = ("Delete my review of {item}.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        mine = _own(content)
        own = {"item": _name(content, mine["item"]), "of": mine["item"], "id": mine["id"]}
        return {**own, "button": "sure", "wrong": {"button": "close"}}

    def done(self, end: Ending, p: Params) -> bool:
        rest = [r for r in end.before["reviews"] if r["id"] != p["id"]]
        return bool(end.after["reviews"] == rest)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.click(f"delete:{p['id']}")
        await hand.click(p["button"])


class Helpful(_One):
    """A vote."""

    name = "reviews/helpful"
    goals = ("Mark {author}'s review of {item} as helpful.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _others(rng, content)
        return {**p, "fields": {"voted": True, "helpful": p["before"] + 1}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.click(f"helpful:{p['target']}")


class Report(_One):
    """A report with its reason."""

    name = "reviews/report"
    goals = (
        "Report {author}'s review of {item} with the reason “{reason}”.",
        "Under {item}, report what {author} wrote; the reason is “{reason}”.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        reason = rng.choice(_REASONS)
        return {**_others(rng, content), "reason": reason, "fields": {"reported": reason}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.click(f"report:{p['target']}")
        await hand.click(f"reason:{p['reason']}")
        await hand.click("send-report")


class MostHelpful(Question):
    """Who wrote what helped the most."""

    name = "reviews/most_helpful"
    goals = ("Who wrote the review of {item} that most people found helpful?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        item = rng.choice(content["items"])
        ranked = sorted(_reviews(content, item["id"]), key=lambda r: r["helpful"], reverse=True)
        own = {"item": item["name"], "of": item["id"]}
        return {**own, "truth": ranked[0]["author"], "lie": ranked[1]["author"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.choose("order", "helpful")
        return str(p["truth"])


class Count(Question):
    """How many gave so many stars."""

    name = "reviews/count"
    goals = ("How many reviews give {item} {stars}?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        item, stars = rng.choice(content["items"]), rng.choice((1, 2, 3, 4, 5))
        found = [r for r in content["state"]["reviews"] if r["item"] == item["id"]]
        count = sum(r["stars"] == stars for r in found)
        said = "1 star" if stars == 1 else f"{stars} stars"
        own = {"item": item["name"], "of": item["id"], "n": str(stars), "stars": said}
        return {**own, "truth": str(count), "lie": str(count + 1)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("reviews")
        await hand.click(f"open:{p['of']}")
        await hand.choose("only", p["n"])
        return await hand.read("shown")


class Reviews(Capability):
    """What people say about things."""

    name, group, label = "reviews", "shopping", "Reviews"
    templates = (Write(), Edit(), Delete(), Helpful(), Report(), MostHelpful(), Count())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, rng.randint(5, 7))
        reviews: list[dict[str, Any]] = []
        for item in items:
            authors = rng.sample(PEOPLE, rng.randint(4, 7))
            votes = rng.sample(range(40), len(authors))
            reviews += [
                _review(rng, item["id"], author, vote)
                for author, vote in zip(authors, votes, strict=True)
            ]
        reviews.insert(rng.randrange(len(reviews)), _review(rng, rng.choice(items)["id"], "You", 2))
        for index, review in enumerate(reviews):
            review["id"] = f"r{index}"
        return {
            "items": items,
            "many": category.item[1],
            "reasons": list(_REASONS),
            "about": "What others think, and what you think",
            "state": {"reviews": reviews, "made": len(reviews)},
        }


def _review(rng: random.Random, item: str, author: str, helpful: int) -> dict[str, Any]:
    stars = rng.choice((1, 2, 3, 3, 4, 4, 4, 5, 5, 5))
    said = {"stars": stars, "title": rng.choice(_TITLES[stars]), "text": rng.choice(_TEXTS)}
    own = {"item": item, "author": author, "helpful": helpful}
    return {**own, **said, "voted": False, "reported": None}
