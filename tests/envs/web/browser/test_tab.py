# ruff: noqa: E501 (pages are written in one piece)
import asyncio

import pytest
from mintact_env_web.browser import frames, hands

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
STYLE = "<!doctype html><meta charset=utf-8><style>body{margin:20px;font:16px sans-serif}</style>"


def page(body):
    return f"{STYLE}<body>{body}"


def button(script):
    return page(f'<button id=b onclick="{script}">go</button><p id=p></p>')


# ---- dialogs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "said", "result"), [
    ("alert('Saved <1> 🙂'); p.textContent = 'after'", "Dialog (alert): 'Saved <1> 🙂'", "after"),
    ("p.textContent = confirm('Delete it?')", "Dialog (confirm): 'Delete it?'", "true"),
    ("p.textContent = prompt('Name?', 'Ann')", "Dialog (prompt): 'Name?'; answered 'Ann'", "Ann"),
])  # fmt: skip
async def test_a_dialog_is_accepted_and_told(visit, script, said, result):
    v = await visit(button(script))
    assert await v.click("#b") == said
    assert await v.page.inner_text("#p") == result


async def test_a_page_that_asks_before_it_is_left_is_left(visit):
    v = await visit(
        page(
            "<a id=a href=/two>two</a><script>onbeforeunload = (e) => { e.preventDefault(); }</script>"
        ),
        {"/two": page("second")},
    )
    assert "it was left" in await v.click("#a")
    assert v.page.url.endswith("/two")


async def test_a_dialog_while_the_page_loads_does_not_stop_the_reset(visit):
    v = await visit(page("<script>alert('welcome')</script>hello"))
    assert v.text == "Dialog (alert): 'welcome'"


# ---- tabs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("opening", [
    "window.open('/two')",
    "window.open('/two', 'w', 'width=300,height=200')",
    "window.open('/two', '_blank', 'noopener')",
])  # fmt: skip
async def test_a_new_tab_is_shown_in_the_size_of_the_screen_and_closing_it_returns(visit, opening):
    v = await visit(button(opening.replace("'", "`")), {"/two": page("<p>second</p>")})
    await v.click("#b")
    assert v.page.url.endswith("/two")
    assert await v.page.evaluate("[innerWidth, innerHeight]") == [1280, 720]
    assert "the tab was closed" in await v.act("go_back")
    assert v.page.url == "http://site.test/"


async def test_a_tab_that_closes_itself_returns_to_its_opener(visit):
    v = await visit(
        button("window.open('/two')".replace("'", "`")),
        {"/two": page("<button id=c onclick='window.close()'>close</button>")},
    )
    await v.click("#b")
    await v.click("#c")
    assert v.page.url == "http://site.test/"
    assert len(v.screen.tabs) == 1


async def test_a_link_to_a_new_tab_is_followed(visit):
    v = await visit(page("<a id=a href=/two target=_blank>two</a>"), {"/two": page("second")})
    await v.click("#a")
    assert v.page.url.endswith("/two")


async def test_a_page_cannot_close_the_tab_it_did_not_open(visit):
    v = await visit(button("window.close()"))
    await v.click("#b")
    assert v.page.url == "http://site.test/"


async def test_tabs_beyond_the_cap_are_refused(visit):
    v = await visit(
        button("for (let i = 0; i < 12; i++) window.open('/two')".replace("'", "`")),
        {"/two": page("second")},
    )
    opened = []
    v.page.context.on("page", lambda tab: opened.append(tab))
    said = await v.click("#b")
    async with asyncio.timeout(60):
        # each comes when the browser has it ready, the last after others were shown
        while len(opened) < 12 or len(v.page.context.pages) > 8:
            said += await v.act("wait")
    assert "8 are open" in said + await v.act("wait")
    assert len(v.screen.tabs) == len(v.page.context.pages) == 8


async def test_extended_tabs_are_opened_shown_and_closed(visit):
    v = await visit(page("start"))
    assert await v.act("new_tab") == "Tab 2 of 2."
    assert v.page.url == "http://site.test/"
    await v.page.evaluate("document.body.textContent = 'other'")
    assert await v.act("switch_tab", tab=1) == "Tab 1 of 2."
    assert await v.page.inner_text("body") == "start"
    await v.act("switch_tab", tab=2)
    assert await v.act("close_tab") == "Tab 1 of 1."


# ---- lists --------------------------------------------------------------------------------------

LIST = """<select id=s style='width:200px'><option>Apple<option>Banana<option disabled>Cherry
  <optgroup label=More><option value=d>Damson<option>Elder</optgroup></select>
  <script>const seen = []; for (const k of ['input', 'change']) s.addEventListener(k, () => seen.push(k + s.value));
  let clicks = 0; addEventListener('click', () => clicks++);</script>"""


async def row(v, number):
    """The middle of a row of the open list."""
    box = await v.page.locator("#s").bounding_box()
    return [round(box["x"] + 40), round(box["y"] + box["height"] + 24 * (number - 0.5))]


async def test_a_list_opens_under_its_field_and_is_chosen_from_by_clicks(visit):
    v = await visit(page(LIST))
    before = v.shot
    await v.click("#s")
    assert v.shot != before
    await v.act("click", coordinate=await row(v, 2))
    assert await v.page.evaluate("[s.value, ...seen]") == ["Banana", "inputBanana", "changeBanana"]
    assert await v.page.evaluate("[clicks, document.activeElement.id]") == [1, "s"]
    await v.click("#s")
    await v.act("click", coordinate=await row(v, 5))
    assert await v.page.input_value("#s") == "d"


async def test_disabled_options_and_group_names_choose_nothing_and_a_click_beside_closes(visit):
    v = await visit(page(LIST))
    closed = v.shot
    await v.click("#s")
    shown = v.shot
    for number in (3, 4):
        await v.act("click", coordinate=await row(v, number))
    assert await v.page.input_value("#s") == "Apple"
    await v.act("click", coordinate=[900, 600])
    await v.page.evaluate("document.activeElement.blur()")
    await v.act("hover", coordinate=[901, 600])
    assert v.shot == closed != shown


async def test_a_list_is_chosen_from_by_keys(visit):
    v = await visit(page(LIST))
    await v.page.focus("#s")
    await v.act("press", key="space")
    for key in ("down", "down", "Enter"):
        await v.act("press", key=key)
    assert await v.page.input_value("#s") == "d"
    await v.act("press", key="up")
    assert await v.page.input_value("#s") == "Banana"
    await v.act("press", key="Enter")
    await v.act("press", key="Escape")
    assert await v.page.input_value("#s") == "Banana"


async def test_a_long_list_scrolls(visit):
    options = "".join(f"<option>{i}" for i in range(100))
    v = await visit(page(f"<select id=s style='width:200px'>{options}</select>"))
    await v.click("#s")
    await v.act("hover", coordinate=await row(v, 2))
    await v.act("scroll", direction="down", amount=24 * 50)
    await v.act("click", coordinate=await row(v, 2))
    assert await v.page.input_value("#s") == "51"


async def test_a_list_in_a_shadow_root_and_in_a_frame(visit):
    v = await visit(
        page(
            "<iframe id=f src=/inner width=400 height=300></iframe><div id=h></div><script>"
            "h.attachShadow({mode:'open'}).innerHTML = '<select id=s><option>x<option>y</select>'</script>"
        ),
        {"/inner": page("<select id=s><option>a<option>b</select>")},
    )
    x, y = await v.at("#f >>> #s")
    await v.act("click", coordinate=[x, y])
    await v.act("click", coordinate=[x, y + 46])
    assert await v.page.frames[1].input_value("#s") == "b"
    x, y = await v.at("#h #s")
    await v.act("click", coordinate=[x, y])
    await v.act("click", coordinate=[x, y + 46])
    assert await v.page.input_value("#h #s") == "y"


async def test_an_option_is_selected_by_its_words(visit):
    v = await visit(page(LIST))
    spot = await v.at("#s")
    assert await v.act("select_option", coordinate=spot, option=" damson ") == ""
    assert await v.page.evaluate("seen") == ["inputd", "changed"]
    assert "no option 'Fig'; it has 'Apple', 'Banana'" in await v.act(
        "select_option", coordinate=spot, option="Fig"
    )


# ---- files --------------------------------------------------------------------------------------

REPORT = {
    "body": b"a,b\n1,2\n",
    "headers": {"content-disposition": "attachment; filename=report.csv"},
}
FILE = page("<input id=f type=file onchange='f.files[0].text().then((t) => p.textContent = t)'><pre id=p></pre>"
            "<a id=a href=/report>get</a>")  # fmt: skip


async def test_a_download_is_kept_and_told_and_can_be_uploaded(visit):
    v = await visit(FILE, {"/report": REPORT})
    assert await v.click("#a") == "Downloaded 'report.csv' (8 bytes)."
    assert (v.screen.downloads.directory / "report.csv").read_bytes() == REPORT["body"]
    assert await v.click("#a") == "Downloaded 'report (1).csv' (8 bytes)."
    assert (
        await v.act("upload", file="report.csv", coordinate=await v.at("#f"))
        == "Uploaded 'report.csv'."
    )
    assert await v.page.inner_text("#p") == "a,b\n1,2\n"
    directory = v.screen.downloads.directory
    await v.reset()
    assert not directory.exists()


async def test_a_file_chooser_is_refused_until_a_file_is_uploaded(visit, monkeypatch):
    v = await visit(FILE)
    assert "asks for a file; files at hand: none" in await v.click("#f")
    (v.screen.uploads / "note.txt").write_text("hi")
    assert "files at hand: note.txt" in await v.click("#f")
    assert "did you mean 'note.txt'" in await v.act("upload", file="notes.txt")
    assert await v.act("upload", file="note.txt") == "Uploaded 'note.txt'."
    assert await v.page.inner_text("#p") == "hi"
    monkeypatch.setattr(hands, "CHOOSER_DEADLINE_S", 0.1)
    assert "does not ask for a file" in await v.act(
        "upload", file="note.txt", coordinate=[900, 600]
    )


async def test_a_download_made_by_a_script_has_a_safe_name(visit):
    v = await visit(
        button(
            "const a = document.createElement('a'); a.href = window.URL.createObjectURL(new Blob(['x']));"
            "a.download = '../../evil.sh'; a.click()".replace("'", "`")
        )
    )
    assert await v.click("#b") in (
        "Downloaded '.._.._evil.sh' (1 bytes).",
        "Downloaded '_.._evil.sh' (1 bytes).",
    )
    (saved,) = v.screen.downloads.directory.iterdir()
    assert saved.read_text() == "x"


# ---- what would wait for a person ---------------------------------------------------------------


async def test_permissions_are_denied_at_once(visit):
    v = await visit(page("x"))
    for name in ("geolocation", "notifications", "camera", "clipboard-read"):
        query = f"navigator.permissions.query({{name: '{name}'}}).then((p) => p.state)"
        assert await v.page.evaluate(query) == "denied"
    asked = "new Promise((r) => navigator.geolocation.getCurrentPosition(() => r('given'), () => r('denied')))"
    assert await v.page.evaluate(asked) == "denied"


async def test_printing_does_nothing_and_service_workers_are_hidden(visit):
    v = await visit(
        button("window.print(); p.textContent = 'serviceWorker' in navigator".replace("'", "`"))
    )
    await v.click("#b")
    assert await v.page.inner_text("#p") == "false"


async def test_an_empty_answer_leaves_the_page_as_it_is(visit, monkeypatch):
    v = await visit(page("<a id=a href=/none>a</a><p>here"), {"/none": {"status": 204}})
    # nothing tells the page that it stays
    monkeypatch.setattr(v.environment, "_settle_s", 0.5)
    monkeypatch.setattr(frames, "LOAD_LIMIT_S", 0.5)
    await v.click("#a")
    async with asyncio.timeout(60):
        while "http://site.test/none" not in v.source.asked:
            await asyncio.sleep(0.01)
    await v.act("wait")
    assert await v.page.inner_text("p") == "here"
