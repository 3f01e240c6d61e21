"""Pages where fields have to be filled."""

import re

from acme_miniwob.hand import Hand
from acme_miniwob.solve.registry import numbers, ordinal, quoted, solves


@solves("enter-text", "enter-text-dynamic")
async def text(hand: Hand) -> None:
    await hand.type("#tt", quoted(hand.goal)[0])
    await hand.submit()


@solves("enter-text-2")
async def text_in_case(hand: Hand) -> None:
    (word,) = quoted(hand.goal)
    await hand.type("#tt", word.upper() if "upper" in hand.goal else word.lower())
    await hand.submit()


@solves("text-transform")
async def captcha(hand: Hand) -> None:
    await hand.type("#tt", "".join(e.text for e in await hand.all("#captcha span")))
    await hand.submit()


@solves("enter-password")
async def password(hand: Hand) -> None:
    for field in ("#password", "#verify"):
        await hand.type(field, quoted(hand.goal)[0])
    await hand.submit()


@solves("login-user", "login-user-popup")
async def login(hand: Hand) -> None:
    for field, words in zip(("#username", "#password"), quoted(hand.goal), strict=True):
        await hand.click(field)
        if await hand.all("#popup-cancel"):
            await hand.click("#popup-cancel")
        await hand.type(field, words)
    await hand.click("#subbtn")


@solves("enter-date")
async def date(hand: Hand) -> None:
    month, day, year = re.search(r"(\d+)/(\d+)/(\d+)", hand.goal).groups()
    await hand.click("#tt")
    await hand.write(f"{year}-{month}-{day}")
    await hand.submit()


@solves("enter-time")
async def time(hand: Hand) -> None:
    hour, minute, half = re.search(r"(\d+):(\d+) (AM|PM)", hand.goal).groups()
    await hand.click("#tt")
    await hand.write(f"{int(hour) % 12 + (12 if half == 'PM' else 0):02d}:{minute}")
    await hand.submit()


@solves("find-word")
async def word(hand: Hand) -> None:
    words = (await hand.one("#area p")).text.split()
    await hand.type("#answer-input", words[ordinal(hand.goal)].strip(",."))
    await hand.submit()


@solves("scroll-text")
async def last_word(hand: Hand) -> None:
    area = await hand.one("#text-area")
    await hand.scroll(area, 2000)
    await hand.type("#answer-input", area.value.split()[-1].strip(",."))
    await hand.submit()


@solves("scroll-text-2")
async def to_an_end(hand: Hand) -> None:
    await hand.scroll(await hand.one("#text-area"), 2000 if "bottom" in hand.goal else -2000)
    await hand.submit()


@solves("sign-agreement")
async def agreement(hand: Hand) -> None:
    if quoted(hand.goal):
        name, button = quoted(hand.goal)
        await hand.scroll(await hand.one("#text-area"), 5000)
        await hand.type("#name", name)
        await hand.click(f"#{button.lower()}")
    else:
        await hand.click("#cancel")


@solves("copy-paste", "copy-paste-2")
async def copy(hand: Hand) -> None:
    areas = await hand.all("#area textarea")
    await hand.click(areas[ordinal(hand.goal) if len(areas) > 1 else 0])
    for key in ("ctrl+a", "ctrl+c"):
        await hand.press(key)
    await hand.click("#answer-input")
    await hand.press("ctrl+v")
    await hand.submit()


@solves("read-table")
async def table(hand: Hand) -> None:
    key = re.search(r"value of (.*) into", hand.goal)[1]
    await hand.type("#tt", (await rows(hand))[key])
    await hand.submit()


@solves("read-table-2")
async def table_form(hand: Hand) -> None:
    known = await rows(hand)
    for number, label in enumerate(await hand.all("#form label"), start=1):
        await hand.type(f"#tt{number}", known[label.marks["data-key"]])
    await hand.submit()


async def rows(hand: Hand) -> dict[str, str]:
    cells = [cell.text for cell in await hand.all("#tab td")]
    return dict(zip(cells[::2], cells[1::2], strict=True))


@solves("simple-arithmetic")
async def arithmetic(hand: Hand) -> None:
    left, sign, right = (await hand.one("#math-problem")).text.strip("= ").split()
    a, b = int(left), int(right)
    await hand.type("#math-answer", str({"+": a + b, "-": a - b, "x": a * b}[sign]))
    await hand.submit()


@solves("simple-algebra")
async def algebra(hand: Hand) -> None:
    left, sign, right, _, result = (await hand.one("#math-problem")).text.split()
    total = int(result)
    if left == "x":
        answer = total - int(right) if sign == "+" else total + int(right)
    else:
        answer = total - int(left) if sign == "+" else int(left) - total
    await hand.type("#math-answer", str(answer))
    await hand.submit()


@solves("visual-addition")
async def blocks(hand: Hand) -> None:
    await hand.type("#math-answer", str(len(await hand.all(".addition-block"))))
    await hand.submit()


@solves("use-autocomplete", "use-autocomplete-nodelay")
async def autocomplete(hand: Hand) -> None:
    begin, *end = quoted(hand.goal)
    await hand.click("#tags")
    await hand.write(begin)
    await hand.act("wait")
    fits = [e for e in await hand.all(".ui-menu-item") if e.text.endswith(end[0] if end else "")]
    await hand.click(fits[0])
    await hand.submit()


@solves("use-spinner")
async def spinner(hand: Hand) -> None:
    wanted = numbers(hand.goal)[0]
    for _ in range(abs(wanted)):
        await hand.click(f".ui-spinner-{'up' if wanted > 0 else 'down'}")
    await hand.submit()


@solves("use-slider")
async def slider(hand: Hand) -> None:
    await slide(hand, "#slider", "#val", numbers(hand.goal)[0])
    await hand.submit()


@solves("use-slider-2")
async def sliders(hand: Hand) -> None:
    for index, wanted in enumerate(numbers(hand.goal)[:3], start=1):
        await slide(hand, f"#slider-{index}", f"#val-{index}", wanted)
    await hand.submit()


async def slide(hand: Hand, slider: str, shown: str, wanted: int) -> None:
    """Click the handle, then one arrow key after the other."""
    await hand.click(f"{slider} .ui-slider-handle")
    for _ in range(250):
        missing = wanted - int((await hand.one(shown)).text)
        if not missing:
            return
        await hand.press("ArrowRight" if missing > 0 else "ArrowLeft")
    raise AssertionError("the slider does not get there")


@solves("form-sequence")
async def slider_then_checkbox(hand: Hand) -> None:
    await slide(hand, "#slider", "#val", numbers(hand.goal)[0])
    await hand.click(f"#checkbox-{ordinal(hand.goal) + 1}")
    await hand.submit()


@solves("form-sequence-2")
async def radio_then_number(hand: Hand) -> None:
    radio, field = re.findall(r"(\d)(?:st|nd|rd)", hand.goal)
    await hand.click(f"#area input[type=radio][value='{radio}']")
    await hand.type(f"#input-{field}", quoted(hand.goal)[0])
    await hand.submit()


@solves("form-sequence-3")
async def list_then_button(hand: Hand) -> None:
    await hand.click(".selectric")
    wanted = re.search(r"Choose (.*) from", hand.goal)[1]
    await hand.click(".selectric-items li", wanted)
    await hand.click("#area button", quoted(hand.goal)[0])


@solves("guess-number")
async def guess(hand: Hand) -> None:
    low, high = 0, 9
    while not hand.ended:
        middle = (low + high) // 2
        await hand.type("#tt", str(middle))
        await hand.submit()
        if hand.ended:
            return
        higher = await hand.all("#higher")
        low, high = (middle + 1, high) if higher else (low, middle - 1)


@solves("number-checkboxes")
async def digit(hand: Hand) -> None:
    boxes = await hand.all("#checkboxes input")
    for row, line in enumerate(DIGITS[numbers(hand.goal)[0]].split()):
        for column, filled in enumerate(line):
            if filled == "#":
                await hand.click(boxes[4 * row + column])
    await hand.submit()


DIGITS = (
    ".##. #..# #..# #..# #..# #..# .##.",
    "..#. .##. ..#. ..#. ..#. ..#. ..#.",
    ".##. #..# #..# ..#. .#.. #... ####",
    ".##. #..# ...# .##. ...# #..# .##.",
    "#... #.#. #.#. #### ..#. ..#. ..#.",
    "#### #... #... ###. ...# #..# .##.",
    ".##. #..# #... ###. #..# #..# .##.",
    "#### #..# ...# ..#. ..#. .#.. .#..",
    ".##. #..# #..# .##. #..# #..# .##.",
    ".##. #..# #..# .### ...# #..# .##.",
)


@solves("multi-orderings", "multi-layouts")
async def movies(hand: Hand) -> None:
    pattern = r"for (\w+) movies directed by (\w+) from year (\d+)"
    genre, director, year = re.search(pattern, hand.goal).groups()
    for number, field in enumerate(await hand.all("#area input[type=text]")):
        name = await hand.environment.page.evaluate(LABEL, number)
        for words, value in (("genre", genre), ("director", director), ("year|date", year)):
            if re.search(words, name.lower()):
                await hand.type(field, value)
    await hand.click("#area button, #area .final, #area .ui-submit")


# the words next to a field: a placeholder, or what stands before it in the same block
LABEL = """(number) => {
  const field = document.querySelectorAll("#area input[type=text]")[number];
  if (field.placeholder) return field.placeholder;
  const row = field.closest("tr, p, .row");
  if (row && row.querySelectorAll("input").length === 1) return row.innerText;
  const beside = field.previousElementSibling ?? field.nextElementSibling;
  return (beside ?? field.parentElement.previousElementSibling).innerText;
}"""


@solves("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
async def date_picker(hand: Hand) -> None:
    await pick(hand, "#datepicker", re.search(r"\d+/\d+/\d+", hand.goal)[0])
    await hand.submit()


async def pick(hand: Hand, field: str, wanted: str) -> None:
    """Leaf through a calendar to `month/day/year`."""
    month, day, year = map(int, wanted.split("/"))
    await hand.click(field)
    for _ in range(24):
        shown = (await hand.one(".ui-datepicker-year")).text
        name = (await hand.one(".ui-datepicker-month")).text
        away = 12 * (year - int(shown)) + month - 1 - MONTHS.index(name[:3])
        if not away:
            return await hand.click("#ui-datepicker-div td a", str(day))
        await hand.click(".ui-datepicker-next" if away > 0 else ".ui-datepicker-prev")
    raise AssertionError("the month does not come")


MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@solves("text-editor")
async def editor(hand: Hand) -> None:
    everything = "everything" in hand.goal
    await hand.click("#editor .ql-editor")
    if everything:
        await hand.press("ctrl+a")
    else:
        page_text = (await hand.one("#editor .ql-editor")).text
        wanted = re.search(r"the text (.*?) the (?:style|color)", hand.goal)[1]
        start = page_text.split(" ").index(wanted)
        await hand.press("ctrl+Home")
        await hand.press("ArrowRight", len(" ".join(page_text.split(" ")[:start])) + (start > 0))
        await hand.press("shift+ArrowRight", len(wanted))
    style = re.search(r"style (\w+)", hand.goal)
    if style:
        names = {"bold": "bold", "italics": "italic", "underlined": "underline"}
        await hand.click(f".ql-{names[style[1]]}")
    else:
        await hand.click(".ql-color .ql-picker-label")
        name = re.search(r"color (\w+)|the color (\w+)", hand.goal)[1]
        await hand.click(f".ql-color .ql-picker-item[data-value='{COLOURS[name]}']")
    await hand.submit()


COLOURS = {
    "red": "#e60000",
    "orange": "#ff9900",
    "yellow": "#ffff00",
    "green": "#008a00",
    "blue": "#0066cc",
    "purple": "#9933ff",
    "white": "#ffffff",
}
