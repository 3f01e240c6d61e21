"""Exact text in the field that has the focus, read back; and the lists of a form."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mintact_env_web.browser.keys import has_key
from mintact_env_web.browser.scripts import script

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame, Page

KEY_BY_KEY = 200
"""Longer texts are put in at once: a page that listens to every key has heard enough of them."""
MAX_TEXT = 100_000
MAX_SHOWN = 200
SECOND_LOOK_S = 0.05
_MAX_FRAMES = 10
_ACTIVE = script("fields.js")


@dataclass(frozen=True)
class Field:
    """The element that has the focus.

    Attributes:
        handle: the element.
        kind: `value` (input, textarea), `content` (editable document), `picker` (dates, colours,
            sliders), `none`.
        type: of an input, else its tag.
        multiline: whether it holds line breaks.
        secret: a password.
        head: text before the caret or selection, None where the browser does not say.
        tail: text after it.
        text: all of it.
    """

    handle: ElementHandle
    kind: str
    type: str
    multiline: bool
    secret: bool
    head: str | None
    tail: str | None
    text: str


async def focused(page: Page) -> Field | None:
    """The element that has the focus, through shadow roots and frames; None for none."""
    frame: Frame | None = page.main_frame
    for _ in range(_MAX_FRAMES):
        if frame is None:
            return None
        handle = (await frame.evaluate_handle(f"({_ACTIVE}).active()")).as_element()
        if handle is None:
            return None
        inner = await handle.content_frame()
        if inner is None:
            return await _describe(handle)
        frame = inner
    return None


async def write(page: Page, text: str) -> str | None:
    """Type text where the caret is, and read it back.

    Every character arrives as it is: those on the keyboard as key presses, all others as input.
    A line break is never an Enter. Dates, colours and sliders take their value in one piece.

    Returns:
        None when the field holds what was typed, or cannot be read; else what it holds instead.
    """
    text, complaint = _clean(text)
    if complaint is not None:
        return complaint
    field = await focused(page)
    if field is None or field.kind == "none":
        await _send(page, text, field)
        return "No field has the focus; the keys went to the page."
    if field.kind == "picker":
        return await _set(field, text)
    said = None
    if "\n" in text and not field.multiline:
        text = text.rstrip("\n").replace("\n", " ")
        said = "The field holds one line; line breaks were left out."
    await _send(page, text, field)
    return await _compare(field, text) or said


async def paste(page: Page, text: str) -> str | None:
    """Insert the episode's clipboard as ctrl+v does."""
    if not text:
        return "The clipboard is empty."
    field = await focused(page)
    if field is None:
        return "No field has the focus."
    if await field.handle.evaluate(f"(element, text) => ({_ACTIVE}).paste(element, text)", text):
        await page.keyboard.insert_text(text)
    return None


async def select(page: Page, point: tuple[float, float], option: str) -> str | None:
    """Choose an option of the list at a point by its words or value.

    Returns:
        None when it is chosen, else why not.
    """
    frame: Frame | None = page.main_frame
    x, y = point
    for _ in range(_MAX_FRAMES):
        if frame is None:
            break
        handle = (
            await frame.evaluate_handle(f"([x, y]) => ({_ACTIVE}).at(x, y)", [x, y])
        ).as_element()
        if handle is None:
            break
        inner = await handle.content_frame()
        if inner is None:
            found: dict[str, Any] = await handle.evaluate(
                f"(element) => ({_ACTIVE}).options(element)"
            )
            return await _choose(handle, found["options"], option)
        x, y = await handle.evaluate(
            f"(element, point) => ({_ACTIVE}).inside(element, point)", [x, y]
        )
        frame = inner
    return "there is no list at this position"


async def _choose(handle: ElementHandle, options: list[str] | None, option: str) -> str | None:
    if options is None:
        return "there is no list at this position"
    wanted = [index for index, words in enumerate(options) if _same(words, option)]
    if not wanted:
        shown = ", ".join(repr(words) for words in options[:20])
        return f"the list has no option {option!r}; it has {shown}"
    await handle.evaluate(f"(element, index) => ({_ACTIVE}).choose(element, index)", wanted[0])
    return None


def _same(one: str, other: str) -> bool:
    return " ".join(one.split()).casefold() == " ".join(other.split()).casefold()


def _clean(text: str) -> tuple[str, str | None]:
    """The text with one kind of line break, and why it cannot be typed."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    if len(plain) > MAX_TEXT:
        return "", f"Nothing was typed: the text has over {MAX_TEXT} characters."
    for character in plain:
        if 0xD800 <= ord(character) <= 0xDFFF or (character < " " and character not in "\n\t"):
            return "", f"Nothing was typed: {character!r} is no character that can be typed."
    return plain, None


async def _send(page: Page, text: str, field: Field | None) -> None:
    """Key presses and insertions, in order."""
    keyboard = page.keyboard
    content = field is not None and field.kind == "content"
    nowhere = field is None or field.kind == "none"
    for run, by_key in _runs(text, by_keys=len(text) <= KEY_BY_KEY):
        if by_key:
            await keyboard.type(run)
        elif run == "\n" and content:
            # a plain line break, which sends no message and ends no paragraph
            await keyboard.press("Shift+Enter")
        elif nowhere and run in ("\n", "\t"):
            await keyboard.press("Enter" if run == "\n" else "Tab")
        else:
            await keyboard.insert_text(run)


def _runs(text: str, *, by_keys: bool) -> list[tuple[str, bool]]:
    """The text in pieces: whether they are typed key by key; line breaks and tabs by themselves."""
    runs: list[tuple[str, bool]] = []
    for character in text:
        by_key = by_keys and has_key(character)
        alone = character in "\n\t"
        if runs and not alone and runs[-1][1] == by_key and runs[-1][0] not in ("\n", "\t"):
            runs[-1] = (runs[-1][0] + character, by_key)
        else:
            runs.append((character, by_key))
    return runs


async def _compare(field: Field, text: str) -> str | None:
    """What the field holds instead of what was typed, None when it is as it should be."""
    for attempt in range(2):
        if attempt:
            await asyncio.sleep(SECOND_LOOK_S)
        try:
            now = await _describe(field.handle)
        except Exception:
            # the page took the field away, as a search that opens its results does
            return None
        if _matches(field, now, text):
            return None
    if field.secret:
        return f"The field holds {len(now.text)} characters, not what was typed."
    return f"The field does not hold what was typed; it holds {_shown(now.text)}."


def _matches(before: Field, now: Field, text: str) -> bool:
    if before.kind == "content":
        added = _spaced(now.text).replace(" ", "")
        return _spaced(text).replace(" ", "") in added
    if before.head is None or before.tail is None:
        return now.text in (before.text + text, text + before.text)
    return now.text == before.head + text + before.tail


async def _set(field: Field, text: str) -> str | None:
    """Give a picker its value; its own form of it is the international one."""
    held: str = await field.handle.evaluate(
        f"(element, text) => ({_ACTIVE}).set(element, text)", text.strip()
    )
    if held == text.strip():
        return None
    form = {
        "date": "YYYY-MM-DD",
        "time": "HH:MM",
        "datetime-local": "YYYY-MM-DDTHH:MM",
        "month": "YYYY-MM",
        "week": "YYYY-Www",
        "color": "#rrggbb",
    }.get(field.type, "a number")
    return f"The field takes {form}; it holds {_shown(held)}."


async def _describe(handle: ElementHandle) -> Field:
    found: dict[str, Any] = await handle.evaluate(f"(element) => ({_ACTIVE}).describe(element)")
    return Field(handle=handle, **found)


def _spaced(text: str) -> str:
    return " ".join(text.replace("\u00a0", " ").split())


def _shown(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…")
