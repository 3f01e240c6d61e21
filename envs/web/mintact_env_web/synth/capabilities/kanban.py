"""A board of cards in columns: moving, adding, assigning, finishing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_COLUMNS = (
    ("Ideas", "In progress", "Review", "Done"),
    ("To do", "Doing", "Done"),
    ("Asked", "Planned", "Under way", "Finished"),
)
_NEW_NAMES = ("Waiting", "This week", "With the boss", "On hold")
_VERBS = (
    "Prepare",
    "Photograph",
    "Write about",
    "Check",
    "Order",
    "Translate",
    "Announce",
    "Count",
)
_LABELS = ("Normal", "Urgent", "Question", "Bug")


def _board(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """All cards by id; their order within a column is nobody's business."""
    return {card["id"]: card for card in state["cards"]}


class _Cards(Slip):
    """Some cards changed, or gone (None)."""

    level = 2

    def done(self, end: Ending, p: Params) -> bool:
        wanted = _board(end.before)
        for id, change in p["changes"].items():
            if change is None:
                del wanted[id]
            else:
                wanted[id] = {**wanted[id], **change}
        same = end.after["columns"] == end.before["columns"]
        return bool(same and _board(end.after) == wanted)


class Move(_Cards):
    """A card on its way, by its buttons."""

    name = "kanban/move"
    goals: ClassVar[tuple[str, ...]] = (
        "Move the card “{title}” to “{column}”.",
        "“{title}” belongs into the column “{column}” by now: move it there.",
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        columns, cards = content["state"]["columns"], content["state"]["cards"]
        ids = [column["id"] for column in columns]
        card = rng.choice(cards)
        now = ids.index(card["column"])
        there = rng.choice([n for n in range(len(ids)) if n != now])
        other = rng.choice([n for n in range(len(ids)) if n != there])
        return {
            "title": card["title"],
            "column": columns[there]["name"],
            "id": card["id"],
            "away": there - now,
            "to": ids[there],
            "changes": {card["id"]: {"column": ids[there]}},
            "wrong": {"away": other - now, "to": ids[other]},
        }

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        for _ in range(abs(p["away"])):
            await hand.click(f"{'right' if p['away'] > 0 else 'left'}:{p['id']}")


class Drag(Move):
    """The same in one movement."""

    name = "kanban/drag"
    goals = ("Drag the card “{title}” into the column “{column}”.",)
    level = 2
    needs = frozenset({"drag"})

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        await hand.drag(f"card:{p['id']}", f"column:{p['to']}")


class Assign(_Cards):
    """Somebody for a card, and a label."""

    name = "kanban/assign"
    goals = ("Assign the card “{title}” to {who} and label it “{label}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        card = rng.choice(content["state"]["cards"])
        who, other = rng.sample([x for x in content["people"] if x != card["who"]], 2)
        label = rng.choice([x for x in content["labels"] if x != card["label"]])
        new = {"who": who, "label": label}
        told = {"id": card["id"], "title": card["title"], **new}
        return {**told, "changes": {card["id"]: new}, "wrong": {"who": other}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        await hand.click(f"card:{p['id']}")
        await hand.choose("who", p["who"])
        await hand.choose("label", p["label"])
        await hand.click("save")


class Delete(_Cards):
    """A card thrown away; it must be confirmed."""

    name = "kanban/delete"
    goals = ("Delete the card “{title}” from the board.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        card, other = rng.sample(content["state"]["cards"], 2)
        told = {"id": card["id"], "title": card["title"]}
        return {**told, "changes": {card["id"]: None}, "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        await hand.click(f"card:{p['id']}")
        await hand.click("delete")
        await hand.click("yes")


class FinishAll(_Cards):
    """All cards of one person into the last column."""

    name = "kanban/finish_all"
    goals = (
        "Everything that is assigned to {who} is finished: move all those cards to “{column}”.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        columns, cards = content["state"]["columns"], content["state"]["cards"]
        ids = [column["id"] for column in columns]
        open_ = {
            who: [c for c in cards if c["who"] == who and c["column"] != ids[-1]]
            for who in content["people"]
        }
        several = [who for who, mine in open_.items() if len(mine) > 1]
        if not several:
            return None
        who = rng.choice(several)
        steps = [[c["id"], len(ids) - 1 - ids.index(c["column"])] for c in open_[who]]
        changes = {id: {"column": ids[-1]} for id, _ in steps}
        told = {"who": who, "column": columns[-1]["name"]}
        return {**told, "steps": steps, "changes": changes, "wrong": {"steps": steps[:-1]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        await hand.choose("filter", p["who"])
        for id, away in p["steps"]:
            for _ in range(away):
                await hand.click(f"right:{id}")


class Add(Slip):
    """A new card."""

    name = "kanban/add"
    goals = ("Add a card “{title}” to the column “{column}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        column, other = rng.sample(content["state"]["columns"], 2)
        told = {"title": rng.choice(content["ideas"]), "column": column["name"]}
        return {**told, "to": column["id"], "wrong": {"to": other["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted, now = _board(end.before), _board(end.after)
        fresh = [card for id, card in now.items() if id not in wanted]
        places = [(c["title"], c["column"], c["who"]) for c in fresh]
        kept = {id: card for id, card in now.items() if id in wanted}
        same = end.after["columns"] == end.before["columns"] and kept == wanted
        return bool(same and places == [(p["title"], p["to"], None)])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        await hand.click(f"add:{p['to']}")
        await hand.type("new-title", p["title"])
        await hand.click("add-now")


class RenameColumn(Slip):
    """A column under another name."""

    name = "kanban/rename_column"
    goals = ("Rename the column “{column}” to “{new}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        column, other = rng.sample(content["state"]["columns"], 2)
        told = {"column": column["name"], "new": rng.choice(_NEW_NAMES)}
        return {**told, "id": column["id"], "wrong": {"id": other["id"]}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = [
            {**x, "name": p["new"]} if x["id"] == p["id"] else x for x in end.before["columns"]
        ]
        same = end.after["cards"] == end.before["cards"]
        return bool(same and end.after["columns"] == wanted)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("kanban")
        await hand.click(f"rename:{p['id']}")
        await hand.type("column-name", p["new"])
        await hand.click("rename-now")


class HowMany(Question):
    """How much somebody has to do."""

    name = "kanban/how_many"
    goals = ("How many cards on the board are assigned to {who}? Answer with the number.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        who = rng.choice(content["people"])
        truth = sum(card["who"] == who for card in content["state"]["cards"])
        return {"who": who, "truth": str(truth), "lie": str(truth + 1)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("kanban")
        await hand.choose("filter", p["who"])
        return await hand.read("shown")


class Kanban(Capability):
    """A board of cards."""

    name, group, label = "kanban", "planning", "Board"
    templates = (
        Move(), Drag(), Assign(), Delete(), FinishAll(), Add(), RenameColumn(), HowMany(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        columns = [{"id": f"k{n}", "name": name} for n, name in enumerate(rng.choice(_COLUMNS))]
        people, items = rng.sample(PEOPLE, 4), category.items(rng, 16)
        titles = [f"{rng.choice(_VERBS)} {item['name']}" for item in items]
        cards = [
            {
                "id": f"x{index}",
                "title": title,
                "column": columns[index % len(columns)]["id"],
                "who": rng.choice([*people, None]),
                "label": rng.choice(_LABELS),
            }
            for index, title in enumerate(titles[: rng.randint(9, 12)])
        ]
        return {
            "people": people,
            "labels": list(_LABELS),
            "ideas": titles[12:],
            "about": "Who is working on what",
            "state": {"columns": columns, "cards": cards, "next": 1},
        }
