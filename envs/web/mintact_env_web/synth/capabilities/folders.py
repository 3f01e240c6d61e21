"""A tree of folders: finding, making, renaming, moving and deleting in it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_ENDINGS = ("pdf", "jpg", "txt", "xlsx", "docx")
_SUBS = ("2023", "2024", "2025", "Drafts", "Printed", "Old")
_NEW = ("Receipts", "For Monday", "Photographs", "Letters", "To check", "Shared")

Nodes = list[dict[str, Any]]


def _tree(nodes: Nodes) -> list[tuple[str, ...]]:
    """Every folder and file by its whole path, whatever its id."""
    by_id = {node["id"]: node for node in nodes}

    def path(node: Mapping[str, Any]) -> tuple[str, ...]:
        parent = by_id.get(node["parent"])
        return (*(path(parent) if parent else ()), node["name"])

    return sorted((*path(node), str(node["size"])) for node in nodes)


def _chain(nodes: Nodes, id: str) -> list[str]:
    """Ids from below the root to a folder: what to click in the tree."""
    parents: dict[str, str] = {node["id"]: node["parent"] for node in nodes}
    found: list[str] = []
    while id != "root":
        found.insert(0, id)
        id = parents[id]
    return found


def _said(nodes: Nodes, id: str) -> str:
    names = {node["id"]: node["name"] for node in nodes}
    return " / ".join(names[step] for step in _chain(nodes, id)) or names["root"]


def _folders(nodes: Nodes) -> list[str]:
    return [node["id"] for node in nodes if node["size"] is None and node["id"] != "root"]


def _files(nodes: Nodes, parent: str | None = None) -> Nodes:
    return [n for n in nodes if n["size"] is not None and parent in (None, n["parent"])]


class _Changed(Slip):
    """The tree as wanted, by paths."""

    level = 2

    def change(self, nodes: Nodes, p: Params) -> Nodes:
        """The nodes afterwards."""
        raise NotImplementedError

    def done(self, end: Ending, p: Params) -> bool:
        wanted = self.change([dict(node) for node in end.before["nodes"]], p)
        return _tree(end.after["nodes"]) == _tree(wanted)

    async def enter(self, hand: Hand, p: Params) -> None:
        """Show the folder."""
        await hand.open("folders")
        for id in p["chain"]:
            await hand.click(f"tree:{id}")


def _of_file(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """A file, and another of the same folder to confuse it with."""
    nodes = content["state"]["nodes"]
    file = rng.choice(_files(nodes))
    others = [n["id"] for n in _files(nodes, file["parent"]) if n is not file]
    if not others:
        return None
    where = {"chain": _chain(nodes, file["parent"]), "path": _said(nodes, file["parent"])}
    return {"id": file["id"], "file": file["name"], **where, "wrong": {"id": rng.choice(others)}}


class New(_Changed):
    """A folder in a folder."""

    name = "folders/new"
    goals = (
        "Create a folder “{name}” in “{path}”.",
        "I need a new folder named “{name}” inside “{path}”.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        nodes = content["state"]["nodes"]
        there, other = rng.sample(_folders(nodes), 2)
        told = {"name": rng.choice(_NEW), "path": _said(nodes, there), "to": there}
        wrong = {"chain": _chain(nodes, other)}
        return {**told, "chain": _chain(nodes, there), "wrong": wrong}

    def change(self, nodes: Nodes, p: Params) -> Nodes:
        return [*nodes, {"id": "new", "parent": p["to"], "name": p["name"], "size": None}]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.enter(hand, p)
        await hand.click("new")
        await hand.type("folder-name", p["name"])
        await hand.click("make")


class Rename(_Changed):
    """A file under another name."""

    name = "folders/rename"
    goals = ("Rename the file “{file}” in “{path}” to “{new}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _of_file(rng, content)
        if p is None:
            return None
        stem, ending = p["file"].rsplit(".", 1)
        return {**p, "new": f"{stem} {rng.choice(('final', 'copy', 'checked'))}.{ending}"}

    def change(self, nodes: Nodes, p: Params) -> Nodes:
        return [{**n, "name": p["new"]} if n["id"] == p["id"] else n for n in nodes]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.enter(hand, p)
        await hand.click(f"rename:{p['id']}")
        await hand.type("new-name", p["new"])
        await hand.click("rename-now")


class Move(_Changed):
    """A file to another folder."""

    name = "folders/move"
    goals = ("Move the file “{file}” from “{path}” to “{there}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p, nodes = _of_file(rng, content), content["state"]["nodes"]
        if p is None:
            return None
        folders = [id for id in _folders(nodes) if not p["chain"] or id != p["chain"][-1]]
        to, other = rng.sample(self.targets(nodes, folders), 2)
        return {**p, "to": to, "there": _said(nodes, to), "wrong": {"to": other}}

    def targets(self, nodes: Nodes, folders: list[str]) -> list[str]:
        """Where it may go."""
        return folders

    def change(self, nodes: Nodes, p: Params) -> Nodes:
        return [{**n, "parent": p["to"]} if n["id"] == p["id"] else n for n in nodes]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.enter(hand, p)
        await hand.click(f"move:{p['id']}")
        await hand.click(f"to:{p['to']}")


class DragTo(Move):
    """The same in one movement, onto a folder of the tree."""

    name = "folders/drag"
    goals = ("Drag the file “{file}” from “{path}” onto the folder “{there}” in the tree.",)
    needs = frozenset({"drag"})

    def targets(self, nodes: Nodes, folders: list[str]) -> list[str]:
        return [id for id in folders if len(_chain(nodes, id)) == 1]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.enter(hand, p)
        await hand.drag(f"size:{p['id']}", f"tree:{p['to']}")


class Delete(_Changed):
    """A folder with all that is in it; it must be confirmed."""

    name = "folders/delete_folder"
    goals = ("Delete the folder “{path}” with everything in it.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        nodes = content["state"]["nodes"]
        deep = [id for id in _folders(nodes) if len(_chain(nodes, id)) == 2]
        id = rng.choice(deep)
        told = {"id": id, "path": _said(nodes, id), "chain": _chain(nodes, id)[:-1]}
        return {**told, "answer": "yes", "wrong": {"answer": "no"}}

    def change(self, nodes: Nodes, p: Params) -> Nodes:
        return [n for n in nodes if p["id"] not in (n["id"], n["parent"])]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.enter(hand, p)
        await hand.click(f"delete:{p['id']}")
        await hand.click(p["answer"])


class Largest(_Changed):
    """The file that takes most room."""

    name = "folders/delete_largest"
    goals = ("Delete the largest file that lies directly in “{path}”.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        nodes = content["state"]["nodes"]
        folders = [id for id in _folders(nodes) if len(_files(nodes, id)) > 2]
        if not folders:
            return None
        there = rng.choice(folders)
        files = sorted(_files(nodes, there), key=lambda n: -n["size"])
        told = {"path": _said(nodes, there), "chain": _chain(nodes, there)}
        return {**told, "id": files[0]["id"], "wrong": {"id": files[1]["id"]}}

    def change(self, nodes: Nodes, p: Params) -> Nodes:
        return [n for n in nodes if n["id"] != p["id"]]

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.enter(hand, p)
        await hand.click(f"delete:{p['id']}")
        await hand.click("yes")


class Size(Question):
    """How large a file is."""

    name = "folders/size"
    goals = ("How many KB does the file “{file}” in “{path}” have?",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _of_file(rng, content)
        if p is None:
            return None
        sizes = {node["id"]: node["size"] for node in content["state"]["nodes"]}
        return {**p, "truth": str(sizes[p["id"]]), "lie": str(sizes[p["wrong"]["id"]])}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("folders")
        for id in p["chain"]:
            await hand.click(f"tree:{id}")
        return await hand.read(f"size:{p['id']}")


class Folders(Capability):
    """Folders in folders."""

    name, group, label = "folders", "files", "Folders"
    templates = (New(), Rename(), Move(), DragTo(), Delete(), Largest(), Size())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        nodes: Nodes = [{"id": "root", "parent": None, "name": "All files", "size": None}]
        for kind in category.kinds[:5]:
            top = f"d{len(nodes)}"
            nodes.append({"id": top, "parent": "root", "name": kind, "size": None})
            for sub in rng.sample(_SUBS, rng.randint(1, 3)):
                nodes.append({"id": f"d{len(nodes)}", "parent": top, "name": sub, "size": None})
        folders, items = _folders(nodes), category.items(rng, 30)
        sizes = rng.sample(range(12, 4800), len(items))
        for n, (item, size) in enumerate(zip(items, sizes, strict=True)):
            name = f"{item['name']}.{rng.choice(_ENDINGS)}"
            nodes.append({"id": f"f{n}", "parent": rng.choice(folders), "name": name, "size": size})
        return {"about": "Everything in its place", "state": {"nodes": nodes, "next": 1}}
