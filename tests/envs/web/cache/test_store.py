# ruff: noqa: E501 (pages and tables are written in one piece)
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mintact_env_web.cache.exchange import Entry, Frame, Request, Response, Socket
from mintact_env_web.cache.har import export_har, import_har
from mintact_env_web.cache.redact import HIDDEN, redacted
from mintact_env_web.cache.rules import Rules
from mintact_env_web.cache.store import Bodies, Site, load, save, sites_in

from mintact_platform.errors import ConfigurationError

text = st.text('abz:/ é🙂"\\', max_size=6)
names = st.sampled_from(["accept", "x-own", "cache-control"])
requests = st.builds(
    Request,
    method=st.sampled_from(["GET", "POST"]),
    url=st.sampled_from(["http://a.test/", "http://a.test/x?q=1&r="]),
    headers=st.dictionaries(names, st.sampled_from(["1", "text/html"]), max_size=2),
    body=st.none() | st.binary(min_size=1, max_size=20),
    kind=st.sampled_from(["document", "fetch"]),
)
bodies = st.none() | st.binary(min_size=1, max_size=20)
headers = st.lists(st.tuples(names, st.sampled_from(["1", "é"])), max_size=3).map(tuple)
answers = st.none() | st.tuples(st.sampled_from([200, 206, 302, 404, 599]), headers, bodies)
frames = st.lists(st.builds(Frame, st.booleans(), text | st.binary(max_size=5)), max_size=4)
sockets = st.builds(
    Socket,
    url=st.just("ws://a.test/s"),
    frames=frames.map(tuple),
    closed=st.booleans(),
    visit=st.integers(0, 2),
)
START = Entry(Request("GET", "http://a.test/", kind="document"), Response(200))


def site_of(directory, drawn, talks):
    store = Bodies(directory)
    entries = [START]
    for time, (request, answer) in enumerate(drawn, 1):
        response = answer and Response(answer[0], answer[1], answer[2] and store.put(answer[2]))
        error = None if response else "Failed"
        entries.append(Entry(request, response, time % 2, time / 4, error))
    return Site("http://a.test/", 1_700_000_000_000, seed=3, rules=Rules(stable=("q",)),
                entries=tuple(entries), sockets=tuple(talks))  # fmt: skip


drawn_sites = (st.lists(st.tuples(requests, answers), max_size=4), st.lists(sockets, max_size=2))
many = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None
)


@many
@given(*drawn_sites)
def test_a_site_is_read_as_it_was_written(folder, drawn, talks):
    site = site_of(folder, drawn, talks)
    save(site, folder)
    assert load(folder) == site


@many
@given(*drawn_sites)
def test_a_site_survives_a_trip_through_har(folder, drawn, talks):
    site = site_of(folder / "a", drawn, talks)
    save(site, folder / "a")
    export_har(folder / "a", folder / "a.har")
    back = import_har(folder / "a.har", folder / "b", keep_secrets=True)
    assert (back.entries, set(back.sockets)) == (site.entries, set(site.sockets))
    assert (back.start, back.recorded_ms) == (site.start, site.recorded_ms)
    for entry in back.entries:
        if entry.response:
            bodies = [Bodies(folder / d).get(entry.response.body) for d in ("a", "b")]
            assert bodies[0] == bodies[1]


def test_a_browsers_har_is_read(tmp_path):
    (tmp_path / "a.har").write_text("\ufeff" + json.dumps({"log": {"version": "1.2", "entries": [
        {"startedDateTime": "2024-05-01T12:00:01.000Z", "time": 1,
         "request": {"method": "POST", "url": "https://a.test/login#x", "headers": [
             {"name": ":authority", "value": "a.test"}, {"name": "Cookie", "value": "sid=1"}],
             "postData": {"mimeType": "application/x-www-form-urlencoded",
                          "params": [{"name": "user", "value": "ann"}]}},
         "response": {"status": 200, "headers": [{"name": "Set-Cookie", "value": "a=1\nb=2"}],
                      "content": {"mimeType": "application/json", "_file": "body.json"}}},
        {"startedDateTime": "2024-05-01T12:00:00.000Z", "time": 1,
         "request": {"method": "GET", "url": "https://a.test/", "headers": []},
         "response": {"status": 200, "headers": [], "content":
                      {"mimeType": "text/html", "text": "PGgxPg==", "encoding": "base64"}}},
        {"startedDateTime": "2024-05-01T12:00:02.000Z", "time": 1,
         "request": {"method": "GET", "url": "https://a.test/gone", "headers": []},
         "response": {"status": 0, "headers": [], "content": {}}},
    ]}}))  # fmt: skip
    (tmp_path / "body.json").write_text("{}")
    site = import_har(tmp_path / "a.har", tmp_path / "site")
    page, login, gone = site.entries
    assert (site.start, page.request.kind) == ("https://a.test/", "document")
    assert Bodies(tmp_path / "site").get(page.response.body) == b"<h1>"
    assert Bodies(tmp_path / "site").get(login.response.body) == b"{}"
    assert (login.request.url, login.request.body) == ("https://a.test/login", b"user=ann")
    assert dict(login.request.headers) == {"cookie": HIDDEN}
    assert login.response.headers == (("set-cookie", "a=redacted"), ("set-cookie", "b=redacted"))
    assert (gone.response, gone.error) == (None, "Failed")


@pytest.mark.parametrize(("content", "said"), [
    ("{", "not a HAR file"),
    ('{"log": {"entries": []}}', "has no entries"),
    ('{"log": {"entries": [{}]}}', "an entry has no valid startedDateTime"),
    ('{"log": {"entries": [{"startedDateTime": "2024-05-01T12:00:00Z"}]}}', "an entry is malformed"),
])  # fmt: skip
def test_a_file_that_is_no_har_is_refused(tmp_path, content, said):
    (tmp_path / "x.har").write_text(content)
    with pytest.raises(ConfigurationError, match=said):
        import_har(tmp_path / "x.har", tmp_path / "site")


def test_a_har_reads_no_file_outside_its_folder(tmp_path):
    entry = {"startedDateTime": "2024-05-01T12:00:00Z",
             "request": {"method": "GET", "url": "http://a.test/", "headers": []},
             "response": {"status": 200, "headers": [], "content": {"_file": "../secret"}}}  # fmt: skip
    (tmp_path / "in").mkdir()
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in" / "x.har").write_text(json.dumps({"log": {"entries": [entry]}}))
    with pytest.raises(ConfigurationError, match="outside the folder"):
        import_har(tmp_path / "in" / "x.har", tmp_path / "site")


@pytest.mark.parametrize(("kind", "body", "kept"), [
    ("application/json", b'{"user":"ann","password":"hunter2","pin":{"a":1}}',
     b'{"user": "ann", "password": "redacted", "pin": {"a": 1}}'),
    ("application/x-www-form-urlencoded", b"user=ann&password=hunter2", b"user=ann&password=redacted"),
    ("multipart/form-data; boundary=b",
     b'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nhunter2\r\n--b--\r\n',
     b'--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nredacted\r\n--b--\r\n'),
    ("text/plain", b"password", b"password"),
    ("application/octet-stream", b"\xff\xfe", b"\xff\xfe"),
])  # fmt: skip
def test_secrets_are_not_recorded(kind, body, kept):
    sent = {"content-type": kind, "authorization": "Bearer hunter2", "cookie": "sid=hunter2",
            "referer": "http://a.test/?access_token=hunter2"}  # fmt: skip
    request = Request("POST", "http://a.test/?access_token=hunter2&q=1", sent, body)
    answered = (("set-cookie", "sid=hunter2; Path=/; HttpOnly"), ("location", "/?id_token=hunter2"))
    entry = redacted(Entry(request, Response(302, answered)))
    assert "hunter2" not in repr(entry)
    assert entry.request.body == kept
    assert entry.request.url == "http://a.test/?access_token=redacted&q=1"
    assert entry.response.headers[0][1] == "sid=redacted; Path=/; HttpOnly"
    assert redacted(entry) == entry


@pytest.mark.parametrize(("line", "said"), [
    ("seed = 'x'", "'seed' cannot be 'x'"),
    ("widht = 3", "unknown key 'widht'; did you mean 'width'?"),
    ("[rules]\nnearest = []", "rule 'nearest' must be a number"),
    ("x = ", "Invalid value"),
])  # fmt: skip
def test_a_site_that_was_edited_wrongly_says_where(folder, line, said):
    save(Site("http://a.test/", 1), folder)
    path = folder / "site.toml"
    path.write_text(path.read_text().replace("[rules]\n", "").replace("seed = 0\n", "") + line)
    with pytest.raises(ConfigurationError, match=said) as caught:
        load(folder)
    assert "site.toml" in str(caught.value)


def test_sites_are_found_below_a_directory_or_as_one(folder):
    save(Site("http://a.test/", 1), folder / "b")
    save(Site("http://a.test/", 1), folder / "a")
    assert sites_in(folder) == [folder / "a", folder / "b"]
    assert sites_in(folder / "a") == [folder / "a"]
    with pytest.raises(ConfigurationError, match="not a recorded site"):
        load(folder)
