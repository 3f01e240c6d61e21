import pytest
from mintact_env_micro import tasks
from mintact_env_micro.scene import Layout

from mintact_platform.errors import ConfigurationError
from mintact_platform.records.task import SPLITS
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind, check

SETS = {"mobile": tasks.mobile, "desktop": tasks.desktop, "web": tasks.web, "tools": tasks.tools}


def test_environments_task_sets_and_demonstrations_are_registered():
    registry = Registry.discover()
    for domain in SETS:
        assert registry.get("task_sets", f"micro/{domain}") is SETS[domain]
        described = registry.get("environments", f"micro/{domain}").metadata["mintact"]
        assert described["domain"] == domain
        assert described["instances_per_worker"] == (8 if domain == "web" else 16)
        assert described["action_space"] in registry.names("action_spaces")
    for stream in ("episodes", "grounding", "elements"):
        assert callable(registry.get("demonstrations", f"micro/{stream}"))


def test_parameters_come_from_a_run_file_and_a_wrong_one_names_the_near_match():
    registry = Registry.discover()
    values = {"seed": 0, "domains": ["mobile"], "demonstrator": "biased", "wrong": 1}
    make = bind(registry.get("demonstrations", "micro/episodes"), values, where="sft.data")
    assert next(make()).domain == "mobile"
    for domain in SETS:
        target = registry.get("environments", f"micro/{domain}")
        check(target, {"fault": "slow", "fault_rate": 0.1, "step_seconds": 1}, where="domains")
        with pytest.raises(ConfigurationError, match="did you mean 'fault_rate'"):
            check(target, {"fault_rates": 0.1}, where="domains")


@pytest.mark.parametrize("domain", SETS)
def test_splits_have_their_sizes_and_share_no_seed(domain):
    splits = {split: SETS[domain](split=split) for split in SPLITS}
    assert [len(splits[split]) for split in SPLITS] == [4000, 400, 400]
    seeds = [task.seed for split in splits.values() for task in split]
    assert len(set(seeds)) == len(seeds) == 4800
    assert max(seeds) < tasks.DEMONSTRATIONS


@pytest.mark.parametrize("domain", SETS)
def test_a_task_carries_all_that_its_episode_needs(domain):
    kind = tasks.DOMAINS[domain]
    for task in SETS[domain](split="test", colours=8)[:20]:
        chosen = tasks.setting(17, {"task": task.to_json()}, Layout())
        state = kind.start(*chosen)
        assert state.goal == task.goal
        assert (task.domain, task.split, task.max_turns) == (domain, "test", kind.max_turns)
        assert task.template == kind.template


def test_tasks_are_a_sequence_with_stable_ids():
    train = tasks.mobile(split="train")
    assert train[-1] == train[3999]
    assert train[0].id == "micro/mobile/train/0000"
    assert [task.id for task in train[10:12]] == [train[10].id, train[11].id]
    with pytest.raises(IndexError):
        train[4000]


def test_an_unknown_split_names_the_near_match():
    with pytest.raises(ConfigurationError, match="did you mean 'validation'"):
        tasks.web(split="validate")


def test_without_a_task_the_seed_of_the_reset_decides():
    layout = Layout(icons=5)
    assert tasks.setting(7, None, layout) == (7, layout)
    assert tasks.setting(None, {}, layout).seed == 0
    assert tasks.setting(7, {"task": {"seed": None, "params": {"colours": 8}}}, layout) == (
        7,
        Layout(icons=5, colours=8),
    )
