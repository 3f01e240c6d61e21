"""A document: editing lines, headings, order, find and replace, undo, versions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import PEOPLE, Capability, Category, Ending, Hand, Params

_HEADS = ("What we offer", "How it began", "Before you come", "Questions", "What is new", "Rules")
_LINES = (
    "We keep {a} and {b} ready on every day of the week.",
    "Ask {who} if you would like to see {a} first.",
    "In spring we moved {a} to {place}.",
    "Please tell us at least two days before you need {a}.",
    "{who} looks after {place} and knows most about {b}.",
    "Many people come for {a} and stay for {b}.",
    "Nothing is open at {place} on the first Monday of the month.",
)
_ENDS = ("Thank you for reading.", "Write to us if something is missing.", "All this may change.")
_NAMES = ("Final", "For the printer", "Before the holidays", "Short form")

Lines = list[dict[str, Any]]


def _texts(lines: Lines) -> list[list[str]]:
    return [[line["kind"], line["text"]] for line in lines]


def _line(content: Mapping[str, Any], id: str) -> dict[str, Any]:
    return next(line for line in content["state"]["lines"] if line["id"] == id)


class _Document(Slip):
    """The document's lines as `wanted`, its versions as before."""

    level = 2

    def done(self, end: Ending, p: Params) -> bool:
        same = end.after["versions"] == end.before["versions"]
        return bool(same and _texts(end.after["lines"]) == p["wanted"])


def _replaced(lines: Lines, id: str, **change: str) -> list[list[str]]:
    return _texts([{**line, **change} if line["id"] == id else line for line in lines])


class Retype(_Document):
    """Other words in a line."""

    name = "editor/retype"
    goals = (
        "In the document, replace the line “{old}” by “{text}”.",
        "Change “{old}” in the text to “{text}”.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        lines = content["state"]["lines"]
        line, other = rng.sample([line for line in lines if line["kind"] == "text"], 2)
        told = {"id": line["id"], "old": line["text"], "text": rng.choice(_ENDS)}
        wanted = _replaced(lines, line["id"], text=told["text"])
        return {**told, "wanted": wanted, "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        await hand.click(f"line:{p['id']}")
        await hand.click("edit")
        await hand.type("line-text", p["text"])
        await hand.click("apply")


class Kind(_Document):
    """A line as a heading or a bullet."""

    name = "editor/kind"
    goals = ("Make the line “{old}” a {label}.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        lines = content["state"]["lines"]
        line, other = rng.sample([line for line in lines if line["kind"] == "text"], 2)
        kind = rng.choice(("heading", "bullet"))
        told = {"id": line["id"], "old": line["text"], "kind": kind}
        wanted = _replaced(lines, line["id"], kind=kind)
        label = {"heading": "heading", "bullet": "bullet point"}[kind]
        return {**told, "label": label, "wanted": wanted, "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        await hand.click(f"line:{p['id']}")
        await hand.click(f"kind:{p['kind']}")


class ToTop(_Document):
    """A line before all others; one step too few is easily made."""

    name = "editor/to_top"
    goals = ("Move the line “{old}” to the very top of the document.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        lines = content["state"]["lines"]
        at = rng.randint(2, len(lines) - 2)
        line = lines[at]
        wanted = _texts([line, *(other for other in lines if other is not line)])
        told = {"id": line["id"], "old": line["text"], "steps": at}
        return {**told, "wanted": wanted, "wrong": {"steps": at - 1}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        await hand.click(f"line:{p['id']}")
        for _ in range(p["steps"]):
            await hand.click("up")


class Replace(_Document):
    """A word everywhere."""

    name = "editor/replace"
    goals = ("Replace “{find}” by “{new}” everywhere in the document.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        lines, find = content["state"]["lines"], content["word"]
        new = rng.choice([place for place in content["places"] if find not in place])
        wanted = [[kind, text.replace(find, new)] for kind, text in _texts(lines)]
        wrong = {"new": new.lower() if new.lower() != new else new.upper()}
        return {"find": find, "new": new, "wanted": wanted, "wrong": wrong}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        await hand.click("replacing")
        await hand.type("find", p["find"])
        await hand.type("with", p["new"])
        await hand.click("replace-all")


class Undo(_Document):
    """The last changes taken back."""

    name = "editor/undo"
    goals = (
        "Undo the last {n} changes of the document.",
        "The last {n} changes of the text were a mistake: take them back.",
    )
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        past, n = content["state"]["past"], rng.randint(2, 3)
        return {"n": n, "wanted": _texts(past[-n]), "wrong": {"n": n - 1}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        for _ in range(p["n"]):
            await hand.click("undo")


class Restore(_Document):
    """An older version; it must be confirmed."""

    name = "editor/restore"
    goals = (
        "Restore the version of the document that {who} saved on {when}.",
        "We want the text back as {who} left it on {when}. Restore that version.",
    )

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        chosen, other = rng.sample(content["state"]["versions"], 2)
        told = {"id": chosen["id"], "who": chosen["who"], "when": chosen["when"]}
        return {**told, "wanted": _texts(chosen["lines"]), "wrong": {"id": other["id"]}}

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        await hand.click("versions")
        await hand.click(f"version:{p['id']}")
        await hand.click("restore")
        await hand.click("yes")


class NameVersion(Slip):
    """The text as it is, kept under a name."""

    name = "editor/name_version"
    goals = ("Save the document as it is now as a version named “{title}”.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        title, other = rng.sample(_NAMES, 2)
        return {"title": title, "wrong": {"title": other}}

    def done(self, end: Ending, p: Params) -> bool:
        first, *older = end.after["versions"]
        named = first["name"] == p["title"] and older == end.before["versions"]
        return bool(named and end.after["lines"] == first["lines"] == end.before["lines"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("editor")
        await hand.click("naming")
        await hand.type("name", p["title"])
        await hand.click("name-now")


class Words(Question):
    """How long a version was."""

    name = "editor/words"
    goals = ("How many words did the version of {when} by {who} have? Restore nothing.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        def count(lines: Lines) -> int:
            return sum(len(line["text"].split()) for line in lines)

        chosen = rng.choice(content["state"]["versions"])
        truth, lie = count(chosen["lines"]), count(content["state"]["lines"])
        told = {"id": chosen["id"], "who": chosen["who"], "when": chosen["when"]}
        return {**told, "truth": str(truth), "lie": str(lie)} if truth != lie else None

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("editor")
        await hand.click("versions")
        await hand.click(f"version:{p['id']}")
        return await hand.read("words")


class Editor(Capability):
    """A document that several people write."""

    name, group, label = "editor", "documents", "Document"
    templates = (
        Retype(), Kind(), ToTop(), Replace(), Undo(), Restore(), NameVersion(), Words(),
    )  # fmt: skip

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        places = list(category.places)
        lines = _written(rng, category)
        past = [lines]
        for _ in range(4):
            past.append(_edited(rng, past[-1]))
        people = rng.sample(PEOPLE, 3)
        days = rng.sample(range(1, 28), 4)
        versions = [
            {
                "id": f"v{index}",
                "when": f"{day} February 2025",
                "who": rng.choice(people),
                "name": rng.choice(("", "", "Draft", "After the meeting")),
                "lines": lines[: len(lines) - index - 1],
            }
            for index, day in enumerate(sorted(days, reverse=True))
        ]
        return {
            "name": f"About our {category.item[1]}",
            "word": _word(past[-1], places),
            "places": places,
            "about": "Write together",
            "state": {
                "lines": past[-1],
                "past": past[:-1],
                "future": [],
                "versions": versions,
                "next": 1,
            },
        }


def _written(rng: random.Random, category: Category) -> Lines:
    items = [item["name"] for item in category.items(rng, 8)]
    place = rng.choice(category.places)
    texts = [
        ["text", text.format(a=a, b=b, who=who, place=place)]
        for text, a, b, who in zip(
            rng.sample(_LINES, len(_LINES)), items, items[1:], rng.sample(PEOPLE, 7), strict=False
        )
    ]
    first, second = rng.sample(_HEADS, 2)
    written = [["heading", first], *texts[:4], ["heading", second], *texts[4:]]
    return [{"id": f"l{n}", "kind": kind, "text": text} for n, (kind, text) in enumerate(written)]


def _edited(rng: random.Random, lines: Lines) -> Lines:
    """One more change: a line that is now a bullet, or has a sentence more."""
    at = rng.choice([n for n, line in enumerate(lines) if line["kind"] == "text"])
    line = lines[at]
    longer = {**line, "text": f"{line['text']} More soon."}
    new = longer if rng.random() < 0.6 else {**line, "kind": "bullet"}
    return [*lines[:at], new, *lines[at + 1 :]]


def _word(lines: Lines, places: list[str]) -> str:
    """The place that the text is about."""
    return max(places, key=lambda place: sum(line["text"].count(place) for line in lines))
