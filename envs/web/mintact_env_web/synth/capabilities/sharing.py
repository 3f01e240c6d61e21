"""Who may see documents: inviting, roles, removing, links."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_ROLES = ("Viewer", "Commenter", "Editor")
_LINKS = (
    ("off", "No link"),
    ("view", "Anyone with the link can view"),
    ("edit", "Anyone with the link can edit"),
)
_TITLES = (
    "Price list: {}",
    "Plan for {}",
    "Notes on {}",
    "Photos of {}",
    "Report: {}",
    "Contract for {}",
)


def _email(name: str) -> str:
    return name.lower().replace(" ", ".") + "@mail.test"


def _doc(state: Mapping[str, Any], id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(d for d in state["docs"] if d["id"] == id)
    return found


def _guests(doc: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [p for p in doc["people"] if p["role"] != "Owner"]


def _person(state: Mapping[str, Any], p: Params) -> dict[str, Any]:
    people = _doc(state, p["doc"])["people"]
    found: dict[str, Any] = next(x for x in people if x["email"] == p["email"])
    return found


class Role(Edit):
    """The role of somebody on a document."""

    name = "sharing/role"
    goals = ('Make {who} {role} of the document "{title}".',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        doc = rng.choice(content["state"]["docs"])
        one, other = rng.sample(_guests(doc), 2)
        roles = rng.sample([r for r in _ROLES if r != one["role"]], 2)
        own = {"doc": doc["id"], "title": doc["title"], "who": one["name"], "email": one["email"]}
        return {**own, "role": roles[0], "wrong": {"role": roles[1]}, "other": other["email"]}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _person(state, p)["role"] = p["role"]

    async def open(self, hand: Hand, p: Params) -> None:
        """Go to the document."""
        await hand.open("sharing")
        await hand.click(f"doc:{p['doc']}")

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.open(hand, p)
        await hand.choose(f"role:{p['email']}", p["role"])
        return None


class Remove(Role):
    """Somebody taken off a document."""

    name = "sharing/remove"
    goals = ('{who} should no longer have access to "{title}".',)
    button = "remove"

    def change(self, state: dict[str, Any], p: Params) -> None:
        _doc(state, p["doc"])["people"].remove(_person(state, p))

    async def ask(self, hand: Hand, p: Params) -> None:
        """Everything but the confirmation."""
        await self.open(hand, p)
        await hand.click(f"{self.button}:{p['email']}")

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.ask(hand, p)
        await hand.click("confirm")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.ask(hand, p)
        return None


class HandOver(Remove):
    """Another owner."""

    name = "sharing/new_owner"
    goals = ('Make {who} the owner of "{title}".',)
    button = "owner"
    level = 3

    def change(self, state: dict[str, Any], p: Params) -> None:
        for person in _doc(state, p["doc"])["people"]:
            if person["role"] == "Owner":
                person["role"] = "Editor"
        _person(state, p)["role"] = "Owner"

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await self.solve(hand, {**p, "email": p["other"]})


class Invite(Role):
    """Somebody new on a document."""

    name = "sharing/invite"
    goals = ('Invite {email} to "{title}" as {role}, {how} a message.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        doc = rng.choice(content["state"]["docs"])
        known = {p["name"] for p in doc["people"]}
        who = rng.choice([name for name in PEOPLE if name not in known])
        role, other = rng.sample(_ROLES, 2)
        note = rng.random() < 0.5
        own = {"doc": doc["id"], "title": doc["title"], "email": _email(who), "role": role}
        more = {"note": note, "how": "with" if note else "without"}
        return {**own, **more, "wrong": {"role": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        new = {"name": p["email"].partition("@")[0], "email": p["email"], "role": p["role"]}
        _doc(state, p["doc"])["people"].append({**new, "told": p["note"]})

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.open(hand, p)
        await hand.type("email", p["email"])
        await hand.choose("role", p["role"])
        if p["note"]:
            await hand.click("note")
        await hand.click("invite")
        return None


class Link(Role):
    """What those with the link may do."""

    name = "sharing/link"
    goals = ('Set the link of "{title}" to: {label}.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        doc = rng.choice(content["state"]["docs"])
        new, other = rng.sample([link for link in _LINKS if link[0] != doc["link"]], 2)
        own = {"doc": doc["id"], "title": doc["title"], "link": new[0], "label": new[1]}
        return {**own, "wrong": {"link": other[0]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _doc(state, p["doc"])["link"] = p["link"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.open(hand, p)
        await hand.click(f"link:{p['link']}")
        return None


class Everywhere(Remove):
    """Somebody taken off every document."""

    name = "sharing/remove_everywhere"
    goals = ("Remove {who} from every document that is shared with them (not those they own).",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        on: dict[str, list[str]] = {}
        for doc in content["state"]["docs"]:
            for person in _guests(doc):
                on.setdefault(person["name"], []).append(doc["id"])
        several = sorted(name for name, ids in on.items() if 2 <= len(ids) <= 3)
        if not several:
            return None
        who = rng.choice(several)
        own = {"who": who, "email": _email(who), "docs": on[who]}
        return {**own, "wrong": {"docs": on[who][:-1]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        for id in p["docs"]:
            super().change(state, {**p, "doc": id})

    async def solve(self, hand: Hand, p: Params) -> str | None:
        for id in p["docs"]:
            await super().solve(hand, {**p, "doc": id})
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await self.solve(hand, {**p, **p["wrong"]})


class Editors(Question):
    """How many people may change a document."""

    name = "sharing/editors"
    goals = ('How many people, the owner included, can change "{title}"? Count editors, no links.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        doc = rng.choice(content["state"]["docs"])
        count = sum(p["role"] in ("Owner", "Editor") for p in doc["people"])
        lie = len(doc["people"]) + (count == len(doc["people"]))
        return {"doc": doc["id"], "title": doc["title"], "truth": str(count), "lie": str(lie)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await Role().open(hand, p)
        return str(p["truth"])


class Sharing(Capability):
    """Documents shared with people."""

    name, group, label = "sharing", "account", "Documents"
    templates = (Role(), Remove(), HandOver(), Invite(), Link(), Everywhere(), Editors())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        people, docs = rng.sample(PEOPLE, 9), []
        for i, (item, title) in enumerate(
            zip(category.items(rng, 6), rng.sample(_TITLES, 6), strict=True)
        ):
            chosen = rng.sample(people, rng.randint(4, 5))
            roles = ["Owner", *(rng.choice(_ROLES) for _ in chosen[1:])]
            on = [
                {"name": name, "email": _email(name), "role": role, "told": True}
                for name, role in zip(chosen, roles, strict=True)
            ]
            link = rng.choice(_LINKS)[0]
            title = title.format(item["name"])
            docs.append({"id": f"d{i}", "title": title, "people": on, "link": link})
        about = "Your documents and who sees them"
        links = [list(link) for link in _LINKS]
        return {"roles": list(_ROLES), "links": links, "about": about, "state": {"docs": docs}}
