"""Sessions of a server that speaks OpenEnv's messages, well and badly."""

import asyncio
import http
import re
import time
import tomllib
from pathlib import Path

import pytest
from mintact_reward_state.judges import environment_return

from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind, check
from mintact_platform.testing import check_environment

TASK = Task("count/1", "count to three", "tools", params={"reset": {"level": 2}}, seed=7)


async def begin(environment, task=TASK):
    return await environment.reset(seed=task.seed, options={"task": task.to_json()})


def act(amount=1, mode="plain"):
    return {"name": "act", "arguments": {"amount": amount, "mode": mode}}


async def failure_of(environment, action):
    with pytest.raises(EnvironmentFailure) as caught:
        await environment.step(action)
    return caught.value


async def test_an_episode_is_played_and_its_rewards_are_the_servers(playing, fake):
    environment = playing()
    observation, info = await begin(environment)
    assert observation == {"text": "count 0", "images": []}
    (reset,) = fake.resets
    assert (reset["seed"], reset["level"], len(reset["episode_id"])) == (7, 2, 16)
    (tool,) = info["tools"]
    assert tool["function"]["name"] == "act"
    seen, reward, terminated, truncated, _ = await environment.step(act(2))
    assert (seen["text"], reward, terminated, truncated) == ("count 2", 0.0, False, False)
    seen, reward, terminated, truncated, info = await environment.step(act(1))
    assert (seen["text"], reward, terminated, truncated) == ("count 3", 1.0, True, False)
    assert info == {"return": 1.0}


async def test_the_tool_is_the_servers_action_without_what_no_agent_needs(playing):
    _, info = await begin(playing(tool_name="count", fixed={"mode": "plain"}))
    assert info["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "count",
                "description": "Add a number.",
                "parameters": {
                    "additionalProperties": False,
                    "type": "object",
                    "properties": {"amount": {"type": "integer", "minimum": 1, "maximum": 3}},
                    "required": ["amount"],
                },
            },
        }
    ]


async def test_fixed_fields_are_sent_with_every_action(playing, fake):
    environment = playing(fixed={"mode": "cut"})
    await begin(environment)
    *_, terminated, truncated, _ = await environment.step(
        {"name": "act", "arguments": {"amount": 3}}
    )
    assert (terminated, truncated) == (False, True)
    assert fake.actions == [{"amount": 3, "mode": "cut"}]


async def test_what_the_servers_model_refuses_is_told_to_the_agent(playing):
    environment = playing()
    await begin(environment)
    seen, reward, terminated, _, info = await environment.step(act(9))
    assert seen["text"] == "refused: amount: Input should be at most 3"
    assert (reward, terminated) == (0.0, False)
    assert "refused" in info
    seen, *_ = await environment.step(act(3))
    assert seen["text"] == "count 3"


async def test_a_tool_that_is_none_is_refused_without_asking_the_server(playing, fake):
    environment = playing()
    await begin(environment)
    seen, *_ = await environment.step({"name": "akt", "arguments": {}})
    assert "did you mean 'act'?" in seen["text"]
    seen, *_ = await environment.step({"name": "act", "arguments": "3"})
    assert seen["text"].startswith("refused")
    *_, terminated, _, _ = await environment.step({"name": "terminate", "arguments": {}})
    assert terminated
    assert fake.actions == []


async def test_pictures_are_found_by_what_they_are(playing):
    environment = playing()
    await begin(environment)
    seen, *_ = await environment.step(act(1, "picture"))
    assert seen["text"] == "look"
    assert [image[:4] for image in seen["images"]] == [b"\x89PNG"]
    seen, *_ = await environment.step(act(1, "pixels"))
    assert seen["text"] == ""
    (pixels,) = seen["images"]
    assert pixels.shape == (9, 10, 3)
    assert (pixels == 7).all()


async def test_long_text_is_cut_with_a_note(playing):
    environment = playing(max_text=100)
    await begin(environment)
    seen, *_ = await environment.step(act(1, "big"))
    assert seen["text"] == "x" * 100 + "\n[cut: 299900 more characters]"


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("not json", "invalid"),
        ("no object", "invalid"),
        ("no data", "invalid"),
        ("other kind", "invalid"),
        ("no observation", "invalid"),
        ("text reward", "invalid"),
        ("binary", "invalid"),
        ("too deep", "invalid"),
        ("die", "crash"),
        ("raise", "execution_error"),
    ],
)
async def test_what_a_server_may_not_say_is_a_typed_failure(playing, mode, kind):
    environment = playing()
    await begin(environment)
    failure = await failure_of(environment, act(1, mode))
    assert (failure.kind, failure.phase) == (kind, "step")
    assert "\n" not in str(failure)
    # the next episode begins on a new session where the old one is lost
    observation, _ = await begin(environment)
    assert observation["text"] == "count 0"


async def test_a_message_over_the_cap_is_invalid(playing):
    environment = playing(max_bytes=100_000)
    await begin(environment)
    failure = await failure_of(environment, act(1, "big"))
    assert failure.kind == "invalid"
    assert "over 100000 bytes" in str(failure)


async def test_a_late_reply_is_never_read_for_the_next_one(playing, fake):
    environment = playing(call_seconds=0.2)
    await begin(environment)
    failure = await failure_of(environment, act(1, "hang"))
    assert failure.kind == "timeout"
    assert "no reply to 'step' within 0.2 s" in str(failure)
    environment._call_s = 20.0
    assert (await failure_of(environment, act())).kind == "crash"
    await begin(environment)
    seen, *_ = await environment.step(act(2))
    assert seen["text"] == "count 2"


async def test_exceptions_of_the_servers_environment_can_be_shown(playing):
    environment = playing(on_error="show")
    await begin(environment)
    seen, *_ = await environment.step(act(1, "raise"))
    assert seen["text"] == "refused: the widget fell off"


async def test_a_full_server_is_told_from_a_broken_one_and_waited_for(playing, fake, monkeypatch):
    fake.capacity = 1
    first, second = playing(), playing(open_seconds=300.0)
    await begin(first)
    waiting = asyncio.create_task(begin(second))
    async with asyncio.timeout(60):
        while fake.refused < 2:
            await asyncio.sleep(0.01)
    loop = asyncio.get_running_loop()
    with monkeypatch.context() as later:
        later.setattr(loop, "time", lambda: time.monotonic() + 1000)
        await asyncio.wait([waiting])
    with pytest.raises(EnvironmentFailure) as caught:
        await waiting
    assert caught.value.kind == "full"
    await first.close()
    observation, _ = await begin(second)
    assert observation["text"] == "count 0"
    assert fake.closed == 1


async def test_nobody_at_the_address_is_unreachable(playing):
    with pytest.raises(EnvironmentFailure) as caught:
        await begin(playing(url="http://127.0.0.1:9"))
    assert caught.value.kind == "unreachable"


async def test_a_server_without_a_schema_is_named(playing, fake):
    fake.schema_status = http.HTTPStatus.INTERNAL_SERVER_ERROR
    with pytest.raises(EnvironmentFailure, match="no schema from http"):
        await begin(playing())


async def test_a_failed_reset_is_typed(playing, fake):
    fake.says_at_start = '{"type": "error", "data": {"message": "no", "code": "SESSION_ERROR"}}'
    with pytest.raises(EnvironmentFailure) as caught:
        await begin(playing())
    assert (caught.value.kind, caught.value.phase) == ("session_error", "reset")


@pytest.mark.parametrize("url", ["", "ftp://host", "http://", "http:///ws"])
def test_what_is_no_address_is_refused_at_once(playing, url):
    with pytest.raises(ConfigurationError, match="no address"):
        playing(url=url)


async def test_a_scheme_may_be_written_in_capitals(playing, fake):
    await begin(playing(url=fake.url.replace("http", "HTTP")))


async def test_headers_take_secrets_from_the_environment(playing, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "s3cret")
    await begin(playing(headers={"Authorization": "Bearer ${A_TOKEN}"}))
    with pytest.raises(ConfigurationError, match="NO_SUCH"):
        playing(headers={"Authorization": "Bearer ${NO_SUCH}"})


async def test_a_tool_server_offers_its_tools_by_name(playing, fake):
    fake.offer_tools()
    environment = playing()
    _, info = await begin(environment)
    functions = {tool["function"]["name"]: tool["function"] for tool in info["tools"]}
    assert [*functions] == ["add", "look"]
    assert functions["add"]["parameters"] == {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
    }
    seen, reward, terminated, *_ = await environment.step(
        {"name": "add", "arguments": {"amount": 2}}
    )
    assert (seen["text"], reward, terminated) == ("add {'amount': 2}", 1.0, False)
    seen, *_ = await environment.step({"name": "add", "arguments": {"amount": -1}})
    assert seen["text"] == "error: negative"
    seen, _, terminated, *_ = await environment.step({"name": "look", "arguments": {}})
    assert (seen["text"], len(seen["images"]), terminated) == ("look {}", 1, True)
    failure = await failure_of(environment, {"name": "add", "arguments": {"amount": 99}})
    assert failure.kind == "transport_error"


def test_the_task_set_gives_each_split_its_own_seeds():
    def tasks(split):
        target = Registry.discover().get("task_sets", "openenv/seeds")
        params = {"split": split, "count": 3, "name": "count", "reset": {"level": 2}}
        return bind(target, params, where="")()

    train, test = tasks("train"), tasks("test")
    assert [task.id for task in train] == ["count/1000000", "count/1000001", "count/1000002"]
    assert not {task.seed for task in train} & {task.seed for task in test}
    assert train[0].params == {"reset": {"level": 2}}


def test_the_run_file_of_the_readme_is_one():
    text = (Path(__file__).parents[3] / "plugins/openenv/README.md").read_text()
    snippet = tomllib.loads(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1])
    config = parse({"name": "readme", **snippet})
    (domain,) = config.domains.values()
    registry = Registry.discover()
    check(registry.get("environments", domain.environment), domain.params, where="params")
    name, _, split = domain.tasks.partition(":")
    given = {**domain.task_params, "split": split}
    check(registry.get("task_sets", name), given, where="task_params")
    assert registry.knows("judges", domain.judge.name)


async def test_many_sessions_share_a_worker_of_a_real_environment_server(lease_of, fake):
    leases = [await lease_of(url=fake.url) for _ in range(4)]
    workers = {lease.instance.rpartition("@")[2].partition(".")[0] for lease in leases}
    assert len(workers) == 1
    for lease in leases:
        seen = await lease.reset(episode="e", task=TASK, seed=1, deadline=30)
        assert seen.tools[0]["function"]["name"] == "act"
    assert fake.sessions == 4
    seen = await leases[0].step(step=0, action=act(1, "picture"), deadline=30)
    assert (seen.text, seen.images[0].format, seen.images[0].width) == ("look", "png", 12)
    with pytest.raises(EnvironmentFailure) as caught:
        await leases[0].step(step=1, action=act(1, "not json"), deadline=30)
    assert (caught.value.kind, caught.value.phase) == ("invalid", "step")
    seen = await leases[1].step(step=0, action=act(3), deadline=30)
    assert (seen.reward, seen.terminated) == (1.0, True)
    assert await leases[1].evaluate(deadline=30) is None
    for lease in leases:
        await lease.release()
    assert fake.sessions == 0


async def test_it_keeps_the_contract_of_an_environment(fake):
    await asyncio.to_thread(
        check_environment, "openenv/ws", params={"url": fake.url}, tasks=[TASK], http=False
    )


class Watched:
    """What `environment_return` reads of a trajectory."""

    def __init__(self, step_rewards):
        self.step_rewards = tuple(step_rewards)


async def play(lease, calls, task=TASK):
    seen = await lease.reset(episode=str(calls), task=task, seed=task.seed, deadline=60)
    first, rewards = seen, []
    for step, call in enumerate(calls):
        seen = await lease.step(step=step, action=call, deadline=60)
        rewards.append(seen.reward)
    verdict = await environment_return(task, Watched(rewards))
    return first, seen, verdict


@pytest.mark.slow
@pytest.mark.real_openenv
async def test_a_real_openenv_server_is_played_through_a_real_lease(lease_of, real_server):
    lease = await lease_of(url=real_server("count"))
    task = Task("count/2", "count to five", "tools", params={"reset": {"goal": 5}}, seed=3)
    calls = [{"name": "act", "arguments": {"amount": amount}} for amount in (3, 9, 2)]
    first, last, verdict = await play(lease, calls, task)
    assert first.text == "seed 3, count to 5"
    assert (first.images[0].width, first.images[0].height) == (16, 12)
    (tool,) = first.tools
    assert tool["function"]["description"] == "Add a number."
    assert set(tool["function"]["parameters"]["properties"]) == {"amount", "fail"}
    assert (last.text, last.reward, last.terminated) == ("count 5", 1.0, True)
    assert verdict.label == "success"
    missed = await play(lease, [{"name": "act", "arguments": {"amount": 3}}] * 2, task)
    assert missed[1].terminated
    assert missed[2].label == "failure"
    with pytest.raises(EnvironmentFailure) as caught:
        await lease.step(
            step=2, action={"name": "act", "arguments": {"amount": 1, "fail": True}}, deadline=30
        )
    assert (caught.value.kind, "the widget fell off" in str(caught.value)) == (
        "execution_error",
        True,
    )


@pytest.mark.slow
@pytest.mark.real_openenv
async def test_a_real_openenv_server_holds_four_sessions_and_frees_them(lease_of, real_server):
    url = real_server("count")
    leases = [await lease_of(url=url) for _ in range(4)]
    for lease in leases:
        await lease.reset(episode="e", task=TASK, seed=1, deadline=30)
    fifth = await lease_of(url=url, open_seconds=1.0)
    with pytest.raises(EnvironmentFailure) as caught:
        await fifth.reset(episode="e", task=TASK, seed=1, deadline=30)
    assert caught.value.kind == "full"
    await leases[0].release()
    sixth = await lease_of(url=url)
    await sixth.reset(episode="e", task=TASK, seed=1, deadline=30)


@pytest.mark.slow
@pytest.mark.real_openenv
async def test_tools_of_a_real_openenv_server_are_callable(lease_of, real_server):
    lease = await lease_of(url=real_server("tools"))
    calls = [{"name": "add", "arguments": {"amount": amount}} for amount in (1, 1)]
    first, last, _ = await play(lease, calls)
    assert [tool["function"]["name"] for tool in first.tools] == ["add"]
    assert last.text == "count 2"
    wrong = await lease.step(step=2, action={"name": "add", "arguments": {}}, deadline=30)
    assert wrong.text.startswith("error: ")
