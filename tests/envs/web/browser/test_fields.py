# ruff: noqa: E501 (pages are written in one piece)
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mintact_env_web.browser import fields

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
STYLE = "<!doctype html><meta charset=utf-8><style>body{margin:20px;font:16px sans-serif}</style>"
HARD = '<b>&amp; "it\'s" `x` ~^ ñé 你好 👩‍👩‍👧 🏳️‍🌈 عربى ก็ e\u0301 \t| \\n %s {} 1<2>0'
LINES = "one\n\n  two\t<tab>\nthree 🙂\n"


def page(body):
    return f"{STYLE}<body>{body}"


@pytest.mark.parametrize("kind", ["text", "search", "password", "url", "tel"])
async def test_a_line_of_any_characters_arrives_exactly(visit, kind):
    v = await visit(page(f"<input id=i type={kind} size=80>"))
    assert await v.act("type", text=HARD, coordinate=await v.at("#i")) == ""
    assert await v.page.input_value("#i") == HARD


async def test_lines_arrive_exactly_and_press_no_enter(visit):
    v = await visit(
        page(
            "<form action=/gone><textarea id=t rows=9 cols=60 onkeydown="
            "'if (event.key == `Enter`) form.submit()'></textarea></form>"
        )
    )
    assert await v.act("type", text=LINES + HARD, coordinate=await v.at("#t")) == ""
    assert await v.page.input_value("#t") == LINES + HARD
    assert v.page.url == "http://site.test/"


async def test_an_editable_document_keeps_lines_and_signs(visit):
    v = await visit(page("<div id=d contenteditable style='width:600px;height:300px'></div>"))
    assert await v.act("type", text="a\nb <i> & 你好 🙂\n\nd", coordinate=await v.at("#d")) == ""
    assert await v.page.inner_text("#d") == "a\nb <i> & 你好 🙂\n\nd"


async def test_text_goes_where_the_caret_is_and_over_what_is_selected(visit):
    v = await visit(page("<input id=i value='old 🙂 text' autofocus>"))
    await v.page.evaluate("i.setSelectionRange(4, 6)")
    assert await v.act("type", text="ñ") == ""
    assert await v.page.input_value("#i") == "old ñ text"
    await v.act("press", key="ctrl+a")
    assert await v.act("type", text="new") == ""
    assert await v.page.input_value("#i") == "new"


async def test_every_character_with_a_key_presses_it(visit):
    v = await visit(
        page("""<input id=i autofocus><script>let keys = '';
        i.onkeydown = (e) => { if (e.key.length == 1) keys += e.key };</script>""")
    )
    text = "".join(map(chr, range(0x20, 0x7F)))
    assert await v.act("type", text=text) == ""
    assert await v.page.evaluate("keys") == text


async def test_a_long_text_is_quick_and_whole(visit):
    v = await visit(page("<textarea id=t autofocus></textarea>"))
    text = "".join(chr(0x4E00 + i % 5000) + "ab" for i in range(20_000))
    assert await v.act("type", text=text) == ""
    assert await v.page.input_value("#t") == text


@pytest.mark.parametrize(("field", "text", "said"), [
    ("<input id=i maxlength=3>", "abcdef", "it holds 'abc'"),
    ("<input id=i oninput='value = value.toUpperCase()'>", "abc", "it holds 'ABC'"),
    ("<input id=i type=number>", "12x", "The field does not hold what was typed"),
    ("<input id=i type=password maxlength=2>", "abc", "holds 2 characters"),
    ("<input id=i>", "one\ntwo\n", "holds one line; line breaks were left out"),
    ("<input id=i readonly value=x>", "abc", "No field has the focus"),
    ("<p id=i>words</p>", "abc", "No field has the focus"),
    ("<input id=i>", "a\x00b", "'\\x00' is no character"),
    ("<input id=i>", "a\ud800b", "'\\ud800' is no character"),
    ("<input id=i>", "x" * 100_001, "over 100000 characters"),
    ("<input id=i type=date>", "tomorrow", "The field takes YYYY-MM-DD"),
])  # fmt: skip
async def test_a_field_that_holds_something_else_says_so(visit, field, text, said):
    v = await visit(page(field))
    assert said in await v.act("type", text=text, coordinate=await v.at("#i"))


@pytest.mark.parametrize(("kind", "text"), [
    ("number", "-12.5"), ("email", "a.b@c.example"), ("date", "2024-02-29"), ("time", "13:45"),
    ("month", "2024-02"), ("week", "2024-W09"), ("datetime-local", "2024-02-29T13:45"),
    ("color", "#12ab34"), ("range", "30"),
])  # fmt: skip
async def test_typed_inputs_take_their_value_and_tell_the_page(visit, kind, text):
    v = await visit(page(f"<input id=i type={kind} oninput='p.textContent = value'><p id=p></p>"))
    assert await v.act("type", text=text, coordinate=await v.at("#i")) == ""
    assert await v.page.input_value("#i") == text
    assert await v.page.inner_text("#p") == text


@pytest.mark.parametrize("mode", ["open", "closed"])
async def test_fields_in_shadow_roots_are_read_back(visit, mode):
    v = await visit(
        page(f"""<div id=h style="display:block;width:300px;height:40px"></div><script>
        const r = h.attachShadow({{mode: '{mode}'}}); r.innerHTML = '<input maxlength=4 style="width:280px">';
        window.inner = r.firstChild;</script>""")
    )
    assert "holds 'héll'" in await v.act("type", text="héllo", coordinate=await v.at("#h"))
    assert await v.page.evaluate("inner.value") == "héll"


@pytest.mark.parametrize("host", ["site.test", "other.test"])
async def test_fields_in_frames_are_read_back(visit, host):
    v = await visit(
        page(f"<iframe id=f src='http://{host}/inner' width=400 height=200></iframe>"),
        {"/inner": page("<input id=i size=30 maxlength=6>")},
    )
    spot = await v.at("#f >>> #i")
    assert await v.act("type", text="你好 🙂!", coordinate=spot) == ""
    assert "does not hold" in await v.act("type", text="more", coordinate=spot)


async def test_a_search_that_leaves_the_page_is_no_complaint(visit):
    v = await visit(
        page("<input id=i oninput='if (value.length > 2) location = `/found`'>"),
        {"/found": page("found")},
    )
    assert await v.act("type", text="tea", coordinate=await v.at("#i")) == ""
    assert v.page.url.endswith("/found")


characters = st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff")


async def test_any_text_arrives_in_a_text_area(visit):
    v = await visit(page("<textarea id=t rows=9 cols=60></textarea>"))
    await v.click("#t")
    # hypothesis is synchronous, the browser lives on this loop: first draw, then type
    texts = []

    @settings(max_examples=60, deadline=None, database=None,
              suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
    @given(st.text(characters | st.sampled_from("\n\t <>&'\"")))
    def arrives(text):
        texts.append(text)

    arrives()
    for text in texts:
        await v.page.evaluate("t.value = ''; t.focus()")
        assert await fields.write(v.page, text) is None, ascii(text)
        assert await v.page.input_value("#t") == text, ascii(text)
