import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mintact_plugin_torch.engine.request import random_stream
from mintact_plugin_torch.engine.sampling import sample


def _heat(*values):
    return torch.tensor(values, dtype=torch.float32)


def test_logprobs_are_those_of_the_tempered_distribution():
    logits = torch.randn(64, 50, generator=torch.Generator().manual_seed(0)) * 4
    uniforms = torch.from_numpy(random_stream(1).random(64))
    ids, logprobs = sample(logits, _heat(*[0.7] * 64), uniforms)
    expected = (logits / 0.7).log_softmax(-1).gather(-1, ids[:, None])[:, 0]
    assert torch.equal(logprobs, expected)


def test_frequencies_follow_the_distribution():
    logits = torch.tensor([[0.0, 1.0, 2.0, -torch.inf]]).expand(20000, 4)
    uniforms = torch.from_numpy(random_stream(0).random(20000))
    ids, _ = sample(logits, _heat(*[1.0] * 20000), uniforms)
    share = torch.bincount(ids, minlength=4) / 20000
    np.testing.assert_allclose(share, logits[0].softmax(-1), atol=0.01)
    assert not share[3]


def test_temperature_zero_takes_the_most_probable_id_scored_at_one():
    logits = torch.tensor([[0.0, 3.0, 1.0], [0.0, 3.0, 1.0]])
    ids, logprobs = sample(logits, _heat(0.0, 1.0), torch.tensor([0.999, 0.0]).double())
    assert ids.tolist() == [1, 0]
    assert logprobs[0] == logits[0].log_softmax(-1)[1]


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=9), st.integers(0, 1 << 20))
def test_a_row_depends_on_no_other_row(uniforms, seed):
    logits = torch.randn(len(uniforms), 17, generator=torch.Generator().manual_seed(seed))
    heat = torch.linspace(0.0, 2.0, len(uniforms))
    draws = torch.tensor(uniforms, dtype=torch.float64)
    together = sample(logits, heat, draws)
    for row in range(len(uniforms)):
        alone = sample(*(part[row : row + 1] for part in (logits, heat, draws)))
        assert together.ids[row] == alone.ids[0]


def test_the_largest_draw_below_one_stays_inside_the_vocabulary():
    ids, _ = sample(torch.zeros(1, 7), _heat(1.0), torch.tensor([np.nextafter(1.0, 0.0)]))
    assert ids.tolist() == [6]


def test_a_seed_gives_one_stream_of_numbers():
    assert random_stream(5).random(4).tolist() == random_stream(5).random(4).tolist()
    assert random_stream(5).random() != random_stream(6).random()
    assert random_stream(None).random() != random_stream(None).random()
