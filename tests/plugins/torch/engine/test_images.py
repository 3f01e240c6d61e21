import pytest
from mintact_plugin_torch.engine import images
from mintact_plugin_torch.engine.images import BadImage, ImageStore
from mintact_plugin_torch.policy import Policy


@pytest.fixture
def store(tiny_model_dir):
    return ImageStore(Policy.load(tiny_model_dir), 1 << 24)


def test_an_image_sent_again_is_not_read_again(store, picture, inline, monkeypatch):
    sources = [inline(picture(0, 64, 32)), "data:image/png;base64," + inline(picture(0, 64, 32))]
    first = [store.open(source) for source in sources]
    monkeypatch.setattr(images, "_read", None)
    again = [store.open(source) for source in sources]
    for image in (*first, *again):
        assert (image.digest, image.width, image.height) == (first[0].digest, 64, 32)


def test_what_is_no_image_is_refused_every_time(store, inline):
    for source in ("not base64!", inline(b"not an image")) * 2:
        with pytest.raises(BadImage):
            store.open(source)
