"""What verl cannot carry is refused in one line; what it can is printed as its arguments."""

from __future__ import annotations

import json

import pytest
from mintact_plugin_verl.command import main
from mintact_plugin_verl.losses import refusing
from mintact_plugin_verl.presets import overrides
from mintact_plugin_verl.representable import refusal

from mintact_platform.errors import ConfigurationError, PluginNotFound
from mintact_platform.registry.names import Registry
from mintact_platform.training.objective import Preset, objective


class Shelf:
    """A registry that knows things of the test besides what is installed."""

    def __init__(self, **presets):
        self.installed, self.parts = Registry.discover(), dict(presets)

    def get(self, kind, name):
        return self.parts[name] if name in self.parts else self.installed.get(kind, name)


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        ({"needs": {"entropy"}}, "it needs entropy, .*actor_rollout_ref.actor.entropy_coeff"),
        ({"needs": {"reference_logprobs"}}, "it needs reference_logprobs, .*use_kl_loss"),
        ({"correction": "own"}, "corrects for the rollout policy itself"),
        ({"micro_batch_invariant": False}, "must see the whole update at once"),
    ],
)
def test_what_verl_cannot_give_is_refused_and_says_so_when_used(declared, line):
    refused = refusal("acme/new", objective(**declared)(lambda batch: batch.logprobs))
    with pytest.raises(ConfigurationError, match=line) as caught:
        refusing(refused)(1, config=None)
    assert str(caught.value).startswith("objective 'acme/new' in verl: ")


def test_a_plain_objective_is_not_refused():
    assert refusal("acme/plain", lambda batch: batch.logprobs) is None


def test_the_papers_preset_as_arguments_of_verl():
    assert overrides(Registry.discover(), "mintact", length_cap=4096) == [
        "algorithm.adv_estimator=mintact_mintact",
        "actor_rollout_ref.actor.policy_loss._target_=mintact_plugin_verl.config.PolicyLossConfig",
        "actor_rollout_ref.actor.policy_loss.loss_mode=mintact_mintact",
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm",
        "actor_rollout_ref.actor.loss_scale_factor=4096",
        "algorithm.rollout_correction.rollout_is=token",
        "algorithm.rollout_correction.rollout_is_threshold=2.0",
    ]


def test_parameters_of_a_preset_are_carried_over():
    params = {"objective": {"clip": 0.1}, "advantage": {"epsilon": 0.5}}
    lines = overrides(Shelf(own=Preset("grpo", "ppo_clip", params=params)), "own", length_cap=8)
    assert "+algorithm.mintact.epsilon=0.5" in lines
    assert "+actor_rollout_ref.actor.policy_loss.mintact.clip=0.1" in lines
    assert "algorithm.rollout_correction.rollout_is=null" in lines


@pytest.mark.parametrize(
    ("normaliser", "mode"),
    [
        ("token_mean", "token-mean"),
        ("seq_mean_token_mean", "seq-mean-token-mean"),
        ("seq_mean_token_sum", "seq-mean-token-sum"),
    ],
)
def test_normalisers_that_verl_has_too_go_by_its_names(normaliser, mode):
    lines = overrides(Shelf(own=Preset("grpo", "ppo_clip", normaliser=normaliser)), "own")
    assert f"actor_rollout_ref.actor.loss_agg_mode={mode}" in lines


@pytest.mark.parametrize(
    ("correction", "params", "level", "bounds"),
    [
        ("truncate", {"cap": 3.0}, "token", "3.0"),
        ("truncate", {"level": "sequence"}, "sequence", "2.0"),
        ("truncate_sequence", {}, "sequence", "5.0"),
        ("mask", {}, "token", "'0.5_5.0'"),
        ("mask_sequence", {"low": 0.1}, "sequence", "'0.1_5.0'"),
    ],
)
def test_corrections_that_verl_has_too_go_by_its_names(correction, params, level, bounds):
    preset = Preset("grpo", "mintact", correction, "token_mean", {"correction": params})
    assert overrides(Shelf(own=preset), "own")[-2:] == [
        f"algorithm.rollout_correction.rollout_is={level}",
        f"algorithm.rollout_correction.rollout_is_threshold={bounds}",
    ]


LIVE = {"normaliser": {"count": "live"}}
NARROW = {"correction": {"kappa": 5.0}}


@pytest.mark.parametrize(
    ("preset", "line"),
    [
        (Preset("grpo", "mintact", "none", "seq_mean_token_mean", LIVE), "over live rollouts"),
        (Preset("grpo", "mintact", "mask_geometric"), "no correction like 'mask_geometric'"),
        (Preset("grpo", "mintact", "truncate", params=NARROW), "no correction like .* kappa 5"),
        (Preset("grpo", "topr"), "objective 'topr' in verl: it corrects"),
        (Preset("grpo", "mintact", terms={"kl_k3": {}}), "adds terms of its own only, not 'kl_k3'"),
    ],
)
def test_a_preset_that_verl_cannot_carry_is_refused(preset, line):
    with pytest.raises(ConfigurationError, match=line):
        overrides(Shelf(own=preset), "own", length_cap=8)


def test_a_normaliser_of_ones_own_is_refused():
    shelf = Shelf(own=Preset("grpo", "mintact", normaliser="acme/words"))
    shelf.parts["acme/words"] = lambda batch: 1.0
    with pytest.raises(ConfigurationError, match="which is not 'acme/words'"):
        overrides(shelf, "own")


def test_the_command_lists_names_and_parameters(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out.splitlines()
    words = [line.split() for line in listed]
    assert "objective mintact_mintact clip_low clip_high clip_dual kappa".split() in words
    assert "advantage mintact_grpo epsilon".split() in words
    assert listed[-1] == "verl is not installed in this interpreter"
    assert main(["--json"]) == 0
    assert {"kind", "name", "parameters", "refused"} == set(json.loads(capsys.readouterr().out)[0])


def test_the_command_prints_a_preset_and_insists_on_its_length(capsys):
    assert main(["mintact", "--length-cap", "128"]) == 0
    assert "actor_rollout_ref.actor.loss_scale_factor=128" in capsys.readouterr().out.splitlines()
    assert main(["grpo"]) == 0
    with pytest.raises(ConfigurationError, match=r"a constant.*give --length-cap TOKENS"):
        main(["mintact"])
    with pytest.raises(PluginNotFound, match="'grop'"):
        main(["grop"])
