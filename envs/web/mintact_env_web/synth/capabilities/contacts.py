"""An address book: finding, adding, editing, grouping, deleting, merging."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_GROUPS = ("Friends", "Suppliers", "Neighbours", "Choir", "Office", "Emergency")
_MORE = ("Volunteers", "Book club", "Night shift", "Press")
_KEYS = ("name", "email", "phone", "firm", "group")


def _people(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {person["id"]: person for person in state["people"]}


def _phone(rng: random.Random) -> str:
    return f"555 {rng.randint(1000, 9999)}"


def _single(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """People who are in the book once."""
    people = content["state"]["people"]
    names = [person["name"] for person in people]
    return [person for person in people if names.count(person["name"]) == 1]


class Add(Slip):
    """Somebody new."""

    name = "contacts/add"
    goals = (
        "Add a contact: {name}, e-mail {email}, phone {phone}, group {group}.",
        "Save {name} in the group {group} of my contacts. Phone: {phone}, e-mail: {email}",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        taken = {person["name"] for person in content["state"]["people"]}
        name = rng.choice([name for name in PEOPLE if name not in taken])
        group, other = rng.sample(content["state"]["groups"], 2)
        email = f"{name.split()[0].lower()}{rng.randint(10, 99)}@post.test"
        new = {"name": name, "email": email, "phone": _phone(rng), "group": group}
        return {**new, "wrong": {"group": other}}

    def done(self, end: Ending, p: Params) -> bool:
        *before, last = end.after["people"]
        new = {"firm": "", **{key: p[key] for key in ("name", "email", "phone", "group")}}
        added = before == end.before["people"] and {key: last[key] for key in _KEYS} == new
        return bool(added and end.after["groups"] == end.before["groups"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("contacts")
        await hand.click("new")
        for key in ("name", "email", "phone"):
            await hand.type(key, p[key])
        await hand.choose("group", p["group"])
        await hand.click("save")


class _Changed(Slip):
    """Some people changed, or gone (None)."""

    level = 2

    def done(self, end: Ending, p: Params) -> bool:
        changes, wanted = p["changes"], _people(end.before)
        for id, change in changes.items():
            if change is None:
                del wanted[id]
            else:
                wanted[id] = {**wanted[id], **change}
        groups = [*end.before["groups"], *p.get("new_groups", [])]
        return bool(_people(end.after) == wanted and end.after["groups"] == groups)


class NewPhone(_Changed):
    """A number that changed."""

    name = "contacts/new_phone"
    goals = (
        "{name} has a new phone number: {phone}. Change it in the contacts.",
        "Change the phone number of {name} to {phone}.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        person, other = rng.sample(_single(content), 2)
        told = {"id": person["id"], "name": person["name"], "phone": _phone(rng)}
        changes = {person["id"]: {"phone": told["phone"]}}
        return {**told, "changes": changes, "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("contacts")
        await hand.click(f"edit:{p['id']}")
        await hand.type("phone", p["phone"])
        await hand.click("save")


class Delete(_Changed):
    """Somebody no longer needed; it must be confirmed."""

    name = "contacts/delete"
    goals = ("Delete {name} from the contacts.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        person = rng.choice(_single(content))
        told = {"id": person["id"], "name": person["name"]}
        return {**told, "changes": {person["id"]: None}, "answer": "yes", "wrong": {"answer": "no"}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("contacts")
        await hand.click(f"edit:{p['id']}")
        await hand.click("delete")
        await hand.click(p["answer"])


class Group(_Changed):
    """Several at once into a group."""

    name = "contacts/group"
    goals = ("Put {names} and {last} into the group {group}.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        group = rng.choice(content["state"]["groups"])
        free = [person for person in _single(content) if person["group"] != group]
        chosen = rng.sample(free, min(rng.randint(2, 4), len(free)))
        if len(chosen) < 2:
            return None
        names, ids = [person["name"] for person in chosen], [person["id"] for person in chosen]
        told = {"names": ", ".join(names[:-1]), "last": names[-1], "group": group}
        changes = {id: {"group": group} for id in ids}
        return {**told, "ids": ids, "changes": changes, "wrong": {"ids": ids[:-1]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("contacts")
        for id in p["ids"]:
            await hand.click(f"mark:{id}")
        await hand.choose("into", p["group"])


class NewGroup(Group):
    """A group that does not exist yet."""

    name = "contacts/new_group"
    goals = ("Create a group “{group}” and put {names} and {last} into it.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        group, chosen = rng.choice(_MORE), rng.sample(_single(content), 3)
        names, ids = [person["name"] for person in chosen], [person["id"] for person in chosen]
        told = {"names": ", ".join(names[:-1]), "last": names[-1], "group": group}
        changes = {id: {"group": group} for id in ids}
        new = {"new_groups": [group], "changes": changes}
        return {**told, "ids": ids, **new, "wrong": {"ids": ids[1:]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("contacts")
        await hand.type("group-name", p["group"])
        await hand.click("add-group")
        for id in p["ids"]:
            await hand.click(f"mark:{id}")
        await hand.choose("into", p["group"])


class Merge(_Changed):
    """Two entries of the same person."""

    name = "contacts/merge"
    goals = ("{name} is in the contacts twice. Merge the two and keep the phone number {phone}.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        people = content["state"]["people"]
        second = people[-1]
        first = next(person for person in people if person["name"] == second["name"])
        side = rng.choice("ab")
        kept = {"a": first, "b": second}[side]["phone"]
        merged = {key: first[key] or second[key] for key in _KEYS} | {"phone": kept}
        changes = {"changes": {first["id"]: merged, second["id"]: None}}
        told = {"name": first["name"], "phone": kept, "first": first["id"], "second": second["id"]}
        return {**told, **changes, "side": side, "wrong": {"side": "b" if side == "a" else "a"}}

    def done(self, end: Ending, p: Params) -> bool:
        """One entry with all there is, whichever of the two is kept."""
        changes = dict(p["changes"])
        swapped = {p["second"]: changes[p["first"]], p["first"]: None}
        return super().done(end, p) or super().done(end, {**p, "changes": swapped})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("contacts")
        await hand.type("search", p["name"], enter=True)
        await hand.click(f"mark:{p['first']}")
        await hand.click(f"mark:{p['second']}")
        await hand.click("merge")
        await hand.click(f"phone:{p['side']}")
        await hand.click("merge-now")


class WhoCalled(Question):
    """Whose number it is."""

    name = "contacts/who_called"
    goals = ("Somebody called from {phone}. Who is that, going by the contacts?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        person, other = rng.sample(_single(content), 2)
        told = {"id": person["id"], "phone": person["phone"]}
        return {**told, "truth": person["name"], "lie": other["name"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("contacts")
        await hand.type("search", p["phone"])
        await hand.click("find")
        return await hand.read(f"name:{p['id']}")


class Contacts(Capability):
    """An address book in groups."""

    name, group, label = "contacts", "records", "Contacts"
    templates = (Add(), NewPhone(), Delete(), Group(), NewGroup(), Merge(), WhoCalled())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        groups, names = sorted(rng.sample(_GROUPS, 4)), rng.sample(PEOPLE, rng.randint(11, 15))
        phones = rng.sample(range(1000, 9999), len(names) + 1)
        people: list[dict[str, Any]] = [
            {
                "id": f"p{index}",
                "name": name,
                "email": f"{name.split()[1].lower()}@{rng.choice(('post', 'mail', 'letter'))}.test",
                "phone": f"555 {phones[index]}",
                "firm": f"{rng.choice(category.kinds)} {rng.choice(('Ltd', '& Co', 'Group'))}",
                "group": rng.choice([*groups, None]),
            }
            for index, name in enumerate(names)
        ]
        twin = rng.choice(people)
        twin["email"] = ""
        people.append(
            {
                **twin,
                "id": f"p{len(names)}",
                "phone": f"555 {phones[-1]}",
                "email": f"{twin['name'].split()[0].lower()}@home.test",
                "firm": "",
                "group": None,
            }
        )
        state = {"people": people, "groups": groups, "next": 1}
        return {"about": "Everybody you deal with", "state": state}
