"""The coordinate grid a model speaks in, and its conversion to pixels of a screenshot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Grid:
    """Positions 0..steps along each side of a screenshot, whatever its size.

    Attributes:
        steps: value of the far edge (999 for Qwen-VL agents); 0 means that the model speaks in
            pixels of the screenshot it sees.
    """

    steps: int = 999

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise ValueError(f"a grid needs 0 or more steps, got {self.steps}")

    def to_pixel(self, value: float, extent: int) -> int:
        """The pixel at a grid value along a side of `extent` pixels, always on the screen.

        The far edge of the grid is one pixel outside (`steps · extent / steps = extent`), so it is
        clamped, as everything beyond it is.

        Example:
            >>> Grid(999).to_pixel(500, 1280), Grid(999).to_pixel(999, 1280)
            (640, 1279)
        """
        if not self.steps:
            return int(min(max(value, 0), extent - 1))
        inside = min(max(value, 0), self.steps)
        return min(extent - 1, int(inside * extent / self.steps))

    def to_grid(self, pixel: float, extent: int) -> int:
        """The grid value nearest to a pixel's near edge; inverse of `to_pixel` up to rounding.

        Going there and back moves a pixel by at most `extent / (2 · steps) + 1`.
        """
        inside = min(max(pixel, 0), extent - 1)
        return round(inside * self.steps / extent) if self.steps else int(inside)
