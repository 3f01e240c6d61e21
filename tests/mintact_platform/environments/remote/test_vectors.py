"""What gymnasium offers works with leased environments: wrappers, vectors, pickles, forks."""

from __future__ import annotations

import os
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from gymnasium.wrappers import (
    FrameStackObservation,
    RecordEpisodeStatistics,
    TimeLimit,
    TransformObservation,
)

from mintact_platform.environments.client.remote import RemoteEnvironment

KIND = "gym/trial_gyms:trial/Kind-v0"

# a process of several threads that forks is no news to gymnasium's AsyncVectorEnv
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")


def test_ordinary_wrappers_wrap_it(make):
    stacked = FrameStackObservation(make(), 4)
    halved = TransformObservation(
        stacked, lambda o: o / 2, spaces.Box(-np.inf, np.inf, (4, 4), np.float32)
    )
    environment = RecordEpisodeStatistics(TimeLimit(halved, 3))
    observation, _ = environment.reset(seed=1)
    assert observation.shape == (4, 4)
    for _ in range(3):
        _, _, terminated, truncated, info = environment.step(0)
    assert (terminated, truncated) == (False, True)
    assert info["episode"]["r"] == 3.0


def play(vector):
    observations, _ = vector.reset(seed=3)
    rewards = [vector.step(vector.action_space.sample())[1] for _ in range(4)]
    vector.close()
    return observations, np.array(rewards)


@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_play_many_and_leave_nothing(server, leases, kind, until):
    before = leases()
    local = play(SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 2))
    remote = play(kind([lambda: RemoteEnvironment(server.url, "gym/CartPole-v1")] * 2))
    assert np.array_equal(remote[0], local[0])
    assert np.array_equal(remote[1], local[1])
    until(lambda: leases() == before)


def test_gymnasium_makes_many_of_it_by_its_id(server):
    vector = gymnasium.make_vec(
        "mintact/Remote-v0", 2, "sync", url=server.url, environment="gym/CartPole-v1"
    )
    assert vector.reset(seed=1)[0].shape == (2, 4)
    vector.close()


def test_a_spawned_vector_environment_works_too(server, leases, until):
    before = leases()
    _, rewards = play(
        AsyncVectorEnv(
            [lambda url=server.url: RemoteEnvironment(url, "gym/CartPole-v1")] * 2, context="spawn"
        )
    )
    assert rewards.shape == (4, 2)
    until(lambda: leases() == before)


def test_screens_and_calls_vectorise(server):
    vector = SyncVectorEnv([lambda: RemoteEnvironment(server.url, "micro/mobile")] * 2)
    observations, _ = vector.reset(seed=1)
    assert [sorted(one) for one in observations] == [["screenshot", "text"]] * 2
    vector.close()


def test_it_is_pickled_as_the_recipe_for_another_lease(make, leases, until):
    environment = make(KIND, params={"kind": "dict"})
    before = leases()
    copy = pickle.loads(pickle.dumps(environment))
    assert leases() == before + 1
    assert data_equivalence(copy.reset(seed=1), environment.reset(seed=1))
    copy.close()
    until(lambda: leases() == before)


def test_a_forked_child_takes_a_lease_of_its_own(make, leases):
    environment = make(KIND)
    environment.reset(seed=1)
    before = leases()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(gymnasium.error.ResetNeeded):
                environment.step(np.zeros(3, np.float32))
            environment.reset(seed=1)
            reward = environment.step(np.zeros(3, np.float32))[1]
            held = leases()
            environment.close()
            os.write(writer, f"{reward} {held}".encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100).decode() == f"1.0 {before + 1}"
    os.close(reader)
    os.close(writer)
    assert environment.step(np.zeros(3, np.float32))[1] == 1.0
    assert leases() == before
