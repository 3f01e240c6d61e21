"""What several verdicts come to. Pure; the truth table is in the README and in the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mintact_platform.records.verdict import Label, Verdict

Mode = Literal["all", "any", "vote", "weighted"]
MODES: tuple[Mode, ...] = ("all", "any", "vote", "weighted")


@dataclass(frozen=True, slots=True)
class Ballot:
    """What one member said.

    Attributes:
        name: of the member, distinct in the ensemble.
        verdict: None when it failed to give one.
        why: one line on why it failed.
        weight: counts in mode `weighted` only.
    """

    name: str
    verdict: Verdict | None
    why: str = ""
    weight: float = 1.0

    @property
    def label(self) -> str:
        """Its verdict's label, or `failed`."""
        return "failed" if self.verdict is None else self.verdict.label


@dataclass(frozen=True, slots=True)
class Decision:
    """What the ballots come to.

    Attributes:
        label: of the verdict.
        share: of success among those who voted success or failure, weighted in mode `weighted`;
            0 without any.
        components: each voter's vote, the disagreement, and how many were silent.
    """

    label: Label
    share: float
    components: Mapping[str, float] = field(default_factory=dict)


def decide(ballots: Sequence[Ballot], mode: Mode, *, threshold: float, quorum: int) -> Decision:
    """Count.

    A member is silent when it abstains or fails. Below the quorum of members who are not, nothing
    is decided. When at least half of those call it an environment failure, it is one; otherwise
    they are silent too, and the mode decides between success and failure.

    Args:
        ballots: one a member.
        mode: `all` and `any` as in logic, `vote` by majority (a tie abstains), `weighted` by the
            weighted share of success.
        threshold: the share from which on `weighted` is a success.
        quorum: members who must not be silent.
    """
    told = [b for b in ballots if b.label in ("success", "failure", "environment_failure")]
    voters = [b for b in told if b.label != "environment_failure"]
    weights = [b.weight if mode == "weighted" else 1.0 for b in voters]
    won = sum(w for b, w in zip(voters, weights, strict=True) if b.label == "success")
    share = won / sum(weights) if sum(weights) > 0 else 0.0
    components = {
        **{b.name: float(b.label == "success") for b in voters},
        "disagreement": disagreement([b.label for b in told]),
        "silent": float(len(ballots) - len(told)),
    }
    broken = len(told) - len(voters)
    if len(told) < quorum or not told:
        label: Label = "abstain"
    elif 2 * broken >= len(told):
        label = "environment_failure"
    elif sum(weights) <= 0:
        label = "abstain"
    else:
        label = _by(mode, [b.label == "success" for b in voters], share, threshold)
    return Decision(label, share, components)


def disagreement(labels: Sequence[str]) -> float:
    """The share of those who did not say what most said; 0 when nobody or everybody did."""
    if not labels:
        return 0.0
    return 1 - max(Counter(labels).values()) / len(labels)


def _by(mode: Mode, votes: Sequence[bool], share: float, threshold: float) -> Label:
    if mode == "vote" and 2 * sum(votes) == len(votes):
        return "abstain"
    success = {
        "all": all(votes),
        "any": any(votes),
        "vote": 2 * sum(votes) > len(votes),
        "weighted": share >= threshold,
    }[mode]
    return "success" if success else "failure"
