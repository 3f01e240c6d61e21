import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from mintact_plugin_torch.engine.slots import Slots, common_prefix, image_key


def _slots(count=4, **options):
    return Slots(
        count,
        64,
        layers=2,
        heads=1,
        head_size=1,
        dtype=torch.float64,
        device=torch.device("cpu"),
        **options,
    )


class Machine(RuleBasedStateMachine):
    """Requests come, compute, and go; a slot must always hold what its keys say."""

    def __init__(self):
        super().__init__()
        self.slots = _slots(capacity=8)
        self.running = {}
        self.finished = [np.arange(20)]

    @rule(source=st.integers(0, 1 << 20), keep=st.integers(0, 60), salt=st.integers(0, 2))
    def arrive(self, source, keep, salt):
        base = self.finished[source % len(self.finished)][:keep]
        keys = np.concatenate([base, [1000 + salt, 7, 7]]).astype(np.int64)[:60]
        held = self.slots.busy
        reservation = self.slots.reserve(keys)
        if reservation is None:
            assert self.slots.busy == held
            return
        assert reservation.slot not in self.running
        assert reservation.cached < len(keys)
        self.running[reservation.slot] = keys

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 10), tokens=st.integers(1, 60))
    def compute(self, which, tokens):
        slot = sorted(self.running)[which % len(self.running)]
        keys, start = self.running[slot], self.slots.lengths[slot]
        end = min(len(keys), start + tokens)
        with torch.inference_mode():
            self.slots.fit(end)
        for tensor in (*self.slots.keys, *self.slots.values):
            tensor[slot, 0, start:end, 0] = torch.from_numpy(keys[start:end]).double()
        self.slots.advance(slot, end - start)

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 10), keep=st.booleans())
    def leave(self, which, keep):
        slot = sorted(self.running)[which % len(self.running)]
        keys = self.running.pop(slot)
        self.finished.append(keys)
        self.slots.release(slot, keys if keep else None)

    @rule()
    def weights_change(self):
        self.slots.empty()
        for slot in range(self.slots.count):
            if slot not in self.running:
                assert not self.slots.lengths[slot]
                assert not self.slots.keys[0][slot].any()

    @invariant()
    def content_matches_keys(self):
        assert self.slots.busy == len(self.running)
        for slot, keys in self.running.items():
            length = self.slots.lengths[slot]
            for tensor in (*self.slots.keys, *self.slots.values):
                assert torch.equal(
                    tensor[slot, 0, :length, 0], torch.from_numpy(keys[:length] * 1.0)
                )


Machine.TestCase.settings = settings(deadline=None, max_examples=40, stateful_step_count=30)
test_slots_hold_what_their_keys_say = Machine.TestCase


def test_a_next_turn_continues_in_its_own_slot():
    slots = _slots()
    first = slots.reserve(np.arange(30))
    slots.advance(first.slot, 30)
    slots.release(first.slot, np.arange(30))
    again = slots.reserve(np.arange(40))
    assert again == (first.slot, 30)


def test_a_turn_that_changes_the_end_of_a_conversation_continues_in_its_slot():
    slots = _slots()
    first = slots.reserve(np.arange(40))
    slots.advance(first.slot, 40)
    slots.release(first.slot, np.arange(40))
    changed = np.concatenate([np.arange(38), [7, 7, 7]])
    assert slots.reserve(changed) == (first.slot, 38)


def test_a_conversation_is_kept_when_another_shares_only_its_beginning():
    slots = _slots()
    first = slots.reserve(np.arange(40))
    slots.advance(first.slot, 40)
    slots.release(first.slot, np.arange(40))
    other = slots.reserve(np.concatenate([np.arange(20), [7, 7, 7]]))
    assert (other.slot != first.slot, other.cached) == (True, 20)
    assert slots.reserve(np.arange(50)) == (first.slot, 40)


def test_an_identical_prompt_waits_for_the_one_being_computed_then_copies_it():
    slots = _slots()
    first = slots.reserve(np.arange(30))
    assert slots.reserve(np.arange(30)) is None
    slots.advance(first.slot, 30)
    second = slots.reserve(np.arange(30))
    assert second.slot != first.slot
    assert second.cached == 29, "the last token is computed: its logits are needed"


def test_the_least_recently_used_conversation_makes_room():
    slots = _slots(2)
    for start in (0, 100):
        held = slots.reserve(np.arange(start, start + 30))
        slots.advance(held.slot, 30)
        slots.release(held.slot, np.arange(start, start + 30))
    touched = slots.reserve(np.arange(31))
    slots.advance(touched.slot, 1)
    slots.release(touched.slot, np.arange(31))
    slots.release(slots.reserve(np.arange(500, 530)).slot, None)
    assert slots.reserve(np.arange(40)).cached == 31
    assert slots.reserve(np.arange(100, 140)).cached == 0


def test_memory_grows_with_the_longest_request_up_to_the_context():
    slots = _slots(capacity=8)
    held = slots.reserve(np.arange(30))
    for length, capacity in ((8, 8), (9, 16), (40, 40), (41, 64)):
        slots.fit(length)
        assert slots.capacity == capacity
        assert {t.shape for t in (*slots.keys, *slots.values)} == {(4, 1, capacity, 1)}
    slots.keys[0][held.slot, 0, 63] = 1
    assert not slots.values[1].any()


def test_without_reuse_every_request_starts_empty():
    slots = _slots(reuse=False)
    held = slots.reserve(np.arange(30))
    assert slots.reserve(np.arange(30)).cached == 0
    slots.advance(held.slot, 30)
    slots.release(held.slot, np.arange(30))
    assert slots.reserve(np.arange(30)).cached == 0


@pytest.mark.parametrize(
    ("a", "b", "length"), [([], [1], 0), ([1, 2], [1, 2, 3], 2), ([1, 5, 3], [1, 2, 3], 1)]
)
def test_common_prefix_counts_leading_equals(a, b, length):
    assert common_prefix(np.array(a, dtype=np.int64), np.array(b, dtype=np.int64)) == length


def test_image_keys_are_never_token_ids():
    keys = {image_key(f"{number:064x}") for number in range(1000)}
    assert len(keys) == 1000
    assert max(keys) < 0
