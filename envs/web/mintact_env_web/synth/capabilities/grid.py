"""A table of records: editing cells, changing several rows at once, hiding columns, deleting."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_STATUSES = ("Active", "Draft", "Archived", "On hold")
_COLUMNS = {
    "kind": "Kind",
    "place": "Place",
    "price": "Price",
    "stock": "Stock",
    "status": "Status",
}


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


class _Rows(Slip):
    """Some rows changed, or gone (None); which columns are hidden, in any order."""

    level = 2

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {row["id"]: row for row in end.before["rows"]}
        for id, change in p.get("changes", {}).items():
            if change is None:
                del wanted[id]
            else:
                wanted[id] = {**wanted[id], **change}
        hidden = p.get("hidden", sorted(end.before["hidden"]))
        now = {row["id"]: row for row in end.after["rows"]}
        return bool(now == wanted and sorted(end.after["hidden"]) == hidden)


class EditCell(_Rows):
    """One value, typed into its cell."""

    name = "grid/edit_cell"
    goals = (
        "In the table, set the {column} of “{item}” to {value}.",
        "The {column} of “{item}” is {value} now. Correct the table.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        row, other = rng.sample(content["state"]["rows"], 2)
        key = rng.choice(("price", "stock"))
        value = row[key] + rng.randint(2, 9)
        told = {"id": row["id"], "item": row["name"], "column": key, "value": value}
        changes = {row["id"]: {key: value}}
        return {**told, "changes": changes, "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        await hand.click(f"cell:{p['id']}:{p['column']}")
        await hand.type("value", str(p["value"]), enter=True)


class Rename(_Rows):
    """A name, which must be applied."""

    name = "grid/rename"
    goals = ("Rename “{item}” in the table to “{new}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        row = rng.choice(content["state"]["rows"])
        new = f"{row['name']} {rng.choice(('II', '(new)', 'plus', '2025'))}"
        told = {"id": row["id"], "item": row["name"], "new": new}
        return {**told, "changes": {row["id"]: {"name": new}}, "wrong": {}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.miss(hand, p)
        await hand.click("ok")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        await hand.click(f"cell:{p['id']}:name")
        await hand.type("value", p["new"])


class Status(_Rows):
    """Several rows with another status."""

    name = "grid/status"
    goals = ("Set the status of {items} to “{status}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        status = rng.choice(content["statuses"])
        free = [row for row in content["state"]["rows"] if row["status"] != status]
        chosen = rng.sample(free, min(3, len(free)))
        if len(chosen) < 2:
            return None
        ids = [row["id"] for row in chosen]
        told = {"items": _listed([row["name"] for row in chosen]), "status": status, "ids": ids}
        changes = {id: {"status": status} for id in ids}
        return {**told, "changes": changes, "wrong": {"ids": ids[1:]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        for id in p["ids"]:
            await hand.click(f"mark:{id}")
        await hand.choose("set-status", p["status"])


class KindMoves(_Rows):
    """All rows of a kind to another place."""

    name = "grid/kind_moves"
    goals = (
        "Move everything of the kind “{kind}” in the table to {place}.",
        "All rows whose kind is “{kind}” are at {place} from now on. Change them.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        rows, kinds = content["state"]["rows"], content["kinds"]
        free = []
        for kind, place in ((k, at) for k in kinds for at in content["places"]):
            moving = {r["kind"]: r for r in rows if r["place"] != place}
            if kind in moving and sum(r["kind"] == kind for r in rows) > 1 and len(moving) > 1:
                free.append((kind, place, next(k for k in moving if k != kind)))
        if not free:
            return None
        kind, place, other = rng.choice(free)
        changes = {row["id"]: {"place": place} for row in rows if row["kind"] == kind}
        return {"kind": kind, "place": place, "changes": changes, "wrong": {"kind": other}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        await hand.choose("by-kind", p["kind"])
        await hand.click("mark-all")
        await hand.choose("set-place", p["place"])


class Halve(_Rows):
    """The dearest rows at half the price."""

    name = "grid/halve"
    goals = ("Halve the price of the {n} most expensive rows of the table, and of no others.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        rows = sorted(content["state"]["rows"], key=lambda row: -row["price"])
        n = rng.randint(2, 3)
        if rows[n - 1]["price"] == rows[n]["price"]:
            return None
        changes = {row["id"]: {"price": -(-row["price"] // 2)} for row in rows[:n]}
        ids = [row["id"] for row in rows]
        told = {"n": {2: "two", 3: "three"}[n], "ids": ids[:n]}
        return {**told, "changes": changes, "wrong": {"ids": ids[1 : n + 1]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        await hand.click("sort:price")
        for id in p["ids"]:
            await hand.click(f"mark:{id}")
        await hand.click("half")


class Columns(_Rows):
    """Columns out of sight."""

    name = "grid/columns"
    goals = ("Hide the columns {first} and {second} of the table.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = [key for key in _COLUMNS if key not in content["state"]["hidden"]]
        first, second, other = rng.sample(free, 3)
        told = {"first": _COLUMNS[first], "second": _COLUMNS[second]}
        hidden = sorted([*content["state"]["hidden"], first, second])
        return {
            **told,
            "keys": [first, second],
            "hidden": hidden,
            "wrong": {"keys": [first, other]},
        }

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        await hand.click("columns")
        for key in p["keys"]:
            await hand.click(f"column:{key}")


class Delete(_Rows):
    """Two rows that are not needed; it must be confirmed."""

    name = "grid/delete"
    goals = ("Delete the rows {items} from the table.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        chosen = rng.sample(content["state"]["rows"], 2)
        ids = [row["id"] for row in chosen]
        told = {"items": _listed([f"“{row['name']}”" for row in chosen]), "ids": ids}
        changes = dict.fromkeys(ids)
        return {**told, "changes": changes, "answer": "yes", "wrong": {"answer": "no"}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("grid")
        for id in p["ids"]:
            await hand.click(f"mark:{id}")
        await hand.click("delete")
        await hand.click(p["answer"])


class Stock(Question):
    """How much there is at one place."""

    name = "grid/stock"
    goals = ("What is the stock of all rows at {place} together, going by the table?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        rows, place = content["state"]["rows"], rng.choice(content["places"])
        truth = sum(row["stock"] for row in rows if row["place"] == place)
        total = sum(row["stock"] for row in rows)
        return {"place": place, "truth": str(truth), "lie": str(total)} if truth != total else None

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("grid")
        await hand.choose("by-place", p["place"])
        return await hand.read("sum")


class Grid(Capability):
    """A table of everything there is."""

    name, group, label = "grid", "records", "Records"
    templates = (
        EditCell(), Rename(), Status(), KindMoves(), Halve(), Columns(), Delete(), Stock(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, rng.randint(12, 16))
        keys = ("id", "name", "kind", "place", "price", "stock")
        rows = [
            {**{key: item[key] for key in keys}, "status": rng.choice(_STATUSES)} for item in items
        ]
        hidden = [rng.choice(("kind", "status"))] if rng.random() < 0.3 else []
        return {
            "kinds": sorted({row["kind"] for row in rows}),
            "places": list(category.places),
            "statuses": list(_STATUSES),
            "about": f"All {category.item[1]} in one table",
            "state": {"rows": rows, "hidden": hidden},
        }
