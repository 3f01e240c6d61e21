"""Pages where the right things have to be clicked."""

import re

from acme_miniwob.hand import Hand
from acme_miniwob.solve.registry import numbers, ordinal, quoted, solves


@solves("click-test")
async def only_button(hand: Hand) -> None:
    await hand.click("#area button")


@solves("click-test-2", "click-test-transfer", "click-button-sequence")
async def named_buttons(hand: Hand) -> None:
    for name in re.findall(r"button (ONE|TWO)", hand.goal):
        await hand.click("#area button", name)


@solves("click-button", "unicode-test")
async def quoted_button(hand: Hand) -> None:
    await hand.click("#area button", quoted(hand.goal)[0])


@solves("click-link")
async def link(hand: Hand) -> None:
    await hand.click("#area .alink", quoted(hand.goal)[0])


@solves("click-dialog")
async def close_dialog(hand: Hand) -> None:
    await hand.click(".ui-dialog-titlebar-close")


@solves("click-dialog-2")
async def dialog_button(hand: Hand) -> None:
    name = quoted(hand.goal)[0]
    if name == "x":
        return await close_dialog(hand)
    await hand.click(".ui-dialog-buttonset button", name)


@solves("click-tab")
async def tab(hand: Hand) -> None:
    await hand.click("#area .ui-tabs-anchor", re.search(r"Tab #\d+", hand.goal)[0])


@solves("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
async def link_in_tabs(hand: Hand) -> None:
    await open_until(hand, "#area .ui-tabs-anchor", "#area .alink")


@solves("click-collapsible-2", "click-collapsible-2-nodelay")
async def link_in_sections(hand: Hand) -> None:
    await open_until(hand, "#area .ui-accordion-header", "#area .alink")


async def open_until(hand: Hand, parts: str, link: str) -> None:
    """Open one part after the other until the quoted link shows."""
    for index in range(len(await hand.all(parts))):
        await hand.click((await hand.all(parts))[index])
        # one page takes the link away and rewards who opens the part where it was
        if hand.ended:
            return None
        if await hand.all(link, quoted(hand.goal)[0]):
            return await hand.click(link, quoted(hand.goal)[0])
    raise AssertionError("no such link")


@solves("click-collapsible", "click-collapsible-nodelay")
async def section(hand: Hand) -> None:
    await hand.click("#area .ui-accordion-header")
    await hand.submit()


@solves("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
async def checkboxes(hand: Hand) -> None:
    wanted = re.search(r"Select (.*) and click", hand.goal)[1]
    for name in [] if wanted == "nothing" else wanted.split(", "):
        await hand.click("#area label", name)
    await hand.submit()


@solves("click-option")
async def option(hand: Hand) -> None:
    await hand.click("#area label", re.search(r"Select (.*) and click", hand.goal)[1])
    await hand.submit()


@solves("choose-list")
async def drop_down(hand: Hand) -> None:
    await choose(hand, "#options", re.search(r"Select (.*) from the list", hand.goal)[1])
    await hand.submit()


async def choose(hand: Hand, field: str, name: str) -> None:
    """Open a drop-down list and go down to a name by the arrow keys."""
    page = hand.environment.page
    names = await page.eval_on_selector_all(f"{field} option", "all => all.map(o => o.text)")
    await hand.click(field)
    await hand.press("Home")
    await hand.press("ArrowDown", names.index(name))
    await hand.press("Enter")


@solves("click-color")
async def colour(hand: Hand) -> None:
    name = re.search(r"the (\w+) colored", hand.goal)[1]
    await hand.click(f"#area [data-color={name}]")


@solves("click-shades")
async def shades(hand: Hand) -> None:
    channel = ("red", "green", "blue").index(re.search(r"shades of (\w+)", hand.goal)[1])
    for shade in await hand.all("#area span"):
        values = numbers(shade.colour)[:3]
        if values[channel] == max(values):
            await hand.click(shade)
    await hand.submit()


@solves("click-widget")
async def widget(hand: Hand) -> None:
    await hand.click(f"#area [data-type={quoted(hand.goal)[0]}]")


@solves("click-menu")
async def menu(hand: Hand) -> None:
    *parents, last = re.search(r"Select (.*)", hand.goal)[1].split(">")
    for name in parents:
        await hand.hover(await hand.one("#area .ui-menu-item-wrapper", name))
        await hand.act("wait")
    await hand.click("#area .ui-menu-item-wrapper", last)


@solves("click-menu-2")
async def menu_behind_a_button(hand: Hand) -> None:
    await hand.click("#open-menu")
    *_, wanted = quoted(hand.goal) or re.findall(r"icon.*?(\w+)", hand.goal)
    for _ in range(3):
        found = await hand.all("#area .ui-menu-item-wrapper", wanted)
        if found:
            return await hand.click(found[0])
        await hand.hover(await hand.one("#area .ui-menu-item-wrapper[aria-haspopup]"))
        await hand.act("wait")
    raise AssertionError(f"no item {wanted!r}")


@solves("focus-text")
async def focus(hand: Hand) -> None:
    await hand.click("#area input")


@solves("focus-text-2")
async def focus_one(hand: Hand) -> None:
    await hand.click((await hand.all("#area input"))[ordinal(hand.goal)])


@solves("buy-ticket")
async def ticket(hand: Hand) -> None:
    by_price = "cheap" in hand.goal or "expensive" in hand.goal or "cost" in hand.goal
    best = min if "cheap" in hand.goal or "short" in hand.goal else max
    mark = ".buy-ticket" if by_price else ".time-duration"
    of = [
        numbers(e.marks["data-price" if by_price else "data-duration"])[0]
        for e in await hand.all(mark)
    ]
    index = of.index(best(of))
    await hand.click(await hand.reach(lambda: nth(hand, ".buy-ticket", index)))


async def nth(hand: Hand, selector: str, index: int):
    return (await hand.all(selector))[index]


@solves("find-greatest")
async def cards(hand: Hand) -> None:
    seen = []
    for index in range(3):
        await hand.click((await hand.all(".card"))[index])
        seen.append(int((await hand.all(".card"))[index].text))
    await hand.click((await hand.all(".card"))[seen.index(max(seen))])
    await hand.submit()


@solves("odd-or-even")
async def odd_or_even(hand: Hand) -> None:
    for index in range(len(await hand.all(".display-number"))):
        number = await hand.reach(lambda i=index: nth(hand, ".display-number", i))
        side = ".odd" if int(number.text) % 2 else ".even"
        await hand.click((await hand.all(side))[index])
    await hand.submit()


@solves("generate-number")
async def generate(hand: Hand) -> None:
    for _ in range(40):
        await hand.click("#generate")
        number = int((await hand.one("#display-number")).text)
        limit = (numbers(hand.goal) or [0])[0]
        fits = {
            "less": number < limit,
            "greater": number > limit,
            "odd": number % 2 == 1,
            "even": number % 2 == 0,
        }
        if fits[re.search(r"less|greater|odd|even", hand.goal)[0]]:
            return await hand.submit()
    raise AssertionError("no such number came")
