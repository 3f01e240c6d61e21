"""Our advantages under verl's signature of an advantage estimator, with torch only."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mintact_plugin_verl.advantages import Estimator

from mintact_platform.errors import ConfigurationError, PluginError
from mintact_platform.registry.names import Registry


@pytest.fixture(scope="module")
def registry():
    return Registry.discover()


@pytest.fixture
def estimator(registry):
    return lambda name: Estimator(name, registry.get("advantages", name))


MASK = torch.tensor(
    [[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]]
)
UID = np.array(["a", "a", "a", "a", "b", "b"], dtype=object)


def rewards(*values):
    """verl puts a rollout's reward on its last token."""
    matrix = torch.zeros(MASK.shape)
    matrix[:, -1] = torch.tensor(values)
    return matrix


def test_a_failed_rollout_is_no_part_of_the_baseline(estimator):
    given = rewards(1.0, 0.0, 0.0, 1.0, 1.0, 0.0)
    advantages, returns = estimator("mintact")(given, MASK, index=UID)
    expected = torch.tensor([2 / 3, -1 / 3, -1 / 3, 0.0, 0.5, -0.5])
    torch.testing.assert_close(advantages, expected[:, None] * MASK)
    assert advantages.dtype == given.dtype
    assert torch.equal(advantages, returns)


def test_parameters_come_from_the_algorithms_section(estimator):
    given = rewards(1.0, 0.0, 0.0, 1.0, 1.0, 0.0)
    plain, _ = estimator("grpo")(given, MASK, config={"gamma": 1.0}, index=UID)
    wide, _ = estimator("grpo")(given, MASK, config={"mintact": {"epsilon": 10.0}}, index=UID)
    assert wide.abs().max() < plain.abs().max() / 5
    with pytest.raises(ConfigurationError, match="advantage 'grpo' in verl: unknown parameter"):
        estimator("grpo")(given, MASK, config={"mintact": {"epsilom": 1}}, index=UID)


def test_an_advantage_a_token_lands_on_the_models_own_tokens():
    def position(batch):
        width = int(batch.lengths.max())
        return torch.arange(width, dtype=torch.float64).expand(len(batch.rewards), width) + 1

    advantages, _ = Estimator("acme/position", position)(rewards(*[0.0] * 6), MASK, index=UID)
    assert advantages.tolist() == [
        [1, 2, 0, 3],
        [1, 0, 0, 0],
        [1, 2, 3, 4],
        [0, 0, 0, 0],
        [1, 2, 0, 0],
        [1, 0, 2, 0],
    ]


def test_a_hole_begins_a_new_turn():
    seen = {}

    def look(batch):
        seen["turns"] = batch.turn_of_token.tolist()
        return batch.rewards

    Estimator("acme/look", look)(rewards(*[0.0] * 6), MASK, index=UID)
    assert seen["turns"][0] == [0, 0, 1, -1]
    assert seen["turns"][2] == [0, 0, 0, 0]
    assert seen["turns"][5] == [0, 1, -1, -1]


def test_without_groups_the_line_says_so(estimator):
    with pytest.raises(ConfigurationError, match="verl named no groups; the batch needs 'uid'"):
        estimator("mintact")(rewards(*[0.0] * 6), MASK)


def test_a_broken_advantage_is_named():
    with pytest.raises(PluginError, match=r"advantage 'acme/bad': returned \[1\] for 6 rows"):
        Estimator("acme/bad", lambda batch: batch.rewards[:1])(rewards(*[0.0] * 6), MASK, index=UID)
