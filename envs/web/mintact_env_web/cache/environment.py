"""`web/cache`: recorded sites without a network; `web/record`: a live site, recorded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from mintact_env_web.cache.replay import ReplaySource
from mintact_env_web.environment import Info, Observation, WebEnvironment
from mintact_platform.environments.settings import Pixels, Seconds


class Cache(WebEnvironment):
    """A recorded site; what the agent does is answered as the site answered it then.

    `info["replay"]` counts what became of the episode's requests. A document that the recording
    lacks is a failure of the environment, not of the agent.

    Args:
        sites: directory of recorded sites, the one that the task set was read from.
        width: of the screenshot, pixels; what the site was recorded with.
        height: pixels.
        with_url: begin the observation's text with the URL.
        image_format: encoding of screenshots.
        network: `none` also takes the browser's network interface away, at the price of a
            browser of its own.
        settle_s: how long a page may take to come to rest.
    """

    source: ReplaySource

    def __init__(
        self,
        *,
        sites: str,
        width: Pixels = 1280,
        height: Pixels = 720,
        with_url: bool = False,
        image_format: Literal["jpeg", "png"] = "jpeg",
        network: Literal["none", "proxy-lock"] = "proxy-lock",
        settle_s: Seconds = 4.0,
    ) -> None:
        super().__init__(
            ReplaySource(Path(sites).expanduser()),
            width=width,
            height=height,
            with_url=with_url,
            image_format=image_format,
            network=network,
            settle_s=settle_s,
        )

    async def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begin the task's recording."""
        observation, info = await super().reset(seed=seed, options=options)
        return observation, {**info, "replay": self.source.counts.to_json()}

    async def step(self, action: Mapping[str, Any]) -> tuple[Observation, float, bool, bool, Info]:
        """See `WebEnvironment.step`."""
        observation, reward, terminated, truncated, info = await super().step(action)
        told = {**info, "replay": self.source.counts.to_json()}
        return observation, reward, terminated, truncated, told
