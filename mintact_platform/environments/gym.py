"""Any environment that gymnasium registers, servable as `gym/<id>` and playable by an agent.

The agent calls one tool, `act`, whose argument is described by the action space, and reads its
state in words, with a screenshot where the environment can draw one. Gymnasium code on the other
side of a lease gets the native spaces and observations instead, see `remote`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import load_env_creator

from mintact_platform.environments.gymwords import act_tool, drawing_text, state_text
from mintact_platform.environments.protocol.arraycodec import pack_info
from mintact_platform.environments.protocol.spacecodec import describe_space
from mintact_platform.environments.protocol.spacevalues import (
    from_jsonable,
    read_member,
    to_jsonable,
)
from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import SPLITS, Task
from mintact_platform.records.verdict import StateCheck

Native = gymnasium.Env[Any, Any]
Returned = tuple[dict[str, Any], float, bool, bool, dict[str, Any]]

_METADATA: dict[str, Any] = {
    "render_modes": ["rgb_array"],
    "render_fps": 30,
    "mintact": {"domain": "tools", "action_space": "tool_use"},
}
_MAX_EXAMPLES = 32
_INSTALL = re.compile(r"pip install [^`]+")


class GymEnvironment(gymnasium.Env[dict[str, Any], dict[str, Any]]):
    """A registered gymnasium environment, driven by calls of the tool `act`.

    An action that the action space does not hold is refused in words that the agent reads; nothing
    is stepped. Step rewards are the environment's own, for the judge `environment_return`.

    Args:
        id: as gymnasium registers it; `module:Name-v0` imports the module first.
        screenshot: show what `render` draws, where the environment draws pictures.
        kwargs: handed to `gymnasium.make`.

    Attributes:
        native: descriptions of the environment's own spaces; None when they have none.

    Raises:
        ConfigurationError: unknown id, with near matches; a package is missing, and which.
    """

    metadata = _METADATA

    def __init__(self, *, id: str, screenshot: bool = True, **kwargs: Any) -> None:
        self.id = id
        self._env = _make(find(id), screenshot, dict(kwargs))
        self.render_mode = "rgb_array" if self._env.render_mode == "rgb_array" else None
        self.native = _native(self._env)
        self.observation_space = ScreenSpace()
        self.action_space = CallSpace(_examples(self._env.action_space))
        self._tool = act_tool(id, self._env)
        self._return = 0.0
        self._seen: Any = None

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; `options["task"]["params"]["options"]` are the environment's own."""
        super().reset(seed=seed)
        given = {key: value for key, value in (options or {}).items() if key != "task"}
        task = (options or {}).get("task") or {}
        given |= task.get("params", {}).get("options") or {}
        self._seen, info = self._env.reset(seed=seed, options=given or None)
        self._return = 0.0
        return self._show(""), {**self._info(info), "tools": [self._tool]}

    def step(self, action: Mapping[str, Any]) -> Returned:
        """Play one call of `act`; `terminate` ends the episode, anything else is refused."""
        name, arguments = action.get("name"), action.get("arguments")
        if name == "terminate":
            return self._show("ended by you"), 0.0, True, False, self._info({})
        try:
            chosen = self._chosen(name, arguments if isinstance(arguments, Mapping) else {})
        except ValueError as refusal:
            text = f"refused: {refusal}; nothing happened"
            return {"text": text}, 0.0, False, False, self._info({}, refused=str(refusal))
        self._seen, reward, terminated, truncated, info = self._env.step(chosen)
        self._return += float(reward)
        note = f"reward {float(reward):.4g}, return {self._return:.4g}"
        if terminated or truncated:
            note += "; the episode is over"
        return self._show(note), float(reward), bool(terminated), bool(truncated), self._info(info)

    def evaluate(self) -> StateCheck | None:
        """The environment's own state check, if it offers one."""
        check = getattr(self._env.unwrapped, "evaluate", None)
        return check() if callable(check) else None

    def render(self) -> Any:
        """What the environment draws, uint8 [height, width, 3]; None where it draws nothing."""
        return self._drawing() if self._env.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the environment."""
        self._env.close()

    @classmethod
    def missing(cls, *, id: str | None = None) -> str | None:
        """The package that the environment needs and does not find, None when nothing.

        The family itself, without an id, needs nothing.

        Raises:
            ConfigurationError: no such id.
        """
        if id is None:
            return None
        try:
            _creator(find(id))
        except ConfigurationError as error:
            if error.where == _UNKNOWN:
                raise
            return str(error)
        return None

    def _chosen(self, name: Any, arguments: Mapping[str, Any]) -> Any:
        """The action in the environment's own type.

        Raises:
            ValueError: why it is refused.
        """
        if name != "act":
            raise ValueError(f"there is no tool {name!r} here, only 'act'")
        if "action" not in arguments:
            raise ValueError("act needs the argument 'action'")
        space, value = self._env.action_space, arguments["action"]
        if arguments.get("unchecked") is True:
            # gymnasium code may act outside of the space; many environments clip such an action
            return from_jsonable(space, value)
        return read_member(space, value, "action")

    def _show(self, note: str) -> dict[str, Any]:
        """The state as an agent sees it."""
        text = state_text(self.id, self._env.observation_space, self._seen)
        picture: Any = None
        if self._env.render_mode == "ansi":
            text = f"{text}\n{drawing_text(str(self._env.render()))}"
        elif self._env.render_mode == "rgb_array":
            picture = self._drawing()
        elif _is_picture(self._seen):
            picture = self._seen
        shown = {"text": "\n".join(filter(None, (text, note)))}
        return shown if picture is None else {**shown, "screenshot": picture}

    def _drawing(self) -> Any:
        drawn = self._env.render()
        return np.ascontiguousarray(drawn) if _is_picture(drawn) else None

    def _info(self, info: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """What gymnasium code reads: the native observation and info; an agent does not."""
        told: dict[str, Any] = {"return": self._return, **more, "info": pack_info(info)}
        if self.native is not None:
            space = self._env.observation_space
            told["observation"] = to_jsonable(space, self._seen)
        return told


def tasks(
    *, id: str, split: str, count: int = 256, goal: str | None = None, domain: str = "tools"
) -> Sequence[Task]:
    """A task a seed, for every registered environment: `gym/CartPole-v1:train`.

    Args:
        id: of the environment.
        split: its seeds are those of no other split.
        count: how many.
        goal: what the agent is told.
        domain: of the tasks.
    """
    told = goal or f"Act in {id} so that the return, the sum of all rewards, becomes large."
    first = (SPLITS.index(split) + 1) * 1_000_000
    return [
        Task(f"gym/{id}/{first + k}", told, domain, split, seed=first + k, template=f"gym/{id}")
        for k in range(count)
    ]


_UNKNOWN = "gymnasium's registry"


def find(id: str) -> gymnasium.envs.registration.EnvSpec:
    """The specification that gymnasium registered.

    Raises:
        ConfigurationError: with near matches.
    """
    module, _, name = id.rpartition(":")
    try:
        if module:
            import_module(module)
        return gymnasium.spec(name)
    except (gymnasium.error.Error, ImportError) as error:
        close = difflib.get_close_matches(name, gymnasium.registry, n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else _one_line(error)
        if not module and not close:
            hint += f" (gym/<module>:{name} imports a module first)"
        raise ConfigurationError(
            f"no gymnasium environment {id!r}", where=_UNKNOWN, next=hint
        ) from None


def _make(spec: gymnasium.envs.registration.EnvSpec, draw: bool, kwargs: dict[str, Any]) -> Native:
    modes = getattr(_creator(spec), "metadata", {}).get("render_modes", ())
    if "render_mode" not in kwargs:
        wanted = ("rgb_array", "ansi") if draw else ("ansi",)
        mode = next((mode for mode in wanted if mode in modes), None)
        kwargs |= {} if mode is None else {"render_mode": mode}
    try:
        environment: Native = gymnasium.make(spec, disable_env_checker=True, **kwargs)
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise _lacking(spec.id, error) from error
    except (gymnasium.error.Error, TypeError) as error:
        raise ConfigurationError(_one_line(error), where=f"gymnasium's {spec.id}") from error
    try:
        if environment.render_mode in ("rgb_array", "ansi"):
            # a missing drawing library shows at the first drawing only
            environment.reset(seed=0)
            environment.render()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        environment.close()
        raise _lacking(spec.id, error, " (or set screenshot = false)") from error
    return environment


def _creator(spec: gymnasium.envs.registration.EnvSpec) -> Any:
    entry = spec.entry_point
    try:
        return load_env_creator(entry) if isinstance(entry, str) else entry
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise _lacking(spec.id, error) from error


def _lacking(id: str, error: Exception, otherwise: str = "") -> ConfigurationError:
    found = " && ".join(_INSTALL.findall(str(error)))
    what = _one_line(error).partition(",")[0]
    next = f"{found or 'install it'}{otherwise}"
    return ConfigurationError(what, where=f"gymnasium's {id}", next=next)


def _native(environment: Native) -> dict[str, Any] | None:
    action = describe_space(environment.action_space)
    try:
        observation = describe_space(environment.observation_space)
    except ConfigurationError:
        return None
    return {"observation_space": observation, "action_space": action}


def _examples(space: gymnasium.Space[Any]) -> list[dict[str, Any]]:
    if isinstance(space, spaces.Discrete) and space.n <= _MAX_EXAMPLES:
        values: list[Any] = [int(space.start) + k for k in range(int(space.n))]
    else:
        space.seed(0)
        values = [to_jsonable(space, space.sample()) for _ in range(_MAX_EXAMPLES)]
    return [{"name": "act", "arguments": {"action": value}} for value in values]


def _is_picture(value: Any) -> bool:
    is_array = isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 3
    return bool(is_array and value.shape[2] == 3 and value.size)


def _one_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
