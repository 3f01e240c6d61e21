"""The page that every contestant clicks: twenty cards, and a count that every click raises."""

from __future__ import annotations

WIDTH, HEIGHT = 1280, 720
COLUMNS, ROWS = 5, 4
URL = "http://cards.test/"
COUNT = "window.clicks"

_CARD = (
    '<button class="card" style="background: linear-gradient({angle}deg, hsl({hue} 70% 80%), '
    'hsl({next} 60% 55%))"><b>Card {number}</b><span>Seen 0 times</span></button>'
)
_STYLE = f"""
* {{ box-sizing: border-box; margin: 0 }}
body {{ width: {WIDTH}px; height: {HEIGHT}px; padding: 10px; display: grid; gap: 10px;
  grid-template: repeat({ROWS}, 1fr) / repeat({COLUMNS}, 1fr); font: 16px sans-serif }}
.card {{ border: 1px solid #789; border-radius: 12px; box-shadow: 0 2px 6px #0006; padding: 20px }}
.card span {{ display: block; margin-top: 10px }}
.on {{ outline: 4px solid #124 }}
"""
_SCRIPT = """
window.clicks = 0;
for (const card of document.querySelectorAll(".card")) {
  let seen = 0;
  card.onclick = () => {
    window.clicks += 1;
    card.classList.toggle("on");
    card.lastChild.textContent = `Seen ${++seen} times`;
  };
}
"""


def html() -> str:
    """The page."""
    cards = "".join(
        _CARD.format(number=n + 1, angle=18 * n, hue=17 * n % 360, next=(17 * n + 60) % 360)
        for n in range(COLUMNS * ROWS)
    )
    return f"<!doctype html><style>{_STYLE}</style>{cards}<script>{_SCRIPT}</script>"


def target(number: int) -> tuple[int, int]:
    """The middle of a card, another one for every step, in pixels."""
    card = 7 * number % (COLUMNS * ROWS)
    column, row = card % COLUMNS, card // COLUMNS
    return int((column + 0.5) * WIDTH / COLUMNS), int((row + 0.5) * HEIGHT / ROWS)
