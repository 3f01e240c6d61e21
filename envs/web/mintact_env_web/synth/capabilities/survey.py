"""A questionnaire: filling it in, keeping it for later, correcting and withdrawing answers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.dates import said
from mintact_env_web.synth.endings import Question, Slip
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params

_SOURCES = ("From a friend", "Newspaper", "Search engine", "Passing by", "Social media")
_OFTEN = ("For the first time", "Once a year", "Every month", "Every week")
_WISHES = (
    "Longer opening hours",
    "More benches",
    "A quieter corner",
    "Clearer signs",
    "Nothing, thank you",
)


def _pages(rng: random.Random, category: Category) -> list[dict[str, Any]]:
    item, kinds = category.item, list(category.kinds)
    places = rng.sample(category.places, min(4, len(category.places)))
    return [
        {
            "title": "About you",
            "questions": [
                _choice("source", "one", "How did you hear about us?", list(_SOURCES)),
                _choice("often", "one", "How often do you come?", list(_OFTEN)),
                _choice("place", "one", "Where were you last?", places, required=False),
            ],
        },
        {
            "title": f"Our {item[1]}",
            "questions": [
                _choice("kinds", "many", f"Which kinds of {item[1]} interest you?", kinds),
                _scale("rating", "How satisfied are you in all?", 5, "not at all", "very"),
                _scale(
                    "price", "How do you find our prices?", 5, "too high", "fair", required=False
                ),
            ],
        },
        {
            "title": "Last words",
            "questions": [
                _scale("again", "How likely are you to come again?", 10, "never", "surely"),
                {
                    "id": "wish",
                    "kind": "text",
                    "text": "What should we do better?",
                    "required": False,
                },
            ],
        },
    ]


def _choice(
    id: str, kind: str, text: str, options: list[str], *, required: bool = True
) -> dict[str, Any]:
    return {"id": id, "kind": kind, "text": text, "options": options, "required": required}


def _scale(
    id: str, text: str, most: int, low: str, high: str, *, required: bool = True
) -> dict[str, Any]:
    ends = {"most": most, "low": low, "high": high}
    return {"id": id, "kind": "scale", "text": text, "required": required, **ends}


def _answers(rng: random.Random, pages: list[dict[str, Any]], *, full: bool) -> dict[str, Any]:
    """Answers to all questions, or only to those that need one."""
    found: dict[str, Any] = {}
    for q in (q for page in pages for q in page["questions"] if full or q["required"]):
        if q["kind"] == "one":
            found[q["id"]] = rng.choice(q["options"])
        elif q["kind"] == "many":
            found[q["id"]] = sorted(rng.sample(q["options"], rng.randint(1, 3)))
        elif q["kind"] == "scale":
            found[q["id"]] = rng.randint(1, q["most"])
        else:
            found[q["id"]] = rng.choice(_WISHES)
    return found


def _told(content: Mapping[str, Any], answers: Mapping[str, Any]) -> str:
    """Answers as one says them: question, then what to say."""
    said = []
    for q in (q for page in content["pages"] for q in page["questions"] if q["id"] in answers):
        value = answers[q["id"]]
        plain = ", ".join(value) if isinstance(value, list) else str(value)
        scale = f" of {q['most']}" if q["kind"] == "scale" else ""
        said.append(f"“{q['text']}” {plain}{scale}")
    return "; ".join(said)


def _targets(content: Mapping[str, Any], answers: Mapping[str, Any]) -> list[list[list[str]]]:
    """For each page what to click, and for a text what to type: [target] or [target, text]."""
    pages = []
    for page in content["pages"]:
        steps: list[list[str]] = []
        for q in (q for q in page["questions"] if q["id"] in answers):
            value, id = answers[q["id"]], q["id"]
            if q["kind"] == "text":
                steps.append([id, value])
            elif q["kind"] == "scale":
                steps.append([f"{id}:{value}"])
            else:
                wanted = value if isinstance(value, list) else [value]
                steps += [[f"{id}:{q['options'].index(option)}"] for option in wanted]
        pages.append(steps)
    return pages


async def _fill(hand: Hand, steps: list[list[str]]) -> None:
    for target, *text in steps:
        if text:
            await hand.type(target, text[0])
        else:
            await hand.click(target)


class FillIn(Slip):
    """Every question, up to sending."""

    name = "survey/fill_in"
    goals: ClassVar[tuple[str, ...]] = (
        "Fill in the whole survey and send it. Answers: {told}.",
        "Take part in the survey with these answers, and send them: {told}",
    )
    level = 4
    full = True

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        answers = _answers(rng, content["pages"], full=self.full)
        slip = {**answers, "rating": answers["rating"] % 5 + 1}
        steps, wrong = _targets(content, answers), {"steps": _targets(content, slip)}
        return {"answers": answers, "told": _told(content, answers), "steps": steps, "wrong": wrong}

    def done(self, end: Ending, p: Params) -> bool:
        *before, last = [m["answers"] for m in end.after["mine"]] or [None]
        told = last == p["answers"] and before == [m["answers"] for m in end.before["mine"]]
        return told and end.after["kept"] is None

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("survey")
        await hand.click("begin")
        for index, steps in enumerate(p["steps"]):
            await _fill(hand, steps)
            await hand.click("next" if index < len(p["steps"]) - 1 else "send")


class RequiredOnly(FillIn):
    """Only what needs an answer; the last click is easily forgotten."""

    name = "survey/required_only"
    goals = (
        "Answer only the required questions of the survey, leave the others empty, and "
        "send: {told}.",
    )
    full = False

    async def miss(self, hand: Hand, p: Params) -> None:
        await self.solve(hand, {**p, "steps": [*p["steps"][:-1], []]})


class KeepForLater(Slip):
    """The first page, kept but not sent."""

    name = "survey/keep_for_later"
    goals = (
        "Start the survey, answer its first page, and save it to continue later without sending "
        "anything. First page: {told}.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        answers = _answers(rng, content["pages"][:1], full=True)
        slip = {**answers, "often": next(o for o in _OFTEN if o != answers["often"])}
        steps, wrong = (_targets(content, a)[0] for a in (answers, slip))
        told = _told(content, answers)
        return {"answers": answers, "told": told, "steps": steps, "wrong": {"steps": wrong}}

    def done(self, end: Ending, p: Params) -> bool:
        return bool(end.after["kept"] == p["answers"] and end.after["mine"] == end.before["mine"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("survey")
        await hand.click("begin")
        await _fill(hand, p["steps"])
        await hand.click("keep")


class _OfMine(Slip):
    """Something done to answers one has sent."""

    level = 2

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        mine, other = rng.sample(content["state"]["mine"], 2)
        n = rng.choice([n for n in range(1, 6) if n != mine["answers"]["rating"]])
        return {"id": mine["id"], "said": said(mine["day"]), "n": n, "wrong": {"id": other["id"]}}


class ChangeRating(_OfMine):
    """How satisfied one is, after all."""

    name = "survey/change_rating"
    goals = ("In my answers sent on {said}, change the satisfaction rating to {n}.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = super().draw(rng, content) or {}
        return {**p, "wrong": {"n": next(n for n in range(1, 6) if n != p["n"])}}

    def done(self, end: Ending, p: Params) -> bool:
        wanted = [
            {**m, "answers": {**m["answers"], "rating": p["n"]}} if m["id"] == p["id"] else m
            for m in end.before["mine"]
        ]
        return bool(end.after["mine"] == wanted and end.after["kept"] == end.before["kept"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("survey")
        await hand.click("part:mine")
        await hand.click(f"edit:{p['id']}")
        await hand.click(f"new:{p['n']}")
        await hand.click("save")


class Withdraw(_OfMine):
    """Answers taken back."""

    name = "survey/withdraw"
    goals = ("Withdraw the survey answers that I sent on {said}.",)

    def done(self, end: Ending, p: Params) -> bool:
        wanted = [m for m in end.before["mine"] if m["id"] != p["id"]]
        return bool(end.after["mine"] == wanted and end.after["kept"] == end.before["kept"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await hand.open("survey")
        await hand.click("part:mine")
        await hand.click(f"withdraw:{p['id']}")
        await hand.click("yes")


class HowMany(Question):
    """What others answered."""

    name = "survey/how_many"
    goals = ("How many people so far answered “{option}” to “{text}”? Answer with the number.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        questions = [q for page in content["pages"] for q in page["questions"] if "options" in q]
        q = rng.choice(questions)
        counts = content["results"][q["id"]]
        at = rng.randrange(len(counts))
        option, truth = counts[at]
        lie = next(n for _, n in counts if n != truth)
        told = {"text": q["text"], "option": option, "target": f"count:{q['id']}:{at}"}
        return {**told, "truth": str(truth), "lie": str(lie)}

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("survey")
        await hand.click("part:results")
        return await hand.read(p["target"])


class Survey(Capability):
    """A questionnaire with results."""

    name, group, label = "survey", "forms", "Survey"
    templates = (FillIn(), RequiredOnly(), KeepForLater(), ChangeRating(), Withdraw(), HowMany())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        pages, results = _pages(rng, category), {}
        for q in (q for page in pages for q in page["questions"] if q["kind"] != "text"):
            options = q.get("options") or list(range(1, q["most"] + 1))
            counts = rng.sample(range(3, 90), len(options))
            results[q["id"]] = [[o, n] for o, n in zip(options, counts, strict=True)]
        days = ("2024-11-05", "2025-01-21", "2025-03-04")
        mine = [
            {"id": f"m{n}", "day": day, "answers": _answers(rng, pages, full=rng.random() < 0.5)}
            for n, day in enumerate(days)
        ]
        return {
            "headline": f"What do you think of our {category.item[1]}?",
            "intro": "It takes about three minutes. Nobody sees who answered what.",
            "today": "2025-04-02",
            "pages": pages,
            "results": results,
            "about": "Tell us what you think",
            "state": {"mine": mine, "kept": None, "next": 1},
        }
