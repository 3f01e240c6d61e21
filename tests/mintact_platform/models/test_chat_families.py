"""Chat formats of further families: each as its stock template writes it, grown only at its end."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.chat import NO_IMAGE, ChatFormat, check_prefix, load_chat
from mintact_platform.registry.names import Registry

QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>")
TILED = ("<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>")
TOKENS = {
    "qwen3": QWEN,
    "qwen2.5-vl": (*QWEN, *VISION),
    "smolvlm": ("<|im_start|>", *TILED, "<row_1_col_2>"),
}


def tokenizer(specials):
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("Ċ", "Ċ"), ("e", "r"), ("Ġ", "t"), (":", "Ġ"), ("Ċ", "U")]
    vocab = {token: i for i, token in enumerate([*alphabet, *(a + b for a, b in merges)])}
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in specials])
    return made


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """A registered format over a tokenizer file with its family's tokens."""

    def chat(name, specials=None):
        directory = tmp_path_factory.mktemp("tokenizer")
        tokenizer(specials or TOKENS[name]).save(str(directory / "tokenizer.json"))
        return load_chat(name, directory, Registry.discover())

    return chat


@pytest.mark.parametrize("name", TOKENS)
def test_registered_formats_only_grow(load, name):
    chat = load(name)
    assert isinstance(chat, ChatFormat)
    assert chat.name == name
    check_prefix(chat)


def render(chat, images):
    ids = chat.begin("Be brief.") + chat.user("look", images)
    reply = chat.encode(" ok")
    return ids + reply + chat.close_assistant(reply) + chat.user("\nmore\n", 0)


def test_qwen2_5_vl_writes_qwens_markers(load):
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    chat = load("qwen2.5-vl")
    assert chat.decode(render(chat, 2)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        f"<|im_start|>user\n{image}{image}look<|im_end|>\n<|im_start|>assistant\n ok<|im_end|>\n"
        "<|im_start|>user\n\nmore\n<|im_end|>\n<|im_start|>assistant\n"
    )


def test_qwen3_text_writes_the_same_and_refuses_images(load):
    chat = load("qwen3")
    assert chat.image_id == NO_IMAGE
    assert chat.decode(render(chat, 0)) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nlook<|im_end|>\n<|im_start|>assistant\n ok<|im_end|>\n"
        "<|im_start|>user\n\nmore\n<|im_end|>\n<|im_start|>assistant\n"
    )
    with pytest.raises(ConfigurationError, match="an image arrived"):
        chat.user("look", 1)


def test_qwen3_text_never_samples_the_vision_markers_its_tokenizer_has(load):
    chat = load("qwen3", (*QWEN, *VISION))
    assert {chat.decode([i]) for i in chat.reserved_ids} == {
        "<|endoftext|>",
        "<|im_start|>",
        *VISION,
    }


def test_smolvlm_writes_roles_and_its_end_marker(load):
    chat = load("smolvlm")
    ids = render(chat, 2)
    assert chat.decode(ids) == (
        "<|im_start|>System: Be brief.<end_of_utterance>\n"
        "User:<image><image>look<end_of_utterance>\nAssistant: ok<end_of_utterance>\n"
        "User: \nmore\n<end_of_utterance>\nAssistant:"
    )
    assert ids.count(chat.image_id) == 2
    assert {chat.decode([i]) for i in chat.stop_ids} == {*TOKENS["smolvlm"]}


def test_smolvlm_begins_as_llama_where_the_tokenizer_is_llamas(load):
    chat = load("smolvlm", ("<|begin_of_text|>", "<|im_start|>", *TILED))
    assert chat.decode(chat.begin("x")).startswith("<|begin_of_text|>System: x")


def test_a_missing_token_is_named_with_its_format(load):
    with pytest.raises(ConfigurationError, match=r"no '<image>'") as caught:
        load("smolvlm", ("<|im_start|>", "<end_of_utterance>"))
    assert "chat format smolvlm" in str(caught.value)


@pytest.mark.parametrize("name", TOKENS)
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_special_tokens_written_out_in_a_text_open_and_close_nothing(load_once, name, data):
    chat = load_once(name)
    texts = st.text(max_size=20) | st.sampled_from([*TOKENS[name], "\n", "User:", ""])
    ids, images = chat.begin(data.draw(texts)), 0
    for _ in range(3):
        before = list(ids)
        count = data.draw(st.integers(0, 2)) if chat.image_id != NO_IMAGE else 0
        reply = chat.encode(data.draw(texts))
        ids = ids + chat.user(data.draw(texts), count) + reply + chat.close_assistant(reply)
        images += count
        assert ids[: len(before)] == before
    assert ids.count(chat.end_id) == 7
    assert ids.count(chat.image_id) == images


@pytest.fixture(scope="module")
def load_once(load):
    made = {}

    def chat(name):
        if name not in made:
            made[name] = load(name)
        return made[name]

    return chat
