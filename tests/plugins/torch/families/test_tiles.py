"""The cutting rule of tiled images against transformers' processors, over all kinds of sizes."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_plugin_torch.families.smolvlm import SmolVLM
from mintact_plugin_torch.features import Normalisation
from mintact_plugin_torch.policy import Policy
from PIL import Image
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

from mintact_platform.models.tiles import LARGEST, Tiles

NORMALISE = Normalisation((0.5,) * 3, (0.5,) * 3, 32**2)


@pytest.fixture(scope="module")
def family(model_dir) -> SmolVLM:
    return Policy.load(model_dir("smolvlm")).family


@pytest.mark.parametrize("processor", [SmolVLMImageProcessorPil, Idefics3ImageProcessorPil])
@settings(deadline=None, max_examples=30)
@given(
    size=st.tuples(st.integers(20, 160), st.integers(20, 160)),
    longest=st.none() | st.integers(40, 150),
    split=st.booleans(),
    resample=st.sampled_from([Image.Resampling.LANCZOS, Image.Resampling.BICUBIC]),
)
def test_tiles_are_those_of_the_processor(family, processor, size, longest, split, resample):
    # images of three pixels' height are left out: the processors take such a side for the channels
    width, height = size
    pixels = np.random.default_rng(width * 1000 + height).integers(
        0, 256, (height, width, 3), dtype=np.uint8
    )
    stock = processor(
        size={"longest_edge": longest or 1},
        max_image_size={"longest_edge": 32},
        do_resize=longest is not None,
        do_image_splitting=split,
        resample=resample,
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    read = stock(images=[[pixels]], return_row_col_info=True, return_tensors="pt")
    tiles = Tiles(32, 4, longest, split)
    cut = tiles.cut(width, height)
    assert (cut.rows, cut.columns) == (int(read["rows"][0][0]), int(read["cols"][0][0]))
    family._tiled.tiles, family._filter = tiles, resample
    patches = family.cut(pixels)
    assert len(patches.pixels) == cut.total
    values = NORMALISE(patches.pixels)
    torch.testing.assert_close(
        values, read["pixel_values"][0].reshape(values.shape).float(), atol=1e-6, rtol=0
    )


def test_very_large_images_are_reduced_first():
    tiles = Tiles(512, 64, 2 * LARGEST, True)
    assert tiles.cut(100, 50).first == (LARGEST, LARGEST // 2)
    assert tiles.cut(50, 100).first == (LARGEST // 2, LARGEST)
