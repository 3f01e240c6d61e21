"""An episode's lease and action space, listened to: a person may see more than an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mintact_platform.actions.described import described_space
from mintact_platform.actions.space import ActionSpace, Call, ParseError
from mintact_platform.config import Plugin
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.protocol.wire import Observation
from mintact_platform.errors import ConfigurationError
from mintact_platform.play.round import Round
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck
from mintact_platform.registry import parameters
from mintact_platform.registry.names import Registry


class OverheardLease:
    """A lease as an episode uses it."""

    def __init__(self, lease: Lease, round: Round) -> None:
        self._lease, self._round = lease, round
        self.instance = lease.instance

    async def reset(self, *, episode: str, task: Task, seed: int, deadline: float) -> Observation:
        """Start an episode; a task without a goal gets the one the environment tells."""
        observation = await self._lease.reset(
            episode=episode, task=task, seed=seed, deadline=deadline
        )
        self._round.info = observation.info
        told, playing = observation.info.get("goal"), self._round.episode
        if not task.goal and isinstance(told, str) and playing is not None:
            self._round.task = playing.task = replace(task, goal=told)
        return observation

    async def step(self, *, step: int, action: Mapping[str, Any], deadline: float) -> Observation:
        """Carry out one call."""
        observation = await self._lease.step(step=step, action=action, deadline=deadline)
        self._round.info = observation.info
        self._round.reward += observation.reward
        return observation

    async def evaluate(self, *, deadline: float) -> StateCheck | None:
        """The environment's reading of its final state."""
        return await self._lease.evaluate(deadline=deadline)


class OverheardSpace:
    """An action space as an episode uses it."""

    def __init__(self, space: ActionSpace, round: Round) -> None:
        self._space, self._round = space, round
        self.name, self.domain = space.name, space.domain

    def system_prompt(self, task: Task, tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The prompt; it is written anew whenever the callable tools change."""
        self._round.tools_now = tuple(tools)
        return self._space.system_prompt(task, tools)

    def parse(
        self, text: str, tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[Call, ...] | ParseError:
        """Read a response."""
        return self._space.parse(text, tools)

    def to_pixels(self, call: Call, width: int, height: int) -> Call:
        """The call with coordinates in pixels."""
        return self._space.to_pixels(call, width, height)

    def to_grid(self, call: Call, width: int, height: int) -> Call:
        """The call with coordinates in the grid."""
        return self._space.to_grid(call, width, height)

    def render(self, thought: str, call: Call) -> str:
        """The response text of a thought and a call."""
        return self._space.render(thought, call)

    def observation_text(self, text: str) -> str:
        """How a text is shown to the agent."""
        return self._space.observation_text(text)


def space_of(
    choice: Plugin | None, description: Mapping[str, Any], registry: Registry
) -> ActionSpace:
    """The action space asked for, else the environment's own, by name or by its description.

    Args:
        choice: what the person asked for.
        description: what the lease says of the environment.
        registry: installed plugins.

    Raises:
        ConfigurationError: the environment names none, or a parameter is wrong.
        PluginNotFound: nobody here knows it.
    """
    name = choice.name if choice else description.get("action_space")
    if not name:
        raise ConfigurationError(
            "the environment names no action space", next="choose one with --action-space"
        )
    params = choice.params if choice else {}
    schema = description.get("action_space_schema")
    if choice is None and schema and name not in registry.names("action_spaces"):
        return described_space(schema)()
    target = registry.get("action_spaces", name)
    space: ActionSpace = parameters.bind(target, params, where=f"action space {name!r}")()
    return space
