"""Image sizes and token counts, read from model directories of every kind."""

import json

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.tiles import Tiles
from mintact_platform.models.vision import NoVision, TiledVision, VisionSize

PATCHES = {"patch_size": 14, "merge_size": 2}
TILES = {
    "size": {"longest_edge": 1024},
    "max_image_size": {"longest_edge": 512},
    "do_image_splitting": True,
}
TOWER = {"vision_config": {"image_size": 512, "patch_size": 16}, "scale_factor": 4}


@pytest.fixture
def directory(tmp_path):
    def write(**files):
        for name, values in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(values))
        return tmp_path

    return write


def tokenizer(path, names):
    made = Tokenizer(models.WordLevel({"\n": 0, "\n\n": 1, "?": 2}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split("x", "isolated")
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    made.save(str(path / "tokenizer.json"))


def markers(rows, columns):
    grid = [f"<row_{r}_col_{c}>" for r in range(1, rows + 1) for c in range(1, columns + 1)]
    return ["<image>", "<fake_token_around_image>", "<global-img>", *grid]


def test_patches_are_read_from_either_preprocessor_file_or_the_configuration(directory):
    wanted = VisionSize(14, 2, 10**6)
    path = directory(preprocessor_config=PATCHES)
    assert VisionSize.read(path, 10**6) == wanted
    (path / "preprocessor_config.json").unlink()
    path = directory(processor_config={"image_processor": PATCHES})
    assert VisionSize.read(path, 10**6) == wanted
    (path / "processor_config.json").unlink()
    config = {"vision_config": {"patch_size": 14, "spatial_merge_size": 2}}
    assert VisionSize.read(directory(config=config), 10**6) == wanted
    assert wanted.regular
    assert wanted.fit(500, 400) == (504, 392)


def test_a_model_without_a_vision_tower_refuses_images(directory):
    vision = VisionSize.read(directory(config={"model_type": "qwen3"}), 10**6)
    assert isinstance(vision, NoVision)
    for call in (vision.fit, vision.tokens):
        with pytest.raises(ConfigurationError, match="the model reads text only"):
            call(28, 28)


def test_a_tower_nobody_describes_is_refused(directory):
    with pytest.raises(ConfigurationError, match="neither patch_size nor merge_size"):
        VisionSize.read(directory(config={"vision_config": {}}), 10**6)
    with pytest.raises(ConfigurationError, match="neither patch_size nor merge_size"):
        VisionSize.read(directory() / "absent", 10**6)


def test_tiles_and_their_markers_are_counted(directory):
    path = directory(preprocessor_config=TILES, config=TOWER)
    tokenizer(path, markers(2, 2))
    vision = VisionSize.read(path, 2 * 10**6)
    assert isinstance(vision, TiledVision)
    assert not vision.regular
    assert vision.fit(1000, 700) == (1000, 700)
    # 2×2 tiles and the whole: 5 × (border, name, 64 image tokens), two line breaks, a last border
    assert vision.tokens(1000, 700) == 5 * 66 + 1 + 2
    assert vision.tokens(1000, 100) == 3 * 66 + 1 + 1
    assert vision.tokens(10, 10) == vision.tokens(2000, 2000)


def test_images_of_tiled_models_keep_their_proportions_under_the_area_cap(directory):
    path = directory(preprocessor_config=TILES, config=TOWER)
    tokenizer(path, markers(2, 2))
    wide, high = VisionSize.read(path, 10**5).fit(1000, 500)
    assert wide * high <= 10**5
    assert wide / high == pytest.approx(2, rel=0.02)


def test_images_that_are_not_split_cost_one_tile(directory):
    path = directory(preprocessor_config={**TILES, "do_image_splitting": False}, config=TOWER)
    tokenizer(path, markers(0, 0))
    assert VisionSize.read(path, 10**6).tokens(1000, 700) == 64 + 3


@pytest.mark.parametrize(
    ("stated", "config", "said"),
    [
        ({"max_image_size": {}}, TOWER, "'longest_edge' is missing"),
        (TILES, {"vision_config": TOWER["vision_config"]}, "'scale_factor' is missing"),
        ({**TILES, "max_image_size": {"longest_edge": 364}}, TOWER, "tiles of 364 pixels"),
    ],
)
def test_tiles_that_are_not_described_or_do_not_fit_are_refused(directory, stated, config, said):
    path = directory(preprocessor_config=stated, config=config)
    with pytest.raises(ConfigurationError, match=said):
        Tiles.read(path)


def test_tiles_need_the_models_tokenizer(directory):
    with pytest.raises(ConfigurationError, match=r"no tokenizer\.json"):
        VisionSize.read(directory(preprocessor_config=TILES, config=TOWER), 10**6)
