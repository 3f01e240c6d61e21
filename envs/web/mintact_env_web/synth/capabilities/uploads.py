"""Files one has uploaded: names, tags, links, trash, room."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_ENDINGS = ("pdf", "jpg", "mp4", "zip", "png")
_TAGS = ("draft", "print", "press", "private", "2024", "to do")
_NEW_TAGS = ("important", "spring", "for review", "archive")
_RIGHTS = {"view": "view", "edit": "edit"}
_DAYS = {1: "for 1 day", 7: "for 7 days", 30: "for 30 days", 0: "without an end date"}


def _files(files: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Files by id; the order of their tags is nobody's business."""
    return {file["id"]: {**file, "tags": sorted(file["tags"])} for file in files}


class _Changed(Slip):
    """Some files changed; some in the trash, or out of it."""

    level = 2

    def done(self, end: Ending, p: Params) -> bool:
        files, trash = _files(end.before["files"]), _files(end.before["trash"])
        for id, change in p.get("changes", {}).items():
            files[id] = {**files[id], **change}
        for id in p.get("discarded", ()):
            trash[id] = files.pop(id)
        for id in p.get("restored", ()):
            files[id] = trash.pop(id)
        for id in p.get("gone", ()):
            del trash[id]
        return _files(end.after["files"]) == files and _files(end.after["trash"]) == trash


def _two(rng: random.Random, content: Mapping[str, Any], *, shared: bool) -> Any:
    """Two files that are shared, or not."""
    files = [f for f in content["state"]["files"] if (f["link"] is not None) == shared]
    return rng.sample(files, 2)


class Rename(_Changed):
    """Another name; it must be applied."""

    name = "uploads/rename"
    goals = ("Rename the uploaded file “{file}” to “{new}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        file = rng.choice(content["state"]["files"])
        stem, ending = file["name"].rsplit(".", 1)
        new = f"{stem} {rng.choice(('v2', 'final', 'small', 'colour'))}.{ending}"
        told = {"id": file["id"], "file": file["name"], "new": new}
        return {**told, "changes": {file["id"]: {"name": new}}, "wrong": {}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.miss(hand, p)
        await hand.click("rename")

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        await hand.click(f"file:{p['id']}")
        await hand.type("name", p["new"])


class Tag(_Changed):
    """One tag more, one less."""

    name = "uploads/tag"
    goals = (
        "Tag the file “{file}” with “{tag}” and remove its tag “{old}”.",
        "Replace the tag “{old}” of “{file}” by “{tag}”.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        tagged = [file for file in content["state"]["files"] if file["tags"]]
        if not tagged:
            return None
        file, tag = rng.choice(tagged), rng.choice(_NEW_TAGS)
        old = rng.choice(file["tags"])
        tags = sorted([tag, *(t for t in file["tags"] if t != old)])
        told = {"id": file["id"], "file": file["name"], "tag": tag, "old": old}
        return {**told, "changes": {file["id"]: {"tags": tags}}, "wrong": {"old": None}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        await hand.click(f"file:{p['id']}")
        await hand.type("tag", p["tag"])
        await hand.click("add-tag")
        if p["old"]:
            await hand.click(f"untag:{p['old']}")


class Share(_Changed):
    """A link with what it allows, and for how long."""

    name = "uploads/share"
    goals = (
        "Create a link to “{file}” with which one can {rights} it, {length}.",
        "Share “{file}” by a link: people may {rights} it, {length}.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        file, other = _two(rng, content, shared=False)
        rights, days = rng.choice(sorted(_RIGHTS)), rng.choice((1, 30, 0))
        link = {"rights": rights, "days": days}
        told = {"id": file["id"], "file": file["name"], "length": _DAYS[days], **link}
        wrong = rng.choice(({"id": other["id"]}, {"days": 7}))
        return {**told, "changes": {file["id"]: {"link": link}}, "wrong": wrong}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        await hand.click(f"file:{p['id']}")
        await hand.choose("rights", p["rights"])
        await hand.choose("days", str(p["days"]))
        await hand.click("share")


class Unshare(_Changed):
    """A link that works no more."""

    name = "uploads/unshare"
    goals = ("Stop sharing the file “{file}”.", "The link to “{file}” must not work any more.")

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        file, other = _two(rng, content, shared=True)
        told = {"id": file["id"], "file": file["name"]}
        return {**told, "changes": {file["id"]: {"link": None}}, "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        await hand.click(f"file:{p['id']}")
        await hand.click("unshare")


class TrashLargest(_Changed):
    """What takes most room."""

    name = "uploads/trash_largest"
    goals = ("Move the two largest uploaded files to the trash.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        files = sorted(content["state"]["files"], key=lambda f: -f["size"])
        ids = [file["id"] for file in files[:3]]
        return {"discarded": ids[:2], "ids": ids[:2], "wrong": {"ids": [ids[0], ids[2]]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        for id in p["ids"]:
            await hand.click(f"file:{id}")
            await hand.click("delete")


class PutBack(_Changed):
    """One file out of the trash."""

    name = "uploads/put_back"
    goals = ("Put the file “{file}” back out of the trash.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        file, other = rng.sample(content["state"]["trash"], 2)
        told = {"id": file["id"], "file": file["name"]}
        return {**told, "restored": [file["id"]], "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        await hand.click("part:trash")
        await hand.click(f"restore:{p['id']}")


class Empty(_Changed):
    """Everything in the trash; it must be confirmed."""

    name = "uploads/empty"
    goals = ("Empty the trash of the uploaded files.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        gone = [file["id"] for file in content["state"]["trash"]]
        return {"gone": gone, "answer": "yes", "wrong": {"answer": "no"}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("uploads")
        await hand.click("part:trash")
        await hand.click("empty")
        await hand.click(p["answer"])


class Room(Question):
    """How much more there is room for."""

    name = "uploads/room"
    goals = ("How many MB are still free for uploads? Answer with the number.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        state = content["state"]
        used = sum(file["size"] for file in [*state["files"], *state["trash"]])
        free = content["limit"] - used
        return (
            {"limit": content["limit"], "truth": str(free), "lie": str(used)}
            if free != used
            else None
        )

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("uploads")
        used = int((await hand.read("quota")).split()[0])
        return f"{p['limit'] - used} MB"


class Uploads(Capability):
    """A store of files."""

    name, group, label = "uploads", "files", "Uploads"
    templates = (
        Rename(), Tag(), Share(), Unshare(), TrashLargest(), PutBack(), Empty(), Room(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        items = category.items(rng, 14)
        sizes = rng.sample(range(2, 180), len(items))
        files = [
            {
                "id": f"f{n}",
                "name": f"{item['name']}.{rng.choice(_ENDINGS)}",
                "size": size,
                "day": f"{28 - 2 * n} April",
                "at": n,
                "tags": rng.sample(_TAGS, rng.randint(0, 2)),
                "link": {"rights": rng.choice(sorted(_RIGHTS)), "days": 7} if n % 4 == 1 else None,
            }
            for n, (item, size) in enumerate(zip(items, sizes, strict=True))
        ]
        limit = (sum(sizes) // 100 + rng.randint(2, 6)) * 100
        state = {"files": files[:10], "trash": files[10:]}
        return {"limit": limit, "about": "Your files, and links to them", "state": state}
