# ruff: noqa: E501 (pages and tables are written in one piece)
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mintact_env_web.cache.exchange import Entry, Request, Response
from mintact_env_web.cache.key import key_of
from mintact_env_web.cache.learn import learn
from mintact_env_web.cache.rules import Rules

from mintact_platform.errors import ConfigurationError

names = st.text("abcdefghijk*_", min_size=1, max_size=8)
lists = st.lists(names, max_size=4).map(tuple)


@given(lists, lists, st.dictionaries(names, lists.filter(bool), max_size=3), lists, st.floats(0, 2))
def test_rules_are_read_as_they_were_written(volatile, stubs, learnt, paths, score):
    rules = Rules(volatile=volatile, stubs=stubs, learnt=learnt, paths=paths, nearest=score)
    assert Rules.from_json(tomllib.loads(rules.to_toml())["rules"], "x") == rules


def test_default_rules_take_two_lines():
    assert Rules().to_toml() == "[rules]\n"


@pytest.mark.parametrize(("text", "said"), [
    ("volatil = []", "unknown rule 'volatil'; did you mean 'volatile'?"),
    ("volatile = 'x'", "rule 'volatile' must be a list of strings, got 'x'"),
    ("shapes = ['epoc']", "unknown shape 'epoc'; did you mean 'epoch'?"),
    ("nearest = 'x'", "rule 'nearest' must be a number, got 'x'"),
    ("learnt = []", "rule 'learnt' must be a table, got []"),
])  # fmt: skip
def test_wrong_rules_say_what_is_wrong(text, said):
    with pytest.raises(ConfigurationError) as caught:
        Rules.from_json(tomllib.loads(text), "site.toml")
    assert str(caught.value) == f"site.toml: {said}"


@pytest.mark.parametrize(("url", "kind", "stubbed"), [
    ("https://www.google-analytics.com/g/collect?v=2", "fetch", True),
    ("https://region1.google-analytics.com/g/collect", "ping", True),
    ("https://shop.test/telemetry/click", "fetch", True),
    ("https://shop.test/anything", "ping", True),
    ("https://shop.test/collection/shoes", "document", False),
    ("https://shop.test/api/cart", "fetch", False),
    ("https://shop.test/rum-and-cola", "document", False),
])  # fmt: skip
def test_analytics_are_known(url, kind, stubbed):
    assert Rules().stubbed(Request("POST", url, kind=kind)) is stubbed


def visits(*urls_of_visits):
    return [
        Entry(Request("GET", url), Response(200), visit)
        for visit, urls in enumerate(urls_of_visits)
        for url in urls
    ]


def test_what_differs_between_visits_is_learnt_by_endpoint():
    rules = learn(visits(
        ["http://a.test/x?q=tea&mood=sunny", "http://a.test/y?q=tea"],
        ["http://a.test/x?q=tea&mood=rainy", "http://a.test/y?q=tea"],
    ), Rules())  # fmt: skip
    assert rules.learnt == {"GET a.test/x": ("mood",)}


def test_a_parameter_that_comes_and_goes_is_learnt():
    rules = learn(visits(["http://a.test/x?q=tea"], ["http://a.test/x?q=tea&again=yes"]), Rules())
    assert rules.learnt == {"GET a.test/x": ("again",)}


def test_different_requests_of_one_endpoint_are_not_mixed_up():
    first = ["http://a.test/x?q=tea&p=1&m=ab", "http://a.test/x?q=mug&p=2&m=cd"]
    second = ["http://a.test/x?q=mug&p=2&m=ef", "http://a.test/x?q=tea&p=1&m=gh"]
    assert learn(visits(first, second), Rules()).learnt == {"GET a.test/x": ("m",)}


def test_machine_made_segments_of_paths_are_learnt():
    one, other = "f47ac10b-58cc-4372-a567-0e02b2c3d479", "0e02b2c3-58cc-4372-a567-f47ac10bd479"
    entries = visits([f"http://a.test/s/{one}/list?q=1"], [f"http://a.test/s/{other}/list?q=1"])
    rules = learn(entries, Rules())
    assert (rules.paths, rules.learnt) == (("a.test/s/*/list",), {})
    assert len({key_of(entry.request, rules) for entry in entries}) == 1


def test_fields_of_json_are_learnt_by_their_path():
    entries = [
        Entry(Request("POST", "http://a.test/g", {}, body), Response(200), visit)
        for visit, body in enumerate(
            [b'{"op":"a","v":{"x":"red"}}', b'{"op":"a","v":{"x":"blue"}}']
        )
    ]
    assert learn(entries, Rules()).learnt == {"POST a.test/g": ("v.x",)}


def test_an_endpoint_that_answers_by_accept_is_learnt():
    entries = [
        Entry(Request("GET", "http://a.test/p", {"accept": kind}),
              Response(200, (("content-type", kind),)))
        for kind in ("text/html", "application/json")
    ]  # fmt: skip
    assert learn(entries, Rules()).accept == ("GET a.test/p",)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xyz", min_size=1, max_size=3)), max_size=5),
       st.lists(st.text("uvw", min_size=1, max_size=4), min_size=2, max_size=2, unique=True))  # fmt: skip
def test_after_learning_all_visits_have_the_same_keys(query, values):
    fixed = "&".join(f"{name}{place}={value}" for place, (name, value) in enumerate(query))
    entries = visits(*([f"http://a.test/x?{fixed}&noise={value}"] for value in values))
    rules = learn(entries, Rules())
    assert len({key_of(entry.request, rules) for entry in entries}) == 1
