"""Polls: voting, changing one's mind, reading results, asking others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Hand, Params

_OWN = (
    ("When shall we meet?", ("Monday", "Wednesday", "Friday", "Sunday")),
    ("What should we do next?", ("A longer evening", "A quiet day", "Nothing new", "A trip")),
    ("How did you hear of us?", ("A friend", "The paper", "By chance", "On the way")),
)


def _poll(state: Mapping[str, Any], id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in state["polls"] if p["id"] == id)
    return found


class _Ballot(Edit):
    """One's own vote in one poll."""

    voted = False
    many = False

    def fits(self, poll: Mapping[str, Any]) -> bool:
        """Whether it can be asked about this poll."""
        right = bool(poll["mine"]) == self.voted and poll["many"] == self.many
        return right and not poll["closed"]

    def choice(self, rng: random.Random, poll: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        """The vote that is wanted, and a wrong one."""
        free = [i for i in range(len(poll["options"])) if i not in poll["mine"]]
        a, b = rng.sample(free, 2)
        return [a], [b]

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        poll = rng.choice([p for p in content["state"]["polls"] if self.fits(p)])
        picks, bad = self.choice(rng, poll)
        said = " and ".join(f'"{poll["options"][i]}"' for i in picks)
        own = {"id": poll["id"], "question": poll["question"], "said": said, "picks": picks}
        return {**own, "voted": bool(poll["mine"]), "wrong": {"picks": bad}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _poll(state, p["id"])["mine"] = p["picks"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("poll")
        if p["voted"]:
            await hand.click(f"change:{p['id']}")
        for i in p["picks"]:
            await hand.click(f"pick:{p['id']}:{i}")
        await hand.click(f"vote:{p['id']}")
        return None


class Vote(_Ballot):
    """A first vote."""

    name = "poll/vote"
    goals = ('Vote for {said} in the poll "{question}"', 'In the poll "{question}", vote {said}.')


class Several(_Ballot):
    """Two answers where several may be given."""

    name = "poll/vote_several"
    goals = ('In the poll "{question}", vote for {said} and for nothing else.',)
    many = True

    def choice(self, rng: random.Random, poll: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        picks = sorted(rng.sample(range(len(poll["options"])), 2))
        return picks, picks[:1]


class Change(_Ballot):
    """Another vote than before."""

    name = "poll/change"
    goals = ('I changed my mind about "{question}": my vote should now go to {said}.',)
    level = 3
    voted = True


class Majority(_Ballot):
    """A vote with the most, who must be looked up."""

    name = "poll/majority"
    goals = ('Look at the results of the poll "{question}" and vote for what is leading.',)
    level = 3

    def choice(self, rng: random.Random, poll: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        order = sorted(range(len(poll["votes"])), key=lambda i: -int(poll["votes"][i]))
        return order[:1], order[1:2]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("poll")
        await hand.click(f"results:{p['id']}")
        await hand.click(f"results:{p['id']}")
        return await super().solve(hand, p)


class Withdraw(Edit):
    """A vote withdrawn, or a poll of one's own closed."""

    name = "poll/withdraw"
    goals = ('Withdraw your vote in the poll "{question}".',)
    button = "withdraw"

    def fits(self, poll: Mapping[str, Any]) -> bool:
        """Whether it can be done to this poll."""
        return bool(poll["mine"]) and not poll["closed"]

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one, other = rng.sample([p for p in content["state"]["polls"] if self.fits(p)], 2)
        return {"id": one["id"], "question": one["question"], "wrong": {"id": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _poll(state, p["id"])["mine"] = []

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("poll")
        await hand.click(f"{self.button}:{p['id']}")
        return None


class Close(Withdraw):
    """A poll of one's own closed."""

    name = "poll/close"
    goals = ('Close the poll "{question}", so that nobody can vote any more.',)
    button = "close"

    def fits(self, poll: Mapping[str, Any]) -> bool:
        return bool(poll["own"]) and not poll["closed"]

    def change(self, state: dict[str, Any], p: Params) -> None:
        _poll(state, p["id"])["closed"] = True


class Create(Edit):
    """A new poll."""

    name = "poll/create"
    goals = (
        'Start a poll "{question}" with the answers "{a}", "{b}" and "{c}" in this order; '
        "{several} may be chosen.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        question, options = rng.choice(_OWN)
        a, b, c = rng.sample(options, 3)
        many = rng.random() < 0.5
        said = "several answers" if many else "only one answer"
        own = {"question": question, "a": a, "b": b, "c": c, "several": said, "many": many}
        return {**own, "id": f"n{len(content['state']['polls'])}", "wrong": {"many": not many}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        new = {"id": p["id"], "question": p["question"], "options": [p["a"], p["b"], p["c"]]}
        new |= {"many": p["many"], "votes": [0, 0, 0], "mine": [], "own": True, "closed": False}
        state["polls"].insert(0, new)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("poll")
        await hand.click("new")
        await hand.type("question", p["question"])
        for i, key in enumerate("abc"):
            await hand.type(f"option:{i}", p[key])
        if p["many"]:
            await hand.click("many")
        await hand.click("start")
        return None


class Leading(Question):
    """How many votes an answer has."""

    name = "poll/result"
    goals = ('How many votes does "{option}" have in the poll "{question}"? Do not vote.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = [p for p in content["state"]["polls"] if not p["mine"] and not p["closed"]]
        poll = rng.choice(free)
        i, other = rng.sample(range(len(poll["options"])), 2)
        own = {
            "id": poll["id"],
            "at": i,
            "option": poll["options"][i],
            "question": poll["question"],
        }
        return {**own, "truth": str(poll["votes"][i]), "lie": str(poll["votes"][other])}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("poll")
        await hand.click(f"results:{p['id']}")
        return await hand.read(f"count:{p['id']}:{p['at']}")


class Poll(Capability):
    """Polls among visitors."""

    name, group, label = "poll", "community", "Polls"
    templates = (
        Vote(), Several(), Change(), Majority(), Withdraw(), Close(), Create(), Leading(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        names = [item["name"] for item in category.items(rng, 12)]
        rows = [
            (f"Which {category.item[0]} do you like best?", names[:4], False),
            ("What should there be more of?", list(category.kinds[:4]), True),
            ("Where do you go most often?", list(category.places), False),
            (f"Your discovery among the {category.item[1]}?", names[4:8], False),
            ("What matters to you?", list(category.topics), True),
            (f"Which {category.item[0]} should come back?", names[8:], False),
        ]
        polls = []
        for i, (question, options, many) in enumerate(rows):
            votes, mine = rng.sample(range(3, 99), len(options)), []
            if i in (3, 4, 5):
                mine = [rng.randrange(len(options))]
            poll = {"id": f"p{i}", "question": question, "options": options, "many": many}
            polls.append(
                {**poll, "votes": votes, "mine": mine, "own": i in (2, 3), "closed": False}
            )
        about = "Tell us what you think"
        return {"about": about, "state": {"polls": rng.sample(polls, len(polls))}}
