"""A map: branches on it, near and far, a marker, distances."""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import hypot
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_WIDE, _HIGH = 1120, 800
_SIGHT = (640 / 2 - 24, 440 / 2 - 24)
_STEP = 160
_AREAS = (
    ("City Park", "#bfdcae"),
    ("Castle Hill", "#d9c9a8"),
    ("Mirror Lake", "#a9cfe6"),
    ("Fairground", "#e3c3cf"),
)
_STREETS = ("Mill Lane", "Rose Square", "Park Avenue", "Bridge Street", "Long Row", "Elm Road")


async def _look(hand: Hand, at: Mapping[str, float], pin: Mapping[str, Any]) -> None:
    """Zoom as far as the pin needs and pan until it is in sight; `at` is where the map starts."""
    zoom = 2 if pin.get("small") else 1
    if zoom == 2:
        await hand.click("in")
    x, y = at["x"], at["y"]
    for axis, now, want, names in ((0, x, pin["x"], "left right"), (1, y, pin["y"], "up down")):
        less, more = names.split()
        limit = _HIGH if axis else _WIDE
        while abs(want - now) * zoom >= _SIGHT[axis] - 6:
            await hand.click(more if want > now else less)
            now = min(limit, max(0, now + (_STEP if want > now else -_STEP) / zoom))


class Choose(Edit):
    """A branch that is in sight or nearly."""

    name = "mapview/choose"
    goals: ClassVar[tuple[str, ...]] = (
        "Choose {name} as your branch on the map.",
        "Make {name} my branch.",
    )
    small = False

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        chosen = content["state"]["chosen"]
        free = [p for p in content["pins"] if p["id"] != chosen]
        pin = rng.choice([p for p in free if p["small"] == self.small])
        other = rng.choice([p for p in free if p != pin and p["small"] == self.small])
        own = {"pin": pin, "name": pin["name"], "at": content["start"]}
        return {**own, "wrong": {"pin": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["chosen"] = p["pin"]["id"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("mapview")
        await _look(hand, p["at"], p["pin"])
        await hand.click(f"pin:{p['pin']['id']}")
        await hand.click("choose")
        return None


class ChooseSmall(Choose):
    """A branch that appears only when zoomed in."""

    name = "mapview/choose_small"
    goals = ("Zoom into the map until {name} appears and choose it as your branch.",)
    level = 3
    small = True


class Nearest(Choose):
    """The branch of a kind that is closest to a part of the town."""

    name = "mapview/nearest"
    goals = ("Choose the {kind} branch that is closest to {area} on the map as your branch.",)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        found = []
        for area in content["areas"]:
            x, y = area["x"] + area["w"] / 2, area["y"] + area["h"] / 2
            for kind in content["kinds"]:
                same = [p for p in content["pins"] if p["kind"] == kind]
                far = sorted(same, key=lambda p: hypot(p["x"] - x, p["y"] - y))
                gaps = [hypot(p["x"] - x, p["y"] - y) for p in far]
                clear = len(far) > 1 and gaps[1] - gaps[0] > 90
                if clear and far[0]["id"] != content["state"]["chosen"]:
                    found.append((area["name"], kind, far[0], far[1]))
        if not found:
            return None
        name, kind, pin, other = rng.choice(found)
        own = {"area": name, "kind": kind, "pin": pin, "at": content["start"]}
        return {**own, "wrong": {"pin": other}}


class Save(Edit):
    """A branch saved, another one no longer."""

    name = "mapview/saved"
    goals = ("Save {name} among your places on the map, and remove {old} from them.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        big = [p for p in content["pins"] if not p["small"]]
        saved = content["state"]["saved"]
        pin, other = rng.sample([p for p in big if p["id"] not in saved], 2)
        old = rng.choice([p for p in big if p["id"] in saved])
        own = {"name": pin["name"], "old": old["name"], "at": content["start"]}
        return {**own, "pins": [pin, old], "wrong": {"pins": [other, old]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        new, old = (pin["id"] for pin in p["pins"])
        state["saved"] = [id for id in state["saved"] if id != old] + [new]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        for pin in p["pins"]:
            await hand.open("mapview")
            at = p["at"] if pin is p["pins"][0] else _after(p["at"], p["pins"][0])
            await _look(hand, at, pin)
            await hand.click(f"pin:{pin['id']}")
            await hand.click("save")
        return None


def _after(at: Mapping[str, float], pin: Mapping[str, Any]) -> dict[str, float]:
    """Where the map is once a pin has been looked at."""
    found = {}
    for axis, key, limit in ((0, "x", _WIDE), (1, "y", _HIGH)):
        now, want = at[key], pin[key]
        while abs(want - now) >= _SIGHT[axis] - 6:
            now = min(limit, max(0, now + (_STEP if want > now else -_STEP)))
        found[key] = now
    return found


class Marker(Edit):
    """The marker set somewhere by clicking."""

    name = "mapview/marker"
    goals: ClassVar[tuple[str, ...]] = (
        "Set your marker on {area} on the map.",
        "Put the map's marker somewhere in {area}.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        area, other = rng.sample(content["areas"], 2)
        own = {"box": area, "area": area["name"], "at": content["start"]}
        return {**own, "wrong": {"box": other}}

    def done(self, end: Ending, p: Params) -> bool:
        m, box = end.after["marker"], p["box"]
        inside = 0 <= m["x"] - box["x"] <= box["w"] and 0 <= m["y"] - box["y"] <= box["h"]
        return bool(inside and {**end.after, "marker": end.before["marker"]} == end.before)

    async def look(self, hand: Hand, p: Params) -> None:
        """Bring the middle of the area into sight."""
        box = p["box"]
        middle = {"x": box["x"] + box["w"] / 2, "y": box["y"] + box["h"] / 2}
        await hand.open("mapview")
        await _look(hand, p["at"], middle)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.look(hand, p)
        await hand.click("place")
        await hand.click(f"area:{p['box']['id']}")
        return None


class DragMarker(Marker):
    """The marker dragged there."""

    name = "mapview/drag_marker"
    goals = ("Drag the red marker on the map onto {area}; zoom out if you do not see it.",)
    level = 3
    needs = frozenset({"drag"})

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("mapview")
        await hand.click("out")
        await hand.drag("marker", f"area:{p['box']['id']}")
        return None


class Until(Question):
    """What a branch's card says."""

    name = "mapview/hours"
    goals = ("Until when is the branch {name} open on Saturdays? Look at its card on the map.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        pin, other = rng.sample([p for p in content["pins"] if not p["small"]], 2)
        own = {"pin": pin, "name": pin["name"], "at": content["start"]}
        return {**own, "truth": pin["until"], "lie": other["until"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("mapview")
        await _look(hand, p["at"], p["pin"])
        await hand.click(f"pin:{p['pin']['id']}")
        return await hand.read("hours")


class Distance(Question):
    """How far two branches are apart."""

    name = "mapview/distance"
    goals = ("How many kilometres is it from {a} to {b}, by the map's distance tool?",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        a, b = rng.sample(content["pins"], 2)
        away = content["away"][a["id"]]
        lie = rng.choice([km for km in away.values() if km != away[b["id"]]])
        own = {"a": a["name"], "b": b["name"], "from": a["id"], "to": b["id"]}
        return {**own, "truth": away[b["id"]], "lie": lie}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("mapview")
        await hand.choose("from", p["from"])
        await hand.choose("to", p["to"])
        return await hand.read("distance")


class Mapview(Capability):
    """A map with branches."""

    name, group, label = "mapview", "places", "Map"
    templates = (
        Choose(), ChooseSmall(), Nearest(), Save(), Marker(), DragMarker(), Until(), Distance(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        kinds = sorted(rng.sample(category.kinds, 3))
        spots = [(x, y) for x in range(4) for y in range(4)]
        rng.shuffle(spots)
        pins, areas = _pins(rng, category, kinds, spots[:9]), _areas(rng, spots[9:13])
        away = {
            a["id"]: {
                b["id"]: f"{hypot(a['x'] - b['x'], a['y'] - b['y']) / 100:.1f}"
                for b in pins
                if b is not a
            }
            for a in pins
        }
        start = {"x": _WIDE / 2, "y": _HIGH / 2, "zoom": 1}
        xs, ys = [100, 380, 660, 940], [80, 290, 500, 710]
        roads = [[x, 0, x + 60, _HIGH] for x in xs] + [[0, y, _WIDE, y - 40] for y in ys]
        size = {"wide": _WIDE, "high": _HIGH}
        return {
            **{"pins": pins, "areas": areas, "kinds": kinds, "away": away, "roads": roads},
            **size,
            "start": start,
            "about": "Find the branch near you",
            "state": {
                "chosen": pins[0]["id"],
                "saved": [pins[1]["id"], pins[2]["id"]],
                "marker": {"x": _WIDE // 2 - 40, "y": _HIGH // 2 + 130},
            },
        }


def _pins(
    rng: random.Random, category: Category, kinds: list[str], spots: list[tuple[int, int]]
) -> list[dict[str, Any]]:
    names = rng.sample([f"{p} {n}" for p in category.places for n in ("I", "II", "III")], 9)
    hours = rng.sample([f"{h}:{m}" for h in range(12, 21) for m in ("00", "15", "45")], 9)
    return [
        {
            "id": f"b{i}",
            "name": names[i],
            "kind": kinds[i % 3],
            "x": 140 + 280 * x + rng.randint(-50, 50),
            "y": 100 + 200 * y + rng.randint(-40, 40),
            "small": i > 5,
            "until": hours[i],
            "street": f"{rng.randint(1, 99)} {rng.choice(_STREETS)}",
            "phone": f"0{rng.randint(100, 999)} {rng.randint(10000, 99999)}",
        }
        for i, (x, y) in enumerate(spots)
    ]


def _areas(rng: random.Random, spots: list[tuple[int, int]]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"a{i}",
            "name": name,
            "fill": fill,
            "x": 140 + 280 * x - 75,
            "y": 100 + 200 * y - 50,
            "w": rng.randint(130, 160),
            "h": rng.randint(90, 110),
        }
        for i, ((name, fill), (x, y)) in enumerate(zip(_AREAS, spots, strict=True))
    ]
