import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mintact_plugin_torch.layout import expand
from mintact_plugin_torch.policy import Policy
from mintact_plugin_torch.warmstart import align, command, guidance, tiny
from mintact_plugin_torch.warmstart import tokenizer as vocabulary
from tokenizers import Tokenizer

from mintact_platform.datasets.supervised import Guidance, SupervisedRow
from mintact_platform.errors import ConfigurationError, PluginNotFound
from mintact_platform.models.chat import Qwen3VLChat, check_prefix
from mintact_platform.records.demonstration import Demonstration, DemonstrationTurn
from mintact_platform.records.trajectory import ImageSpan
from mintact_platform.registry.names import Registry

CALL = (
    '<think>open red</think><tool_call>{"name": "mobile_use", "arguments": '
    '{"action": "click", "coordinate": [500, 120]}}</tool_call>'
)


def squares(*, seed: int):
    """Two coloured squares on a 4×4 grid: all an aligned model needs to name and to locate."""
    random = np.random.default_rng(seed)
    colours = {"red": (224, 40, 40), "green": (40, 180, 60), "blue": (40, 80, 230)}
    while True:
        pixels = np.full((128, 128, 3), 240, np.uint8)
        elements = []
        cells = random.choice(16, 2, replace=False)
        for name, cell in zip(random.choice(list(colours), 2, replace=False), cells, strict=True):
            y, x = divmod(int(cell), 4)
            pixels[y * 32 + 4 : y * 32 + 28, x * 32 + 4 : x * 32 + 28] = colours[str(name)]
            box = (x * 32 + 4.0, y * 32 + 4.0, x * 32 + 28.0, y * 32 + 28.0)
            elements.append((str(name), box))
        turn = DemonstrationTurn("", pixels, CALL, elements=tuple(elements))
        yield Demonstration("mobile", "mobile_use", "open red and turn on green", (turn,))


@pytest.fixture(scope="module")
def registry() -> Registry:
    found = Registry.discover()
    found.tables["demonstrations"]["test/squares"] = {"mintact-platform": squares}
    return found


@pytest.fixture(scope="module")
def tokenizer(tiny_model_dir: Path) -> Tokenizer:
    return Tokenizer.from_file(str(tiny_model_dir / "tokenizer.json"))


def new(out: Path, registry: Registry, **changes) -> Path:
    inputs = {"seed": 0, "align_steps": 2, **changes}
    return command.new_model(
        out, registry, demonstrations=["test/squares"], elements="test/squares", **inputs
    )


def test_text_survives_the_tokenizer_and_calls_are_short(tokenizer):
    ids = tokenizer.encode(CALL, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == CALL
    assert len(ids) <= 24
    for text in ("ünïcode ☃", "\n\n a  b", "<think>", "</tool_call>x", '{"a": 1}'):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_digits_are_single_tokens_whatever_stands_beside_them(tokenizer):
    tokens = tokenizer.encode("120 1 [37, 999] share_5").tokens
    assert [t for t in tokens if any(map(str.isdigit, t))] == list("1201379995")


def test_the_tokenizer_fits_the_chat_format(tokenizer):
    check_prefix(Qwen3VLChat(tokenizer))


def test_the_vocabulary_is_bounded_and_special_tokens_are_distinct():
    tokenizer = vocabulary.train((f"some words number {i} about" for i in range(999)), entries=320)
    assert tokenizer.get_vocab_size() <= 320
    assert len(set(vocabulary.special_ids(tokenizer).values())) == len(vocabulary.SPECIAL)


def test_a_tiny_model_is_made_of_its_seed_alone(tmp_path):
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = tiny.make_tiny(tmp_path / "first", seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    second = tiny.make_tiny(tmp_path / "second", seed=3)
    other = tiny.make_tiny(tmp_path / "other", seed=4)
    assert command.digest(first) == command.digest(second) != command.digest(other)


def test_alignment_teaches_names_and_places(tokenizer, monkeypatch):
    monkeypatch.setattr(align, "IMAGES", 12)
    policy = tiny.build(tokenizer, 0)
    lines: list[str] = []
    align.align(
        policy,
        Qwen3VLChat(tokenizer).encode,
        align.screens(squares(seed=1)),
        steps=50,
        progress=lines.append,
    )
    assert lines[-1].startswith("align 50/50")
    assert int(lines[-1].split()[-1].rstrip("%")) > 90
    screens = list(itertools.islice(align.screens(squares(seed=2)), 8))
    with torch.no_grad():
        features = policy.encode([policy.cut(screen.pixels) for screen in screens]).tokens
    words = policy.model.model.language_model.embed_tokens.weight
    ratio = features.norm(dim=-1).mean() / words.detach().norm(dim=-1).mean()
    assert 0.8 < float(ratio) < 1.25


def test_new_model_is_made_once_and_equal_from_equal_inputs(tmp_path, registry):
    lines: list[str] = []
    first = new(tmp_path / "first", registry, progress=lines.append)
    assert any(line.startswith("align 2/2") for line in lines)
    stamp = json.loads((first / command.STAMP).read_text())
    assert stamp["digest"] == command.digest(first)
    written = (first / "model.safetensors").stat().st_mtime_ns
    assert new(first, registry, progress=lines.append) == first
    assert lines[-1].endswith("up to date")
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    assert command.digest(new(tmp_path / "second", registry)) == stamp["digest"]
    Policy.load(first)


def test_new_model_never_overwrites_what_it_did_not_make(tmp_path, registry):
    other = tmp_path / "other"
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    with pytest.raises(ConfigurationError, match="no model of ours"):
        new(other, registry)
    made = new(tmp_path / "made", registry, align_steps=0)
    with pytest.raises(ConfigurationError, match="made with other seed"):
        new(made, registry, align_steps=0, seed=1)
    (made / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="files changed"):
        new(made, registry, align_steps=0)


def test_new_model_names_demonstrations_nobody_registers(tmp_path, registry):
    with pytest.raises(PluginNotFound, match="squares"):
        command.new_model(
            tmp_path / "m",
            registry,
            demonstrations=["test/square"],
            elements="test/squares",
            seed=0,
            align_steps=0,
        )


def guided_row(policy: Policy) -> tuple[SupervisedRow, object]:
    ids = np.arange(20, 40, dtype=np.int32)
    ids[3] = policy.image_token_id
    hints = (Guidance(query=12, word=8, image=0, cells=(1, 2)), Guidance(14, 8, 0, (3,)))
    pixels = np.zeros((64, 64, 3), np.uint8)
    row = SupervisedRow(
        ids, np.zeros(20, np.bool_), (ImageSpan("0", "", 3, 64, 64),), (pixels,), hints, "web"
    )
    return row, expand(ids, [(3, 64, 64)], policy.layout)


def test_guidance_leaves_the_output_alone_and_pulls_attention_to_its_targets(tiny_model_dir):
    policy = Policy.load(tiny_model_dir)
    row, expanded = guided_row(policy)
    wanted = guidance.targets([row], [expanded])
    assert wanted is not None
    assert wanted.queries.tolist() == [15, 17]
    assert [line.nonzero().flatten().tolist() for line in wanted.words] == [[11], [11]]
    assert [line.nonzero().flatten().tolist() for line in wanted.images] == [[4, 5], [6]]
    inputs = (
        torch.from_numpy(expanded.ids)[None],
        torch.from_numpy(expanded.positions)[:, None],
        torch.from_numpy(expanded.is_image)[None],
    )
    patches = [policy.cut(row.pixels[0])]
    plain = policy.hidden(*inputs, policy.encode(patches))
    adam = torch.optim.AdamW(policy.model.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        guide = guidance.Guide(wanted)
        with guidance.guided(policy):
            hidden = policy.hidden(*inputs, policy.encode(patches), guide=guide)
        if not losses:
            assert torch.allclose(hidden, plain, atol=1e-6)
        losses.append(guide.loss)
        guide.loss.backward()
        adam.step()
        adam.zero_grad()
    assert losses[-1] < 0.5 * losses[0]
    assert policy.model.model.language_model.config._attn_implementation == "sdpa"


def test_guidance_equals_the_attention_of_the_stock_eager_implementation(tiny_model_dir):
    policy = Policy.load(tiny_model_dir)
    row, expanded = guided_row(policy)
    wanted = guidance.targets([row], [expanded])
    assert wanted is not None
    inputs = (
        torch.from_numpy(expanded.ids)[None],
        torch.from_numpy(expanded.positions)[:, None],
        torch.from_numpy(expanded.is_image)[None],
    )
    guide = guidance.Guide(wanted)
    with torch.no_grad():
        features = policy.encode([policy.cut(row.pixels[0])])
        with guidance.guided(policy):
            policy.hidden(*inputs, features, guide=guide)
        text = policy.model.model.language_model
        text.config._attn_implementation = "eager"
        embeddings = text.embed_tokens(inputs[0]).masked_scatter(
            inputs[2][..., None], features.tokens
        )
        output = text(
            inputs_embeds=embeddings,
            position_ids=inputs[1],
            visual_pos_masks=inputs[2],
            deepstack_visual_embeds=list(features.deepstack),
            output_attentions=True,
        )
    for part, layer, targets in zip(guide.parts, (0, 1), wanted[2:], strict=True):
        paid = (output.attentions[layer][0, 0, wanted.queries] * targets).sum(-1)
        assert torch.allclose(part, -paid.log().mean(), atol=1e-5)


def test_rows_without_hints_have_no_targets(tiny_model_dir):
    policy = Policy.load(tiny_model_dir)
    row, expanded = guided_row(policy)
    bare = SupervisedRow(row.ids, row.mask, row.images, row.pixels, (), row.domain)
    assert guidance.targets([bare], [expanded]) is None
