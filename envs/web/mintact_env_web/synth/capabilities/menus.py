"""Menus inside menus: finding a page through them, and keeping it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Hand, Params

_FOLDERS = ("To read", "Ideas", "For later", "Compare", "Ask about")


def _way(content: Mapping[str, Any], page: Mapping[str, Any]) -> dict[str, Any]:
    """How a page is reached and how that is said."""
    i = content["kinds"].index(page["kind"])
    groups = list(dict.fromkeys(p["group"] for p in content["pages"] if p["kind"] == page["kind"]))
    keys = [f"menu:{i}", f"group:{i}:{groups.index(page['group'])}", f"page:{page['id']}"]
    return {"keys": keys, "id": page["id"], "said": " › ".join((page["kind"], page["group"]))}


async def _follow(hand: Hand, way: Mapping[str, Any]) -> None:
    await hand.open("menus")
    menu, group, page = way["keys"]
    await hand.hover(menu)
    await hand.hover(group)
    await hand.click(page)


class _OnPage(Edit):
    """Something done on a page that one reaches through the menus."""

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        held = self.held(content["state"])
        page, other = rng.sample([p for p in content["pages"] if p["id"] not in held], 2)
        way, wrong = _way(content, page), _way(content, other)
        folder = rng.choice(content["folders"])
        own = {"way": way, "menu": way["said"], "name": page["name"], "folder": folder}
        return {**own, "wrong": {"way": wrong}}

    def held(self, state: Mapping[str, Any]) -> list[str]:
        """Pages that it is done to already."""
        return list(state["saved"])

    async def act(self, hand: Hand, p: Params) -> None:
        """Do it."""
        raise NotImplementedError

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _follow(hand, p["way"])
        await self.act(hand, p)
        return None


class Save(_OnPage):
    """A page saved."""

    name = "menus/save"
    goals = (
        'Open the page "{name}" in the menu {menu} and save it.',
        "Save the page {name}; it is under {menu}.",
    )

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"].append(p["way"]["id"])

    async def act(self, hand: Hand, p: Params) -> None:
        await hand.click("save")


class First(_OnPage):
    """A page made the first one."""

    name = "menus/first_page"
    goals = ('Make "{name}" (menu {menu}) my first page.',)
    level = 3

    def held(self, state: Mapping[str, Any]) -> list[str]:
        return [state["first"]]

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["first"] = p["way"]["id"]

    async def act(self, hand: Hand, p: Params) -> None:
        await hand.hover("more")
        await hand.click("start-page")


class File(_OnPage):
    """A page put into a folder, by a menu in a menu."""

    name = "menus/folder"
    goals = ('Put the page "{name}" (menu {menu}) into the folder "{folder}".',)
    level = 3

    def held(self, state: Mapping[str, Any]) -> list[str]:
        return [id for ids in state["folders"].values() for id in ids]

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["folders"][p["folder"]].append(p["way"]["id"])

    async def act(self, hand: Hand, p: Params) -> None:
        await hand.hover("more")
        await hand.hover("into")
        await hand.click(f"into:{p['folder']}")


class Code(Question):
    """What a page says."""

    name = "menus/reference"
    goals = ('Which reference does the page "{name}" in the menu {menu} have?',)
    key: ClassVar[str] = "code"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        page, other = rng.sample(content["pages"], 2)
        way = _way(content, page)
        own = {"way": way, "menu": way["said"], "name": page["name"]}
        return {**own, "truth": page[self.key], "lie": other[self.key]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _follow(hand, p["way"])
        return await hand.read(self.key)


class Cheapest(Question):
    """The cheapest page of a menu, for which each must be opened."""

    name = "menus/cheapest"
    goals = ("Which of the pages in the menu {menu} has the lowest price? Answer with its name.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        one = rng.choice(content["pages"])
        key = (one["kind"], one["group"])
        same = [p for p in content["pages"] if (p["kind"], p["group"]) == key]
        best, *rest = sorted(same, key=lambda p: int(p["price"]))
        if best["price"] == rest[0]["price"]:
            return None
        ways = [_way(content, p) for p in same]
        own = {"ways": ways, "menu": ways[0]["said"]}
        return {**own, "truth": best["name"], "lie": rest[0]["name"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        for way in p["ways"]:
            await _follow(hand, way)
        return str(p["truth"])


class Unsave(Edit):
    """A saved page dropped, found in the menu of those saved."""

    name = "menus/unsave"
    goals = ('Remove "{name}" from the saved pages; it is in the menu "Saved".',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        id, other = rng.sample(content["state"]["saved"], 2)
        name = next(p["name"] for p in content["pages"] if p["id"] == id)
        return {"id": id, "name": name, "wrong": {"id": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"].remove(p["id"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("menus")
        await hand.hover("menu:saved")
        await hand.click(f"saved:{p['id']}")
        await hand.click("save")
        return None


class SaveFromTwo(Edit):
    """Pages of two menus saved."""

    name = "menus/save_two"
    goals = ('Save the pages "{a}" ({menu_a}) and "{b}" ({menu_b}), in this order.',)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = [p for p in content["pages"] if p["id"] not in content["state"]["saved"]]
        a, b = rng.sample(free, 2)
        ways = [_way(content, a), _way(content, b)]
        menus = {"menu_a": ways[0]["said"], "menu_b": ways[1]["said"]}
        return {"a": a["name"], "b": b["name"], **menus, "ways": ways, "wrong": {"ways": ways[:1]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"] += [way["id"] for way in p["ways"]]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        for way in p["ways"]:
            await _follow(hand, way)
            await hand.click("save")
        return None


class Menus(Capability):
    """Pages under nested menus."""

    name, group, label = "menus", "navigation", "Guide"
    templates = (Save(), First(), File(), Code(), Cheapest(), Unsave(), SaveFromTwo())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        kinds = list(category.kinds[:4])
        leaves = [
            (kind, place)
            for kind in kinds
            for place in rng.sample(category.places, rng.randint(2, 3))
            for _ in range(rng.randint(2, 3))
        ]
        pages = [
            {
                **{key: item[key] for key in ("id", "name", "hue", "price", "blurb")},
                "kind": kind,
                "group": place,
                "code": f"{kind[0].upper()}{rng.randint(100, 999)}-{i:02d}",
            }
            for i, (item, (kind, place)) in enumerate(
                zip(category.items(rng, len(leaves)), leaves, strict=True)
            )
        ]
        ids, folders = rng.sample([p["id"] for p in pages], 6), rng.sample(_FOLDERS, 3)
        filed = {folder: ids[3 + i : 4 + i] for i, folder in enumerate(folders)}
        return {
            "pages": pages,
            "kinds": kinds,
            "folders": folders,
            "about": f"All {category.item[1]}, by kind and place",
            "state": {"saved": ids[:2], "first": ids[2], "folders": filed},
        }
