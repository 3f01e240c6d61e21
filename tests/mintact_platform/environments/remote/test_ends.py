"""How a leased environment ends: closed, forgotten, hung, crashed, refused, interrupted."""

from __future__ import annotations

import gc
import subprocess
import sys
import time

import gymnasium
import numpy as np
import pytest

from mintact_platform.config import Deadlines
from mintact_platform.environments.client import background as background_module
from mintact_platform.environments.client.background import background
from mintact_platform.environments.client.remote import RemoteEnvironment
from mintact_platform.errors import ConfigurationError, EnvironmentFailure

KIND = "gym/trial_gyms:trial/Kind-v0"

# a process of several threads that forks is no news to gymnasium's AsyncVectorEnv
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_closing_gives_the_lease_back_once_and_a_reset_takes_another(make, leases):
    before = leases()
    environment = make(KIND)
    assert leases() == before + 1
    environment.close()
    environment.close()
    assert leases() == before
    environment.reset(seed=1)
    assert leases() == before + 1


def test_one_that_is_forgotten_gives_its_lease_back(server, leases, until):
    before = leases()
    environment = RemoteEnvironment(server.url, KIND)
    assert leases() == before + 1
    del environment
    gc.collect()
    until(lambda: leases() == before)


@pytest.mark.parametrize("end", ["", "1 / 0"])
def test_a_process_that_ends_gives_its_leases_back(server, leases, end):
    before = leases()
    code = f"""
from mintact_platform.environments import RemoteEnvironment
environment = RemoteEnvironment({server.url!r}, {KIND!r})
other = RemoteEnvironment({server.url!r}, {KIND!r}, transport="http")
environment.reset()
{end}
"""
    subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert leases() == before


def test_a_lease_is_kept_alive_while_nobody_steps(make, monkeypatch):
    monkeypatch.setattr(background_module, "TTL", 5.0)
    monkeypatch.setattr(background_module, "_BEAT", 0.3)
    # the loop of this process sleeps at its usual pace: one with the faster one
    faster = background_module.Background()
    monkeypatch.setattr(background_module._process, "background", faster)
    environment = make(KIND)
    environment.reset(seed=1)
    time.sleep(6.0)  # longer than it lives without a beat; a late one is no lost one
    assert environment.step(np.zeros(3, np.float32))[1] == 1.0


# ---- failures -----------------------------------------------------------------------------------


def test_a_step_that_raises_is_a_failure_and_the_next_reset_has_another_instance(make):
    environment = make(KIND)
    environment.reset(seed=1)
    with pytest.raises(EnvironmentFailure, match="far out") as raised:
        environment.step(np.full(3, 9, np.float32))
    assert (raised.value.phase, raised.value.kind) == ("step", "RuntimeError")
    with pytest.raises(gymnasium.error.ResetNeeded):
        environment.step(np.zeros(3, np.float32))
    environment.reset(seed=1)
    assert environment.step(np.zeros(3, np.float32))[1] == 1.0


@pytest.mark.parametrize(
    ("name", "kind", "deadline"), [("hang", "timeout", 1.0), ("crash", "crash", 60.0)]
)
def test_a_hang_and_a_crash_are_failures_within_their_deadline(
    make, leases, name, kind, deadline, until
):
    environment = make("trial_envs:Counter", deadlines=Deadlines(step=deadline))
    held, broken = leases(), environment.instance
    environment.reset()
    with pytest.raises(EnvironmentFailure) as raised:
        environment.step({"name": name, "arguments": {}})
    assert (raised.value.phase, raised.value.kind) == ("step", kind)
    environment.reset()
    assert environment.instance != broken
    until(lambda: leases() == held)


def test_a_refused_lease_is_a_configuration_error(make):
    with pytest.raises(ConfigurationError, match="did you mean 'CartPole-v1'"):
        make("gym/CartPol-v1")
    with pytest.raises(EnvironmentFailure) as raised:
        RemoteEnvironment("http://127.0.0.1:9", KIND, deadlines=Deadlines(create=1.0))
    assert raised.value.kind in ("unreachable", "timeout")


def test_an_interrupted_wait_leaves_a_lease_that_is_not_used_again(make, monkeypatch):
    environment = make("trial_envs:Counter")
    environment.reset()
    interrupted_at = environment.instance

    def interrupted(future, timeout=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environment.step({"name": "hang", "arguments": {}})
    environment.reset()
    assert environment.instance != interrupted_at


def test_one_loop_serves_all_of_a_process(make):
    make(KIND)
    loop = background().loop
    make(KIND)
    assert background().loop is loop
