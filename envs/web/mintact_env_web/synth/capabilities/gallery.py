"""Photos: favourites, captions, albums, what is written under them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from mintact_env_web.synth.dates import said
from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_MOTIFS = ("leaf", "house", "wave", "peak", "plate", "wheel", "heart", "book")
_CAPTIONS = (
    "The best one of the day",
    "Seen from the other side",
    "Just before it began to rain",
    "Everybody liked this one",
    "With thanks to our neighbours",
    "A quiet afternoon",
)
_ALBUMS = ("Spring", "For the wall", "Best of the year", "Postcards", "To be printed")


def _photo(state: Mapping[str, Any], id: str) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in state["photos"] if p["id"] == id)
    return found


class Love(Edit):
    """One photo into the favourites."""

    name = "gallery/favourite"
    goals = ('Add the photo "{title}" to the favourites.',)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        photo, other = rng.sample([p for p in content["state"]["photos"] if not p["loved"]], 2)
        return {"id": photo["id"], "title": photo["title"], "wrong": {"id": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _photo(state, p["id"])["loved"] = True

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("gallery")
        await hand.click(f"love:{p['id']}")
        return None


class LoveNext(Love):
    """The neighbour of a photo in its album."""

    name = "gallery/favourite_next"
    goals = (
        'In the album "{album}", open "{title}", go to the photo right after it, and add that one '
        "to the favourites.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        album = rng.choice(content["state"]["albums"])
        row = [p for p in content["state"]["photos"] if p["album"] == album["id"]]
        pairs = [(a, b) for a, b in pairwise(row) if not b["loved"]]
        if not pairs:
            return None
        photo, after = rng.choice(pairs)
        own = {"album": album["name"], "title": photo["title"], "at": photo["id"]}
        return {**own, "tab": album["id"], "id": after["id"], "wrong": {"tab": "all"}}

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("gallery")
        await hand.click(f"show:{p['tab']}")
        await hand.click(f"photo:{p['at']}")
        await hand.click("next")
        await hand.click(f"love:{p['id']}")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await hand.open("gallery")
        await hand.click(f"love:{p['at']}")
        return None


class Unlove(Edit):
    """Favourites of one album taken back."""

    name = "gallery/clear_album_favourites"
    goals = ('No photo of the album "{album}" shall be a favourite. Leave the others as they are.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        loved = [p for p in content["state"]["photos"] if p["loved"]]
        album = rng.choice(sorted({p["album"] for p in loved}))
        names = {a["id"]: a["name"] for a in content["state"]["albums"]}
        ids = [p["id"] for p in loved if p["album"] == album]
        every = [p["id"] for p in loved]
        wrong = every if len(every) > len(ids) else ids[1:]
        return {"tab": album, "album": names[album], "ids": ids, "wrong": {"ids": wrong}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        for photo in state["photos"]:
            photo["loved"] = photo["loved"] and photo["album"] != p["tab"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("gallery")
        await hand.click("show:loved")
        for id in p["ids"]:
            await hand.click(f"love:{id}")
        return None


class Caption(Edit):
    """What is written under a photo."""

    name = "gallery/caption"
    goals = ('Change the caption of the photo "{title}" to "{text}".',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        photo, other = rng.sample(content["state"]["photos"], 2)
        text = rng.choice([t for t in _CAPTIONS if t != photo["caption"]])
        own = {"id": photo["id"], "title": photo["title"], "text": text}
        return {**own, "wrong": {"id": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _photo(state, p["id"])["caption"] = p["text"]

    async def fill(self, hand: Hand, p: Params) -> None:
        """Everything but saving."""
        await hand.open("gallery")
        await hand.click(f"photo:{p['id']}")
        await hand.click("edit")
        await hand.type("text", p["text"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        await hand.click("save")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.fill(hand, p)
        return None


class Move(Edit):
    """A photo into another album."""

    name = "gallery/move"
    goals = ('Move the photo "{title}" to the album "{album}".',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        photo = rng.choice(content["state"]["photos"])
        albums = [a for a in content["state"]["albums"] if a["id"] != photo["album"]]
        to, other = rng.sample(albums, 2)
        own = {"id": photo["id"], "title": photo["title"], "to": to["id"], "album": to["name"]}
        return {**own, "wrong": {"to": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        _photo(state, p["id"])["album"] = p["to"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("gallery")
        await hand.click(f"photo:{p['id']}")
        await hand.choose("move", p["to"])
        return None


class Collect(Edit):
    """A new album with two photos."""

    name = "gallery/new_album"
    goals = ('Create an album "{album}" and move the photos "{first}" and "{second}" into it.',)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        a, b = rng.sample(content["state"]["photos"], 2)
        own = {"ids": [a["id"], b["id"]], "first": a["title"], "second": b["title"]}
        new = {"album": rng.choice(_ALBUMS), "to": f"b{len(content['state']['albums'])}"}
        return {**own, **new, "wrong": {"ids": [a["id"]]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["albums"].append({"id": p["to"], "name": p["album"]})
        for id in p["ids"]:
            _photo(state, id)["album"] = p["to"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("gallery")
        await hand.type("album", p["album"])
        await hand.click("create")
        for id in p["ids"]:
            await hand.click(f"photo:{id}")
            await hand.choose("move", p["to"])
            await hand.click("close")
        return None


class Taken(Question):
    """When a photo was taken."""

    name = "gallery/taken"
    goals = ('On which day was the photo "{title}" taken?',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        photo, other = rng.sample(content["state"]["photos"], 2)
        own = {"id": photo["id"], "title": photo["title"]}
        return {**own, "truth": photo["day"], "lie": other["day"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("gallery")
        await hand.click(f"photo:{p['id']}")
        return await hand.read("taken")


class Gallery(Capability):
    """Photos in albums."""

    name, group, label = "gallery", "media", "Gallery"
    templates = (Love(), LoveNext(), Unlove(), Caption(), Move(), Collect(), Taken())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        names = rng.sample(category.kinds, 4)
        albums = [{"id": f"b{i}", "name": name} for i, name in enumerate(names)]
        people, days = rng.sample(PEOPLE, 4), rng.sample(range(1, 29), 16)
        photos = [
            {
                "id": f"p{i}",
                "title": item["name"],
                "hue": item["hue"],
                "motif": rng.choice((category.motif, *_MOTIFS)),
                "album": f"b{i % 4 if i < 8 else rng.randrange(4)}",
                "caption": rng.choice(_CAPTIONS),
                "place": item["place"],
                "by": rng.choice(people),
                "day": said(f"2024-0{rng.randint(4, 9)}-{day:02d}"),
                "loved": i in (1, 6, 9),
            }
            for i, (item, day) in enumerate(zip(category.items(rng, 16), days, strict=True))
        ]
        return {"about": "Pictures from our albums", "state": {"albums": albums, "photos": photos}}
