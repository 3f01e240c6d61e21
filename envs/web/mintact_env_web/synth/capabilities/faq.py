"""Questions and answers: looking up, judging, saving, asking."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_REASONS = ("Out of date", "Too short", "Hard to understand", "Not my question")
_GENERAL = (
    ("For how many hours is a password link valid?", "A link is valid for {} hours."),
    ("For how many months do you keep my data?", "Records are erased after {} months."),
    ("How many people can share one account?", "Up to {} people can use the same account."),
    ("How many days ahead can I cancel for free?", "Tell us {} days ahead and you pay nothing."),
)
_ASKS = (
    "Is there a discount for groups?",
    "Can I bring my dog?",
    "Do you speak Portuguese?",
    "Where can I park my bicycle?",
)


async def _reach(hand: Hand, question: Mapping[str, Any]) -> None:
    await hand.open("faq")
    await hand.click(f"tab:{question['tab']}")
    await hand.click(f"q:{question['id']}")


class Answer(Question):
    """What an answer says."""

    name = "faq/answer"
    goals = ('What do the questions and answers say to this: "{text}" Answer with the fact.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        q = rng.choice([q for q in content["questions"] if q["tab"] != "t3"])
        near = [o for o in content["questions"] if o["tab"] == q["tab"] and o["fact"] != q["fact"]]
        return {"q": q, "text": q["text"], "truth": q["fact"], "lie": rng.choice(near)["fact"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _reach(hand, p["q"])
        return await hand.read(f"a:{p['q']['id']}")


class Who(Answer):
    """For what somebody is responsible: the answers must be read, not the questions."""

    name = "faq/responsible"
    goals = ("According to the FAQ, what is {text} responsible for?",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        people = [q for q in content["questions"] if q["tab"] == "t3"]
        q = rng.choice(people)
        # "Women" holds "men"
        lies = [o["about"] for o in people if q["about"].lower() not in o["about"].lower()]
        return {"q": q, "text": q["fact"], "truth": q["about"], "lie": rng.choice(lies)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await super().solve(hand, p)
        return str(p["truth"])


class Helpful(Edit):
    """A vote for an answer."""

    name = "faq/helpful"
    goals = ('Say that the answer to "{text}" was helpful.',)
    vote: ClassVar[str] = "yes"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = [q for q in content["questions"] if q["id"] not in content["state"]["votes"]]
        q, other = rng.sample(free, 2)
        reason, wrong = rng.sample(_REASONS, 2)
        own = {"q": q, "text": q["text"], "reason": reason, "wrong_reason": wrong}
        return {**own, "vote": self.vote, "wrong": {"q": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["votes"][p["q"]["id"]] = self.vote

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _reach(hand, p["q"])
        await hand.click(f"{p['vote']}:{p['q']['id']}")
        return None


class Unhelpful(Helpful):
    """A vote against one, with the reason."""

    name = "faq/not_helpful"
    goals = ('The answer to "{text}" did not help. Say so and send "{reason}" as the reason.',)
    level = 3
    vote = "no"

    def change(self, state: dict[str, Any], p: Params) -> None:
        super().change(state, p)
        state["reasons"][p["q"]["id"]] = p["reason"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await super().solve(hand, p)
        await hand.choose(f"why:{p['q']['id']}", p["reason"])
        await hand.click(f"tell:{p['q']['id']}")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await self.solve(hand, {**p, "reason": p["wrong_reason"]})


class TakeBack(Helpful):
    """A vote taken back."""

    name = "faq/take_back"
    goals = ('Take back the vote you gave for the answer to "{text}".',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        votes = content["state"]["votes"]
        q, other = rng.sample([q for q in content["questions"] if q["id"] in votes], 2)
        wrong = {"q": other, "vote": votes[other["id"]]}
        return {"q": q, "text": q["text"], "vote": votes[q["id"]], "wrong": wrong}

    def change(self, state: dict[str, Any], p: Params) -> None:
        del state["votes"][p["q"]["id"]]


class Save(Edit):
    """Two questions saved for later."""

    name = "faq/save_two"
    goals = ('Save the questions "{first}" and "{second}" for later.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = [q for q in content["questions"] if q["id"] not in content["state"]["saved"]]
        a, b, other = rng.sample(free, 3)
        own = {"qs": [a, b], "first": a["text"], "second": b["text"]}
        return {**own, "wrong": {"qs": [a, other]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"] += [q["id"] for q in p["qs"]]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        for q in p["qs"]:
            await _reach(hand, q)
            await hand.click(f"save:{q['id']}")
        return None


class Unsave(Edit):
    """The saved question that says something thrown out, found among those saved."""

    name = "faq/unsave"
    goals = ('Remove "{text}" from the saved questions.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        a, b = rng.sample(content["state"]["saved"], 2)
        texts = {q["id"]: q["text"] for q in content["questions"]}
        return {"id": a, "text": texts[a], "wrong": {"id": b}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"].remove(p["id"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _reach(hand, {"tab": "saved", "id": p["id"]})
        await hand.click(f"save:{p['id']}")
        return None


class Ask(Edit):
    """A question of one's own."""

    name = "faq/ask"
    goals = (
        'Ask a question under the topic "{topic}": "{text}" The answer should go to {email}.',
        'Send this question about "{topic}" with the e-mail {email}: {text}',
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        tab, other = rng.sample(content["tabs"], 2)
        email = rng.choice(PEOPLE).lower().replace(" ", ".") + "@mail.test"
        own = {"tab": tab["id"], "topic": tab["name"], "text": rng.choice(_ASKS), "email": email}
        return {**own, "wrong": {"tab": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["asked"].append({key: p[key] for key in ("tab", "text", "email")})

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("faq")
        await hand.choose("topic", p["tab"])
        await hand.type("question", p["text"])
        await hand.type("email", p["email"])
        await hand.click("ask")
        return None


class Faq(Capability):
    """Frequent questions."""

    name, group, label = "faq", "help", "Questions"
    templates = (
        Answer(), Who(), Helpful(), Unhelpful(), TakeBack(), Save(), Unsave(), Ask(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        names = ("Opening hours", "Deposits", "Accounts", "Contacts")
        questions = [
            {"id": f"q{i}", **q, "asked": (asked := rng.randint(20, 90)), "liked": asked - i - 2}
            for i, q in enumerate(_questions(rng, category))
        ]
        ids = rng.sample([q["id"] for q in questions], 6)
        votes = {id: rng.choice(("yes", "no")) for id in ids[:2]}
        return {
            "tabs": [{"id": f"t{i}", "name": name} for i, name in enumerate(names)],
            "questions": questions,
            "reasons": list(_REASONS),
            "about": "Answers to what people ask",
            "state": {"votes": votes, "reasons": {}, "saved": ids[2:5], "asked": []},
        }


def _questions(rng: random.Random, category: Category) -> list[dict[str, Any]]:
    hours = rng.sample([f"{h}:{m}" for h in range(13, 22) for m in ("00", "30")], 4)
    sums = rng.sample(range(5, 60), 8)
    sign, kinds = category.currency, category.kinds[:4]
    opening = [
        (f"Until when is {p} open on Saturdays?", f"{p} closes at {t} on Saturdays.", t, p)
        for p, t in zip(category.places, hours, strict=False)
    ]
    deposits = [
        (
            f"Which deposit is due for {i['name']}?",
            f"We ask for {sign}{n}; you have it back within two weeks.",
            str(n),
            i["name"],
        )
        for i, n in zip(category.items(rng, 4), sums, strict=False)
    ]
    general = [(q, a.format(n), str(n), "") for (q, a), n in zip(_GENERAL, sums[4:], strict=False)]
    people = [
        (f"Whom can I ask about {kind}?", f"Please ask {who}. {who} is in on weekdays.", who, kind)
        for kind, who in zip(kinds, rng.sample(PEOPLE, 4), strict=False)
    ]
    keys = ("text", "answer", "fact", "about")
    return [
        {"tab": f"t{i}", **dict(zip(keys, row, strict=True))}
        for i, rows in enumerate((opening, deposits, general, people))
        for row in rows
    ]
