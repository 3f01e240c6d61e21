"""Opening an account: a form that is checked before it is sent, and what became of others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Slip
from mintact_env_web.synth.site import (
    PEOPLE,
    Capability,
    Category,
    Ending,
    Hand,
    Params,
    Template,
)

_EMPTY = {"name": "", "email": "", "password": "", "plan": None, "news": False, "terms": False}


class Plain(Template):
    """Name, e-mail, password, plan; no newsletter."""

    name = "signup/plain"
    goals: ClassVar[tuple[str, ...]] = (
        "Create an account for {name} with the e-mail {email}, the password {password} and the "
        "{plan} plan. Accept the terms; no newsletter.",
        "Sign {name} up ({email}, password {password}, plan {plan}) without the newsletter.",
    )
    level = 3
    news = False

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        known = {a["name"] for a in content["state"]["accounts"] + content["state"]["refused"]}
        name = rng.choice([person for person in PEOPLE if person not in known])
        plan = rng.choice(content["plans"])
        first, last = name.lower().split()
        return {
            "name": name,
            "email": f"{first}.{last}@{rng.choice(('example.org', 'mail.test', 'post.example'))}",
            "password": f"{rng.choice(('blue', 'quiet', 'rapid'))}{rng.randint(1000, 9999)}",
            "plan": plan,
            "other": rng.choice([p for p in content["plans"] if p != plan]),
        }

    def wanted(self, p: Params) -> dict[str, Any]:
        """The account that must exist afterwards."""
        own = {key: p[key] for key in ("name", "email", "password", "plan")}
        return {**own, "news": self.news, "terms": True}

    def done(self, end: Ending, p: Params) -> bool:
        added = end.after["accounts"] == [*end.before["accounts"], self.wanted(p)]
        return bool(added and end.after["refused"] == end.before["refused"])

    async def fill(self, hand: Hand, p: Params) -> None:
        """Everything but sending."""
        await hand.open("signup")
        for field in ("name", "email", "password"):
            await hand.type(field, p[field])
        await hand.choose("plan", p["plan"])
        if self.news:
            await hand.click("news")
        await hand.click("terms")

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.fill(hand, p)
        await hand.click("send")

    async def miss(self, hand: Hand, p: Params) -> None:
        await self.fill(hand, p)


class News(Plain):
    """With the newsletter."""

    name = "signup/news"
    goals = (
        "Create an account for {name} ({email}, password {password}, {plan} plan), accept the "
        "terms and subscribe to the news.",
    )
    news = True

    async def miss(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, {**p, "plan": p["other"]})


class Second(Plain):
    """Another account on the plan that somebody has, which one must look up."""

    name = "signup/second"
    goals = (
        "Create an account for {name} ({email}, password {password}) with the same plan that "
        "{friend} has. Accept the terms; no newsletter.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        index = rng.randrange(len(content["state"]["accounts"]))
        friend = content["state"]["accounts"][index]
        other = next(plan for plan in content["plans"] if plan != friend["plan"])
        own = {"friend": friend["name"], "plan": friend["plan"], "other": other}
        return {**p, **own}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("signup")
        await hand.click("accounts")
        await super().solve(hand, p)

    async def miss(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, {**p, "plan": p["other"]})


class _Refused(Slip):
    """A form that was refused, corrected and sent again."""

    index: ClassVar[int]
    field: ClassVar[str]

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        form = content["state"]["refused"][self.index]
        first, last = form["name"].lower().split()
        email, wrong = f"{first}.{last}@mail.test", f"{first}@mail.test"
        plan, other = rng.sample(content["plans"], 2)
        good, bad = {"email": (email, wrong), "plan": (plan, other)}[self.field]
        return {"id": form["id"], "name": form["name"], "value": good, "wrong": {"value": bad}}

    def done(self, end: Ending, p: Params) -> bool:
        form = {**end.before["refused"][self.index], self.field: p["value"]}
        del form["id"]
        rest = [r for r in end.before["refused"] if r["id"] != p["id"]]
        added = end.after["accounts"] == [*end.before["accounts"], form]
        return bool(added and end.after["refused"] == rest)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("signup")
        await hand.click(f"correct:{p['id']}")
        if self.field == "plan":
            await hand.choose("plan", p["value"])
        else:
            await hand.type("email", p["value"])
        await hand.click("send")


class Correct(_Refused):
    """One with a wrong address."""

    name = "signup/correct"
    goals = (
        "{name}'s form was refused for its e-mail address. Correct it to {value} and send the "
        "form again; leave the rest as it is.",
    )
    level = 3
    index, field = 0, "email"


class Complete(_Refused):
    """One without a plan."""

    name = "signup/complete"
    goals = ("{name}'s form was refused. Complete it with the {value} plan and send it.",)
    index, field = 1, "plan"


class ChangePlan(Slip):
    """The plan of an account that exists."""

    name = "signup/change_plan"
    goals = ("Move {name}'s account to the {plan} plan.", "Change the plan of {name} to {plan}.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        accounts = content["state"]["accounts"]
        index, other = rng.sample(range(len(accounts)), 2)
        plan = rng.choice([plan for plan in content["plans"] if plan != accounts[index]["plan"]])
        wrong = {"index": other}
        return {"index": index, "name": accounts[index]["name"], "plan": plan, "wrong": wrong}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = [dict(account) for account in end.before["accounts"]]
        wanted[p["index"]]["plan"] = p["plan"]
        rest = end.after["refused"] == end.before["refused"]
        return bool(end.after["accounts"] == wanted and rest)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("signup")
        await hand.click("accounts")
        await hand.click(f"change:{p['index']}")
        await hand.choose("new-plan", p["plan"])
        await hand.click("save-plan")


class Signup(Capability):
    """A registration form."""

    name, group, label = "signup", "forms", "Join"
    templates = (Plain(), News(), Second(), Correct(), Complete(), ChangePlan())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        plans = rng.sample(["Basic", "Plus", "Family", "Team", "Student", "Premium"], 4)
        people = rng.sample(PEOPLE, 6)
        accounts = [_form(rng, name, rng.choice(plans)) for name in people[:4]]
        broken = [_form(rng, name, rng.choice(plans)) for name in people[4:]]
        broken[0]["email"] = broken[0]["email"].replace("@", rng.choice((" at ", ".", "(at)")))
        broken[1]["plan"] = None
        return {
            "plans": plans,
            "about": "Open an account in a minute",
            "state": {
                "accounts": accounts,
                "refused": [{"id": f"r{i}", **form} for i, form in enumerate(broken)],
                "draft": dict(_EMPTY),
            },
        }


def _form(rng: random.Random, name: str, plan: str) -> dict[str, Any]:
    email = name.lower().replace(" ", ".") + "@" + rng.choice(("example.org", "post.example"))
    word = f"{rng.choice(('green', 'still', 'early'))}{rng.randint(1000, 9999)}"
    own = {"name": name, "email": email, "password": word, "plan": plan}
    return {**own, "news": rng.random() < 0.4, "terms": True}
