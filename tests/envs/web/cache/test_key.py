import json
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_env_web.cache.exchange import Request
from mintact_env_web.cache.key import key_of
from mintact_env_web.cache.nearest import nearest, similarity
from mintact_env_web.cache.rules import EXACT, VOLATILE, Rules
from mintact_env_web.cache.shapes import shape_of

RULES = Rules()
words = st.text("abcdefgh", min_size=1, max_size=6)
pairs = st.lists(st.tuples(words, words), max_size=6)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(words, plain, max_size=4)


def get(query, host="site.test", path="/find"):
    return Request("GET", f"http://{host}{path}?{urlencode(query)}")


def post(body, kind="application/json"):
    return Request("POST", "http://site.test/rpc", {"content-type": kind}, body)


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_parameters_does_not_count(query, random):
    shuffled = list(query)
    random.shuffle(shuffled)
    assert key_of(get(query), EXACT) == key_of(get(shuffled), EXACT)


@given(pairs, pairs)
def test_parameters_count_exactly(one, other):
    equal = sorted(one) == sorted(other)
    assert (key_of(get(one), EXACT) == key_of(get(other), EXACT)) is equal


@given(
    pairs,
    st.integers(1_000_000_000_000, 2_400_000_000_000),
    st.uuids(),
    st.sampled_from(["t", "_", "sid", "utm_source"]),
)
def test_volatile_names_and_values_do_not_count(query, epoch, uuid, name):
    noisy = [*query, (name, "anything at all"), ("q9", str(epoch)), ("q8", str(uuid))]
    assert key_of(get(noisy), RULES) == key_of(get(query), RULES)
    assert key_of(get(noisy), EXACT) != key_of(get(query), EXACT)


@given(documents, st.randoms(use_true_random=False))
def test_the_order_of_json_keys_does_not_count(document, random):
    def shuffled(value):
        if isinstance(value, dict):
            names = list(value)
            random.shuffle(names)
            return {name: shuffled(value[name]) for name in names}
        return [shuffled(one) for one in value] if isinstance(value, list) else value

    one = post(json.dumps(document).encode())
    other = post(json.dumps(shuffled(document), indent=2).encode())
    assert key_of(one, EXACT) == key_of(other, EXACT)


@given(documents, words)
def test_volatile_fields_deep_inside_json_do_not_count(document, value):
    one = {"query": document, "context": {"timestamp": value, "user": [{"csrfToken": value}]}}
    two = {"query": document, "context": {"user": [{}]}}
    a, b = (key_of(post(json.dumps(d).encode()), RULES) for d in (one, two))
    assert a.body == b.body or ("context.user.0", "{}") in b.body


@given(st.lists(st.tuples(words, words), min_size=1, max_size=4), words, words)
def test_the_boundary_of_a_form_does_not_count(fields, one, other):
    def form(boundary):
        parts = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{n}"\r\n\r\n{v}\r\n'
            for n, v in fields
        )
        body = f"{parts}--{boundary}--\r\n".encode()
        return post(body, f"multipart/form-data; boundary={boundary}")

    urlencoded = post(urlencode(fields).encode(), "application/x-www-form-urlencoded")
    assert key_of(form(f"----{one}9"), EXACT) == key_of(form(f"----{other}8"), EXACT)
    assert key_of(form("----x9"), EXACT).body == key_of(urlencoded, EXACT).body


def test_files_in_forms_count_by_name_and_content():
    def form(name, content):
        head = f'--b\r\nContent-Disposition: form-data; name="f"; filename="{name}"\r\n\r\n'
        return post(head.encode() + content + b"\r\n--b--\r\n", "multipart/form-data; boundary=b")

    keys = {key_of(form(n, c), RULES) for n in ("a.png", "b.png") for c in (b"\xff\x00", b"\xfe")}
    assert len(keys) == 4


@given(
    st.binary(min_size=1).filter(lambda b: b.lstrip()[:1] not in (b"{", b"[")),
    st.binary(min_size=1).filter(lambda b: b.lstrip()[:1] not in (b"{", b"[")),
)
def test_other_bodies_count_as_a_whole(one, other):
    kind = "application/octet-stream"
    assert (key_of(post(one, kind), RULES) == key_of(post(other, kind), RULES)) is (one == other)


@pytest.mark.parametrize(("one", "other", "same"), [
    ("http://A.test/x", "http://a.test:80/x#here", True),
    ("https://a.test/", "https://a.test:443", True),
    ("http://a.test/", "https://a.test/", False),
    ("http://a.test/%7Eann", "http://a.test/~ann", True),
    ("http://a.test/a%2fb", "http://a.test/a%2Fb", True),
    ("http://a.test/a%2Fb", "http://a.test/a/b", False),
    ("http://a.test/x?", "http://a.test/x", True),
    ("http://a.test/x?a", "http://a.test/x?a=", True),
    ("http://a.test/x?a=%20b", "http://a.test/x?a=+b", True),
    ("http://a.test:8080/", "http://a.test/", False),
])  # fmt: skip
def test_urls_are_normalised(one, other, same):
    a, b = (key_of(Request("GET", url), RULES) for url in (one, other))
    assert (a == b) is same


def test_headers_count_only_where_they_change_the_answer():
    rules = Rules(accept=("GET site.test/find",))
    json_, html = ({"accept": kind} for kind in ("application/json", "text/html"))
    url = "http://site.test/find"
    assert key_of(Request("GET", url, json_), RULES) == key_of(Request("GET", url, html), RULES)
    assert key_of(Request("GET", url, json_), rules) != key_of(Request("GET", url, html), rules)
    parts = [Request("GET", url, {"range": f"bytes={n}-"}) for n in (0, 1)]
    assert key_of(parts[0], RULES) != key_of(parts[1], RULES)


@pytest.mark.parametrize(("value", "shape"), [
    ("1714564800", "epoch"), ("1714564800123", "epoch"), ("1714564800.123", "epoch"),
    ("f47ac10b-58cc-4372-a567-0e02b2c3d479", "uuid"), ("f47ac10b58cc4372a567", "hex"),
    ("0.8372615394", "random"), ("k3j9x0q2m7z1", "random"), ("eyJhbGciOiJIUzI1NiJ9", "random"),
    ("dQw4w9WgXcQ", "random"), ("red shoes", None), ("42", None), ("19.99", None),
    ("2024-05-01", None), ("iphone-15-pro-max", None), ("9999999999", None),
    ("checkout", None), ("+493012345678", None), ("B08N5WRWNW", None), ("Qwertz", None),
    ("", None), ("deadbeefdeadbeefdead", None), ("ann@example.com", None), ("10115 Berlin", None),
    ("1234567890123", "epoch"),
])  # fmt: skip
def test_values_made_by_machines_are_told_by_their_shape(value, shape):
    assert shape_of(value) == shape


@given(st.text("abcdefghijklmnopqrstuvwxyz -'", max_size=40))
def test_words_are_no_random_values(text):
    assert shape_of(text) is None


def test_what_is_stable_wins_and_what_was_learnt_counts_only_there():
    request = get({"session": "1", "mood": "x"})
    assert dict(key_of(request, Rules()).query) == {"mood": "x"}
    assert dict(key_of(request, Rules(stable=("sess*",))).query) == {"session": "1", "mood": "x"}
    learnt = Rules(learnt={"GET site.test/find": ("mood",)})
    assert key_of(request, learnt).query == ()
    assert key_of(get({"mood": "x"}, path="/other"), learnt).query == (("mood", "x"),)


def test_segments_of_paths_can_be_left_out():
    rules = Rules(paths=("site.test/s/*/events",))
    keys = {key_of(Request("GET", f"http://site.test/s/{n}/events"), rules) for n in ("a1", "b2")}
    assert len(keys) == 1
    assert key_of(Request("GET", "http://site.test/s/a1/other"), rules).place.endswith(
        "/s/a1/other"
    )


@given(pairs, pairs)
def test_similarity_is_symmetric_and_one_only_for_equals(one, other):
    a, b = key_of(get(one), EXACT), key_of(get(other), EXACT)
    score = similarity(a, b)
    assert score == similarity(b, a)
    assert 0 <= score <= 1
    assert (score == 1) is (a == b)


def test_the_most_similar_is_found_and_the_first_of_equals():
    keys = [key_of(get(q), EXACT) for q in ({"a": "1"}, {"a": "2", "b": "3"}, {"b": "3", "a": "2"})]
    assert nearest(key_of(get({"a": "2", "b": "3", "c": "4"}), EXACT), keys).place == 1
    assert nearest(key_of(get({"z": "1"}), EXACT), keys) is None
    assert nearest(key_of(get({"a": "1"}, path="/elsewhere"), EXACT), keys) is None


@given(words, st.text(min_size=1, max_size=8))
def test_every_pattern_matches_itself(name, value):
    for pattern in VOLATILE:
        sample = pattern.replace("*", name)
        assert RULES.ignores("GET site.test/", sample, quote(value))
