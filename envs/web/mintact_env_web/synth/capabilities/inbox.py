"""Messages: finding, starring, filing, answering, writing."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

from mintact_env_web.synth.site import (
    PEOPLE,
    Capability,
    Category,
    Ending,
    Hand,
    Params,
    Template,
    answered,
)

_KEPT = ("folder", "starred")
_SUBJECTS = (
    "Question about {}",
    "Your order: {}",
    "{} — a reminder",
    "Change to {}",
    "Invoice for {}",
)
_TEXTS = (
    "Please use the code {code} when you come by.",
    "The reference is {code}; keep it at hand.",
    "We noted it under {code}. Thank you for your patience.",
)


def _filed(state: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Everything but what was read: looking is no change."""
    return {mail["id"]: tuple(mail[key] for key in _KEPT) for mail in state["mails"]}


class _OfOne(Template):
    """Something done to one message in the inbox."""

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        mails = content["state"]["mails"]
        free = [m for m in mails if m["folder"] == "inbox" and not m["starred"]]
        mail, other = rng.sample(free, 2)
        code = {"code": mail["code"], "wrong": other["code"]}
        return {"id": mail["id"], "other": other["id"], "from": mail["from"], **code} | {
            "subject": mail["subject"],
            "words": rng.choice(("Thank you, that is fine.", "Please call me.", "Not this week.")),
        }

    def changed(self, p: Params) -> tuple[str, bool]:
        """Folder and star of the message afterwards."""
        return "inbox", False

    def done(self, end: Ending, p: Params) -> bool:
        wanted = {**_filed(end.before), p["id"]: self.changed(p)}
        return _filed(end.after) == wanted and end.after["sent"] == end.before["sent"]

    async def act(self, hand: Hand, mail: str) -> None:
        """Do it to this message."""
        raise NotImplementedError

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("inbox")
        await self.act(hand, p["id"])
        return None

    async def miss(self, hand: Hand, p: Params) -> str | None:
        await hand.open("inbox")
        await self.act(hand, p["other"])
        return None


class Star(_OfOne):
    """A star on a message."""

    name = "inbox/star"
    goals = ('Star the message "{subject}" from {from}.',)
    level = 1

    def changed(self, p: Params) -> tuple[str, bool]:
        return "inbox", True

    async def act(self, hand: Hand, mail: str) -> None:
        await hand.click(f"star:{mail}")


class Archive(_OfOne):
    """A message put away."""

    name = "inbox/archive"
    goals = ('Archive the message "{subject}" from {from}.',)
    level = 2

    def changed(self, p: Params) -> tuple[str, bool]:
        return "archive", False

    async def act(self, hand: Hand, mail: str) -> None:
        await hand.click(f"mail:{mail}")
        await hand.click("archive")


class Delete(_OfOne):
    """A message thrown away."""

    name = "inbox/delete"
    goals = ('Delete the message from {from} with the subject "{subject}".',)
    level = 2

    def changed(self, p: Params) -> tuple[str, bool]:
        return "trash", False

    async def act(self, hand: Hand, mail: str) -> None:
        await hand.click(f"mail:{mail}")
        await hand.click("delete")


class Code(_OfOne):
    """What a message says."""

    name = "inbox/find_code"
    goals = ('Which code or reference is given in the message "{subject}" from {from}?',)
    level = 2

    def done(self, end: Ending, p: Params) -> bool:
        same = _filed(end.after) == _filed(end.before) and end.after["sent"] == end.before["sent"]
        return same and answered(end.answer, p["code"])

    async def solve(self, hand: Hand, p: Params) -> str:
        await hand.open("inbox")
        await hand.click(f"mail:{p['id']}")
        return await hand.read("text")

    async def miss(self, hand: Hand, p: Params) -> str:
        await hand.open("inbox")
        await hand.click(f"mail:{p['other']}")
        return await hand.read("text")


class Reply(_OfOne):
    """An answer to a message."""

    name = "inbox/reply"
    goals: ClassVar[tuple[str, ...]] = ('Reply to the message "{subject}" from {from}: "{words}"',)
    level = 3

    def done(self, end: Ending, p: Params) -> bool:
        mail = {"to": p["from"], "subject": f"Re: {p['subject']}", "text": p["words"]}
        same = _filed(end.after) == _filed(end.before)
        return same and end.after["sent"] == [*end.before["sent"], mail]

    async def act(self, hand: Hand, mail: str) -> None:
        await hand.click(f"mail:{mail}")
        await hand.click("reply")

    async def solve(self, hand: Hand, p: Params) -> None:
        await super().solve(hand, p)
        await hand.type("body", p["words"])
        await hand.click("send")

    async def miss(self, hand: Hand, p: Params) -> None:
        await super().miss(hand, p)
        await hand.type("body", p["words"])
        await hand.click("send")


class Write(Template):
    """A new message."""

    name = "inbox/write"
    goals = ('Write to {to} with the subject "{subject}" and the text "{text}".',)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        to, other = rng.sample(content["people"], 2)
        subject = rng.choice(("Meeting", "Holiday", "A question", "Delivery"))
        text = rng.choice(
            ("Are you free on Friday?", "It arrived. Thank you!", "When do you open?")
        )
        return {"to": to, "other": other, "subject": subject, "text": text}

    def done(self, end: Ending, p: Params) -> bool:
        mail = {"to": p["to"], "subject": p["subject"], "text": p["text"]}
        same = _filed(end.after) == _filed(end.before)
        return same and end.after["sent"] == [*end.before["sent"], mail]

    async def compose(self, hand: Hand, p: Params, to: str) -> None:
        """Everything but sending."""
        await hand.open("inbox")
        await hand.click("write")
        await hand.choose("to", to)
        await hand.type("subject", p["subject"])
        await hand.type("body", p["text"])

    async def solve(self, hand: Hand, p: Params) -> None:
        await self.compose(hand, p, p["to"])
        await hand.click("send")

    async def miss(self, hand: Hand, p: Params) -> None:
        await self.compose(hand, p, p["other"])
        await hand.click("send")


class Inbox(Capability):
    """A mailbox."""

    name, group, label = "inbox", "messaging", "Messages"
    templates = (Star(), Archive(), Delete(), Code(), Reply(), Write())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        people, items = rng.sample(PEOPLE, 8), category.items(rng, 10)
        mails = []
        for index, item in enumerate(items):
            code = f"{rng.choice('ABCDEFGH')}{rng.randint(1000, 9999)}"
            mails.append(
                {
                    "id": f"m{index}",
                    "from": rng.choice(people),
                    "subject": rng.choice(_SUBJECTS).format(item["name"]),
                    "text": rng.choice(_TEXTS).format(code=code),
                    "code": code,
                    "day": f"{28 - 2 * index} May",
                    "folder": "archive" if index == 7 else "inbox",
                    "read": rng.random() < 0.5,
                    "starred": index == 4,
                }
            )
        state = {"mails": mails, "sent": []}
        return {"people": people, "about": "Your messages", "state": state}
