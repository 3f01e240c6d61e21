import itertools
import re
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mintact_platform.actions.ui import MobileUse, ToolUse
from mintact_platform.datasets.shards import read_rows, write_rows
from mintact_platform.datasets.supervised import (
    Renderer,
    Source,
    SupervisedRow,
    batch,
    locate,
    overlapping,
    sources,
)
from mintact_platform.errors import ConfigurationError, PluginNotFound, StorageError
from mintact_platform.models.chat import Qwen3VLChat
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.demonstration import Demonstration, DemonstrationTurn, Focus
from mintact_platform.registry.names import Registry

SPACES = {"mobile_use": MobileUse(prompt="short"), "tool_use": ToolUse(prompt="short")}


def characters() -> Qwen3VLChat:
    """A chat format over single bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad")
    tokenizer.add_special_tokens([AddedToken(f"<|{n}|>", special=True) for n in names])
    return Qwen3VLChat(tokenizer)


CHAT = characters()
RENDERER = Renderer(CHAT, VisionSize(16, 2, 1 << 20), SPACES.__getitem__)


def clicking(name: str, x: int, y: int) -> str:
    return (
        f"<think>open {name}</think><tool_call>"
        f'{{"name": "mobile_use", "arguments": {{"action": "click", "coordinate": [{x}, {y}]}}}}'
        "</tool_call>"
    )


def screen(width: int = 128, height: int = 128, shade: int = 0) -> np.ndarray:
    return np.full((height, width, 3), shade, np.uint8)


def taps() -> Demonstration:
    turns = (
        DemonstrationTurn("", screen(), clicking("red", 390, 117), Focus("red", (35, 3, 60, 28))),
        DemonstrationTurn(
            "saved", screen(64, 96, 9), clicking("blue", 7, 80), Focus("blue", (2, 66, 30, 90))
        ),
        DemonstrationTurn("bye", None, "<think>done</think>"),
    )
    return Demonstration("mobile", "mobile_use", "open red", turns)


def supervised_texts(row: SupervisedRow) -> list[str]:
    runs = itertools.groupby(zip(row.mask, row.ids, strict=True), key=lambda pair: bool(pair[0]))
    return [CHAT.decode([int(i) for _, i in run]) for masked, run in runs if masked]


def test_a_row_reads_like_the_rollout_it_stands_for():
    (row,) = RENDERER.rows(taps())
    image = "<|vision_start|><|image_pad|><|vision_end|>"
    first, second = clicking("red", 390, 117), clicking("blue", 7, 80)
    assert CHAT.decode(row.ids.tolist()) == (
        f"<|im_start|>system\n{SPACES['mobile_use'].system_prompt(None)}<|im_end|>\n"
        f"<|im_start|>user\n{image}open red<|im_end|>\n<|im_start|>assistant\n{first}<|im_end|>\n"
        f"<|im_start|>user\n{image}saved<|im_end|>\n<|im_start|>assistant\n{second}<|im_end|>\n"
        "<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n<think>done</think><|im_end|>\n"
    )
    ends = [f"{text}<|im_end|>" for text in (first, second, "<think>done</think>")]
    assert supervised_texts(row) == ends
    assert [(i.width, i.height) for i in row.images] == [(128, 128), (64, 96)]
    assert all(row.ids[i.position] == CHAT.image_id for i in row.images)


def test_guidance_points_from_each_coordinate_digit_to_its_word_and_cells():
    (row,) = RENDERER.rows(taps())
    predicted = "".join(CHAT.decode([int(row.ids[g.query + 1])]) for g in row.guidance)
    assert predicted == "390117" + "780"
    assert [CHAT.decode([int(row.ids[g.word])]) for g in row.guidance] == ["d"] * 6 + ["e"] * 3
    assert {(g.image, g.cells) for g in row.guidance} == {(0, (1,)), (1, (4,))}
    assert all(row.mask[g.query + 1] for g in row.guidance)


def test_without_a_coordinate_the_last_word_of_the_thought_is_guided():
    turn = DemonstrationTurn(
        "", screen(), "<think>circle is red</think>", Focus("circle", (10, 10, 54, 54))
    )
    (row,) = RENDERER.rows(Demonstration("tools", "tool_use", "color of the circle", (turn,)))
    (hint,) = row.guidance
    assert CHAT.decode(row.ids[hint.query - 1 : hint.query + 2].tolist()) == "red"
    assert CHAT.decode(row.ids[hint.word - 5 : hint.word + 1].tolist()) == "circle"
    assert hint.cells == (0, 1, 4, 5)


def test_a_word_that_is_only_in_the_call_guides_nothing():
    text = '<think>go</think>{"coordinate": [1, 2], "text": "red"}'
    assert locate(CHAT, CHAT.encode(text), "red") is None


def test_a_screen_that_does_not_fit_is_resized_with_its_box():
    turn = DemonstrationTurn(
        "", screen(100, 70), clicking("red", 1, 2), Focus("red", (50.0, 35.0, 74.0, 69.0))
    )
    (row,) = RENDERER.rows(Demonstration("mobile", "mobile_use", "", (turn,)))
    assert row.pixels[0].shape == (64, 96, 3)
    assert {g.cells for g in row.guidance} == {(4, 5)}


def test_changed_tools_fork_and_every_response_is_supervised_once():
    schema = {"name": "share_5", "parameters": {"properties": {"color": {}}}}
    turns = (
        DemonstrationTurn("", screen(), "first", Focus("first", (0, 0, 9, 9))),
        DemonstrationTurn("found", None, "second", tools=(schema,)),
        DemonstrationTurn("ok", screen(32, 32), "third"),
    )
    rows = RENDERER.rows(Demonstration("tools", "tool_use", "share", turns))
    assert [supervised_texts(row) for row in rows] == [
        ["first<|im_end|>"],
        ["second<|im_end|>", "third<|im_end|>"],
    ]
    assert "share_5(color)" in CHAT.decode(rows[1].ids.tolist())
    assert "first" in CHAT.decode(rows[1].ids.tolist())
    assert [len(row.pixels) for row in rows] == [1, 2]


@given(
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=12), st.booleans()), max_size=6),
    st.sets(st.integers(0, 5)),
)
def test_every_response_is_supervised_exactly_once_over_the_rows(turns, changes):
    made = tuple(
        DemonstrationTurn(
            text,
            screen(32, 32) if shown else None,
            response,
            tools=({"name": f"tool_{k}"},) if k in changes else None,
        )
        for k, (text, response, shown) in enumerate(turns)
    )
    rows = RENDERER.rows(Demonstration("tools", "tool_use", "goal", made))
    texts = [text for row in rows for text in supervised_texts(row)]
    expected = [CHAT.decode(CHAT.encode(turn.response)) + "<|im_end|>" for turn in made]
    assert texts == expected


@given(st.floats(0, 120), st.floats(0, 120), st.floats(1, 60), st.floats(1, 60))
def test_a_box_on_the_screen_is_shown_by_some_cell_that_it_touches(x, y, width, height):
    box = (x, y, min(128.0, x + width), min(128.0, y + height))
    cells = overlapping(box, (128, 128), 32)
    assert cells
    for cell in cells:
        row, column = divmod(cell, 4)
        assert column * 32 < box[2]
        assert (column + 1) * 32 > box[0]
        assert row * 32 < box[3]
        assert (row + 1) * 32 > box[1]


def test_rows_come_back_from_disk_as_they_were(tmp_path):
    rows = [*RENDERER.rows(taps()), *RENDERER.rows(Demonstration("web", "mobile_use", "x", ()))]
    rows += RENDERER.rows(
        Demonstration("tools", "tool_use", "", (DemonstrationTurn("", None, "a"),))
    )
    first = write_rows(tmp_path / "data" / "1.safetensors", rows)
    second = write_rows(tmp_path / "data" / "2.safetensors", rows[:1])
    assert [p.name for p in sorted((tmp_path / "data").iterdir())] == [
        "1.safetensors",
        "2.safetensors",
    ]
    references = [second[0], *reversed(first)]
    for row, again in zip([rows[0], *reversed(rows)], read_rows(references), strict=True):
        assert again.ids.dtype == np.int32
        assert np.array_equal(again.ids, row.ids)
        assert np.array_equal(again.mask, row.mask)
        assert all(map(np.array_equal, again.pixels, row.pixels))
        assert again.guidance == row.guidance
        assert again.domain == row.domain
        spans = [(i.position, i.width, i.height) for i in row.images]
        assert [(i.position, i.width, i.height) for i in again.images] == spans


def test_a_reference_to_nothing_is_refused(tmp_path):
    (reference,) = write_rows(tmp_path / "1.safetensors", RENDERER.rows(taps()))
    with pytest.raises(StorageError, match=re.escape("1.safetensors#7")):
        read_rows([reference.replace("#0", "#7")])
    with pytest.raises(StorageError, match="no file"):
        read_rows([str(tmp_path / "2.safetensors#0")])


def counting(*, seed: int, domains: tuple[str, ...] = ("a", "b")) -> Iterator[Demonstration]:
    for index, domain in enumerate(itertools.cycle(domains)):
        yield Demonstration(domain, "mobile_use", f"{seed}/{index}", ())


@given(st.integers(1, 40), st.lists(st.floats(0.1, 5), min_size=1, max_size=4))
def test_batches_have_their_size_and_shares_hold_over_the_steps(size, shares):
    parts = [
        Source(str(k), lambda *, seed, k=k: counting(seed=seed, domains=(str(k),)), share)
        for k, share in enumerate(shares)
    ]
    steps = 20
    drawn = [batch(parts, step=step, size=size, seed=0) for step in range(1, steps + 1)]
    assert {len(demonstrations) for demonstrations in drawn} == {size}
    for k, share in enumerate(shares):
        count = sum(d.domain == str(k) for demonstrations in drawn for d in demonstrations)
        assert abs(count - steps * size * share / sum(shares)) <= 2.5


def test_a_batch_depends_on_its_step_and_seed_alone():
    parts = [Source("count", counting)]
    goals = [
        [d.goal for d in batch(parts, step=step, size=4, seed=seed)]
        for step, seed in ((3, 0), (3, 0), (4, 0), (3, 1))
    ]
    assert goals[0] == goals[1]
    assert len({tuple(g) for g in goals}) == 3


def test_data_entries_are_checked_when_read():
    registry = Registry.discover({"MINTACT_PLUGINS": "none"})
    registry.tables["demonstrations"]["test/count"] = {"mintact-platform": counting}
    (source,) = sources([{"name": "test/count", "params": {"domains": ["c"]}}], registry)
    assert next(source.open(seed=5)).goal == "5/0"
    assert next(source.open(seed=5)).domain == "c"
    for entry, complaint in (
        ({"name": "test/count", "shares": 1}, "shares"),
        ({"name": "test/count", "share": 0}, "positive"),
        ({"name": "test/count", "params": {"domain": "c"}}, "domains"),
    ):
        with pytest.raises(ConfigurationError, match=complaint):
            sources([entry], registry)
    with pytest.raises(PluginNotFound, match="test/count"):
        sources([{"name": "test/counts"}], registry)
    with pytest.raises(ConfigurationError, match=r"sft\.data"):
        sources([], registry)
