import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_env_web.cache.exchange import Entry, Frame, Request, Response, Socket
from mintact_env_web.cache.ranges import Span, covering, cut
from mintact_env_web.cache.rules import Rules
from mintact_env_web.cache.sockets import Conversation, Sockets
from mintact_env_web.cache.tape import Index, Tape


def entry(url, body, *, visit=0, method="GET", asked=None, status=200, **headers):
    sent = {"range": headers.pop("range")} if "range" in headers else {}
    answered = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    response = None if status is None else Response(status, answered, body)
    request = Request(method, f"http://a.test{url}", sent, asked)
    return Entry(request, response, visit, error=None if response else "Failed")


def tape(*entries, rules=None):
    rules = rules or Rules()
    return Tape(Index(entries, rules))


def ask(tape, url, method="GET", body=None, kind="fetch", **headers):
    answer = tape.answer(Request(method, f"http://a.test{url}", headers, body, kind))
    return answer.how, [one.response.body for one in answer.entries if one.response]


@given(st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=8))
def test_a_repeated_order_gives_the_recorded_responses(order):
    entries = [entry("/rpc", f"{n}", method="POST", asked=b.encode()) for n, b in enumerate(order)]
    one = tape(*entries)
    got = [ask(one, "/rpc", "POST", b.encode()) for b in order]
    assert got == [("recorded", [str(n)]) for n in range(len(order))]
    last = max(n for n, b in enumerate(order) if b == order[0])
    assert ask(one, "/rpc", "POST", order[0].encode()) == ("recorded", [str(last)])


def test_an_equal_request_goes_before_one_that_is_equal_under_the_rules():
    one = tape(entry("/x?t=1", "one"), entry("/x?t=2", "two"))
    assert ask(one, "/x?t=2") == ("recorded", ["two"])
    assert ask(one, "/x?t=3") == ("recorded", ["one"])
    assert ask(one, "/x?t=4") == ("recorded", ["two"]), "all are given; the last repeats"


def test_episodes_have_a_cursor_of_their_own():
    index = Index([entry("/x", "one"), entry("/x", "two")], Rules())
    first, second = Tape(index), Tape(index)
    assert [ask(first, "/x")[1], ask(first, "/x")[1]] == [["one"], ["two"]]
    assert ask(second, "/x")[1] == ["one"]


def test_a_failed_request_that_was_sent_again_is_kept_once():
    one = tape(entry("/x", "", status=None), entry("/x", "good"))
    assert ask(one, "/x") == ("recorded", ["good"])
    assert (
        tape(entry("/x", "", status=None))
        .answer(Request("GET", "http://a.test/x"))
        .entries[0]
        .error
    )


def test_later_visits_only_add_what_the_first_lacked():
    one = tape(
        entry("/x?t=1", "first"), entry("/x?t=2", "second", visit=1), entry("/y", "y", visit=1)
    )
    assert ask(one, "/x?t=2") == ("recorded", ["first"])
    assert ask(one, "/y") == ("recorded", ["y"])


def test_a_similar_request_answers_only_above_the_score():
    recorded = entry("/x?a=1&b=2&c=3&d=4", "near")
    for score, how in ((0.7, "nearest"), (0.9, "miss"), (1.1, "miss")):
        one = tape(recorded, rules=Rules(nearest=score))
        assert ask(one, "/x?a=1&b=2&c=3&d=5")[0] == how
    assert ask(tape(recorded), "/z?a=1&b=2&c=3&d=4")[0] == "miss"


def test_redirects_are_followed_through_the_recording():
    one = tape(
        entry("/a", None, status=302, location="/b", set_cookie="x=1"),
        entry("/b", None, status=301, location="http://a.test/c"),
        entry("/c", "end"),
    )
    answer = one.follow(Request("POST", "http://a.test/a", {"content-type": "x"}, None))
    assert answer.how == "miss", "another method is another request"
    answer = one.follow(Request("GET", "http://a.test/a"))
    assert (answer.entries[0].response.body, answer.cookies) == ("end", ("x=1",))


@pytest.mark.parametrize(("status", "method"), [(302, "GET"), (303, "GET"), (307, "POST")])
def test_redirects_keep_or_change_the_method(status, method):
    one = tape(
        entry("/a", None, method="POST", status=status, location="/b", asked=b"{}"),
        entry("/b", method, method=method, asked=b"{}" if method == "POST" else None),
    )
    answer = one.follow(Request("POST", "http://a.test/a", {}, b"{}"))
    assert answer.entries[0].response.body == method


def test_a_loop_of_redirects_ends():
    one = tape(entry("/a", None, status=302, location="/a"))
    assert one.follow(Request("GET", "http://a.test/a")).entries[0].response.status == 302


def test_recorded_analytics_scripts_run_and_their_reports_are_stubbed():
    one = tape(entry("/telemetry/x.js", "code"), entry("/telemetry/hit", "hit"))
    assert ask(one, "/telemetry/x.js", kind="script") == ("recorded", ["code"])
    assert ask(one, "/telemetry/y.js", kind="script") == ("stub", [])
    assert ask(one, "/telemetry/hit") == ("stub", [])


WHOLE = bytes(range(100))


def part(first, last):
    held = f"bytes {first}-{last}/100"
    return entry("/v", f"{first}", status=206, content_range=held, range=f"bytes={first}-{last}")


@given(st.integers(0, 99), st.integers(0, 120))
def test_any_range_is_cut_from_the_whole(first, last):
    got = cut(f"bytes={first}-{last}", [(Span(0, None, None), WHOLE)])
    expected = WHOLE[first : last + 1]
    assert (got is None) if last < first else (got[0] == expected)


@given(st.integers(0, 99), st.integers(0, 99))
def test_a_range_is_put_together_from_recorded_parts(first, last):
    parts = [part(0, 39), part(30, 69), part(80, 99)]
    chosen = covering(f"bytes={first}-{last}", parts)
    held = {*range(70), *range(80, 100)}
    assert bool(chosen) is (first <= last and set(range(first, last + 1)) <= held)
    if chosen:
        spans = [Span(*map(int, e.request.headers["range"][6:].split("-")), 100) for e in chosen]
        bodies = [(s, WHOLE[s.first : s.last + 1]) for s in spans]
        assert cut(f"bytes={first}-{last}", bodies)[0] == WHOLE[first : last + 1]


def test_a_range_that_was_not_recorded_is_found_on_the_tape():
    one = tape(part(0, 39), part(40, 99))
    assert ask(one, "/v", range="bytes=40-99") == ("recorded", ["40"])
    assert ask(one, "/v", range="bytes=30-50") == ("recorded", ["0", "40"])
    assert ask(tape(part(0, 39)), "/v", range="bytes=30-50") == ("miss", [])
    assert ask(tape(entry("/v", "all")), "/v", range="bytes=-5") == ("recorded", ["all"])


def test_a_conversation_goes_on_after_messages_it_knows():
    frames = (Frame(False, "a"), Frame(True, '{"x":1,"t":1}'), Frame(False, "b"), Frame(True, "q"))
    one = Conversation(Socket("ws://a.test/", frames, closed=True), Rules())
    assert one.begin() == ["a"]
    assert one.hear("what?") == []
    assert one.hear('{"t": 2, "x": 1}') == ["b"]
    assert (one.unknown, one.over) == (1, False)
    assert one.hear("q") == []
    assert one.over


def test_the_places_of_recorded_sockets_are_matched():
    sockets = Sockets([Socket("wss://a.test:444/live?t=1"), Socket("ws://b.test/")], Rules())
    matching = ("wss://a.test:444/live", "wss://a.test:444/live?room=2", "ws://b.test/")
    assert all(sockets.pattern.match(url) for url in matching)
    assert not any(sockets.pattern.match(url) for url in ("ws://a.test/live", "ws://b.test/x"))
    assert Sockets([], Rules()).pattern is None
