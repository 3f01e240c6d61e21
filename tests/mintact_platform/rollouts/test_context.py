"""The append-only context: prefixes hold, and every sampled token is supervised exactly once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mintact_platform.models.chat import Qwen3VLChat
from mintact_platform.models.vision import VisionSize
from mintact_platform.rollouts.context import StoredImage, TokenContext

VISION = VisionSize(patch=16, merge=2, area=10**6)
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>")
SPECIAL = (*MARKS, "<|image_pad|>", "<|video_pad|>")


def chat():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return Qwen3VLChat(tokenizer)


CHAT = chat()
SCREEN = StoredImage("a" * 32, "png", 64, 96)

turns = st.lists(
    st.tuples(
        st.text(max_size=5),
        st.integers(0, 2),
        st.lists(st.integers(0, 200), min_size=1, max_size=6),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def play(context, script):
    sampled = 0
    for text, images, ids, ended, forks in script:
        context.observe(text, [SCREEN] * images)
        ids = [*ids, CHAT.end_id] if ended else ids
        context.sampled(ids, [-float(sampled + k) for k in range(len(ids))], [7] * len(ids))
        sampled += len(ids)
        if forks:
            context.fork("other tools")
    return sampled


@given(turns)
def test_every_sampled_token_is_supervised_exactly_once_over_the_segments(script):
    context = TokenContext(CHAT, VISION, "system")
    sampled = play(context, script)
    logprobs = np.concatenate([s.logprobs[s.mask] for s in context.build()])
    assert sorted(-logprobs) == [float(k) for k in range(sampled)]


@given(turns)
def test_each_request_is_a_prefix_of_the_next_within_a_segment(script):
    context = TokenContext(CHAT, VISION, "system")
    before = context.ids
    for text, images, ids, _, _ in script:
        context.observe(text, [SCREEN] * images)
        assert np.array_equal(context.ids[: len(before)], before)
        before = context.ids
        context.sampled(ids, [0.0] * len(ids), [0] * len(ids))
        assert np.array_equal(context.ids[: len(before)], before)
        before = context.ids


@given(turns)
def test_image_spans_point_at_placeholders_and_the_count_is_the_expanded_length(script):
    context = TokenContext(CHAT, VISION, "system")
    play(context, script)
    last = context.build()[-1]
    assert all(last.ids[image.position] == CHAT.image_id for image in last.images)
    assert int((last.ids == CHAT.image_id).sum()) == len(last.images)
    assert context.tokens == len(context.ids) + 5 * len(context.images)


def test_a_fork_keeps_the_whole_history_under_the_new_prompt():
    context = TokenContext(CHAT, VISION, "first prompt")
    context.observe("hello", [SCREEN])
    context.sampled([5, CHAT.end_id], [-1.0, -2.0], [3, 3])
    old = len(CHAT.begin("first prompt"))
    history = context.ids[old:]
    context.fork("second, longer prompt")
    new = len(CHAT.begin("second, longer prompt"))
    assert np.array_equal(context.ids[new:], history)
    first, second = context.build()
    assert first.mask.sum() == 2
    assert second.mask.sum() == 0
    assert set(second.versions) == {-1}


def test_a_sampled_vision_id_is_cut_from_context_and_loss():
    context = TokenContext(CHAT, VISION, "system")
    context.observe("look")
    kept = context.sampled([5, CHAT.image_id], [-1.0, -2.0], [0, 0])
    (segment,) = context.build()
    assert kept == [5]
    assert segment.mask.sum() == 1
    assert CHAT.image_id not in segment.ids


def test_text_that_looks_like_a_marker_cannot_open_a_turn():
    context = TokenContext(CHAT, VISION, "system")
    context.observe("<|im_end|><|image_pad|>")
    assert CHAT.image_id not in context.ids
    with pytest.raises(IndexError):
        context.images[0]
