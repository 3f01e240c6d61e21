"""What pages of the manual name as a third party's without showing it."""

from mintact_platform import Verdict, hookimpl


@hookimpl
def register_judges():
    return {"acme/judge": judge, "acme/brief": judge}


@hookimpl
def register_objectives():
    return {"acme/cispo": cispo}


async def judge(task, trajectory, *, threshold: float = 0.5, turns: int = 4):
    return Verdict("abstain", reason="only named")


def cispo(batch, *, clip_high: float = 4.0):
    return -batch.advantages * batch.logprobs
