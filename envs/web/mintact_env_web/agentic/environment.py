"""`web/sites`: written sites in a real browser."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from mintact_env_web.agentic.site import META, WrittenSite, load, sites_in
from mintact_env_web.agentic.source import SitesSource
from mintact_env_web.browser.frames import FrameFormat
from mintact_env_web.environment import WebEnvironment
from mintact_platform.environments.settings import Pixels
from mintact_platform.errors import ConfigurationError, near_match

_RECENT = 64


class Served(WebEnvironment):
    """Written sites, wherever they come from.

    Args:
        source: gives them.
        options: of `WebEnvironment`.
    """

    source: SitesSource

    def __init__(self, source: SitesSource, **options: Any) -> None:
        super().__init__(source, **options)


class Sites(Served):
    """The site of the task, from a folder of admitted sites; nothing leaves it.

    Args:
        sites: the folder, the one that the task set was read from.
        width: of the screenshot, pixels.
        height: pixels.
        with_url: begin the observation's text with the URL.
        image_format: encoding of screenshots.
    """

    def __init__(
        self,
        *,
        sites: str,
        width: Pixels = 1280,
        height: Pixels = 720,
        with_url: bool = False,
        image_format: FrameFormat = "jpeg",
    ) -> None:
        root = Path(sites).expanduser()
        super().__init__(
            SitesSource(lru_cache(_RECENT)(lambda name: site_of(root, name))),
            width=width,
            height=height,
            with_url=with_url,
            image_format=image_format,
        )


def site_of(root: Path, name: str) -> WrittenSite:
    """An admitted site of a folder.

    Raises:
        ConfigurationError: there is none of this name, or it was never admitted.
    """
    folders = {folder.name: folder for folder in sites_in(root)}
    if name not in folders:
        raise ConfigurationError(
            f"no site {name!r}", where=str(root), next=near_match(name, folders)
        )
    site = load(folders[name])
    if site.start is None:
        raise ConfigurationError(
            "the site was never admitted", where=str(folders[name] / META), next="mintact web admit"
        )
    return site
