"""Subscriptions: plans up and down, rhythm, extras, pause, resume, cancel."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_PLANS = (
    ("Light", "Enough to begin with"),
    ("Standard", "What most people take"),
    ("Plus", "More of everything, with help by telephone"),
    ("Unlimited", "As much as you like, for the whole household"),
)
_EXTRAS = ("Second person", "Paper letters", "Weekend service", "Insurance", "Priority help")
_REASONS = ("Too expensive", "I use it too rarely", "I am moving", "I found something better")
_NAMES = ("Private", "Family", "Office", "Mother", "Club")


def _changed(end: Ending, p: Params) -> bool:
    """Whether the subscription `id`, and it alone, has the values under `fields`."""
    wanted = [
        {**s, **p["fields"]} if s["id"] == p["id"] else s for s in end.before["subscriptions"]
    ]
    return bool(end.after["subscriptions"] == wanted)


def _one(rng: random.Random, content: Mapping[str, Any], status: str = "active") -> dict[str, Any]:
    found = [s for s in content["state"]["subscriptions"] if s["status"] == status]
    chosen: dict[str, Any] = rng.choice(found)
    return chosen


def _another(content: Mapping[str, Any], id: str, status: str = "active") -> str:
    found = content["state"]["subscriptions"]
    return next(str(s["id"]) for s in found if s["id"] != id and s["status"] == status)


async def _manage(hand: Hand, id: str) -> None:
    await hand.open("subscription")
    await hand.click(f"manage:{id}")


class ChangePlan(Slip):
    """Another plan, confirmed."""

    name = "subscription/change_plan"
    goals = (
        "Change the subscription “{name}” to the {plan} plan.",
        "Put my “{name}” subscription on {plan}.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = _one(rng, content)
        plan = rng.choice([p["name"] for p in content["plans"] if p["name"] != one["plan"]])
        own = {"name": one["name"], "id": one["id"], "plan": plan, "fields": {"plan": plan}}
        return {**own, "button": "confirm", "wrong": {"button": "close"}}

    def done(self, end: Ending, p: Params) -> bool:
        return _changed(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["id"])
        await hand.click(f"plan:{p['plan']}")
        await hand.click(p["button"])


class Next(Slip):
    """The next dearer or cheaper plan, whichever that is."""

    name = "subscription/next_plan"
    goals = ("Move the subscription “{name}” {steps}, and have it paid once a year.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = _one(rng, content)
        plans = [p["name"] for p in content["plans"]]
        at = plans.index(one["plan"])
        ways = {"one plan up": at + 1, "one plan down": at - 1}
        steps, to = rng.choice([(s, i) for s, i in ways.items() if 0 <= i < len(plans)])
        away = rng.choice([plan for plan in plans if plan not in (plans[to], one["plan"])])
        own = {"name": one["name"], "id": one["id"], "steps": steps, "plan": plans[to]}
        fields = {"plan": plans[to], "cycle": "yearly"}
        return {**own, "fields": fields, "wrong": {"plan": away}}

    def done(self, end: Ending, p: Params) -> bool:
        return _changed(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["id"])
        await hand.click(f"plan:{p['plan']}")
        await hand.click("confirm")
        await hand.click("cycle:yearly")


class Extras(Slip):
    """One extra off, another on."""

    name = "subscription/extras"
    goals = ("In the subscription “{name}”, drop the extra {old} and add {new} instead.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = _one(rng, content)
        [old] = one["extras"]
        new, other = rng.sample([e["name"] for e in content["extras"] if e["name"] != old], 2)
        own = {"name": one["name"], "id": one["id"], "old": old, "new": new}
        return {**own, "fields": {"extras": [new]}, "wrong": {"new": other}}

    def done(self, end: Ending, p: Params) -> bool:
        return _changed(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["id"])
        await hand.click(f"extra:{p['old']}")
        await hand.click(f"extra:{p['new']}")


class Pause(Slip):
    """For some months."""

    name = "subscription/pause"
    goals = ("Pause the subscription “{name}” for {months} months.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = _one(rng, content)
        months, other = rng.sample([n for n in content["pauses"] if n > 1], 2)
        own = {"name": one["name"], "id": one["id"], "months": months}
        fields = {"status": "paused", "months": months}
        return {**own, "fields": fields, "wrong": {"months": other}}

    def done(self, end: Ending, p: Params) -> bool:
        return _changed(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["id"])
        await hand.click("pause")
        await hand.click(f"months:{p['months']}")
        await hand.click("confirm")


class Resume(Slip):
    """What is paused goes on."""

    name = "subscription/resume"
    goals = ("One of my subscriptions is paused. Let it go on.", "Resume the paused subscription.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        id = _one(rng, content, "paused")["id"]
        return {"id": id, "fields": {"status": "active", "months": 0}}

    def done(self, end: Ending, p: Params) -> bool:
        return _changed(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["id"])
        await hand.click("resume")

    async def miss(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["id"])
        await hand.click("cancel")
        await hand.click("close")


class Cancel(Slip):
    """For good, with a reason."""

    name = "subscription/cancel"
    goals = (
        "Cancel the subscription “{name}”; the reason is “{reason}”.",
        "I want to leave “{name}”. Cancel it and give “{reason}” as the reason.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = _one(rng, content)
        reason = rng.choice(content["reasons"])
        own = {"name": one["name"], "id": one["id"], "target": one["id"], "reason": reason}
        fields = {"status": "cancelled", "reason": reason}
        return {**own, "fields": fields, "wrong": {"target": _another(content, one["id"])}}

    def done(self, end: Ending, p: Params) -> bool:
        return _changed(end, p)

    async def solve(self, hand: Hand, p: Params) -> None:
        await _manage(hand, p["target"])
        await hand.click("cancel")
        await hand.click(f"reason:{p['reason']}")
        await hand.click("confirm")


class Year(Question):
    """What a plan costs for a year."""

    name = "subscription/year"
    goals = ("What does the {plan} plan cost for a whole year, without extras?",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        plan = rng.choice(content["plans"])
        truth, lie = str(plan["price"] * 10), str(plan["price"] * 12)
        return {"plan": plan["name"], "truth": truth, "lie": lie}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("subscription")
        return await hand.read(f"year:{p['plan']}")


class Subscription(Capability):
    """What one pays for regularly."""

    name, group, label = "subscription", "forms", "Subscriptions"
    templates = (ChangePlan(), Next(), Extras(), Pause(), Resume(), Cancel(), Year())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        base = rng.randint(3, 9)
        plans = [
            {"name": name, "price": base * (index + 1) + rng.randint(0, 2) * index, "text": text}
            for index, (name, text) in enumerate(_PLANS)
        ]
        extras = [{"name": name, "price": rng.randint(1, 6)} for name in rng.sample(_EXTRAS, 4)]
        subscriptions = [
            {
                "id": f"s{index}",
                "name": name,
                "plan": rng.choice(plans)["name"],
                "cycle": "monthly",
                "extras": [rng.choice(extras)["name"]],
                "status": status,
                "months": 2 if status == "paused" else 0,
                "reason": None,
                "next": f"2025-{rng.randint(4, 6):02d}-{rng.randint(1, 28):02d}",
            }
            for index, (name, status) in enumerate(
                zip(rng.sample(_NAMES, 3), _shuffled(rng), strict=True)
            )
        ]
        return {
            "plans": plans,
            "extras": extras,
            "pauses": [1, 2, 3, 6],
            "reasons": list(_REASONS),
            "about": "Change, pause or end what you pay for",
            "state": {"subscriptions": subscriptions},
        }


def _shuffled(rng: random.Random) -> list[str]:
    return rng.sample(["active", "active", "paused"], 3)
