"""Supervised data: noisy demonstrations of whole tasks, grounding questions, named elements.

Every response is worded by the domain's action space in its short form, on the 999 grid. The seeds
lie far above those of the tasks. Without `domains`, all four take turns; where there is no browser,
the web is left out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mintact_env_micro.browser import browser_path
from mintact_env_micro.scene import SIZE, Decision, Layout, Screenshot, pointing
from mintact_env_micro.tasks import DEMONSTRATIONS, DOMAINS, MicroState
from mintact_env_micro.tiles import PageTiles
from mintact_env_micro.tools import SHAPES, ToolsState
from mintact_env_micro.web import WORDS, WebState
from mintact_platform.actions.space import ActionSpace, Call
from mintact_platform.actions.tools import ToolUse
from mintact_platform.actions.ui import BrowserUse, ComputerUse, MobileUse
from mintact_platform.errors import ConfigurationError, near_match
from mintact_platform.records.demonstration import Demonstration, DemonstrationTurn, Focus

Demonstrator = Literal["noisy", "biased", "exact"]

SPACES: dict[str, Callable[..., Any]] = {
    "mobile_use": MobileUse,
    "computer_use": ComputerUse,
    "browser_use": BrowserUse,
    "tool_use": ToolUse,
}
POINTING = {"mobile": "click", "desktop": "left_click", "web": "click"}
STREAMS = ("episodes", "grounding", "elements")
QUESTIONS = 4


def episodes(
    *,
    seed: int,
    domains: Sequence[str] | None = None,
    demonstrator: Demonstrator = "noisy",
    wrong: float = 0.3,
    icons: int = 4,
    colours: int = 6,
    jitter: int = 3,
) -> Iterator[Demonstration]:
    """Whole tasks, round-robin over the domains, as a scripted demonstrator does them.

    `noisy` takes each decision wrongly with probability `wrong`, any wrong option alike; `biased`
    then always takes the first wrong option; `exact` is never wrong. Where the demonstrator means
    to point, it points exactly.
    """
    layout = Layout(icons, colours, jitter)
    chance = 0.0 if demonstrator == "exact" else wrong
    for scene in _scenes("episodes", seed, domains or drawable(), layout):
        yield scene.episode(chance, biased=demonstrator == "biased")


def grounding(
    *,
    seed: int,
    domains: Sequence[str] | None = None,
    icons: int = 4,
    colours: int = 6,
    jitter: int = 3,
) -> Iterator[Demonstration]:
    """One screenshot and up to four questions on it, each answered in one step."""
    for scene in _scenes("grounding", seed, domains or drawable(), Layout(icons, colours, jitter)):
        yield scene.questions()


def elements(
    *,
    seed: int,
    domains: Sequence[str] | None = None,
    icons: int = 4,
    colours: int = 6,
    jitter: int = 3,
) -> Iterator[Demonstration]:
    """One screenshot with all its named elements, and no response."""
    for scene in _scenes("elements", seed, domains or drawable(), Layout(icons, colours, jitter)):
        yield scene.named()


def drawable() -> tuple[str, ...]:
    """The domains whose screens this machine can draw: the web needs a browser."""
    return tuple(name for name in DOMAINS if name != "web" or browser_path() is not None)


@dataclass(frozen=True)
class _Scene:
    """One demonstration in the making: a start state, its random stream, how it is drawn."""

    start: MicroState
    rng: random.Random
    space: ActionSpace
    draw: Callable[[MicroState], Screenshot]

    def episode(self, wrong: float, *, biased: bool) -> Demonstration:
        state = self.start
        turns: list[DemonstrationTurn] = []
        while not state.ended:
            right, *others = state.decisions()
            decision = right
            if others and self.rng.random() < wrong:
                decision = others[0] if biased else self.rng.choice(others)
            # the picture of the tools domain never changes, so it is shown once
            shown = not turns or not isinstance(state, ToolsState)
            turns.append(
                DemonstrationTurn(
                    text=self.space.observation_text(state.text) if state.text else "",
                    screenshot=self.draw(state) if shown else None,
                    response=self._worded(decision),
                    focus=decision.focus,
                    elements=state.elements() if shown else (),
                )
            )
            state = state.apply(decision.call.name, decision.call.arguments)
        return self._demonstration(self.start.goal, turns)

    def questions(self) -> Demonstration:
        state = self._some_screen()
        asked = self._asked(state)
        turns = [
            DemonstrationTurn(
                text=text,
                screenshot=self.draw(state) if i == 0 else None,
                response=response,
                focus=focus,
                elements=state.elements() if i == 0 else (),
            )
            for i, (text, response, focus) in enumerate(asked)
        ]
        return self._demonstration("", turns)

    def named(self) -> Demonstration:
        state = self._some_screen()
        turn = DemonstrationTurn("", self.draw(state), "", elements=state.elements())
        return self._demonstration("", [turn])

    def _asked(self, state: MicroState) -> list[tuple[str, str, Focus | None]]:
        if isinstance(state, ToolsState):
            shapes = self.rng.sample(SHAPES, len(SHAPES))
            return [_colour_question(state, shape) for shape in shapes]
        named = list(state.elements())
        self.rng.shuffle(named)
        asked: list[tuple[str, str, Focus | None]] = []
        if isinstance(state, WebState):
            word = self.rng.choice(WORDS)
            call = Call("browser_use", {"action": "type", "text": word})
            asked.append((f"type {word}", self._worded(Decision(f"type {word}", call)), None))
        for name, box in named[: QUESTIONS - len(asked)]:
            action = POINTING[state.domain]
            decision = pointing(f"click {name}", state.action_space, action, name, box)
            asked.append((f"click {name}", self._worded(decision), decision.focus))
        return asked

    def _some_screen(self) -> MicroState:
        return self.start.inside() if self.rng.random() < 0.5 else self.start

    def _worded(self, decision: Decision) -> str:
        return self.space.render(decision.thought, self.space.to_grid(decision.call, SIZE, SIZE))

    def _demonstration(self, goal: str, turns: Sequence[DemonstrationTurn]) -> Demonstration:
        return Demonstration(self.start.domain, self.start.action_space, goal, tuple(turns))


def _colour_question(state: ToolsState, shape: str) -> tuple[str, str, Focus]:
    answer = f"<think>{shape} is {state.colours[shape]}</think>"
    return f"color of the {shape}", answer, Focus(shape, state.boxes[shape])


def _scenes(stream: str, seed: int, domains: Sequence[str], layout: Layout) -> Iterator[_Scene]:
    for domain in domains:
        if domain not in DOMAINS:
            raise ConfigurationError(
                f"unknown domain {domain!r}", where="micro", next=near_match(domain, DOMAINS)
            )
    draw = _drawer(domains, layout)
    spaces = {name: space(prompt="short") for name, space in SPACES.items()}
    base = DEMONSTRATIONS * (1 + STREAMS.index(stream) + len(STREAMS) * seed)
    for index, domain in enumerate(itertools.cycle(domains)):
        start = DOMAINS[domain].start(base + index, layout)
        rng = random.Random(f"{stream}:{domain}:{base + index}")
        yield _Scene(start, rng, spaces[start.action_space], draw)


def _drawer(domains: Sequence[str], layout: Layout) -> Callable[[MicroState], Screenshot]:
    tiles = PageTiles(layout) if "web" in domains else None

    def draw(state: MicroState) -> Screenshot:
        if isinstance(state, WebState):
            assert tiles is not None
            return tiles.render(state)
        return state.render()

    return draw
