"""`web/synth`: procedural sites in a real browser."""

from __future__ import annotations

from mintact_env_web.browser.frames import FrameFormat
from mintact_env_web.environment import WebEnvironment
from mintact_env_web.synth.source import SynthSource
from mintact_platform.environments.settings import Pixels


class Synth(WebEnvironment):
    """The site of the task, served inside the browser's context; nothing leaves it.

    Args:
        width: of the screenshot, pixels.
        height: pixels.
        with_url: begin the observation's text with `URL: …`.
        image_format: encoding of screenshots.
    """

    source: SynthSource

    def __init__(
        self,
        *,
        width: Pixels = 1280,
        height: Pixels = 720,
        with_url: bool = False,
        image_format: FrameFormat = "jpeg",
    ) -> None:
        super().__init__(
            SynthSource(),
            width=width,
            height=height,
            with_url=with_url,
            image_format=image_format,
        )
