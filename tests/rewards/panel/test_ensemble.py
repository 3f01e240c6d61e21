"""The judge `ensemble`: its truth table, and members that fail, abstain and disagree."""

from __future__ import annotations

import functools
import itertools

import pytest
from mintact_reward_panel.ensemble import Ensemble
from mintact_reward_panel.votes import MODES, Ballot, decide, disagreement

from mintact_platform import Verdict
from mintact_platform.errors import ConfigurationError, JudgeError, PluginNotFound
from mintact_platform.judging.cache import JudgementCache
from mintact_platform.judging.named import judge_named
from mintact_platform.judging.runner import JudgeRunner
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind

VERDICTS = {
    "S": Verdict("success", reward=1.0),
    "F": Verdict("failure", reward=0.0),
    "E": Verdict("environment_failure"),
    "A": Verdict("abstain"),
    "X": None,
}
SHORT = {"success": "S", "failure": "F", "environment_failure": "E", "abstain": "A"}


def outcome(letters, mode, *, quorum=None, weights=None, threshold=0.5):
    weights = weights or [1.0] * len(letters)
    ballots = [
        Ballot(f"j{k}", VERDICTS[letter], weight=weight)
        for k, (letter, weight) in enumerate(zip(letters, weights, strict=True))
    ]
    quorum = len(letters) // 2 + 1 if quorum is None else quorum
    return decide(ballots, mode, threshold=threshold, quorum=quorum)


TABLE = {
    # members: all any vote weighted
    "S": "SSSS",
    "F": "FFFF",
    "E": "EEEE",
    "A": "AAAA",
    "X": "AAAA",
    "SS": "SSSS",
    "SF": "FSAS",
    "FF": "FFFF",
    "SA": "AAAA",
    "FX": "AAAA",
    "SE": "EEEE",
    "FE": "EEEE",
    "SSF": "FSSS",
    "SFF": "FSFF",
    "SSA": "SSSS",
    "SFA": "FSAS",
    "FFX": "FFFF",
    "SAX": "AAAA",
    "SSE": "SSSS",
    "SFE": "FSAS",
    "SEE": "EEEE",
    "SEA": "EEEE",
    "EEA": "EEEE",
    "EAX": "AAAA",
    "SSFF": "FSAS",
    "SSFE": "FSSS",
    "SFEE": "EEEE",
    "SSSSF": "FSSS",
    "SFAXE": "FSAS",
}


@pytest.mark.parametrize("letters", TABLE)
def test_the_truth_table(letters):
    told = "".join(SHORT[outcome(letters, mode).label] for mode in MODES)
    assert told == TABLE[letters]


def test_the_order_of_members_never_matters_and_silence_adds_nothing():
    for letters in itertools.combinations_with_replacement("SFEAX", 4):
        for mode in MODES:
            found = {outcome(p, mode).label for p in itertools.permutations(letters)}
            assert len(found) == 1
            spoken = [letter for letter in letters if letter not in "AX"]
            if len(spoken) >= 3:
                alone = outcome(spoken, mode, quorum=1)
                assert alone.label == outcome(letters, mode).label


def test_a_verdict_always_has_a_vote_behind_it():
    for letters in itertools.product("SFEAX", repeat=3):
        for mode in MODES:
            label = outcome(letters, mode, quorum=1).label
            assert label == "abstain" or SHORT[label] in letters


@pytest.mark.parametrize(
    ("weights", "threshold", "label", "share"),
    [
        ([3, 1], 0.5, "success", 0.75),
        ([1, 3], 0.5, "failure", 0.25),
        ([1, 3], 0.25, "success", 0.25),
        ([1, 0], 1.0, "success", 1.0),
        ([0, 0], 0.5, "abstain", 0.0),
    ],
)
def test_weights_and_threshold_decide_between_success_and_failure(weights, threshold, label, share):
    decision = outcome("SF", "weighted", weights=weights, threshold=threshold)
    assert (decision.label, decision.share) == (label, pytest.approx(share))


@pytest.mark.parametrize(
    ("letters", "quorum", "label"),
    [("SAA", 1, "success"), ("SAA", 2, "abstain"), ("SSA", 3, "abstain"), ("SSS", 3, "success")],
)
def test_below_the_quorum_nothing_is_decided(letters, quorum, label):
    assert outcome(letters, "all", quorum=quorum).label == label


def test_votes_disagreement_and_silence_are_recorded():
    decision = outcome("SFSAX", "vote")
    assert decision.components == {
        "j0": 1.0,
        "j1": 0.0,
        "j2": 1.0,
        "disagreement": pytest.approx(1 / 3),
        "silent": 2.0,
    }
    assert disagreement([]) == disagreement(["success"] * 3) == 0.0
    assert disagreement(["success", "failure", "environment_failure"]) == pytest.approx(2 / 3)


# ---- with members that are really asked --------------------------------------------------------


def ensemble(letters, **params):
    members = [{"name": "acme_members:says", "params": {"letter": letter}} for letter in letters]
    return bind(Ensemble, {"judges": members, **params}, where="judge 'ensemble'")


async def test_members_are_asked_and_their_words_and_costs_are_recorded(ask):
    verdict = await ask(ensemble("SFA", mode="any"))
    assert (verdict.label, verdict.reward, verdict.cost) == ("success", 1.0, 0.75)
    assert verdict.components["acme_members:says"] == 1.0
    assert verdict.components["acme_members:says 2"] == 0.0
    assert verdict.reason == (
        "any: acme_members:says success (seen); acme_members:says 2 failure (not seen); "
        "acme_members:says 3 abstain (blurred)"
    )


async def test_the_reward_may_be_the_share_of_success(ask):
    verdict = await ask(ensemble("SSF", mode="vote", reward="share"))
    assert (verdict.label, verdict.reward) == ("success", pytest.approx(2 / 3))
    verdict = await ask(ensemble("SSF", mode="weighted", reward="share", weights=[1, 1, 2]))
    assert verdict.reward == 0.5


async def test_a_member_that_fails_is_no_vote_and_too_many_fail_the_ensemble(ask):
    verdict = await ask(ensemble("SSX"))
    assert (verdict.label, verdict.components["silent"]) == ("success", 1.0)
    said = r"2 of 3 judges failed, 2 are needed: acme_members:says 2: no verdict on t after 2"
    with pytest.raises(JudgeError, match=said):
        await ask(ensemble("SXX"))
    assert (await ask(ensemble("SAA"))).label == "abstain"


async def test_members_may_be_named_like_in_a_run_file_and_nested(ask, view):
    inner = {"name": "ensemble", "params": {"judges": ["acme_members:plain"]}}
    judge = judge_named("ensemble", {"judges": [inner, "acme_members:plain"]})
    verdict = await ask(judge)
    assert verdict.components["ensemble"] == 1.0
    assert (await ask(judge_named("ensemble", {"judges": ["state"]}))).label == "abstain"


async def test_members_are_opened_when_asked_and_closed_with_the_ensemble(ask, members):
    await ask(bind(Ensemble, {"judges": ["acme_members:Opened"]}, where=""))
    assert members.Opened.events == ["open", "close"]


def test_it_is_cacheable_if_all_members_are_and_remote_if_one_is():
    def runner(*names):
        params = {"judges": [{"name": f"acme_members:{n}", "params": p} for n, p in names]}
        return JudgeRunner(bind(Ensemble, params, where=""), name="e", deadline=1.0)

    says, far, plain = ("says", {"letter": "S"}), ("far", {}), ("plain", {})
    assert (runner(says, far).cacheable, runner(says, far).remote) == (True, True)
    assert (runner(says, plain).cacheable, runner(says, plain).remote) == (False, False)
    assert runner(far).identity != runner(says).identity
    assert runner(far).identity["parts"][0]["name"] == "acme_members:far"


async def test_a_cached_ensemble_asks_nobody_twice(ask, tmp_path):
    cache = JudgementCache(tmp_path)
    first = await ask(ensemble("SF", mode="any"), cache=cache)
    again = await ask(ensemble("SF", mode="any"), cache=cache)
    assert (first.cost, again.cost) == (0.75, 0.0)
    other = await ask(ensemble("SF", mode="all"), cache=cache)
    assert (other.label, other.cost) == ("failure", 0.75)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"judges": []}, "no member"),
        ({"judges": ["state"], "weights": [1, 2], "mode": "weighted"}, "needs 1 weights"),
        ({"judges": ["state"], "weights": [-1], "mode": "weighted"}, "at least 0"),
        ({"judges": ["state"], "weights": [1], "mode": "vote"}, "in mode .weighted. only"),
        ({"judges": ["state"], "min_members": 2}, "from 1 to 1"),
        ({"judges": [{"name": "state", "cache": True}]}, "cannot be cached by itself"),
        ({"judges": [{"name": "state", "params": {"x": 1}}]}, "unknown parameter 'x'"),
        ({"judges": [{"name": "state", "speed": 1}]}, "judges.0.*speed|unknown parameter"),
        ({"judges": ["state"], "mode": "most"}, "parameter 'mode'"),
    ],
)
def test_a_wrong_parameter_is_refused_before_anything_runs(params, said):
    with pytest.raises(ConfigurationError, match=said):
        bind(Ensemble, params, where="judge 'ensemble'")()


def test_a_member_that_nobody_registers_is_told_with_what_was_meant():
    with pytest.raises(PluginNotFound, match="did you mean 'state'"):
        bind(Ensemble, {"judges": ["stat"]}, where="")()


def test_the_distribution_registers_both_judges():
    registry = Registry.discover()
    for name in ("ensemble", "process"):
        assert registry.provider("judges", name) == "mintact-reward-panel"
    for name in ("vlm", "rubric"):
        assert registry.provider("judges", name) == "mintact-reward-vlm"
    assert isinstance(judge_named("ensemble", {"judges": ["state"]}), functools.partial)
