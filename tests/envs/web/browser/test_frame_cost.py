"""What keeps a page at rest to one picture: dated answers, and no movement of our own making."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_env_web.browser.frames import PageClock


@given(st.floats(-1e6, 1e6), st.lists(st.tuples(st.floats(0, 100), st.floats(0, 5)), min_size=1))
def test_an_answer_is_never_dated_before_it_was_given_nor_after_it_came(begin, answers):
    clock, fastest = PageClock(), math.inf
    for shown, latency in answers:
        given_at, received = begin + shown, begin + shown + latency
        fastest = min(fastest, latency)
        dated = clock.date(1.0, shown, received)
        assert given_at - 1e-6 <= dated <= received + 1e-6
        # no later than the fastest answer allows
        assert dated - given_at <= fastest + 1e-6


def test_another_document_is_dated_by_its_own_answers():
    clock = PageClock()
    assert clock.date(1.0, 10.0, 110.5) == 110.5
    assert clock.date(1.0, 11.0, 111.1) == pytest.approx(111.1)
    assert clock.date(1.0, 12.0, 115.0) == pytest.approx(112.1)
    assert clock.date(2.0, 1.0, 120.0) == 120.0


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_change_of_style_is_no_transition_where_the_page_has_none(visit):
    v = await visit(
        "<!doctype html><style>#b{width:200px;height:80px}#b.on{width:300px;color:red}</style>"
        "<button id=b>x</button><script>let runs = 0;"
        "addEventListener('transitionrun', () => { runs += 1 }, true);"
        "b.onclick = () => b.classList.toggle('on')</script>"
    )
    for _ in range(3):
        await v.click("#b")
    assert await v.page.evaluate("[runs, b.offsetWidth]") == [0, 300]


@pytest.mark.browser
@pytest.mark.asyncio(loop_scope="session")
async def test_a_transition_that_was_ended_shows_its_end_and_then_the_page_is_at_rest(visit):
    v = await visit(
        "<!doctype html><style>#b{width:200px;transition:width 20s}#b.on{width:400px}</style>"
        "<button id=b>x</button><script>let ends = 0;"
        "b.ontransitionend = () => { ends += 1; document.title = ends };"
        "b.onclick = () => b.classList.toggle('on')</script>"
    )
    await v.click("#b")
    on = v.shot
    await v.click("#b")
    off = v.shot
    await v.click("#b")
    assert v.shot == on != off
    assert await v.page.evaluate("[ends, b.offsetWidth]") == [3, 400]
