"""Names of keys as models write them, to the names the browser knows."""

from __future__ import annotations

from mintact_platform.errors import near_match

_NAMED = (
    "Enter Tab Escape Backspace Delete Insert Home End PageUp PageDown ArrowUp ArrowDown ArrowLeft "
    "ArrowRight CapsLock NumLock ScrollLock Pause PrintScreen ContextMenu Shift Control Alt Meta "
    "F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12"
).split()
_ALIASES = {
    "return": "Enter",
    "esc": "Escape",
    "del": "Delete",
    "ins": "Insert",
    "pgup": "PageUp",
    "prior": "PageUp",
    "pgdn": "PageDown",
    "pagedn": "PageDown",
    "next": "PageDown",
    "up": "ArrowUp",
    "down": "ArrowDown",
    "left": "ArrowLeft",
    "right": "ArrowRight",
    "ctrl": "Control",
    "ctl": "Control",
    "option": "Alt",
    "cmd": "Meta",
    "command": "Meta",
    "win": "Meta",
    "windows": "Meta",
    "super": "Meta",
    "menu": "ContextMenu",
    "space": "Space",
    "spacebar": "Space",
    "plus": "+",
    "minus": "-",
    "comma": ",",
    "period": ".",
    "slash": "/",
}
_KNOWN = {**{name.lower(): name for name in _NAMED}, **_ALIASES}
MODIFIERS = ("Control", "Shift", "Alt", "Meta")
_LAYOUT = frozenset(map(chr, range(0x20, 0x7F)))
"""Characters that have a key."""


def has_key(character: str) -> bool:
    """Whether a character can be typed by pressing a key."""
    return character in _LAYOUT


def read_combination(text: str) -> list[str]:
    """Keys to hold down in order, the last one to be pressed.

    Example:
        >>> read_combination("ctrl+shift+left"), read_combination("Return"), read_combination("+")
        (['Control', 'Shift', 'ArrowLeft'], ['Enter'], ['+'])

    Raises:
        ValueError: a name that no key has, with a near match.
    """
    names = _split(text)
    keys = [_key(name) for name in names]
    for key in keys[:-1]:
        if key not in MODIFIERS:
            raise ValueError(f"{key!r} cannot be held down; modifiers are {', '.join(MODIFIERS)}")
    if len(keys) > 1 and keys[-1].isalpha() and len(keys[-1]) == 1 and "Shift" not in keys:
        # ctrl+A is meant as the key A, not as a capital
        keys[-1] = keys[-1].lower()
    return keys


def _split(text: str) -> list[str]:
    bare = text if text == " " else text.strip()
    if len(bare) <= 1:
        return [bare]
    if bare.endswith("++"):
        return [*_split(bare[:-2]), "+"]
    parts = [part.strip() for part in bare.split("+")]
    first, dash, rest = bare.partition("-")
    if len(parts) == 1 and dash and rest and _KNOWN.get(_plain(first)) in MODIFIERS:
        return [first, *_split(rest)]
    return parts


def _key(name: str) -> str:
    if name == " ":
        return "Space"
    if len(name) == 1:
        return name
    known = _KNOWN.get(_plain(name))
    if known is None:
        options = [*_NAMED, "Space", "ctrl+a"]
        raise ValueError(f"no key is named {name!r}; {near_match(name, options)}")
    return known


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(" ", "").replace("-", "")
