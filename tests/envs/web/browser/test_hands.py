# ruff: noqa: E501 (pages are written in one piece)
import asyncio

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
STYLE = "<!doctype html><meta charset=utf-8><style>body{margin:20px;font:16px sans-serif}</style>"


def page(body):
    return f"{STYLE}<body>{body}"


async def test_a_click_reaches_the_element_under_the_pixel_and_gives_it_the_focus(visit):
    v = await visit(
        page("<button id=b onclick='this.textContent=1+ +(this.textContent)'>0</button>")
    )
    assert await v.click("#b") == ""
    assert await v.page.inner_text("#b") == "1"
    assert await v.page.evaluate("document.activeElement.id") == "b"


async def test_hover_moves_the_pointer(visit):
    v = await visit(
        page(
            "<style>#m{display:none} #h:hover #m{display:block}</style>"
            "<div id=h>menu<p id=m>item</p></div>"
        )
    )
    await v.act("hover", coordinate=await v.at("#h"))
    assert await v.page.is_visible("#m")


async def test_enter_is_pressed_only_when_asked(visit):
    v = await visit(
        page("<form action=/found><input id=q name=q></form>"), {"/found": page("found")}
    )
    await v.act("type", text="tea", coordinate=await v.at("#q"))
    assert v.page.url == "http://site.test/"
    await v.act("type", text=" pot", enter=True)
    assert v.page.url == "http://site.test/found?q=tea+pot"


@pytest.mark.parametrize(("key", "pressed"), [
    ("Enter", "Enter"), ("return", "Enter"), ("esc", "Escape"), ("down", "ArrowDown"),
    ("page_down", "PageDown"), ("ctrl+a", "Control+a"), ("Ctrl-Shift-K", "Control+Shift+K"),
    ("space", " "), ("+", "+"), ("A", "A"), ("ctrl++", "Control++"), ("F2", "F2"), ("é", "é"),
])  # fmt: skip
async def test_keys_go_by_many_names(visit, key, pressed):
    v = await visit(
        page("""<input id=i autofocus><script>
        const seen = [];
        addEventListener('keydown', e => { if (!['Control', 'Shift'].includes(e.key)) seen.push(
          (e.ctrlKey ? 'Control+' : '') + (e.shiftKey && e.ctrlKey && e.key != '+' ? 'Shift+' : '') + e.key) });
        addEventListener('input', e => { if (e.data == 'é') seen.push(e.data) });
        </script>""")
    )
    assert await v.act("press", key=key) == ""
    assert await v.page.evaluate("seen") == [pressed]


async def test_what_cannot_be_done_is_said_and_fails_nothing(visit):
    v = await visit(page("still here"))
    cases = {
        "no key is named 'Entre'; did you mean 'Enter'": dict(action="press", key="Entre"),
        "did you mean 'click'": dict(action="clic", coordinate=[1, 1]),
        "Unknown action None": dict(action=None),
        "coordinate must be [x, y]": dict(action="click"),
        "not on the screen of 1280×720": dict(action="click", coordinate=[1280, 10]),
        "coordinate must be two numbers": dict(action="hover", coordinate=["a", 2]),
        "text must be a string": dict(action="type", text=7),
        "direction must be": dict(action="scroll", direction="north"),
        "amount must be": dict(action="scroll", direction="up", amount="far"),
        "there is no previous page": dict(action="go_back"),
        "there is no next page": dict(action="go_forward"),
        "cannot be held down": dict(action="press", key="a+b"),
        "there is no file": dict(action="upload", file="x"),
        "there is no list": dict(action="select_option", coordinate=[5, 5], option="x"),
        "there is no tab": dict(action="switch_tab", tab=3),
        "the last tab stays open": dict(action="close_tab"),
    }  # fmt: skip
    for said, call in cases.items():
        assert said in await v.act(**call), call
    assert await v.page.inner_text("body") == "still here"


async def test_scrolling_goes_a_screenful_or_so_many_pixels_either_way(visit):
    v = await visit(page("<div style='width:5000px;height:5000px'></div>"))

    async def where():
        return await v.page.evaluate("[scrollX, scrollY]")

    await v.act("scroll", direction="down")
    assert await where() == [0, 576]
    await v.act("scroll", direction="down", amount=100)
    assert await where() == [0, 676]
    await v.act("scroll", direction="up", amount=600)
    assert await where() == [0, 76]
    await v.act("scroll", direction="right", amount=50)
    assert await where() == [50, 76]
    await v.act("scroll", direction="left")
    assert await where() == [0, 76]


async def test_the_part_under_the_pointer_scrolls(visit):
    v = await visit(page("<div id=d style='height:100px;overflow:auto'><p style='height:900px'>x"))
    await v.act("hover", coordinate=await v.at("#d"))
    await v.act("scroll", direction="down", amount=120)
    assert await v.page.evaluate("d.scrollTop") == 120


async def test_history_goes_back_and_forward(visit):
    v = await visit(
        page("<a id=a href=/two>two</a>"), {"/two": page("<a id=h href='#part'>part</a>")}
    )
    await v.click("#a")
    assert v.page.url.endswith("/two")
    await v.click("#h")
    assert v.page.url.endswith("/two#part")
    assert await v.act("go_back") == await v.act("go_back") == ""
    assert v.page.url == "http://site.test/"
    await v.act("go_forward")
    assert v.page.url.endswith("/two")
    await v.act("press", key="alt+left")
    assert v.page.url == "http://site.test/"
    assert "there is no previous page" in await v.act("go_back")


async def test_waiting_lets_a_page_go_on(visit):
    v = await visit(page("<p id=p>0</p><script>setTimeout(() => p.textContent = 1, 900)</script>"))
    async with asyncio.timeout(60):
        while await v.page.inner_text("#p") == "0":
            await v.act("wait")
    assert await v.page.inner_text("#p") == "1"


async def test_stop_ends_the_episode_with_its_answer(visit):
    v = await visit("<title>done</title>")
    shown = v.shot
    await v.act("stop", response="42")
    assert v.ended
    assert v.shot == shown
    check = await v.environment.evaluate()
    assert check.success
    assert check.details["answer"] == "42"


async def test_the_clipboard_belongs_to_the_episode(visit):
    one = await visit(page("<input id=i value=secret><textarea id=t></textarea>"))
    other = await visit(page("<input id=i>"))
    await one.click("#i")
    await one.act("press", key="ctrl+a")
    await one.act("press", key="ctrl+c")
    await other.click("#i")
    assert "The clipboard is empty" in await other.act("press", key="ctrl+v")
    assert await other.page.input_value("#i") == ""
    await one.click("#t")
    await one.act("press", key="ctrl+v")
    assert await one.page.input_value("#t") == "secret"
    await one.act("press", key="ctrl+a")
    await one.act("press", key="ctrl+x")
    assert await one.page.input_value("#t") == ""


async def test_a_page_that_handles_its_paste_itself_does_so(visit):
    v = await visit(
        page("""<input id=i value=word><p id=p></p><script>i.addEventListener('paste', (e) => {
        p.textContent = e.clipboardData.getData('text/plain'); e.preventDefault(); });</script>""")
    )
    await v.click("#i")
    for key in ("ctrl+a", "ctrl+c", "ctrl+v"):
        await v.act("press", key=key)
    assert await v.page.inner_text("#p") == "word"
    assert await v.page.input_value("#i") == "word"


async def test_drag_moves_by_mouse_events_and_by_the_drag_and_drop_api(visit):
    v = await visit(
        page("""<input id=r type=range min=0 max=100 value=0 style='width:200px;margin:0'>
        <p id=from draggable=true style='width:80px'>take</p><div id=to style='width:200px;height:80px;background:#eee'></div>
        <script>from.ondragstart = (e) => e.dataTransfer.setData('text', 'taken');
        to.ondragover = (e) => e.preventDefault();
        to.ondrop = (e) => { e.preventDefault(); to.textContent = e.dataTransfer.getData('text'); };</script>""")
    )
    x, y = await v.at("#r")
    await v.act("drag", coordinate=[x - 92, y], coordinate2=[x, y])
    assert 45 <= int(await v.page.input_value("#r")) <= 55
    await v.act("drag", coordinate=await v.at("#from"), coordinate2=await v.at("#to"))
    assert await v.page.inner_text("#to") == "taken"
