"""Account settings: personal data, a picture, who sees what, notifications."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_LANGUAGES = ("English", "Deutsch", "Français", "Español", "Norsk")
_AVATARS = {
    "Wave": "wave", "Mountain": "peak", "Leaf": "leaf", "Heart": "heart",
    "House": "house", "Note": "note", "Wheel": "wheel", "Book": "book",
}  # fmt: skip
_FIELDS = (("phone", "My phone number"), ("email", "My e-mail"), ("place", "My preferred place"))
_AUDIENCES = {"everyone": "Everyone", "members": "Members", "me": "Only me"}
_WAYS = {"email": "e-mail", "text": "text message", "push": "push"}
_BIOS = ("I come every other Sunday.", "New here, and curious.", "Please call me in the evening.")


class _Settings(Slip):
    """Some values of one part of the settings, after Save."""

    part: ClassVar[str]

    def done(self, end: Ending, p: Params) -> bool:
        part = {**end.before[self.part], **p["values"]}
        return bool(end.after == {**end.before, self.part: part})

    async def fill(self, hand: Hand, p: Params) -> None:
        """Change them in the form."""
        for target in p["clicks"]:
            await hand.click(target)

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("profile")
        if self.part != "person":
            await hand.click(f"part:{self.part}")
        await self.fill(hand, p)
        await hand.click("save")


class Contact(_Settings):
    """A new phone number and place."""

    name = "profile/contact"
    goals = (
        "Change my phone number to {phone} and my preferred place to {place} in my profile.",
        "I have a new number, {phone}, and prefer {place} from now on. Update my profile.",
    )
    part = "person"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["person"]
        places = [place for place in content["places"] if place != now["place"]]
        phone, place = f"555 {rng.randint(1000, 9999)}", rng.choice(places)
        values = {"phone": phone, "place": place}
        return {**values, "values": values, "wrong": {"place": now["place"]}}

    async def fill(self, hand: Hand, p: Params) -> None:
        await hand.type("phone", p["phone"])
        await hand.choose("place", p["place"])


class About(_Settings):
    """Words about oneself, and a language; saving is easily forgotten."""

    name = "profile/about"
    goals = ("Set the language of my profile to {language} and my “About me” text to “{bio}”.",)
    part = "person"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["person"]
        language = rng.choice([x for x in content["languages"] if x != now["language"]])
        bio = rng.choice([x for x in _BIOS if x != now["bio"]])
        values = {"language": language, "bio": bio}
        return {**values, "values": values, "wrong": {}}

    async def fill(self, hand: Hand, p: Params) -> None:
        await hand.choose("language", p["language"])
        await hand.type("bio", p["bio"])

    async def miss(self, hand: Hand, p: Params) -> None:
        await hand.open("profile")
        await self.fill(hand, p)


class Picture(_Settings):
    """Another picture."""

    name = "profile/picture"
    goals = ("Choose the {avatar} as my profile picture.", "Use the picture “{avatar}” for me.")
    part = "picture"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["picture"]["avatar"]
        chosen, other = rng.sample([a for a in content["avatars"] if a["id"] != now], 2)
        wrong = {"clicks": [f"avatar:{other['id']}"]}
        values, clicks = {"avatar": chosen["id"]}, [f"avatar:{chosen['id']}"]
        return {"avatar": chosen["name"], "values": values, "clicks": clicks, "wrong": wrong}


class Privacy(_Settings):
    """Who sees one field, and whether one can be found."""

    name = "profile/privacy"
    goals = (
        "In my privacy settings, set who can see {field} to “{audience}”, and {search} search "
        "engines find my profile.",
        "{search_too} search engines find my profile, and make {field} visible to: {audience}.",
    )
    level = 3
    part = "privacy"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now = content["state"]["privacy"]
        field, label = rng.choice(content["fields"])
        who = rng.choice([who for who in _AUDIENCES if who != now[field]])
        found = not now["searchable"]
        told = {"audience": _AUDIENCES[who], "field": label.lower()}
        clicks = [f"{field}:{who}", "searchable"]
        return {
            **told,
            "search": "let" if found else "do not let",
            "search_too": "Let" if found else "Do not let",
            "values": {field: who, "searchable": found},
            "clicks": clicks,
            "wrong": {"clicks": clicks[:1]},
        }


class Silence(_Settings):
    """One way of being told, off for everything."""

    name = "profile/silence"
    goals = ("Turn off all {way} notifications and leave the others as they are.",)
    level = 3
    part = "notices"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now, topics = content["state"]["notices"], [key for key, _ in content["topics"]]
        way = rng.choice([w for w in _WAYS if sum(now[f"{t}-{w}"] for t in topics) > 1])
        clicks = [f"{topic}:{way}" for topic in topics if now[f"{topic}-{way}"]]
        values = {f"{topic}-{way}": False for topic in topics}
        wrong = {"clicks": clicks[:-1]}
        return {"way": _WAYS[way], "values": values, "clicks": clicks, "wrong": wrong}


class Defaults(_Settings):
    """Everything as it was once, which must be confirmed."""

    name = "profile/defaults"
    goals = ("Set my notification settings back to the defaults.",)
    part = "notices"

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        now, values = content["state"]["notices"], content["defaults"]
        return (
            None
            if now == values
            else {"values": values, "answer": "yes", "wrong": {"answer": "no"}}
        )

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("profile")
        await hand.click("part:notices")
        await hand.click("defaults")
        await hand.click(p["answer"])


class WhichPhone(Question):
    """What is on file."""

    name = "profile/on_file"
    goals = ("Which {label} is on file in my profile? Change nothing.",)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        person = content["state"]["person"]
        key = rng.choice(("place", "language"))
        others = [x for x in content[f"{key}s"] if x != person[key]]
        label = {"place": "preferred place", "language": "language"}[key]
        told = {"label": label, "key": key}
        return {**told, "truth": person[key], "lie": rng.choice(others)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("profile")
        return await hand.read(p["key"])


class Profile(Capability):
    """What one's account says about oneself."""

    name, group, label = "profile", "account", "Profile"
    templates = (Contact(), About(), Picture(), Privacy(), Silence(), Defaults(), WhichPhone())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        name, places = rng.choice(PEOPLE), list(category.places)
        item = category.item[1]
        topics = [
            ("new", f"New {item}"),
            ("offers", "Offers"),
            ("replies", "Replies to me"),
            ("news", "News"),
        ]
        keys = [f"{topic}-{way}" for topic, _ in topics for way in _WAYS]
        first, last = name.lower().split()
        person = {
            "name": name,
            "email": f"{first}.{last}@mail.test",
            "phone": f"555 {rng.randint(1000, 9999)}",
        }
        state = {
            "person": {
                **person,
                "place": rng.choice(places),
                "language": rng.choice(_LANGUAGES),
                "bio": rng.choice(_BIOS),
            },
            "picture": {"avatar": f"a{rng.randrange(8)}", "frame": False},
            "privacy": {
                **{field: rng.choice(sorted(_AUDIENCES)) for field, _ in _FIELDS},
                "searchable": rng.random() < 0.5,
                "online": rng.random() < 0.5,
            },
            "notices": {
                **{key: rng.random() < 0.7 for key in keys},
                "new-push": True,
                "news-push": True,
                "summary": "Every day",
            },
        }
        return {
            "avatars": [
                {"id": f"a{n}", "name": x, "drawing": drawing, "hue": rng.randrange(360)}
                for n, (x, drawing) in enumerate(_AVATARS.items())
            ],
            "places": places,
            "languages": list(_LANGUAGES),
            "fields": [list(field) for field in _FIELDS],
            "topics": [list(topic) for topic in topics],
            "defaults": {**{key: key.endswith("email") for key in keys}, "summary": "Every week"},
            "since": rng.randint(2014, 2024),
            "about": "Your settings",
            "state": state,
        }
