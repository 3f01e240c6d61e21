import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_plugin_torch.engine.attention import Plan, Row, order

SLOTS, KEY_HEADS, CONTEXT, SIZE = 9, 2, 24, 4


def _naive(query, key, value):
    """Attention of the last queries over all keys, one head at a time, in float64."""
    tokens, heads, _ = query.shape
    output = torch.zeros(tokens, heads, SIZE, dtype=torch.float64)
    for head in range(heads):
        keys = key[:, head // (heads // KEY_HEADS)].double()
        values = value[:, head // (heads // KEY_HEADS)].double()
        for token in range(tokens):
            seen = len(keys) - tokens + token + 1
            scores = keys[:seen] @ query[token, head].double() / SIZE**0.5
            output[token, head] = scores.softmax(0) @ values[:seen]
    return output.flatten(1)


@st.composite
def batches(draw):
    slots = draw(st.lists(st.integers(0, SLOTS - 1), min_size=1, max_size=SLOTS, unique=True))
    rows = []
    for slot in slots:
        start = draw(st.integers(0, CONTEXT - 1))
        rows.append(Row(slot, start, draw(st.integers(1, min(5, CONTEXT - start)))))
    return sorted(rows, key=order)


@settings(deadline=None, max_examples=60)
@given(batches(), st.sampled_from([2, 6]), st.integers(0, 1 << 30))
def test_packed_rows_attend_to_their_own_slot_and_past_only(rows, heads, seed):
    torch.manual_seed(seed)
    keys = torch.randn(SLOTS, KEY_HEADS, CONTEXT, SIZE)
    values = torch.randn(SLOTS, KEY_HEADS, CONTEXT, SIZE)
    before = keys.clone()
    total = sum(row.tokens for row in rows)
    query = torch.randn(total, heads, SIZE)
    key, value = torch.randn(2, total, KEY_HEADS, SIZE)
    plan = Plan(rows, torch.float32, torch.device("cpu"))
    plan.write(key, value, keys, values)
    output = plan.attend(query, keys, values)
    first = 0
    for slot, start, tokens in rows:
        new = slice(first, first + tokens)
        first += tokens
        assert torch.equal(keys[slot, :, start : start + tokens], key[new].transpose(0, 1))
        assert torch.equal(keys[slot, :, :start], before[slot, :, :start])
        end = start + tokens
        seen = keys[slot, :, :end].transpose(0, 1), values[slot, :, :end].transpose(0, 1)
        np.testing.assert_allclose(output[new], _naive(query[new], *seen), atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(batches(), st.sampled_from([2, 6]), st.integers(0, 1 << 30))
def test_a_plan_moved_on_is_the_plan_of_the_next_tokens(rows, heads, seed):
    rows = sorted((Row(slot, min(start, CONTEXT - 3), 1) for slot, start, _ in rows), key=order)
    torch.manual_seed(seed)
    slots = torch.randn(2, SLOTS, KEY_HEADS, CONTEXT, SIZE)
    moved = Plan(rows, torch.float32, torch.device("cpu"))
    for step in range(3):
        now = Plan(
            [row._replace(start=row.start + step) for row in rows],
            torch.float32,
            torch.device("cpu"),
        )
        query = torch.randn(len(rows), heads, SIZE)
        key, value = torch.randn(2, len(rows), KEY_HEADS, SIZE)
        written = []
        for plan in (now, moved):
            keys, values = slots.clone()
            plan.write(key, value, keys, values)
            written.append((keys, values, plan.attend(query, keys, values)))
        for expected, tensor in zip(*written, strict=True):
            torch.testing.assert_close(tensor, expected, atol=1e-6, rtol=1e-6)
        slots = torch.stack(written[0][:2])
        moved.advance()
