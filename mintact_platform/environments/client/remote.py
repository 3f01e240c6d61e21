"""A leased environment as an ordinary `gymnasium.Env`, for synchronous code.

Wrappers, vector environments and trainers written for gymnasium use it as if it were local;
`Lease` is its asynchronous twin. Importing this module registers `mintact/Remote-v0`.
"""

from __future__ import annotations

import functools
import io
import itertools
import os
import secrets
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, Literal, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from mintact_platform.config import Deadlines
from mintact_platform.environments.client.background import Background, Server, background
from mintact_platform.environments.client.lease import Lease
from mintact_platform.environments.client.transport import TransportName
from mintact_platform.environments.protocol.arraycodec import unpack_info
from mintact_platform.environments.protocol.spacecodec import space_of
from mintact_platform.environments.protocol.spacevalues import from_jsonable, to_jsonable, words
from mintact_platform.environments.protocol.wire import EncodedImage, ImageFormat, Observation
from mintact_platform.environments.spaces import CallSpace, ScreenSpace
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task
from mintact_platform.records.verdict import StateCheck

T = TypeVar("T")
Picture = npt.NDArray[np.uint8]
_METADATA: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}
_GIVE_UP = 10.0
_LARGEST_SEED = 2**31 - 1


class RemoteEnvironment(gymnasium.Env[Any, Any]):
    """One instance on an environment server, leased while this object lives.

    `gym/<id>` has the spaces, observations and infos of that gymnasium environment; other
    environments take calls `{"name", "arguments"}` and show `{"screenshot", "text"}`. After a
    failure the next `reset` leases another instance. Pickled, it is the recipe for another lease.

    Args:
        url: of the environment server.
        environment: registered name, or `module:attribute`.
        params: the environment's parameters.
        bearer: token of a server that wants one.
        deadlines: of create, reset, step, evaluate and close, in seconds; None takes the defaults.
        image_format: encoding of screenshots on their way.
        python: interpreter of the worker, one that the server allows.
        transport: how calls travel; `auto` prefers the stream.
        render_mode: `rgb_array` lets `render` return the last screenshot. A `gym/` environment
            draws only then, unless its parameter `screenshot` says otherwise.

    Attributes:
        description: `domain`, `action_space` and more of the environment, see `Lease`.

    Raises:
        EnvironmentFailure: no instance could be leased.
        ConfigurationError: the server refuses the request for good.

    Example:
        >>> env = RemoteEnvironment("http://127.0.0.1:8000", "gym/CartPole-v1")  # doctest: +SKIP
        >>> observation, info = env.reset(seed=1)  # doctest: +SKIP
    """

    metadata = _METADATA

    def __init__(
        self,
        url: str,
        environment: str,
        *,
        params: Mapping[str, Any] | None = None,
        bearer: str | None = None,
        deadlines: Deadlines | None = None,
        image_format: ImageFormat = "png",
        python: str | None = None,
        transport: TransportName = "auto",
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        self._recipe: dict[str, Any] = {
            "url": url,
            "environment": environment,
            "params": params,
            "bearer": bearer,
            "deadlines": deadlines,
            "image_format": image_format,
            "python": python,
            "transport": transport,
            "render_mode": render_mode,
        }
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigurationError(
                f"no render mode {render_mode!r}", where="remote environment", next="use rgb_array"
            )
        self.render_mode = render_mode
        self._deadlines = deadlines or Deadlines()
        self._server = Server(url, bearer, transport)
        draws = {"screenshot": render_mode is not None} if environment.startswith("gym/") else {}
        self._wanted = {
            "environment": environment,
            "params": {**draws, **(params or {})},
            "image_format": image_format,
            "python": python,
        }
        self._held = _Held()
        weakref.finalize(self, self._held.forget, self._deadlines.close).atexit = False
        self._episodes = itertools.count()
        self._steps: int | None = None
        self._picture: EncodedImage | None = None
        self._take_spaces(self._lease())

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: of this and, as gymnasium has it, of all later episodes until the next seed.
            options: `task` is a `Task` or its JSON values; a `gym/` environment gets the others.

        Raises:
            EnvironmentFailure: phase `create` or `reset`.
        """
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(_LARGEST_SEED)) if seed is None else int(seed)
        task = self._task(dict(options or {}))
        self._steps = None
        lease = self._lease()
        episode = f"{lease.id}-{next(self._episodes)}"
        work = lease.reset(episode=episode, task=task, seed=chosen, deadline=self._deadlines.reset)
        observation, info = self._read(self._wait(work))
        self._steps = 0
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Carry out an action, on the server exactly once.

        Raises:
            EnvironmentFailure: phase `step`; the episode is lost.
            ResetNeeded: there is no episode.
            ValueError: the action is none of the action space.
        """
        lease = self._playing("step")
        assert self._steps is not None
        work = lease.step(
            step=self._steps, action=self._call(action), deadline=self._deadlines.step
        )
        reply = self._wait(work)
        observation, info = self._read(reply)
        self._steps += 1
        return observation, reply.reward, reply.terminated, reply.truncated, info

    def evaluate(self) -> StateCheck | None:
        """The environment's reading of its state, outside the agent's reach; None without one.

        Raises:
            EnvironmentFailure: phase `evaluate`.
            ResetNeeded: there is no episode.
        """
        lease = self._playing("evaluate")
        return self._wait(lease.evaluate(deadline=self._deadlines.evaluate))

    @property
    def instance(self) -> str:
        """Name of the leased instance, for logs; "" without a lease."""
        lease = self._held.mine()
        return "" if lease is None else lease.instance

    def render(self) -> Picture | None:
        """The last screenshot, uint8 [height, width, 3]; None without one or without a mode."""
        if self.render_mode is None or self._picture is None:
            return None
        return _pixels(self._picture)

    def close(self) -> None:
        """Give the lease back; a later `reset` takes another."""
        self._steps = self._picture = None
        self._held.give_back(self._deadlines.close)
        super().close()

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), **self._recipe), ()

    def _lease(self) -> Lease:
        """The lease, or another one where it broke or belongs to a parent process."""
        return self._held.mine() or self._held.take(
            self._server, deadline=self._deadlines.create, **self._wanted
        )

    def _playing(self, what: str) -> Lease:
        lease = self._held.mine()
        if lease is None or self._steps is None:
            raise gymnasium.error.ResetNeeded(f"cannot call {what} before reset")
        return lease

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for a call; one that failed or was interrupted costs the episode and the lease."""
        try:
            return background().wait(work)
        except BaseException:
            self._lose()
            raise

    def _lose(self) -> None:
        self._steps = None
        self._held.forget(self._deadlines.close)

    def _take_spaces(self, lease: Lease) -> None:
        self.description = lease.description
        native = lease.description.get("native") or {}
        action, observation = native.get("action_space"), native.get("observation_space")
        self.action_space = CallSpace() if action is None else space_of(action)
        self.observation_space = ScreenSpace() if observation is None else space_of(observation)

    def _task(self, options: dict[str, Any]) -> Task:
        given = options.pop("task", None)
        if isinstance(given, Task):
            task = given
        elif given:
            task = Task.from_json(given)
        else:
            task = Task("", "", str(self.description.get("domain") or ""))
        if not options:
            return task
        return Task.from_json({**task.to_json(), "params": {**task.params, "options": options}})

    def _call(self, action: Any) -> dict[str, Any]:
        """The action as the environment takes it.

        Raises:
            ValueError: it is none of the space. Only in a box it may lie outside: many
                environments clip such an action themselves.
        """
        space = self.action_space
        if isinstance(space, spaces.Box):
            action = np.asarray(action)
        inside = space.contains(action)
        if isinstance(space, CallSpace):
            if not inside:
                raise ValueError(f"the action must be {{'name', 'arguments'}}, got {action!r}")
            return dict(action)
        if inside:
            return {"name": "act", "arguments": {"action": to_jsonable(space, action)}}
        if not isinstance(space, spaces.Box) or np.shape(action) != space.shape:
            raise ValueError(f"the action must be {words(space)}, got {action!r}")
        value = to_jsonable(space, action)
        return {"name": "act", "arguments": {"action": value, "unchecked": True}}

    def _read(self, reply: Observation) -> tuple[Any, dict[str, Any]]:
        self._picture = reply.images[-1] if reply.images else self._picture
        if isinstance(self.observation_space, ScreenSpace):
            info = {**reply.info} if reply.tools is None else {**reply.info, "tools": reply.tools}
            return _screen(reply), info
        try:
            value = from_jsonable(self.observation_space, reply.info["observation"])
            info = unpack_info(reply.info.get("info", {}))
        except (KeyError, ValueError) as error:
            phase = "reset" if self._steps is None else "step"
            self._lose()
            raise EnvironmentFailure(
                f"no observation of {self.observation_space}: {error}",
                phase=phase,
                kind="invalid",
                where=str(self._wanted["environment"]),
            ) from None
        return value, info


class _Held:
    """The lease of a remote environment; apart from it, so that its end can give the lease back."""

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self._background: Background | None = None

    def mine(self) -> Lease | None:
        """The lease, None when there is none or a parent process holds it."""
        if self._background is None or self._background.pid != os.getpid():
            return None
        return self._lease

    def take(self, server: Server, **options: Any) -> Lease:
        """Lease an instance."""
        held = self._background = background()
        key = f"remote-{os.getpid()}-{secrets.token_hex(8)}"
        try:
            self._lease = held.wait(held.lease(server, key=key, **options))
        except BaseException:
            # interrupted just when it was made, it would be kept alive for nobody
            held.release_soon(key, _GIVE_UP)
            raise
        return self._lease

    def give_back(self, deadline: float) -> None:
        """Give the lease back and wait for that."""
        lease = self.mine()
        self._lease = None
        if lease is not None and self._background is not None:
            self._background.wait(self._background.release(lease, deadline))

    def forget(self, deadline: float) -> None:
        """Give the lease back without waiting; safe in a finalizer, which may run anywhere."""
        lease = self.mine()
        self._lease = None
        if lease is not None and self._background is not None:
            self._background.release_soon(lease, deadline)


def _screen(reply: Observation) -> dict[str, Any]:
    *others, last = map(_pixels, reply.images) if reply.images else (None,)
    shown: dict[str, Any] = {"text": reply.text}
    if last is not None:
        shown["screenshot"] = last
    if others:
        shown["images"] = others
    return shown


def _pixels(image: EncodedImage) -> Picture:
    # imported here: most gymnasium environments are never drawn
    from PIL import Image

    with Image.open(io.BytesIO(image.data)) as opened:
        return np.array(opened.convert("RGB"), np.uint8)


ID = "mintact/Remote-v0"
if ID not in gymnasium.registry:
    gymnasium.register(ID, entry_point=f"{__name__}:RemoteEnvironment", order_enforce=False)
