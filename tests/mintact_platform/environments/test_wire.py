import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.environments.protocol import wire
from mintact_platform.environments.protocol.wire import EncodedImage, ErrorBody, Observation

PNG = b"\x89PNG\r\n\x1a\n"

texts = st.text(st.characters(codec="utf-8"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc"), inner, max_size=3),
    max_leaves=8,
)
images = st.binary(max_size=50).map(lambda data: EncodedImage(PNG + data, "png", 3, 4))
observations = st.builds(
    Observation,
    text=texts,
    images=st.lists(images, max_size=2).map(tuple),
    tools=st.none() | st.lists(st.fixed_dictionaries({"name": st.text("ab")})).map(tuple),
    reward=st.floats(allow_nan=False, allow_infinity=False),
    terminated=st.booleans(),
    truncated=st.booleans(),
    info=st.dictionaries(st.text("abc"), json_values, max_size=3),
)


@given(observations, st.sampled_from([wire.MSGPACK, wire.JSON]))
def test_an_observation_survives_both_encodings(observation, media):
    body = wire.dumps(observation.pack(), media)
    assert Observation.unpack(wire.loads(body, media)) == observation


def test_json_carries_images_as_base64():
    body = wire.dumps(Observation(images=(EncodedImage(PNG, "png", 1, 1),)).pack(), wire.JSON)
    assert json.loads(body)["images"][0]["data"] == "iVBORw0KGgo="


@given(st.lists(st.binary(max_size=100), max_size=6), st.lists(st.integers(1, 40), min_size=1))
def test_messages_are_found_however_the_stream_is_cut(bodies, sizes):
    sent = [[number, True, body] for number, body in enumerate(bodies)]
    stream, reader, found = b"".join(map(wire.pack, sent)), wire.unpacker(), []
    for k in range(len(stream) + 1):
        size = sizes[k % len(sizes)]
        found += wire.messages(reader, stream[:size], [int, bool, bytes])
        stream = stream[size:]
        if not stream:
            break
    assert found == sent


@pytest.mark.parametrize(
    "message", [7, "abc", [], [1, True], [True, True, b""], {1: 2, 3: 4, 5: 6}]
)
def test_a_message_of_another_shape_is_refused(message):
    with pytest.raises(wire.WireError, match="not our messages"):
        wire.messages(wire.unpacker(), wire.pack(message), [int, bool, bytes])


def test_a_stream_that_completes_no_message_is_not_kept_for_ever():
    reader = wire.unpacker(limit=100_000)
    endless = b"\x93\x01\xc3\xc6" + (200_000).to_bytes(4, "big") + bytes(60_000)
    assert wire.messages(reader, endless, [int, bool, bytes]) == []
    with pytest.raises(wire.WireError):
        wire.messages(reader, bytes(60_000), [int, bool, bytes])


@pytest.mark.parametrize(
    "image",
    [
        {"data": b"GIF89a", "format": "png", "width": 1, "height": 1},
        {"data": PNG, "format": "jpeg", "width": 1, "height": 1},
        {"data": PNG, "format": "webp", "width": 1, "height": 1},
        {"data": PNG + bytes(wire.MAX_IMAGE), "format": "png", "width": 1, "height": 1},
        {"format": "png", "width": 1, "height": 1},
    ],
)
def test_an_image_that_is_not_what_it_says_is_refused(image):
    with pytest.raises(wire.WireError):
        Observation.unpack({**Observation().pack(), "images": [image]})


@given(st.binary(max_size=60), st.sampled_from([wire.MSGPACK, wire.JSON]))
def test_foreign_bytes_raise_nothing_but_a_wire_error(body, media):
    try:
        values = wire.loads(body, media)
        Observation.unpack(values)
    except wire.WireError:
        pass


def test_what_msgpack_cannot_carry_is_a_wire_error():
    for value in (object(), 2**70, "\ud800"):
        with pytest.raises(wire.WireError, match="cannot be sent"):
            wire.pack({"value": value})


def test_an_error_body_survives_the_wire():
    error = ErrorBody("timeout", "step", "too late", True, "last lines")
    assert ErrorBody.unpack(wire.unpack(wire.pack(error.pack()))) == error
    with pytest.raises(wire.WireError):
        ErrorBody.unpack({"detail": "Not Found"})
