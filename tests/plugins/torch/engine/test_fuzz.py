"""Any body on any route is answered, and the server lives: a real one, in its own process."""

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.runs

ROUTES = (
    "/generate",
    "/abort_request",
    "/pause_generation",
    "/continue_generation",
    "/flush_cache",
    "/begin_weight_update",
    "/end_weight_update",
    "/update_weights_from_disk",
    "/update_weight_version",
    "/update_weights_from_tensor",
    "/update_weights_from_distributed",
    "/update_weights_from_ipc",
    "/init_weights_update_group",
    "/destroy_weights_update_group",
    "/model_info",
    "/get_model_info",
    "/server_info",
    "/get_server_info",
    "/health",
    "/ready",
    "/health_generate",
    "/v1/loads",
    "/get_load",
    "/metrics",
)
GOOD = {"input_ids": [*range(30, 50)], "sampling_params": {"max_new_tokens": 2}}

words = st.sampled_from(
    [
        *("", "r", "abort", "in_place", "nan", "\x1b", "é😀", "a" * 5000),
        *("/", "/\0", "/dev/zero", "/dev/stdin", "/proc/self/mem", "file:///tmp"),
        *("aGVsbG8=", "data:image/png;base64,iVBORw0KGgo="),
    ]
)
numbers = st.one_of(
    st.integers(-3, 500),
    st.sampled_from([10**30, -(10**30), 2**63, 2**64 - 1, 1e-300, 1e300, 0.5, True]),
)
scalars = st.one_of(st.none(), numbers, words, st.text(max_size=8).filter(str.isprintable))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text("abr_", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def _mostly(likely):
    """What belongs there, or anything."""
    return st.one_of(likely, likely, likely, values)


sampling = st.fixed_dictionaries(
    {"max_new_tokens": _mostly(st.integers(-1, 6))},
    optional={
        "temperature": _mostly(st.sampled_from([0, 1e-300, 1e-7, 0.7, 1, 1e300, -1])),
        "stop_token_ids": _mostly(st.lists(numbers, max_size=3)),
        "ignore_eos": _mostly(st.booleans()),
        "sampling_seed": _mostly(numbers),
        "top_p": _mostly(st.just(1.0)),
        "top_k": values,
        "regex": values,
        "no_such_parameter": values,
    },
)
bodies = st.fixed_dictionaries(
    {},
    optional={
        "rid": _mostly(st.text("ab", max_size=2)),
        "input_ids": _mostly(st.lists(st.integers(-1, 430), max_size=40)),
        "image_data": _mostly(st.one_of(words, st.lists(words, max_size=3))),
        "sampling_params": _mostly(sampling),
        "return_logprob": _mostly(st.booleans()),
        "logprob_start_len": values,
        "stream": _mostly(st.booleans()),
        "mode": _mostly(st.sampled_from(["abort", "retract", "in_place"])),
        "abort_all": _mostly(st.booleans()),
        "abort_all_requests": _mostly(st.booleans()),
        "model_path": _mostly(words),
        "weight_version": values,
        "new_version": _mostly(words),
    },
)
raw = st.one_of(
    st.binary(max_size=40),
    st.just(b"[" * 5000),
    st.just(b'{"input_ids": [' + b"9" * 5000 + b"]}"),
    st.just(b'{"sampling_params": {"temperature": NaN}, "input_ids": [30]}'),
    st.just(b'{"rid": "\\ud800", "input_ids": [30]}'),
)
contents = st.one_of(st.one_of(bodies, values).map(json.dumps).map(str.encode), raw)


@pytest.fixture(scope="module")
def client(server_process):
    with httpx.Client(base_url=server_process, timeout=60) as opened:
        yield opened


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(ROUTES), st.sampled_from(["POST", "POST", "PUT", "GET"]), contents)
def test_whatever_is_sent_is_answered_and_a_good_request_follows(client, route, method, content):
    _check(client, method, route, content)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies.map(json.dumps).map(str.encode))
def test_whatever_generation_is_asked_a_good_one_follows(client, content):
    _check(client, "POST", "/generate", content)


@pytest.mark.parametrize("timeout", ["nan", "inf", "-1", "1e99", "soon", ""])
def test_a_flush_waits_no_odd_time(client, timeout):
    assert client.post("/flush_cache", params={"timeout": timeout}).status_code == 400


def _check(client, method, route, content):
    reply = client.request(method, route, content=content)
    assert reply.status_code in (200, 501) or 400 <= reply.status_code < 500, reply.text
    if reply.headers.get("content-type") == "application/json":
        json.loads(reply.text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert client.post("/continue_generation").status_code == 200
    good = client.post("/generate", json=GOOD)
    assert (good.status_code, len(good.json()["output_ids"])) in {(200, 1), (200, 2)}
    assert client.get("/health").status_code == 200
