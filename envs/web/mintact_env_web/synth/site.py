"""What a synthetic site is made of, and what is asked of an agent on it.

A site is one category (what it is about) in one style (how it looks) with a few capabilities (what
can be done on it), after the three axes of Weblica-Synth. Everything is a function of a seed, with
no browser and no model: the same seed gives the same bytes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

Params = Mapping[str, Any]
"""What a template drew for one task: JSON values, ids for the check and names for the goal."""


@dataclass(frozen=True, slots=True)
class Category:
    """What a site is about: its words and its things.

    Attributes:
        name: `grocery`, `clinic`, …
        brands: names that a site may carry.
        tagline: sentences for the front page.
        item: what one thing is called, singular and plural: `("course", "courses")`.
        kinds: groups of things: `("Pottery", "Painting")`.
        adjectives: first halves of things' names.
        nouns: second halves; a name is "adjective noun".
        prices: lowest and highest, in whole units of the currency.
        currency: sign before a price.
        places: towns, rooms, branches.
        topics: subjects of messages, notes, events.
        motif: name of a drawing in the runtime, for pictures of things.
        labels: own words for the runtime's: `{"cart": "Basket", "add": "Enrol"}`.
    """

    name: str
    brands: tuple[str, ...]
    tagline: tuple[str, ...]
    item: tuple[str, str]
    kinds: tuple[str, ...]
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    prices: tuple[int, int]
    places: tuple[str, ...]
    topics: tuple[str, ...]
    currency: str = "$"
    motif: str = "box"
    labels: Mapping[str, str] = field(default_factory=dict)

    def label(self, key: str, default: str) -> str:
        """The category's word for something."""
        return self.labels.get(key, default)

    def items(self, rng: random.Random, count: int) -> list[dict[str, Any]]:
        """Things with distinct names: `id name kind price rating stock place blurb hue`."""
        pairs = [(a, n) for a in self.adjectives for n in self.nouns]
        chosen = rng.sample(pairs, min(count, len(pairs)))
        low, high = self.prices
        return [
            {
                "id": f"i{index}",
                "name": f"{adjective} {noun}",
                "kind": rng.choice(self.kinds),
                "price": rng.randint(low, high),
                "rating": rng.randint(20, 50) / 10,
                "stock": rng.randint(1, 30),
                "place": rng.choice(self.places),
                "blurb": rng.choice(self.topics),
                "hue": rng.randrange(360),
            }
            for index, (adjective, noun) in enumerate(chosen)
        ]


PEOPLE = (
    "Ada Brook", "Ben Castillo", "Chloe Dunn", "Dmitri Evans", "Elif Faber", "Femi Grant",
    "Greta Holm", "Hugo Ibsen", "Ines Jarvis", "Jonas Keller", "Kira Lund", "Leo Marsh",
    "Maya Nolan", "Nils Ortega", "Olga Price", "Pavel Quinn", "Rosa Shaw", "Samir Tate",
    "Tess Underwood", "Uma Vance", "Viktor Webb", "Wanda Xu", "Yusuf Young", "Zoe Adler",
)  # fmt: skip
"""Names for accounts, senders, doctors, drivers."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a site looks.

    Attributes:
        name: unique.
        variables: CSS custom properties without the dashes: `{"accent": "#0a7", "radius": "2px"}`.
        layout: data attributes of the document, which the base sheet knows:
            `{"nav": "side", "hero": "split", "card": "shadow", "density": "compact"}`.
        css: more rules, for what is special about it.
    """

    name: str
    variables: Mapping[str, str]
    layout: Mapping[str, str] = field(default_factory=dict)
    css: str = ""


@dataclass(frozen=True, slots=True)
class Ending:
    """What a check may look at.

    Attributes:
        before: the capability's part of the state at the start.
        after: the same at the end.
        answer: what the agent said when it stopped, None when it did not.
        content: what the capability was built with.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    answer: str | None
    content: Mapping[str, Any]


class Hand(Protocol):
    """What a scripted solver may do; every method ends in `browser_use` calls on pixels.

    A target is the value of an element's `data-k`, unique on the visible page; what is out of view
    is scrolled to with scroll calls first.
    """

    async def open(self, module: str) -> None:
        """Go to a capability's page by its link in the navigation."""
        ...

    async def click(self, target: str) -> None:
        """Click the middle of an element."""
        ...

    async def type(self, target: str, text: str, *, enter: bool = False) -> None:
        """Click a field and replace its text."""
        ...

    async def choose(self, target: str, value: str) -> None:
        """Open the drop-down `target` and click its option `target:value`."""
        ...

    async def press(self, key: str) -> None:
        """Press a key."""
        ...

    async def hover(self, target: str) -> None:
        """Move the pointer over an element."""
        ...

    async def drag(self, source: str, target: str) -> None:
        """Drag one element onto another (`browser_use_extended` only)."""
        ...

    async def back(self) -> None:
        """Go one page back."""
        ...

    async def read(self, target: str) -> str:
        """The visible text of an element, for answers."""
        ...

    async def see(self, target: str) -> bool:
        """Whether an element is on the page."""
        ...


class Template:
    """One kind of task: how its goal is said, when it is done, how it is solved and how missed.

    Attributes:
        name: `<capability>/<what>`.
        goals: phrasings with `{fields}` of the drawn values; the first is the plainest.
        level: 1 (one or two actions) to 4.
        needs: actions beyond `browser_use`, e.g. `drag`.
        touches: further capabilities whose state the task may change.
    """

    name: ClassVar[str]
    goals: ClassVar[tuple[str, ...]]
    level: ClassVar[int] = 2
    needs: ClassVar[frozenset[str]] = frozenset()
    touches: ClassVar[frozenset[str]] = frozenset()

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        """Values for one task on this content; None when the content does not allow it."""
        raise NotImplementedError

    def done(self, end: Ending, p: Params) -> bool:
        """Whether the final state (or the answer) is what the goal asks for."""
        raise NotImplementedError

    async def solve(self, hand: Hand, p: Params) -> str | None:
        """Solve it; the answer to stop with, if the goal asks for one."""
        raise NotImplementedError

    async def miss(self, hand: Hand, p: Params) -> str | None:
        """End it wrongly but plausibly: the wrong thing, the last click left out."""
        raise NotImplementedError


class Capability:
    """What can be done on a page of a site: a script, its content and its tasks.

    Attributes:
        name: unique; also the name of its script `<name>.js`, of its module at run time, and of
            its part of the state.
        group: coarse family, as capability mining would merge it.
        label: of its link in the navigation, unless the category has its own word for it.
        templates: at least five.
    """

    name: ClassVar[str]
    group: ClassVar[str]
    label: ClassVar[str]
    templates: ClassVar[tuple[Template, ...]]

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        """What its page shows and starts from: JSON values, `state` being the initial state."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SiteTask:
    """A task on one site.

    Attributes:
        template: its name.
        goal: what the agent reads.
        params: what the template drew.
    """

    template: str
    goal: str
    params: Params


@dataclass(frozen=True, slots=True)
class Site:
    """A complete site.

    Attributes:
        seed: it is a function of.
        category: name.
        style: name.
        capabilities: names, in the order of the navigation.
        content: by capability.
        files: path without leading slash → bytes; `index.html` is where one starts.
        host: made-up host name, served without a network.
    """

    seed: int
    category: str
    style: str
    capabilities: Sequence[str]
    content: Mapping[str, Mapping[str, Any]]
    files: Mapping[str, bytes]
    host: str

    @property
    def start(self) -> str:
        """Where an episode begins."""
        return f"http://{self.host}/"


def answered(answer: str | None, *wanted: str) -> bool:
    """Whether an answer holds every wanted text, ignoring case, spaces and digit grouping.

    A number counts only where it stands alone: `12` is not in `112`.
    """
    said = _folded(answer or "")
    return bool(said) and all(
        re.search(
            rf"(?<![\d.]){re.escape(text)}(?!\.?\d)" if text[:1].isdigit() else re.escape(text),
            said,
        )
        for text in map(_folded, wanted)
    )


def _folded(text: str) -> str:
    return " ".join(re.sub(r"(?<=\d),(?=\d{3})", "", text).casefold().split())
