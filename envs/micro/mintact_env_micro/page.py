"""The web form as HTML: one live page, or many still forms side by side on a sheet."""

from __future__ import annotations

from collections.abc import Sequence

from mintact_env_micro.scene import COLOURS, SIZE
from mintact_env_micro.web import WebState, block_box, button_box, label_box
from mintact_platform.records.demonstration import Box

# No round corners: their antialiasing depends on where on the sheet a form stands.
STYLE = """
html, body { margin: 0; background: #fff; overflow: hidden; }
form { position: absolute; width: 128px; height: 128px; overflow: hidden; background: #fff; }
form * { position: absolute; box-sizing: border-box; margin: 0; padding: 0; outline: none; }
input { width: 92px; height: 27px; padding: 0 0 3px 12px; border: 1px solid #bebebe;
        border-radius: 0; background: #fff; color: #000; font: bold 15px sans-serif;
        caret-color: transparent; }
.focused input { border: 3px solid #000; padding: 0 0 3px 10px; }
.filled input { box-shadow: inset 0 -4px #282828; }
button { border: 0; border-radius: 0; background: #1e1e32; color: #fff;
         font: bold 10px sans-serif; }
.sent button { background: #78dc78; }
"""

# Classes, not pseudo-classes, carry what is seen: a sheet shows many focused fields at once.
# A block, because the next episode is written into the same global scope.
SCRIPT = """{
const form = document.forms[0];
for (const label of form.querySelectorAll("label")) {
  const input = label.querySelector("input");
  input.addEventListener("focus", () => label.classList.add("focused"));
  input.addEventListener("blur", () => label.classList.remove("focused"));
  input.addEventListener("input", () => label.classList.toggle("filled", input.value !== ""));
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  form.classList.add("sent");
  for (const input of form.querySelectorAll("input")) input.readOnly = true;
});
}"""

READ_STATE = """() => ({
  typed: [...document.querySelectorAll("input")].map((input) => input.value),
  sent: document.forms[0].classList.contains("sent"),
  episode: document.documentElement.dataset.episode,
})"""


def live_page(state: WebState, episode: str = "") -> str:
    """The whole document of an episode, as it loads."""
    return _document(_form(state, 0, 0), f"<script>{SCRIPT}</script>", episode)


def sheet(states: Sequence[WebState], columns: int) -> str:
    """A document that shows the states as still forms, row by row, `columns` in a row."""
    places = [((i % columns) * SIZE, (i // columns) * SIZE) for i in range(len(states))]
    forms = [_form(state, x, y) for state, (x, y) in zip(states, places, strict=True)]
    return _document("".join(forms))


def _document(body: str, script: str = "", episode: str = "") -> str:
    return (
        f'<!doctype html><html lang="en" data-episode="{episode}"><meta charset="utf-8">'
        f"<title>form</title><style>{STYLE}</style><body>{body}{script}</body></html>"
    )


def _form(state: WebState, left: int, top: int) -> str:
    fields = "".join(_field(state, i) for i in range(3))
    button = f'<button style="{_placed(button_box(state.place))}">Send</button>'
    sent = "sent" if state.sent else ""
    return f'<form class="{sent}" style="left:{left}px;top:{top}px">{fields}{button}</form>'


def _field(state: WebState, i: int) -> str:
    name, text = state.fields[i], state.typed[i]
    classes = ("focused " if state.focus == name else "") + ("filled" if text else "")
    box = label_box(i)
    x0, y0, x1, y1 = block_box(i)
    colour = "rgb({},{},{})".format(*COLOURS[name])
    block = _placed((x0 - box[0], y0 - box[1], x1 - box[0], y1 - box[1]))
    return (
        f'<label class="{classes}" style="{_placed(box)}">'
        f'<span style="{block};background:{colour}"></span>'
        f'<input style="left:30px;top:0" value="{text}" autocomplete="off" spellcheck="false">'
        f"</label>"
    )


def _placed(box: Box) -> str:
    """The box as CSS; boxes name their last pixel, CSS sizes count pixels."""
    x0, y0, x1, y1 = (int(v) for v in box)
    return f"left:{x0}px;top:{y0}px;width:{x1 - x0 + 1}px;height:{y1 - y0 + 1}px"
