# ruff: noqa: E501 (pages are written in one piece)
import hashlib
import io

import pytest
from PIL import Image

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
STYLE = "<!doctype html><meta charset=utf-8><style>body{margin:20px;font:16px sans-serif}</style>"


def page(body):
    return f"{STYLE}<body>{body}"


MOVING = {
    "a caret": "<input id=b autofocus value=text>",
    "a transition": "<style>#b{width:50px;transition:width 3s;background:red}#b:hover{width:500px}</style><div id=b>x</div>",
    "an endless animation": "<style>@keyframes k{to{transform:rotate(1turn)}}#b{width:50px;animation:k 1s infinite;background:red}</style><div id=b>x</div>",
    "an animation to its end": "<style>@keyframes k{from{left:0}to{left:300px}}#b{position:relative;width:50px;animation:k 2s forwards;background:red}</style><div id=b>x</div>",
    "a scripted animation": "<div id=b style='width:50px;background:red'>x</div><script>b.onclick = () => b.animate([{width:'50px'},{width:'400px'}], {duration:4000, fill:'forwards'})</script>",
    "an animation in a shadow root": "<div id=b></div><script>b.attachShadow({mode:'closed'}).innerHTML = '<style>@keyframes k{to{margin-left:300px}}p{width:50px;animation:k 2s infinite alternate;background:red}</style><p>x</p>'</script>",
    "a chain of timers": "<p id=b>0</p><script>b.onclick = () => { let n = 0; const f = () => { b.textContent = ++n; if (n < 5) setTimeout(f, 90) }; f() }</script>",
    "a slow answer": "<p id=b>0</p><script>b.onclick = async () => { await new Promise((r) => setTimeout(r, 200)); b.textContent = await (await fetch('/slow')).text(); setTimeout(() => { b.style.color = 'red' }, 120) }</script>",
    "a late picture": "<div id=b>x</div><script>b.onclick = () => { const i = new Image(); i.src = '/picture'; b.append(i) }</script>",
    "a late script": "<div id=b>x</div><script>b.onclick = () => { const s = document.createElement('script'); s.src = '/script'; document.head.append(s) }</script>",
    "a smooth scroll": "<div id=b>x</div><div style='height:4000px;background:linear-gradient(red,blue)'></div><script>b.onclick = () => scrollTo({top: 2000, behavior: 'smooth'})</script>",
    "a slow body": "<p id=b>0</p><script>b.onclick = async () => { b.textContent = await new Response(new ReadableStream({ start(c) { setTimeout(() => { c.enqueue(new TextEncoder().encode('late')); c.close() }, 700) } })).text() }</script>",
    "a frame": "<iframe id=b src=/inner></iframe>",
    "painting that ends": "<canvas id=b width=300 height=100></canvas><script>const c = b.getContext('2d'); b.onclick = () => { let n = 0; const f = () => { c.fillRect(n * 9, 0, 8, 90); if (++n < 30) requestAnimationFrame(f) }; f() }</script>",
}
OTHERS = {
    "/slow": {"body": "late", "content_type": "text/plain"},
    "/picture": {"body": "<svg xmlns='http://www.w3.org/2000/svg' width='90' height='90'><circle cx='45' cy='45' r='40'/></svg>", "content_type": "image/svg+xml"},
    "/script": {"body": "document.body.style.background = 'yellow'", "content_type": "text/javascript"},
    "/inner": page("<p id=p>0</p><script>setTimeout(() => { p.textContent = 'later' }, 250)</script>"),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVING)
async def test_the_same_clicks_give_the_same_pictures(visit, name):
    v = await visit(page(MOVING[name]), OTHERS)
    seen = set()
    for again in range(4):
        if again:
            await v.reset()
        shots = [v.shot]
        await v.click("#b")
        shots.append(v.shot)
        await v.act("hover", coordinate=[900, 600])
        shots.append(v.shot)
        seen.add(tuple(hashlib.sha256(shot).hexdigest() for shot in shots))
    assert len(seen) == 1


@pytest.mark.parametrize(("name", "probe", "value"), [
    ("a transition", "b.offsetWidth", 500),
    ("an animation to its end", "b.getBoundingClientRect().left", 320),
    ("a scripted animation", "b.offsetWidth", 400),
    ("a chain of timers", "b.textContent", "5"),
    ("a slow answer", "b.textContent + b.style.color", "latered"),
    ("a slow body", "b.textContent", "late"),
    ("a late picture", "document.images[0].complete", True),
    ("a late script", "document.body.style.background", "yellow"),
    ("a smooth scroll", "scrollY", 2000),
    ("a frame", "b.contentDocument.body.innerText", "later"),
])  # fmt: skip
async def test_the_picture_is_taken_when_the_page_came_to_rest(visit, name, probe, value):
    v = await visit(page(MOVING[name]), OTHERS)
    await v.click("#b")
    assert await v.page.evaluate(probe) == value


async def test_events_at_the_end_of_animations_still_come(visit):
    v = await visit(
        page("""<style>#b{opacity:1;transition:opacity 2s}#b.off{opacity:.5}
        @keyframes k{to{left:1px}} #b.off{animation:k 3s infinite}</style><div id=b>x</div><script>const seen = [];
        for (const k of ['transitionend', 'animationend']) b.addEventListener(k, () => seen.push(k));
        b.onclick = () => b.classList.add('off')</script>""")
    )
    await v.click("#b")
    assert sorted(await v.page.evaluate("seen")) == ["animationend", "transitionend"]


@pytest.mark.parametrize(("image_format", "kind"), [("jpeg", "JPEG"), ("png", "PNG")])
async def test_pictures_have_the_size_and_the_format_that_were_asked_for(visit, image_format, kind):
    v = await visit(page("x"), image_format=image_format, width=800, height=600)
    picture = Image.open(io.BytesIO(v.shot))
    assert (picture.format, picture.size) == (kind, (800, 600))
    assert await v.page.evaluate("[innerWidth, innerHeight, devicePixelRatio]") == [800, 600, 1]


async def test_a_page_at_rest_costs_one_picture_and_one_question(visit, monkeypatch):
    v = await visit(page("<p>still"))
    session = await v.screen.session()
    asked, send = [], session.send

    async def counted(method, params=None):
        asked.append(method)
        return await send(method, params)

    monkeypatch.setattr(session, "send", counted)
    await v.act("click", coordinate=[600, 600])
    assert asked == ["Page.captureScreenshot", "Runtime.evaluate"]


async def test_the_page_notices_nothing_of_the_counters(visit):
    v = await visit(page("x"))
    natives = (
        "[fetch, setTimeout, requestAnimationFrame, window.open, Element.prototype.attachShadow]"
    )
    assert await v.page.evaluate(f"{natives}.every((f) => String(f).includes('[native code]'))")
    names = "[fetch.name, setTimeout.name, Object.keys(window).includes('mintact')]"
    assert await v.page.evaluate(names) == ["fetch", "setTimeout", False]
    assert await v.page.evaluate("new Promise((r) => setTimeout((a, b) => r(a + b), 5, 1, 2))") == 3
    assert (
        await v.page.evaluate(
            "new Promise((r) => { const t = setTimeout(() => r(1), 5); clearTimeout(t); setTimeout(() => r(2), 20) })"
        )
        == 2
    )
