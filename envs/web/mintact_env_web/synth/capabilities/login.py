"""Signing in and out, changing and recovering a password, devices."""

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
    answered,
)

_WORDS = ("amber", "copper", "harbour", "juniper", "lantern", "meadow", "pebble", "saffron")
_QUESTIONS = (
    ("What was the name of your first pet?", ("Biscuit", "Moritz", "Pepper", "Luna")),
    ("In which street did you grow up?", ("Mill Lane", "Elm Row", "Quay Street", "Birch Way")),
    ("Who was your favourite teacher?", ("Mrs Okoro", "Mr Lind", "Ms Petit", "Mr Alvarez")),
)
_DEVICES = ("Phone", "Tablet", "Work laptop", "Library computer", "Old phone", "Kitchen screen")
_DAYS = ("3 March 2025", "17 February 2025", "28 January 2025", "9 March 2025")


def _password(rng: random.Random) -> str:
    return f"{rng.choice(_WORDS)}-{rng.choice(_WORDS)}-{rng.randint(10, 99)}"


class _Account(Slip):
    """Something for one of the accounts, which one signs in to."""

    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        accounts = content["state"]["accounts"]
        user, other = rng.sample(sorted(accounts), 2)
        new = _password(rng)
        mine = {"user": user, "password": accounts[user]["password"]}
        wrong = {"user": other, "password": accounts[other]["password"]}
        return {**mine, "new": new, "stay": False, "wrong": wrong}

    def account(self, before: Mapping[str, Any], p: Params) -> dict[str, Any]:
        """The account afterwards."""
        return dict(before)

    def done(self, end: Ending, p: Params) -> bool:
        return self.as_wanted(end, p, p["user"])

    def as_wanted(self, end: Ending, p: Params, user: str | None) -> bool:
        """Whether the accounts are as wanted and `user` is signed in."""
        accounts = dict(end.before["accounts"])
        accounts[p["user"]] = self.account(accounts[p["user"]], p)
        wanted = {"user": user, "stay": p["stay"], "accounts": accounts}
        return bool(end.after == wanted)

    async def enter(self, hand: Hand, p: Params) -> None:
        """Sign in."""
        await hand.open("login")
        await hand.type("user", p["user"])
        await hand.type("password", p["password"])
        if p["stay"]:
            await hand.click("stay")
        await hand.click("enter")

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.enter(hand, p)
        return None


class SignIn(_Account):
    """Nothing but that; with a wrong password one stays outside."""

    name = "login/sign_in"
    goals = (
        "Sign in as {user} with the password {password}.",
        "Log in. User name: {user}, password: {password}",
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        return {**p, "wrong": {"password": p["password"][:-1]}}


class Stay(_Account):
    """For longer."""

    name = "login/stay"
    goals = ("Sign in as {user} with the password {password} and stay signed in on this computer.",)
    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {**(super().draw(rng, content) or {}), "stay": True, "wrong": {"stay": False}}


class NewPassword(_Account):
    """Another password."""

    name = "login/new_password"
    goals: ClassVar[tuple[str, ...]] = (
        "Sign in as {user} (password {password}) and change the password to {new}.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        return {**p, "wrong": {"new": p["new"] + "1"}}

    def account(self, before: Mapping[str, Any], p: Params) -> dict[str, Any]:
        return {**before, "password": p["new"]}

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.enter(hand, p)
        await hand.click("part:password")
        await hand.type("old", p["password"])
        await hand.type("next", p["new"])
        await hand.type("repeat", p["new"])
        await hand.click("change")
        return None


class NewAndOut(NewPassword):
    """And not signed in any more at the end."""

    name = "login/new_password_and_out"
    goals = (
        "Change the password of {user} from {password} to {new}, then sign out.",
        "The password of {user} is {password}. Replace it with {new} and sign out afterwards.",
    )

    def done(self, end: Ending, p: Params) -> bool:
        return self.as_wanted(end, p, None)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await super().solve(hand, p)
        await hand.click("leave")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await NewPassword.solve(self, hand, p)


class Recover(_Account):
    """A password one has forgotten."""

    name = "login/recover"
    goals = (
        "The password of {user} is forgotten. Set it to {new} by the security question; its answer "
        "is {answer}.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        accounts = content["state"]["accounts"]
        answer, other = (accounts[user]["answer"] for user in (p["user"], p["wrong"]["user"]))
        return {**p, "answer": answer, "wrong": {"answer": f"{other}s"}}

    def account(self, before: Mapping[str, Any], p: Params) -> dict[str, Any]:
        return {**before, "password": p["new"]}

    def done(self, end: Ending, p: Params) -> bool:
        return self.as_wanted(end, p, None)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("login")
        await hand.click("forgot")
        await hand.type("user", p["user"])
        await hand.click("find")
        await hand.type("answer", p["answer"])
        await hand.type("next", p["new"])
        await hand.type("repeat", p["new"])
        await hand.click("reset")
        return None


class EndDevice(_Account):
    """A device that one has given away."""

    name = "login/end_device"
    goals = ("Sign in as {user} with {password} and sign out the device “{device}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        device, other = rng.sample(content["state"]["accounts"][p["user"]]["devices"], 2)
        told = {"device": device["name"], "id": device["id"]}
        return {**p, **told, "wrong": {"id": other["id"]}}

    def account(self, before: Mapping[str, Any], p: Params) -> dict[str, Any]:
        return {**before, "devices": [d for d in before["devices"] if d["id"] != p["id"]]}

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.enter(hand, p)
        await hand.click("part:devices")
        await hand.click(f"end:{p['id']}")
        return None


class LookUp(_Account):
    """What only one who is signed in sees."""

    name = "login/look_up"
    goals = ("Sign in as {user} with the password {password}. What is the member number?",)
    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        return {**p, "truth": content["state"]["accounts"][p["user"]]["number"]}

    def done(self, end: Ending, p: Params) -> bool:
        return super().done(end, p) and answered(end.answer, p["truth"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.enter(hand, p)
        return await hand.read("number")


class Login(Capability):
    """The way into one's account."""

    name, group, label = "login", "account", "My account"
    templates = (SignIn(), Stay(), NewPassword(), NewAndOut(), Recover(), EndDevice(), LookUp())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        accounts: dict[str, Any] = {}
        for person in rng.sample(PEOPLE, 4):
            first, last = person.lower().split()
            question, answers = rng.choice(_QUESTIONS)
            names = rng.sample(_DEVICES, 3)
            accounts[f"{first}.{last}"] = {
                "name": person,
                "password": _password(rng),
                "question": question,
                "answer": rng.choice(answers),
                "number": f"{rng.choice('ABCDEFGH')}{rng.randint(10000, 99999)}",
                "points": rng.randint(40, 4000),
                "last": rng.choice(_DAYS),
                "devices": [
                    {
                        "id": f"d{n}",
                        "name": name,
                        "where": f"{rng.choice(category.places)}, {rng.choice(_DAYS)}",
                    }
                    for n, name in enumerate(names)
                ],
            }
        state = {"user": None, "stay": False, "accounts": accounts}
        return {"about": "Sign in to see your account", "state": state}
