"""A real run among plugins that misbehave: it finishes, and says of each what it did.

| what it does | what the user sees |
|---|---|
| an observer raises three times | the error on its row; at the end, that it was silenced |
| an observer sleeps | `observer: … did not end within 5 s` on its row, silenced; the run goes on |
| `configure` raises | a line at the start, the error on its row |
| `admit_group` raises | the error on its row; the next plugin, at last the core, decides |
| an environment prints, closes streams, forks, patches `json` | nothing: its worker is its own |
| an environment calls `os._exit` | an `environment_failure` of phase `step`, masked |
| a judge changes what it is shown | nothing: it has a copy |
| a judge never returns, returns garbage | a `judge_failure` with the reason, masked |
| a loss of a wrong shape, type or device, NaN, no gradient | exit code 1, one line: loss, field |
| a plugin of another version on `--resume` | exit code 2, one line: both versions |
"""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import replace

import pytest

pytestmark = pytest.mark.runs

NAMED = "from mintact_platform import hookimpl\n"
PASSIVE = {
    "acme-broken": "import no_such_module",
    "acme-syntax": "def broken(:",
    "acme-endless": "while True: pass",
    "acme-exits": "import os; os._exit(0)",
    "acme-json": "import json\njson.dumps = lambda *_, **__: '[]'",
    "acme-closes": "import os; os.close(0)",
    "acme-misspelt": NAMED + "@hookimpl\ndef register_judgse(): return {}",
    "acme-wrong": NAMED + "@hookimpl\ndef step_finished(stepp): pass",
    "acme-prints": NAMED + "print('noise')\n@hookimpl\ndef step_finished(step): print('noise')",
    "acme-forks": NAMED + "import os; os.fork()\n@hookimpl\ndef weights_synced(): pass",
    "acme-raises": NAMED + "@hookimpl\ndef trajectory_finished(trajectory): raise OSError('no')",
    "acme-sleeps": NAMED + "@hookimpl\ndef group_finished(): import time; time.sleep(99)",
    "acme-configures": NAMED + "@hookimpl\ndef configure(config): raise OSError('never')",
    "acme-decides": NAMED + "@hookimpl\ndef admit_group(): raise OSError('undecided')",
    "acme-clash": NAMED + "@hookimpl\ndef register_judges(): return {'state': print}",
}
ERRORS = {
    "acme-broken": "ModuleNotFoundError",
    "acme-syntax": "SyntaxError",
    "acme-endless": "import did not end within 1.5 s",
    "acme-exits": "calls os._exit(0)",
    "acme-json": "replaces json.dumps",
    "acme-closes": "closes standard input",
    "acme-misspelt": "did you mean 'register_judges'?",
    "acme-wrong": "stepp",
    "acme-raises": "observer: OSError: no",
    "acme-sleeps": "observer: group_finished did not end within 5 s",
    "acme-configures": "configure: OSError: never",
    "acme-decides": "admit_group: OSError: undecided",
}
HOSTILE = """
    from mintact_platform import hookimpl


    @hookimpl
    def register_environments():
        return {"acme/hostile": "acme_hostile_parts:Hostile"}


    @hookimpl
    def register_task_sets():
        return {"acme/hostile": "acme_hostile_parts:tasks"}


    @hookimpl
    def register_judges():
        return {"acme/hostile": "acme_hostile_parts:judge"}


    @hookimpl
    def register_objectives():
        return {f"acme/{name}": f"acme_hostile_parts:{name}" for name in ("nan", "short")}
"""
PARTS = """
    import asyncio
    import itertools
    import json
    import os
    import sys

    import gymnasium as gym
    import numpy as np

    from mintact_platform import Task, Verdict


    class Hostile(gym.Env):
        metadata = {"mintact": {"domain": "desktop", "action_space": "computer_use"}}

        def reset(self, *, seed=None, options=None):
            return self.screen(), {}

        # one a worker: each of its steps does another deed, and the last one ends it
        deeds = iter(("print", "fork", "stdin", "json", "nothing", "nothing", "exit"))

        def step(self, action):
            deed = next(self.deeds)
            if deed == "print":
                print("x" * 100_000)
                os.write(1, b"raw bytes\\n")
            if deed == "fork":
                os.fork()
            if deed == "stdin":
                sys.stdin.close()
                os.closerange(0, 1)
            if deed == "json":
                json.dumps = json.loads = lambda *_, **__: "mine"
            if deed == "exit":
                os._exit(0)
            return self.screen(), 0.0, False, False, {}

        def screen(self):
            return {"screenshot": np.random.randint(0, 255, (64, 64, 3)).astype(np.uint8)}


    def tasks(*, split: str):
        return [Task(f"{split}-{n}", f"goal {n}", "desktop", split, seed=n) for n in range(8)]


    verdicts = itertools.cycle(("success", "failure", "hang", "failure", "success", "garbage"))
    of_trajectory = {}


    async def judge(task, view):
        task.params["won"] = True
        if view.trajectory.turns and view.trajectory.turns[0].calls:
            view.trajectory.turns[0].calls[0].clear()
        verdict = of_trajectory.setdefault(view.trajectory.id, next(verdicts))
        if verdict == "hang":
            await asyncio.sleep(99)
        if verdict == "garbage":
            return "yes"
        return Verdict(verdict, reward=float(verdict == "success"))


    def nan(batch):
        return batch.logprobs * float("nan")


    def short(batch):
        return batch.logprobs[:, :1]
"""
OF_DOMAIN = """
select t.* from trajectories t join groups g on g.id = t.group_id where g.domain = ?
"""


class Site:
    """A folder of distributions that a run's processes find."""

    def __init__(self, folder):
        self.folder = folder
        self.environ = {
            "PYTHONPATH": os.pathsep.join(
                (str(folder), os.path.join(os.path.dirname(__file__), "modules"))
            ),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "MINTACT_PLUGIN_SECONDS": "1.5",
        }

    def install(self, name, code, version="1.0"):
        module = name.replace("-", "_")
        (self.folder / f"{module}.py").write_text(textwrap.dedent(code))
        info = self.folder / f"{module}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[mintact]\nmain = {module}\n")


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    site = Site(folder)
    site.install("acme-hostile", HOSTILE)
    (folder / "acme_hostile_parts.py").write_text(textwrap.dedent(PARTS))
    return site


def test_a_run_finishes_among_them_and_says_what_each_did(mintact, ledger_of, site):
    for name, code in PASSIVE.items():
        site.install(name, code)
    path = mintact.run_file(
        "mobile",
        "desktop",
        "tools",
        domains__desktop__environment="acme/hostile",
        domains__desktop__tasks="acme/hostile:train",
        domains__tools__judge="acme/hostile",
        deadlines__judge=1.0,
        trainer__steps=2,
    )
    output = mintact("train", path, **site.environ)
    ledger = ledger_of(mintact("check", "run"))
    assert {domain: row["trained"] for domain, row in ledger.items()} == {
        "mobile": 2, "desktop": 2, "tools": 2,
    }  # fmt: skip
    rows = {row["distribution"]: row for row in mintact.rows("select * from plugins")}
    for name in PASSIVE:
        assert ERRORS.get(name, "None") in str(rows[name]["error"]), name
    assert "plugin acme-configures: configure: OSError: never" in output
    assert "plugin acme-raises was silenced: observer: OSError: no" in output
    assert "plugin acme-sleeps was silenced" in output
    _check_masked(mintact, "desktop", "environment_failure", "step", "the worker died")
    _check_masked(mintact, "tools", "judge_failure", "judge", "no answer within 1 s", "not a Verd")
    assert not mintact.rows("select * from tasks where json like '%\"won\"%'")
    assert mintact.gone()

    site.install("acme-hostile", HOSTILE, version="1.1")
    refused = mintact("train", path, "--resume", "trainer.steps=3", code=2, **site.environ)
    last = refused.strip().splitlines()[-1]
    assert "the run was started with acme-hostile 1.0, now 1.1" in last
    assert "--accept-changed-plugins" in last


def _check_masked(mintact, domain, outcome, phase, *messages):
    """Rollouts of a domain failed in these ways and no other, without a reward."""
    failed = [row for row in mintact.rows(OF_DOMAIN, domain) if row["outcome"] == outcome]
    assert failed
    assert {row["phase"] for row in failed} == {phase}
    assert all(row["reward"] is None for row in failed)
    said = {json.loads(row["failure_json"])["message"] for row in failed}
    assert all(any(message in text for message in messages) for text in said), said


def test_a_wrong_loss_ends_the_run_with_one_line_that_names_it_and_the_field(mintact, site):
    path = mintact.run_file(objective__objective="acme/nan", trainer__steps=1)
    output = mintact("train", path, code=1, **site.environ)
    last = output.strip().splitlines()[-1]
    assert last.startswith("mintact: objective 'acme/nan': surrogate is not finite at ")
    assert mintact.gone()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("short", r"surrogate is \[2, 1\] for a batch of \[2, 3\]; return one value a token"),
        ("nothing", "surrogate is a NoneType for a batch of"),
        ("nan", "surrogate is not finite at 6 of 6 places"),
        ("elsewhere", "surrogate is on meta, the batch on cpu; make new tensors with"),
        ("whole", r"surrogate holds torch\.int64; return floating-point numbers"),
        ("constant", r"surrogate has no gradient; compute it from batch\.logprobs"),
        ("triple", "returned a tuple of something else; return the surrogate, or"),
        ("metric", "metric 'acme/far' is on meta, the batch on cpu"),
        ("raises", "ZeroDivisionError: float division by zero"),
    ],
)
def test_a_wrong_loss_is_told_with_its_name_and_the_field(name, expected):
    import torch

    from mintact_platform.errors import PluginError
    from mintact_platform.training.loss import evaluate_loss
    from mintact_platform.training.objective import LossBatch, LossParts, fixed_normaliser

    losses = {
        "short": lambda b: b.logprobs[:, :1],
        "nothing": lambda b: None,
        "nan": lambda b: b.logprobs * float("nan"),
        "elsewhere": lambda b: torch.zeros(b.logprobs.shape, device="meta"),
        "whole": lambda b: torch.zeros(b.logprobs.shape, dtype=torch.int64),
        "constant": lambda b: b.advantages * 2,
        "triple": lambda b: (b.logprobs, {}, {}),
        "metric": lambda b: (b.logprobs, {"acme/far": torch.zeros(2, 3, device="meta")}),
        "raises": lambda b: b.logprobs * (1.0 / 0.0),
    }
    zeros = torch.zeros(2, 3)
    batch = LossBatch(
        logprobs=zeros.clone().requires_grad_(),
        proximal_logprobs=zeros,
        rollout_logprobs=zeros,
        advantages=zeros,
        loss_mask=torch.ones(2, 3, dtype=torch.bool),
        group=torch.zeros(2, dtype=torch.int64),
        trajectory=torch.arange(2),
        domain=torch.zeros(2, dtype=torch.int64),
    )
    parts = LossParts(
        advantage=lambda b: b.rewards,
        objective=losses[name],
        correction=lambda p, r, m: torch.ones_like(p),
        normaliser=fixed_normaliser,
        names={"objective": f"acme/{name}"},
    )
    with pytest.raises(PluginError, match=f"^objective 'acme/{name}': {expected}") as caught:
        evaluate_loss(parts, batch, 1.0)
    assert "\n" not in str(caught.value)
    no_gradient = replace(batch, logprobs=zeros)
    if name == "constant":
        evaluate_loss(parts, no_gradient, 1.0)
