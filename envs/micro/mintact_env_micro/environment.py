"""The three drawn domains as gymnasium environments: phone, desktop and tools."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, Generic, Literal, TypeVar

import gymnasium

from mintact_env_micro.desktop import DesktopState
from mintact_env_micro.faults import SLOW_S, Fault, Faults, Scope, Steps, spoiled
from mintact_env_micro.mobile import MobileState
from mintact_env_micro.scene import SIZE, Colours, Icons, Jitter, Layout, Screenshot
from mintact_env_micro.tasks import MicroState, setting
from mintact_env_micro.tools import ToolsState
from mintact_platform.actions.space import Call
from mintact_platform.environments.settings import Seconds, Share
from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.records.verdict import StateCheck

Observation = dict[str, Any]
Info = dict[str, Any]
S = TypeVar("S", MobileState, DesktopState, ToolsState)
Announce = Literal["text", "registry", "both"]

PER_WORKER = 16


def describe(kind: type[MicroState], per_worker: int) -> dict[str, Any]:
    """Gymnasium metadata of a domain, with the platform's part."""
    binding = {"domain": kind.domain, "action_space": kind.action_space}
    return {
        "render_modes": ["rgb_array"],
        "mintact": {**binding, "instances_per_worker": per_worker},
    }


class DrawnEnvironment(gymnasium.Env[Observation, dict[str, Any]], Generic[S]):
    """Plays one domain's state machine and draws its screen.

    Args:
        layout: how crowded the screens are, where the task does not say.
        faults: what goes wrong.
        step_seconds: time that every step takes on top.

    Attributes:
        state: the episode's state.
    """

    kind: type[S]

    def __init__(self, layout: Layout, faults: Faults, step_seconds: float) -> None:
        self._layout, self._faults, self._step_seconds = layout, faults, step_seconds
        self.state: S = self.kind.start(0, layout)
        self.observation_space = ScreenSpace(SIZE, SIZE)
        self.action_space = CallSpace(example_calls(self.state))
        self.render_mode = "rgb_array"

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start the task in `options["task"]`, else the one that the seed gives."""
        super().reset(seed=seed)
        seed, layout = setting(seed, options, self._layout)
        self._faults.begin(seed)
        self.state = self.kind.start(seed, layout)
        return {"screenshot": self.state.render(), "text": ""}, {"goal": self.state.goal}

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """Play one call with pixel coordinates; its reward is 0, `evaluate` says the outcome."""
        fault = self._faults.step()
        if fault == "hang":
            threading.Event().wait()
        time.sleep(self._step_seconds + (SLOW_S if fault == "slow" else 0.0))
        self.state = self.state.apply(*read_call(action))
        info = {"note": self.state.note} if self.state.note else {}
        observation = spoiled(self._observe(), fault)
        return observation, 0.0, self.state.ended, False, info

    def evaluate(self) -> StateCheck:
        """Whether the goal state holds."""
        return self.state.check()

    def render(self) -> Screenshot:
        """The screen."""
        return self.state.render()

    def _observe(self) -> Observation:
        return {"screenshot": self.state.render(), "text": self.state.text}


class Mobile(DrawnEnvironment[MobileState]):
    """The phone: `mobile_use` with click and terminate."""

    kind = MobileState
    metadata = describe(MobileState, PER_WORKER)

    def __init__(
        self,
        *,
        icons: Icons = 4,
        colours: Colours = 6,
        jitter: Jitter = 3,
        fault: Fault | None = None,
        fault_rate: Share = 1.0,
        fault_after: Steps = 1,
        fault_scope: Scope = "task",
        step_seconds: Seconds = 0.0,
    ) -> None:
        faults = Faults(fault, fault_rate, fault_after, fault_scope)
        super().__init__(Layout(icons, colours, jitter), faults, step_seconds)


class Desktop(DrawnEnvironment[DesktopState]):
    """The desktop: `computer_use` with right_click, left_click and terminate."""

    kind = DesktopState
    metadata = describe(DesktopState, PER_WORKER)

    def __init__(
        self,
        *,
        icons: Icons = 4,
        colours: Colours = 6,
        jitter: Jitter = 3,
        fault: Fault | None = None,
        fault_rate: Share = 1.0,
        fault_after: Steps = 1,
        fault_scope: Scope = "task",
        step_seconds: Seconds = 0.0,
    ) -> None:
        faults = Faults(fault, fault_rate, fault_after, fault_scope)
        super().__init__(Layout(icons, colours, jitter), faults, step_seconds)


class Tools(DrawnEnvironment[ToolsState]):
    """The toolbox: `search_tool`, the tool it finds, and `terminate`.

    Args:
        announce: where a found tool appears: in the reply's `text`, among the callable tools
            (`registry`, which changes the prompt), or in `both`.
    """

    kind = ToolsState
    metadata = describe(ToolsState, PER_WORKER)

    def __init__(
        self,
        *,
        colours: Colours = 6,
        announce: Announce = "text",
        fault: Fault | None = None,
        fault_rate: Share = 1.0,
        fault_after: Steps = 1,
        fault_scope: Scope = "task",
        step_seconds: Seconds = 0.0,
    ) -> None:
        faults = Faults(fault, fault_rate, fault_after, fault_scope)
        super().__init__(Layout(2, colours), faults, step_seconds)
        self._announce = announce

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Start an episode; nothing is found yet."""
        observation, info = super().reset(seed=seed, options=options)
        return observation, info if self._announce == "text" else {**info, "tools": []}

    def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """Play one call; the picture is shown at reset only, the reply is text."""
        known = self.state.found
        observation, reward, ended, truncated, info = super().step(action)
        if self._announce != "text" and self.state.found and not known:
            info = {**info, "tools": [self.state.schema]}
        if self._announce == "registry" and self.state.found and not known:
            observation = {**observation, "text": '{"registered": 1}'}
        return observation, reward, ended, truncated, info

    def _observe(self) -> Observation:
        return {"text": self.state.text}


def example_calls(state: MicroState) -> list[dict[str, Any]]:
    """Every call a demonstrator might make from here on: what a random agent draws from."""
    calls: list[Call] = []
    for _ in range(state.max_turns):
        decisions = state.decisions()
        calls += [decision.call for decision in decisions]
        state = state.apply(decisions[0].call.name, decisions[0].call.arguments)
    return [call.to_json() for call in calls]


def read_call(action: Any) -> tuple[str, Mapping[str, Any]]:
    """Name and arguments of an action; whatever is no call becomes one that does nothing."""
    if not isinstance(action, Mapping):
        return "", {}
    name, arguments = action.get("name"), action.get("arguments")
    return str(name), arguments if isinstance(arguments, Mapping) else {}
