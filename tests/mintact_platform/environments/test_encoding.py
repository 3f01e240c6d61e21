import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mintact_platform.environments.protocol.images import read_image
from mintact_platform.environments.protocol.wire import EncodedImage, WireError
from mintact_platform.environments.worker.encoding import (
    InvalidObservation,
    encode_image,
    from_reset,
    from_step,
    has_pixels,
    plain,
)


def test_a_png_keeps_every_pixel():
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    image = encode_image(pixels, "png")
    assert (image.width, image.height) == (7, 5)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(image.data))), pixels)


def test_a_jpeg_and_a_view_of_an_array_are_encoded():
    pixels = np.zeros((16, 16, 3), np.uint8)[::-1, ::2]
    assert encode_image(pixels, "jpeg").data.startswith(b"\xff\xd8\xff")


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"exif": b"Exif" + bytes(700)}])
@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_a_ready_encoded_image_is_passed_through_with_its_size(kind, options):
    buffer = io.BytesIO()
    options = options if kind == "jpeg" else {}
    Image.fromarray(np.zeros((5, 300, 3), np.uint8)).save(buffer, kind.upper(), **options)
    read = from_reset(({"screenshot": buffer.getvalue(), "text": "t"}, {}), "png")
    assert read.images == (EncodedImage(buffer.getvalue(), kind, 300, 5),)
    assert from_reset(({"images": [buffer.getvalue()] * 2}, {}), "png").images == 2 * read.images


@pytest.mark.parametrize(
    "data",
    [b"", b"GIF89a", b"\xff\xd8\xff", b"\xff\xd8\xff\xe0\x00\x00", b"\x89PNG\r\n\x1a\n1234IHDR"],
)
def test_bytes_that_are_no_image_are_refused(data):
    with pytest.raises(InvalidObservation, match=r"PNG|JPEG"):
        from_reset(({"screenshot": data}, {}), "png")


@given(st.binary(max_size=40))
def test_any_bytes_after_a_jpeg_header_are_read_or_refused(data):
    try:
        image = read_image(b"\xff\xd8\xff" + data)
    except WireError:
        return
    assert image.format == "jpeg"


@pytest.mark.parametrize(
    ("returned", "pixels"),
    [
        ((np.zeros((4, 4, 3), np.uint8), {}), True),
        (({"screenshot": np.zeros((4, 4, 3), np.uint8)}, {}), True),
        (({"images": [b"x", np.zeros((4, 4, 3), np.uint8)]}, {}), True),
        (({"screenshot": b"x", "text": "t"}, {}), False),
        (("text", {}), False),
        (None, False),
    ],
)
def test_pixels_that_need_encoding_are_told_from_the_rest(returned, pixels):
    assert has_pixels(returned) is pixels


@pytest.mark.parametrize(
    ("observation", "text", "images"),
    [
        ("hello", "hello", 0),
        (np.zeros((4, 4, 3), np.uint8), "", 1),
        ({"text": "t", "screenshot": np.zeros((4, 4, 3), np.uint8)}, "t", 1),
        ({"images": [np.zeros((4, 4, 3), np.uint8)] * 2}, "", 2),
        ({"screenshot": None, "text": None}, "", 0),
        (np.arange(3), "[0, 1, 2]", 0),
        ({"position": np.float32(0.5)}, "{'position': 0.5}", 0),
        (5, "5", 0),
    ],
)
def test_any_gymnasium_observation_becomes_text_and_images(observation, text, images):
    read = from_reset((observation, {}), "png")
    assert (read.text, len(read.images)) == (text, images)


def test_the_screenshot_is_the_last_image_because_an_agent_acts_on_that_one():
    small, large = np.zeros((2, 3, 3), np.uint8), np.zeros((8, 9, 3), np.uint8)
    read = from_reset(({"screenshot": large, "images": [small]}, {}), "png")
    assert [(image.width, image.height) for image in read.images] == [(3, 2), (9, 8)]


def test_tools_leave_info_and_numpy_becomes_plain():
    info = {"tools": [{"name": "a"}], "n": np.int64(3), 5: (1, np.bool_(True))}
    read = from_step(("x", np.float32(0.5), np.bool_(True), False, info), "png")
    assert read.tools == ({"name": "a"},)
    assert read.info == {"n": 3, "5": [1, True]}
    assert (read.reward, read.terminated) == (0.5, True)


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (None, "step must return"),
        (("x", 0.0, False, False), "step must return"),
        ((None, 0.0, False, False, {}), "None"),
        (("x", "much", False, False, {}), "reward must be a number, got str"),
        (("x", float("inf"), False, False, {}), "finite"),
        (("x", 0.0, 1, False, {}), "terminated must be a bool"),
        (("x", 0.0, False, None, {}), "truncated must be a bool"),
        (("x", 0.0, False, False, ["tools"]), "info must be a dict"),
        (({"text": b"x"}, 0.0, False, False, {}), "text must be a string"),
        (({"screenshot": np.zeros((4, 4, 3))}, 0.0, False, False, {}), r"got float64 \[4, 4, 3\]"),
        (({"screenshot": np.zeros((0, 4, 3), np.uint8)}, 0, False, False, {}), "screenshot"),
    ],
)
def test_garbage_is_refused_with_the_part_that_is_wrong(returned, complaint):
    with pytest.raises(InvalidObservation, match=complaint):
        from_step(returned, "png")


def test_what_json_does_not_know_becomes_text():
    assert plain({"big": np.zeros(5000)}) == {"big": "float64 [5000]"}
    assert plain(3 + 4j) == "(3+4j)"
