"""A discussion: answering, writing, mending, voting, finding who said what."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_SAID = (
    "I went last week and liked it very much.",
    "Not for me, but my sister is happy with it.",
    "Could somebody say more about the price?",
    "It was better a year ago.",
    "Thank you for writing this down.",
    "You have to be early, then it is fine.",
    "I would do it again at once.",
    "There is a mistake in the second part.",
    "Ask for the quiet corner.",
    "We waited for an hour.",
    "That is exactly what I thought.",
    "Children love it.",
    "Has anything changed since then?",
    "The staff could not have been kinder.",
    "I do not agree at all.",
    "Take somebody with you who knows it.",
)
_MINE = ("I agree with this.", "That helped me, thank you.", "When was that?", "It is true.")


def _of(state: Mapping[str, Any], id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(x for x in state["comments"] if x["id"] == id)
    return found


def _hidden(content: Mapping[str, Any], id: str) -> list[str]:
    """Folded comments above one, from the top."""
    found, at = [], _of(content["state"], id)["parent"]
    while at is not None:
        found.append(at)
        at = _of(content["state"], at)["parent"]
    return [id for id in reversed(found) if content["folded"].get(id)]


class _OnOne(Edit):
    """Something done to one comment."""

    mine = False
    folded = False

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        me, state = content["ME"], content["state"]
        leaves = {x["id"] for x in state["comments"]} - {x["parent"] for x in state["comments"]}
        free = [
            x
            for x in state["comments"]
            if (x["author"] == me) == self.mine
            and bool(_hidden(content, x["id"])) == self.folded
            and x["id"] not in state["voted"]
            and (x["id"] in leaves or not self.mine)
        ]
        if len(free) < 2:
            return None
        one, other = rng.sample(free, 2)
        own = {"id": one["id"], "author": one["author"], "said": one["text"]}
        opens = {"open": _hidden(content, one["id"]), "words": rng.choice(_MINE), "me": me}
        wrong = {"id": other["id"], "open": _hidden(content, other["id"])}
        return {**own, **opens, "wrong": wrong}

    async def reach(self, hand: Hand, p: Params) -> None:
        """Unfold what is above it."""
        await hand.open("comments")
        for id in p["open"]:
            await hand.click(f"fold:{id}")


class Upvote(_OnOne):
    """A vote for a comment."""

    name = "comments/vote"
    goals = ('Give your vote to the comment by {author} that says "{said}"',)
    level = 1

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["voted"].append(p["id"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.reach(hand, p)
        await hand.click(f"vote:{p['id']}")
        return None


class UpvoteFolded(Upvote):
    """A vote for one in a thread that is folded up."""

    name = "comments/vote_folded"
    goals = ('Find {author}\'s reply "{said}" and vote for it. It may be in a folded thread.',)
    level = 3
    folded = True


class Reply(_OnOne):
    """An answer."""

    name = "comments/reply"
    goals = ('Reply to {author}\'s comment "{said}" with: {words}',)

    def change(self, state: dict[str, Any], p: Params) -> None:
        new = {"id": f"n{state['next']}", "parent": p["id"], "author": p["me"]}
        state["comments"].append({**new, "text": p["words"], "votes": 0})
        state["next"] += 1

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.reach(hand, p)
        await hand.click(f"reply:{p['id']}")
        await hand.type("writing", p["words"])
        await hand.click("send")
        return None


class Mend(_OnOne):
    """One's own comment with other words."""

    name = "comments/edit"
    goals = ('Edit your comment "{said}" so that it reads: {words}',)
    mine = True

    def change(self, state: dict[str, Any], p: Params) -> None:
        _of(state, p["id"])["text"] = p["words"]

    async def fill(self, hand: Hand, p: Params) -> None:
        """Everything but saving."""
        await self.reach(hand, p)
        await hand.click(f"edit:{p['id']}")
        await hand.type("writing", p["words"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        await hand.click("send")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        return None


class Delete(_OnOne):
    """One's own comment deleted, after a confirmation."""

    name = "comments/delete"
    goals = ('Delete your comment "{said}"',)
    mine = True

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["comments"] = [x for x in state["comments"] if x["id"] != p["id"]]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.reach(hand, p)
        await hand.click(f"delete:{p['id']}")
        await hand.click("confirm")
        return None


class Post(Reply):
    """A comment that answers none."""

    name = "comments/post"
    goals = ('Post a comment of your own, not a reply: "{words}"',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content)
        return {**p, "reply_to": p["id"], "id": None} if p else None

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("comments")
        await hand.type("text", p["words"])
        await hand.click("post")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await Reply().solve(hand, {**p, "id": p["reply_to"]})


class Best(Question):
    """Who has most votes."""

    name = "comments/most_votes"
    goals = ("Who wrote the comment with the most votes, replies not counted?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        tops = [x for x in content["state"]["comments"] if x["parent"] is None]
        voted = content["state"]["voted"]
        order = sorted(tops, key=lambda x: -(x["votes"] + (x["id"] in voted)))
        if order[1]["votes"] + 1 >= order[0]["votes"]:
            return None
        best, others = order[0], [x for x in order if x["author"] != order[0]["author"]]
        if not others:
            return None
        return {"id": best["id"], "truth": best["author"], "lie": others[0]["author"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("comments")
        await hand.choose("sort", "best")
        return await hand.read(f"author:{p['id']}")


class Words(_OnOne):
    """Everything that somebody wrote voted for."""

    name = "comments/vote_for_all"
    goals = ("Vote for every comment and reply that {author} wrote, also in folded threads.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        state, by = content["state"], dict[str, list[str]]()
        for x in state["comments"]:
            by.setdefault(x["author"], []).append(x["id"])
        voted = {*state["voted"]}
        free = [a for a, ids in by.items() if len(ids) > 1 and not voted & {*ids}]
        free = [a for a in sorted(free) if a != content["ME"]]
        if not free:
            return None
        author = rng.choice(free)
        ids = by[author]
        opens = list(dict.fromkeys(o for id in ids for o in _hidden(content, id)))
        return {"author": author, "ids": ids, "open": opens, "wrong": {"ids": ids[1:]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["voted"] += p["ids"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.reach(hand, p)
        for id in p["ids"]:
            await hand.click(f"vote:{id}")
        return None


class Comments(Capability):
    """A discussion in threads."""

    name, group, label = "comments", "community", "Discussion"
    templates = (
        Upvote(), UpvoteFolded(), Reply(), Mend(), Delete(), Post(), Best(), Words(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        me, *people = rng.sample(PEOPLE, 7)
        texts, votes = rng.sample(_SAID, 14), rng.sample(range(1, 40), 14)
        parents = [
            None,
            "c0",
            "c0",
            "c1",
            None,
            "c4",
            "c5",
            "c4",
            None,
            "c8",
            None,
            "c10",
            "c10",
            "c12",
        ]
        comments = [
            {
                "id": f"c{i}",
                "parent": parent,
                "author": me if i in (2, 9) else rng.choice(people),
                "text": texts[i],
                "votes": votes[i],
            }
            for i, parent in enumerate(parents)
        ]
        thing = category.items(rng, 1)[0]
        free = [x["id"] for x in comments if x["author"] != me]
        return {
            "ME": me,
            "headline": f"{thing['name']}: what do you think?",
            "lead": f"{thing['blurb']}. Tell others what you know about {thing['name']}.",
            "folded": {"c4": True, "c5": True, "c12": True},
            "about": f"Talk about {thing['name']}",
            "state": {"comments": comments, "voted": rng.sample(free, 2), "next": 1},
        }
