"""Wish lists: saving, moving, noting, sharing, deleting."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_NAMES = ("Birthday", "For later", "Spring", "Presents", "Team", "Ideas", "Mum", "New home")
_NOTES = ("ask first", "only one", "before June", "for the weekend", "check the date")
_WISHES = ("Must have", "Nice to have", "Only on sale")


def _line(id: str, wish: str = "Nice to have", note: str = "") -> dict[str, Any]:
    return {"id": id, "wish": wish, "note": note}


def _lists(end: Ending) -> dict[str, Any]:
    """The lists at the start by id, free to be changed into what is wanted."""
    return {each["id"]: each for each in copy.deepcopy(list(end.before["lists"]))}


def _pick(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any]:
    """A list, another list, something on the first only, something on neither."""
    names = {i["id"]: i["name"] for i in content["items"]}
    here, there = rng.sample(content["state"]["lists"], 2)
    held, other = rng.sample([line["id"] for line in here["lines"]], 2)
    taken = {line["id"] for each in (here, there) for line in each["lines"]}
    free, spare = rng.sample([id for id in names if id not in taken], 2)
    return {
        "list": here["name"],
        "list_id": here["id"],
        "to": there["name"],
        "to_id": there["id"],
        "held": names[held],
        "held_id": held,
        "other_id": other,
        "item": names[free],
        "id": free,
        "spare_id": spare,
    }


class Save(Slip):
    """Something onto a list."""

    name = "wishlist/save"
    goals = ("Save {item} to the list “{list}”.", "Put {item} on my wish list “{list}”.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _pick(rng, content)
        return {**p, "wrong": {"list_id": p["to_id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = _lists(end)
        wanted[p["list_id"]]["lines"].append(_line(p["id"]))
        return bool(end.after["lists"] == list(wanted.values()))

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("wishlist")
        await hand.click(f"save:{p['id']}")
        await hand.click(f"into:{p['list_id']}")


class Create(Slip):
    """A list of its own, with one thing on it."""

    name = "wishlist/create"
    goals = ("Create a new list called “{new}” and save {item} to it.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p, taken = _pick(rng, content), {each["name"] for each in content["state"]["lists"]}
        new = rng.choice([name for name in _NAMES if name not in taken])
        return {**p, "new": new, "wrong": {"id": p["spare_id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        *old, new = end.after["lists"]
        lines = [_line(p["id"])]
        found = (new["name"].casefold(), new["lines"], new["shared"])
        return bool(old == end.before["lists"] and found == (p["new"].casefold(), lines, False))

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("wishlist")
        await hand.click(f"save:{p['id']}")
        await hand.type("new-name", p["new"])
        await hand.click("create")


class Move(Slip):
    """From one list to another."""

    name = "wishlist/move"
    goals = ("Move {held} from the list “{list}” to the list “{to}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        for _ in range(20):
            p = _pick(rng, content)
            there = next(e for e in content["state"]["lists"] if e["id"] == p["to_id"])
            if all(line["id"] != p["held_id"] for line in there["lines"]):
                return {**p, "wrong": {"held_id": p["other_id"]}}
        return None

    def done(self, end: Ending, p: Params) -> bool:
        wanted = _lists(end)
        here, there = wanted[p["list_id"]], wanted[p["to_id"]]
        here["lines"] = [line for line in here["lines"] if line["id"] != p["held_id"]]
        there["lines"].append(_line(p["held_id"]))
        return bool(end.after["lists"] == list(wanted.values()))

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("wishlist")
        await hand.click(f"list:{p['list_id']}")
        await hand.click(f"move:{p['held_id']}")
        await hand.click(f"to:{p['to_id']}")


class Note(Slip):
    """How much one wants it, and a note."""

    name = "wishlist/note"
    goals = ("On the list “{list}”, mark {held} as “{wish}” and add the note “{note}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        own = {"wish": rng.choice(("Must have", "Only on sale")), "note": rng.choice(_NOTES)}
        return {**_pick(rng, content), **own, "wrong": {"wish": "Nice to have"}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = _lists(end)
        for line in wanted[p["list_id"]]["lines"]:
            if line["id"] == p["held_id"]:
                line |= {"wish": p["wish"], "note": p["note"]}
        return bool(end.after["lists"] == list(wanted.values()))

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("wishlist")
        await hand.click(f"list:{p['list_id']}")
        await hand.click(f"edit:{p['held_id']}")
        await hand.click(f"wish:{p['wish']}")
        await hand.type("note", p["note"])
        await hand.click("keep")


class Share(Slip):
    """A private list for everybody with the link."""

    name = "wishlist/share"
    goals = (
        "Share the list “{name}” with anyone who has the link.",
        "Let anyone with the link see my list “{name}”.",
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        lists = [each for each in content["state"]["lists"] if not each["shared"]]
        here, there = rng.sample(lists, 2)
        return {"id": here["id"], "name": here["name"], "wrong": {"id": there["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = _lists(end)
        wanted[p["id"]]["shared"] = True
        return bool(end.after["lists"] == list(wanted.values()))

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("wishlist")
        await hand.click(f"list:{p['id']}")
        await hand.click("shared")


class Delete(Slip):
    """A whole list, after a question."""

    name = "wishlist/delete"
    goals = ("Delete the list “{list}”.", "I no longer need the list “{list}”; delete it.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        return {**_pick(rng, content), "button": "sure", "wrong": {"button": "close"}}

    def done(self, end: Ending, p: Params) -> bool:
        rest = [each for each in end.before["lists"] if each["id"] != p["list_id"]]
        return bool(end.after["lists"] == rest)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("wishlist")
        await hand.click(f"list:{p['list_id']}")
        await hand.click("delete")
        await hand.click(p["button"])


class Together(Question):
    """What everything on a list costs."""

    name = "wishlist/together"
    goals = ("How much does everything on the list “{list}” cost together?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        prices = {i["id"]: i["price"] for i in content["items"]}
        lists = content["state"]["lists"]
        sums = [sum(prices[line["id"]] for line in each["lines"]) for each in lists]
        here, there = rng.sample(range(len(lists)), 2)
        if sums[here] == sums[there]:
            return None
        own = {"list": lists[here]["name"], "list_id": lists[here]["id"]}
        return {**own, "truth": str(sums[here]), "lie": str(sums[there])}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("wishlist")
        await hand.click(f"list:{p['list_id']}")
        return await hand.read("total")


class Wishlist(Capability):
    """Things worth saving, and lists of them."""

    name, group, label = "wishlist", "shopping", "Wish lists"
    templates = (Save(), Create(), Move(), Note(), Share(), Delete(), Together())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, rng.randint(10, 14))
        lists = [
            {
                "id": f"l{index}",
                "name": name,
                "shared": index == 2,
                "lines": [_line(i["id"]) for i in rng.sample(items, rng.randint(2, 4))],
            }
            for index, name in enumerate(rng.sample(_NAMES, 3))
        ]
        return {
            "items": items,
            "many": category.item[1],
            "about": f"Keep {category.item[1]} for later",
            "state": {"lists": lists, "made": len(lists)},
        }
