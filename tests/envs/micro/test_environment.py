import subprocess
import sys
import threading

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from mintact_env_micro import tasks
from mintact_env_micro.environment import Desktop, Mobile, Tools

from mintact_platform.records.verdict import StateCheck

ENVIRONMENTS = {"mobile": Mobile, "desktop": Desktop, "tools": Tools}
SETS = {"mobile": tasks.mobile, "desktop": tasks.desktop, "tools": tasks.tools}


def play(environment, task, choose):
    environment.reset(seed=task.seed, options={"task": task.to_json()})
    for _ in range(task.max_turns):
        _, reward, terminated, truncated, _ = environment.step(choose(environment))
        assert (reward, truncated) == (0.0, False)
        if terminated:
            break
    return environment.evaluate()


def expert(environment):
    return environment.state.decisions()[0].call.to_json()


@pytest.mark.parametrize("domain", ENVIRONMENTS)
def test_the_oracle_solves_fifty_tasks(domain):
    environment = ENVIRONMENTS[domain]()
    for task in SETS[domain](split="validation")[:50]:
        assert play(environment, task, expert) == StateCheck(
            True, 1.0, environment.evaluate().details
        )


@pytest.mark.parametrize("domain", ENVIRONMENTS)
def test_a_random_agent_solves_almost_nothing(domain):
    environment = ENVIRONMENTS[domain]()
    environment.action_space.seed(0)
    chosen = SETS[domain](split="train")[:200]
    solved = [play(environment, t, lambda e: e.action_space.sample()).success for t in chosen]
    assert sum(solved) <= 6


@pytest.mark.parametrize("domain", ENVIRONMENTS)
def test_gymnasium_accepts_the_environment(domain):
    check_env(ENVIRONMENTS[domain](), skip_render_check=True)


@pytest.mark.parametrize("domain", ENVIRONMENTS)
@pytest.mark.parametrize(
    "action",
    [
        {"name": "fly", "arguments": {}},
        {"name": "mobile_use", "arguments": {"action": "swipe"}},
        {"name": "computer_use", "arguments": {"action": None}},
        {"name": "tool_use", "arguments": "click"},
        {"arguments": {"action": "type"}},
        {},
        None,
        "terminate",
    ],
)
def test_a_useless_action_does_nothing_and_says_so(domain, action):
    environment = ENVIRONMENTS[domain]()
    environment.reset(seed=4)
    before = environment.render()
    observation, _, terminated, _, info = environment.step(action)
    assert observation in environment.observation_space
    assert not terminated
    assert "nothing happens" in info["note"]
    assert (environment.render() == before).all()


def test_the_tools_environment_shows_its_picture_once():
    environment = Tools()
    first, info = environment.reset(seed=1)
    assert first["screenshot"].shape == (128, 128, 3)
    assert "tools" not in info
    observation, *_, info = environment.step(expert(environment))
    assert "screenshot" not in observation
    assert environment.state.tool in observation["text"]
    assert "tools" not in info


@pytest.mark.parametrize("announce", ["registry", "both"])
def test_a_found_tool_is_announced_where_asked(announce):
    environment = Tools(announce=announce)
    _, info = environment.reset(seed=1)
    assert info["tools"] == []
    search = expert(environment)
    observation, *_, info = environment.step(search)
    assert [tool["name"] for tool in info["tools"]] == [environment.state.tool]
    assert (environment.state.tool in observation["text"]) == (announce == "both")
    assert "tools" not in environment.step(search)[-1]


def test_the_task_goes_before_the_environments_own_layout():
    environment = Mobile(icons=3, colours=3)
    task = tasks.mobile(split="train", icons=6, colours=8)[0]
    _, info = environment.reset(seed=99, options={"task": task.to_json()})
    assert info["goal"] == task.goal
    assert len(environment.state.apps) == 6
    environment.reset(seed=99)
    assert len(environment.state.apps) == 3


def test_faults_hit_their_share_of_the_seeds_and_always_the_same_ones():
    def hit(seed):
        environment.reset(seed=seed)
        environment.step(None)
        observation, *_ = environment.step(None)
        return observation not in environment.observation_space

    environment = Mobile(fault="garbage", fault_rate=0.3)
    seen = [hit(seed) for seed in range(200)]
    assert 30 < sum(seen) < 90
    assert seen == [hit(seed) for seed in range(200)]


def test_a_fault_waits_for_the_steps_that_still_work():
    environment = Desktop(fault="error", fault_after=2)
    environment.reset(seed=0)
    environment.step(None)
    environment.step(None)
    with pytest.raises(RuntimeError, match="injected"):
        environment.step(None)


def test_a_fault_drawn_at_every_reset_may_spare_the_retry():
    environment = Mobile(fault="garbage", fault_rate=0.5, fault_after=0, fault_scope="reset")
    fates = set()
    for _ in range(40):
        environment.reset(seed=1)
        fates.add(isinstance(environment.step(None)[0]["screenshot"][0], np.ndarray))
    assert fates == {True, False}


@pytest.mark.parametrize(("fault", "steps"), [("crash", 2), ("reset_crash", 0)])
def test_a_crash_ends_the_process(fault, steps):
    code = (
        "from mintact_env_micro.environment import Mobile\n"
        f"environment = Mobile(fault={fault!r})\n"
        "environment.reset(seed=0)\n"
        "print('step', flush=True)\n"
        "environment.step(None); print('step', flush=True)\n"
        "environment.step(None); print('alive', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 70
    assert done.stdout.split() == ["step"] * steps


def test_a_hang_blocks_only_its_own_thread():
    environment = Mobile(fault="hang", fault_after=0)
    environment.reset(seed=0)
    thread = threading.Thread(target=environment.step, args=(None,), daemon=True)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    assert not environment.evaluate().success
