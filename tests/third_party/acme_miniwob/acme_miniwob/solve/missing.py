"""Wrong endings: what a hasty player would do, for the reward to refuse."""

from acme_miniwob.hand import Hand

MISSES = {}


def misses(*pages):
    def keep(miss):
        MISSES.update(dict.fromkeys(pages, miss))
        return miss

    return keep


@misses("click-test-2", "click-test-transfer")
async def second_button(hand: Hand) -> None:
    await hand.click("#area button", "TWO")


@misses("click-dialog-2")
async def another_button(hand: Hand) -> None:
    wrong = [e for e in await hand.all(".ui-dialog-buttonset button") if e.text not in hand.goal]
    await hand.click(wrong[0] if wrong else ".ui-dialog-titlebar-close")


@misses(
    "click-checkboxes-large",
    "click-option",
    "enter-text",
    "enter-password",
    "login-user",
    "find-word",
    "read-table",
    "simple-arithmetic",
    "visual-addition",
    "click-shades",
    "number-checkboxes",
    "odd-or-even",
    "choose-date",
    "choose-date-easy",
    "use-slider-2",
    "find-midpoint",
    "scroll-text",
    "copy-paste",
    "multi-orderings",
    "form-sequence",
)
async def submit_untouched(hand: Hand) -> None:
    await hand.click("#area button, #area .final")


@misses(
    "click-button-sequence",
    "ascending-numbers",
    "click-link",
    "click-tab-2-hard",
    "email-inbox-delete",
    "terminal",
    "use-autocomplete",
    "guess-number",
)
async def give_up(hand: Hand) -> None:
    await hand.act("stop", response="done")
