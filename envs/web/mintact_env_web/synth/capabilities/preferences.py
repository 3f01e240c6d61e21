"""Settings: looks, language, notices, privacy, and what they were before."""

from __future__ import annotations

import random
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Hand, Params

_THEMES = ("Light", "Dark", "Sepia", "Mist")
_SIZES = ("Small", "Normal", "Large", "Very large")
_LANGUAGES = ("English", "Deutsch", "Français", "Español", "Polski", "Português")
_FORMATS = ("14/03/2025", "03/14/2025", "2025-03-14", "14 March 2025")
_ZONES = ("Lisbon", "London", "Berlin", "Athens", "New York", "Chicago", "Tokyo")
_CHANNELS = ("E-mail", "Text message", "On this page")
_SEEN = ("Everybody", "Members only", "My contacts", "Nobody")
_HOURS = tuple(f"{h:02d}:00" for h in (6, 7, 8, 9, 20, 21, 22, 23))
_SWITCHES = {
    "motion": ("look", "animations"),
    "monday": ("region", "weeks that begin on Monday"),
    "share": ("privacy", "sharing usage data with partners"),
    "search": ("privacy", "search engines showing my profile"),
    "twostep": ("privacy", "the code at each sign-in"),
}


class _Settings(Edit):
    """Some settings changed and saved: `new` holds them, `steps` the clicks."""

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"] = {**state["saved"], **p["new"]}

    async def set(self, hand: Hand, p: Params) -> None:
        """Everything but saving."""
        await hand.open("preferences")
        await hand.click(f"tab:{p['tab']}")
        for step in p["steps"]:
            if isinstance(step, str):
                await hand.click(step)
            else:
                await hand.choose(*step)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await self.set(hand, p)
        await hand.click("save")
        return None


class Theme(_Settings):
    """Theme and text size."""

    name = "preferences/appearance"
    goals = ("Set the theme to {theme} and the text size to {size}, and save.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["saved"]
        theme = rng.choice([t for t in _THEMES if t != now["theme"]])
        size = rng.choice([s for s in _SIZES if s != now["size"]])
        own = {"theme": theme, "size": size, "tab": "look", "new": {"theme": theme, "size": size}}
        return {**own, "steps": [f"theme:{theme}", f"size:{size}"]}

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await self.set(hand, p)
        return None


class Region(_Settings):
    """Language and the way dates are written."""

    name = "preferences/region"
    goals = ("Change the language to {language} and have dates written like {format}; save it.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["saved"]
        language = rng.choice([x for x in _LANGUAGES if x != now["language"]])
        style, other = rng.sample([x for x in _FORMATS if x != now["format"]], 2)
        new = {"language": language, "format": style}
        steps = [("language", language), ("format", style)]
        wrong = {"steps": [("language", language), ("format", other)]}
        return {**new, "tab": "region", "new": new, "steps": steps, "wrong": wrong}


class Switch(_Settings):
    """One thing turned on or off, to be found."""

    name = "preferences/switch"
    goals = ("Turn {what} {how} in the settings and save.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        key = rng.choice(sorted(_SWITCHES))
        tab, what = _SWITCHES[key]
        now = content["state"]["saved"][key]
        near = {"look": "images", "privacy": "share" if key != "share" else "search"}
        wrong = {"steps": [near.get(tab, key), *([key] if tab == "region" else [])]}
        own = {"what": what, "how": "off" if now else "on", "tab": tab, "new": {key: not now}}
        return {**own, "steps": [key], "wrong": wrong}

    async def miss(self, hand: Hand, p: Params) -> str | None:
        if p["tab"] == "region":
            await self.set(hand, p)
            return None
        return await super().miss(hand, p)


class Silence(_Settings):
    """No notices by one way; the others stay."""

    name = "preferences/silence_channel"
    goals = ('Stop all notifications by "{channel}"; leave the other ways as they are. Save.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        notices = content["state"]["saved"]["notices"]
        channel = rng.choice(_CHANNELS)
        on = [event for event in content["events"] if channel in notices[event]]
        if len(on) < 2:
            return None
        new = {e: [ch for ch in chosen if ch != channel] for e, chosen in notices.items()}
        steps = [f"notice:{event}:{channel}" for event in on]
        own = {"channel": channel, "tab": "notices", "new": {"notices": new}, "steps": steps}
        return {**own, "wrong": {"steps": steps[:-1]}}


class Alike(_Settings):
    """Notices of one kind made like those of another."""

    name = "preferences/same_notices"
    goals = ('Let "{a}" be announced in exactly the same ways as "{b}", and save.',)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        notices = content["state"]["saved"]["notices"]
        a, b = rng.sample(content["events"], 2)
        differ = [ch for ch in _CHANNELS if (ch in notices[a]) != (ch in notices[b])]
        if not differ:
            return None
        new = {**deepcopy(notices), a: notices[b]}
        steps = [f"notice:{a}:{ch}" for ch in differ]
        wrong = {"steps": [f"notice:{b}:{ch}" for ch in differ]}
        own = {"a": a, "b": b, "tab": "notices", "new": {"notices": new}}
        return {**own, "steps": steps, "wrong": wrong}


class Quiet(_Settings):
    """Hours in which nothing is sent."""

    name = "preferences/quiet_hours"
    goals = ("Turn quiet hours on, from {start} to {end}, and save the settings.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        start, end = rng.choice(_HOURS[4:]), rng.choice(_HOURS[:4])
        late = rng.choice([h for h in _HOURS[:4] if h != end])
        new = {"quiet": True, "from": start, "to": end}
        steps: list[Any] = ["quiet", ("from", start), ("to", end)]
        wrong = {"steps": [*steps[:2], ("to", late)]}
        own = {"start": start, "end": end, "tab": "notices", "new": new}
        return {**own, "steps": steps, "wrong": wrong}


class Private(_Settings):
    """Who sees one's profile, and what of it is given away."""

    name = "preferences/privacy"
    goals = ('Let "{seen}" see my profile, and turn off everything else under data. Save.',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["saved"]
        seen, other = rng.sample([s for s in _SEEN if s != now["seen"]], 2)
        off = [key for key in ("share", "search", "twostep") if now[key]]
        new = {"seen": seen, "share": False, "search": False, "twostep": False}
        wrong = {"steps": [f"seen:{other}", *off]}
        own = {"seen": seen, "tab": "privacy", "new": new}
        return {**own, "steps": [f"seen:{seen}", *off], "wrong": wrong}


class Defaults(_Settings):
    """One tab as it was at first."""

    name = "preferences/defaults"
    goals = ('Set everything under "{title}" back to the defaults and save.',)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        tabs = {"look": "Appearance", "region": "Language & region", "privacy": "Privacy"}
        keys = {"look": ("theme", "size", "motion", "images"), "privacy": tuple(_SWITCHES)[2:]}
        tab, other = rng.sample(sorted(tabs), 2)
        own = keys.get(tab, ("language", "format", "zone", "monday"))
        own = (*own, "seen") if tab == "privacy" else own
        new = {key: content["defaults"][key] for key in own}
        steps = {"steps": ["defaults"], "wrong": {"tab": other}}
        return {"tab": tab, "title": tabs[tab], "new": new, **steps}


class Zone(Question):
    """What is set."""

    name = "preferences/time_zone"
    goals = ("Which time zone is set in the settings?",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["saved"]["zone"]
        return {"truth": now, "lie": rng.choice([z for z in _ZONES if z != now])}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("preferences")
        await hand.click("tab:region")
        return await hand.read("zone")


class Preferences(Capability):
    """The settings of an account."""

    name, group, label = "preferences", "account", "Settings"
    templates = (
        Theme(), Region(), Switch(), Silence(), Alike(), Quiet(), Private(), Defaults(), Zone(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        events = ["Messages", "Offers", "Payments", f"New {category.item[1]}", "Security"]
        look = {"theme": "Light", "size": "Normal", "motion": True, "images": False}
        region = {"language": "English", "format": _FORMATS[0], "zone": "London", "monday": True}
        notices = {"notices": {e: ["E-mail"] for e in events}, "quiet": False}
        hours = {"from": "22:00", "to": "07:00"}
        privacy = {"seen": "Members only", "share": False, "search": False, "twostep": False}
        saved = {
            **{"theme": rng.choice(_THEMES[1:]), "size": rng.choice(_SIZES), "motion": False},
            **{"images": rng.random() < 0.5, "language": rng.choice(_LANGUAGES)},
            **{"format": rng.choice(_FORMATS[1:]), "zone": rng.choice(_ZONES), "monday": False},
            "notices": {e: [ch for ch in _CHANNELS if rng.random() < 0.6] for e in events},
            **{"quiet": False, **hours, "seen": rng.choice(("Everybody", "My contacts"))},
            **{"share": True, "search": rng.random() < 0.5, "twostep": rng.random() < 0.5},
        }
        return {
            **{"themes": list(_THEMES), "sizes": list(_SIZES), "languages": list(_LANGUAGES)},
            **{"formats": list(_FORMATS), "zones": list(_ZONES), "events": events},
            **{"channels": list(_CHANNELS), "seen": list(_SEEN), "hours": list(_HOURS)},
            "defaults": {**look, **region, **notices, **hours, **privacy},
            "about": "Settings of your account",
            "state": {"saved": saved},
        }
