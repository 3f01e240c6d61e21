"""A media player: what plays, where in it, how fast, how loud, and what is next."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Hand, Params

_SPEEDS = ("0.75", "1", "1.25", "1.5", "2")
_TITLES = (
    "All about {}",
    "{} in practice",
    "A visit: {}",
    "{}, explained",
    "The story of {}",
    "Questions on {}",
)


def _time(seconds: int) -> str:
    return f"{seconds // 60}:{seconds % 60:02d}"


class Play(Edit):
    """Something played from its beginning."""

    name = "player/play"
    goals: ClassVar[tuple[str, ...]] = ('Play "{title}".', 'I want to hear "{title}" now.')
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        free = [t for t in content["tracks"] if t["id"] != content["state"]["current"]]
        track, other = rng.sample(free, 2)
        at = 10 * rng.randint(4, min(track["length"], other["length"]) // 10 - 2)
        own = {"id": track["id"], "title": track["title"], "at": at, "time": _time(at)}
        return {**own, "wrong": {"id": other["id"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state.update(current=p["id"], at=0, playing=True)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("player")
        await hand.click(f"play:{p['id']}")
        return None


class PlayFrom(Play):
    """Something played from a certain second."""

    name = "player/play_from"
    goals = ('Play "{title}" and jump to exactly {time}.',)
    level = 3

    def change(self, state: dict[str, Any], p: Params) -> None:
        state.update(current=p["id"], at=p["at"], playing=True)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await super().solve(hand, p)
        for step in (30, 10):
            for _ in range(p["at"] % 30 // 10 if step == 10 else p["at"] // 30):
                await hand.click(f"on:{step}")
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        return await self.solve(hand, {**p, "at": p["at"] - 10})


class Sound(Edit):
    """Volume and speed."""

    name = "player/volume_and_speed"
    goals = ("Set the volume to {volume} % and the speed to {speed}×.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]
        volume = rng.choice([v for v in range(10, 100, 10) if 20 <= abs(v - now["volume"]) <= 50])
        speed, other = rng.sample([s for s in _SPEEDS if s != now["speed"]], 2)
        own = {"volume": volume, "from": now["volume"], "speed": speed}
        return {**own, "wrong": {"speed": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state.update(volume=p["volume"], speed=p["speed"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("player")
        steps = (p["volume"] - p["from"]) // 10
        for _ in range(abs(steps)):
            await hand.click("louder" if steps > 0 else "quieter")
        await hand.choose("speed", p["speed"])
        return None


class Queue(Edit):
    """Two things into the queue, in this order."""

    name = "player/queue"
    goals = ('Put "{a}" and then "{b}" at the end of the queue.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        queue = content["state"]["queue"]
        a, b = rng.sample([t for t in content["tracks"] if t["id"] not in queue], 2)
        ids = [a["id"], b["id"]]
        return {"a": a["title"], "b": b["title"], "ids": ids, "wrong": {"ids": ids[::-1]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["queue"] += p["ids"]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("player")
        for id in p["ids"]:
            await hand.click(f"queue:{id}")
        return None


class Unqueue(Edit):
    """One thing out of the queue."""

    name = "player/unqueue"
    goals = ('Take "{title}" out of the queue.',)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        queue = content["state"]["queue"]
        at, other = rng.sample(range(len(queue)), 2)
        title = next(t["title"] for t in content["tracks"] if t["id"] == queue[at])
        return {"at": at, "title": title, "wrong": {"at": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        del state["queue"][p["at"]]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("player")
        await hand.click(f"drop:{p['at']}")
        return None


class Sooner(Edit):
    """The last of the queue made its first."""

    name = "player/play_next"
    goals = ('"{title}" should be the first in the queue; the others keep their order.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        queue = content["state"]["queue"]
        at = rng.randint(2, len(queue) - 1)
        title = next(t["title"] for t in content["tracks"] if t["id"] == queue[at])
        return {"at": at, "title": title, "steps": at, "wrong": {"steps": at - 1}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["queue"].insert(0, state["queue"].pop(p["at"]))

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("player")
        for step in range(p["steps"]):
            await hand.click(f"earlier:{p['at'] - step}")
        return None


class Skip(Edit):
    """On through the queue, with the sound off or on again."""

    name = "player/skip"
    goals = ("Skip twice, so that the second one of the queue plays, and turn repeat {how}.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        how = "off" if content["state"]["repeat"] else "on"
        return {"how": how, "times": 2, "wrong": {"times": 1}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state.update(current=state["queue"][1], at=0, playing=True)
        state.update(queue=state["queue"][2:], repeat=not state["repeat"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("player")
        for _ in range(p["times"]):
            await hand.click("next")
        await hand.click("repeat")
        return None


class Longest(Question):
    """What is longest."""

    name = "player/longest"
    goals = ("Which recording on the list is the longest? Answer with its title.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        order = sorted(content["tracks"], key=lambda t: -int(t["length"]))
        return {"truth": order[0]["title"], "lie": order[1]["title"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("player")
        return str(p["truth"])


class Player(Capability):
    """A player and its list."""

    name, group, label = "player", "media", "Listen"
    templates = (
        Play(), PlayFrom(), Sound(), Queue(), Unqueue(), Sooner(), Skip(), Longest(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        lengths = [10 * n for n in rng.sample(range(9, 32), 9)]
        tracks = [
            {
                "id": f"t{i}",
                "title": rng.choice(_TITLES).format(item["name"]),
                "artist": rng.choice(PEOPLE),
                "hue": item["hue"],
                "length": length,
            }
            for i, (item, length) in enumerate(zip(category.items(rng, 9), lengths, strict=True))
        ]
        ids = rng.sample([t["id"] for t in tracks], 5)
        current = next(t for t in tracks if t["id"] == ids[0])
        return {
            "tracks": tracks,
            "speeds": list(_SPEEDS),
            "about": f"Recordings about our {category.item[1]}",
            "state": {
                "current": current["id"],
                "at": 10 * rng.randint(1, current["length"] // 20),
                "playing": False,
                "volume": 10 * rng.randint(3, 8),
                "speed": "1",
                "repeat": rng.random() < 0.5,
                "queue": ids[1:],
            },
        }
