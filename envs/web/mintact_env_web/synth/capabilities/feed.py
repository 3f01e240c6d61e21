"""A stream of posts: likes, following, hiding, reporting; what stands further down."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_REASONS = ("Advertising", "Insulting", "Not true", "Wrong place")
_TEXTS = (
    "Has anybody tried {0}? I am curious.",
    "{0} again today. Could not be better.",
    "A word of warning about {0}: be early.",
    "Does somebody know when {0} will be back?",
    "I wrote down everything I know about {0}.",
    "{0} — what a surprise!",
)
_PAGE = 5


async def _show(hand: Hand, at: int) -> None:
    """Load until the post at this place is there."""
    await hand.open("feed")
    for _ in range(at // _PAGE):
        await hand.click("load")


class _OnPost(Edit):
    """Something done to one post."""

    deep = False
    key = "liked"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        state, posts = content["state"], content["posts"]
        done = {*state["liked"], *state["hidden"], *(r["post"] for r in state["reports"])}
        part = posts[_PAGE + 1 :] if self.deep else posts[:_PAGE]
        post, other = rng.sample([p for p in part if p["id"] not in done], 2)
        places = [p["id"] for p in posts if p["id"] not in state["hidden"]]
        reason, bad = rng.sample(content["reasons"], 2)
        own = {"id": post["id"], "at": places.index(post["id"]), "reason": reason, "bad": bad}
        said = {"author": post["author"], "text": post["text"]}
        return {**own, **said, "wrong": {"id": other["id"], "at": places.index(other["id"])}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state[self.key].append(p["id"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _show(hand, p["at"])
        await hand.click(f"like:{p['id']}")
        return None


class Like(_OnPost):
    """A post near the top liked."""

    name = "feed/like"
    goals = ('Like the post "{text}" by {author}.',)
    level = 1


class Hide(_OnPost):
    """A post further down hidden."""

    name = "feed/hide"
    goals = ('Hide the post by {author} that says "{text}"',)
    level = 3
    deep, key = True, "hidden"

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _show(hand, p["at"])
        await hand.click(f"more:{p['id']}")
        await hand.click(f"hide:{p['id']}")
        return None


class Report(_OnPost):
    """A post reported with a reason."""

    name = "feed/report"
    goals = ('Report {author}\'s post "{text}" with the reason "{reason}".',)
    level = 3

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["reports"].append({"post": p["id"], "reason": p["reason"]})

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _show(hand, p["at"])
        await hand.click(f"more:{p['id']}")
        await hand.click(f"report:{p['id']}")
        await hand.click(f"reason:{p['reason']}")
        await hand.click("send")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await self.solve(hand, {**p, "reason": p["bad"]})


class LikeAll(Edit):
    """All posts of somebody liked, wherever they stand."""

    name = "feed/like_all_of"
    goals = ("Like every post by {author}, also those further down. Like no others.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        state = content["state"]
        done = {*state["liked"], *state["hidden"]}
        places = [p["id"] for p in content["posts"] if p["id"] not in state["hidden"]]
        by: dict[str, list[str]] = {}
        for post in content["posts"]:
            by.setdefault(post["author"], []).append(post["id"])
        several = [a for a, ids in by.items() if 2 <= len(ids) <= 4 and not done & {*ids}]
        if not several:
            return None
        author = rng.choice(sorted(several))
        ids = by[author]
        own = {"author": author, "ids": ids, "at": max(places.index(id) for id in ids)}
        return {**own, "wrong": {"ids": ids[:-1]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["liked"] += p["ids"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _show(hand, p["at"])
        for id in p["ids"]:
            await hand.click(f"like:{id}")
        return None


class Follow(Edit):
    """Somebody followed, somebody else no longer."""

    name = "feed/follow"
    goals = ("Follow {new} and stop following {old}.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["following"]
        others = sorted({p["author"] for p in content["posts"]} - {*now})
        new, bad = rng.sample(others, 2)
        return {"new": new, "old": rng.choice(now), "wrong": {"new": bad}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["following"].remove(p["old"])
        state["following"].append(p["new"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("feed")
        await hand.click(f"follow:{p['new']}")
        await hand.click(f"follow:{p['old']}")
        return None


class Unhide(Edit):
    """A hidden post shown again."""

    name = "feed/unhide"
    goals = ('Show the hidden post "{text}" by {author} again.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        posts = {p["id"]: p for p in content["posts"]}
        id, other = rng.sample(content["state"]["hidden"], 2)
        own = {"id": id, "text": posts[id]["text"], "author": posts[id]["author"]}
        return {**own, "wrong": {"id": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["hidden"].remove(p["id"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("feed")
        await hand.click("show:hidden")
        await hand.click(f"unhide:{p['id']}")
        return None


class Likes(Question):
    """The likes of a post further down."""

    name = "feed/likes"
    goals = ('How many likes does the post "{text}" by {author} have?',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        state = content["state"]
        seen = [p for p in content["posts"] if p["id"] not in state["hidden"]]
        free = [p for p in seen[_PAGE:] if p["id"] not in state["liked"]]
        post, other = rng.sample(free, 2)
        own = {"id": post["id"], "at": seen.index(post), "author": post["author"]}
        return {
            **own,
            "text": post["text"],
            "truth": str(post["likes"]),
            "lie": str(other["likes"]),
        }

    async def solve(self, hand: Hand, p: Params) -> str:
        await _show(hand, p["at"])
        return await hand.read(f"likes:{p['id']}")


class Feed(Capability):
    """A stream of posts."""

    name, group, label = "feed", "community", "Community"
    templates = (Like(), Hide(), Report(), LikeAll(), Follow(), Unhide(), Likes())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        people, items = rng.sample(PEOPLE, 7), category.items(rng, 17)
        likes = rng.sample(range(2, 90), len(items))
        posts = [
            {
                "id": f"p{i}",
                "author": rng.choice(people),
                "text": rng.choice(_TEXTS).format(item["name"]),
                "hue": item["hue"],
                "likes": likes[i],
                "day": f"{29 - i} March",
            }
            for i, item in enumerate(items)
        ]
        ids = rng.sample([p["id"] for p in posts[_PAGE:]], 3)
        authors = sorted({p["author"] for p in posts})
        state = {"liked": ids[:1], "following": rng.sample(authors, 2), "hidden": ids[1:]}
        return {
            "posts": posts,
            "reasons": list(_REASONS),
            "about": f"What others say about our {category.item[1]}",
            "state": {**state, "reports": []},
        }
