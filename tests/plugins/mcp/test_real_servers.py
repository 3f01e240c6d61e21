"""Servers written with the official package, played through a real lease."""

import contextlib
import json

import psutil
import pytest

from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task

TASK = Task(
    "shop/1",
    "put two pears into the cart",
    "tools",
    params={
        "setup": [{"name": "stock", "arguments": {"items": {"apple": 1}}}],
        "check": {"name": "verify", "arguments": {"want": {"apple": 1, "pear": 2}}},
    },
)
PLAIN = Task("shop/2", "look around", "tools")


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def names(tools):
    return [tool["function"]["name"] for tool in tools]


async def play(lease, calls, task=PLAIN, episode="e"):
    first = await lease.reset(episode=episode, task=task, seed=0, deadline=60)
    return first, [
        await lease.step(step=step, action=action, deadline=60) for step, action in enumerate(calls)
    ]


async def solved(lease):
    """An episode of the task in words, and its check."""
    calls = [call("put", item="pear", count=2), call("contents"), call("terminate")]
    first, seen = await play(lease, calls, TASK, "solved")
    assert "stock" not in names(first.tools)
    assert "verify" not in names(first.tools)
    assert (seen[2].terminated, [s.reward for s in seen]) == (True, [0.0] * 3)
    assert seen[0].text == "2 pear"
    assert json.loads(seen[1].text) == {"apple": 1, "pear": 2}
    return await lease.evaluate(deadline=30)


async def story(lease):
    """An episode with everything that a server may answer."""
    calls = [
        call("picture"),
        call("quiet"),
        call("put", item="pear", count=0),
        call("put", count="many"),
        call("contents"),
        call("about"),
        call("unlock"),
    ]
    first, seen = await play(lease, calls)
    put = next(t["function"] for t in first.tools if t["function"]["name"] == "put")
    assert put["description"] == "Put something into the cart."
    assert put["parameters"]["properties"]["count"] == {"default": 1, "type": "integer"}
    assert put["parameters"]["required"] == ["item"]
    picture, quiet, refused, wrong, left, about, unlocked = seen
    assert picture.text == "here:\ntwo pixels"
    assert [(i.format, i.width, i.height) for i in picture.images] == [("png", 2, 1)]
    assert quiet.text == "(no output)"
    assert refused.text.startswith("error: ")
    assert refused.text.endswith("count must be at least 1")
    assert wrong.text.startswith("error: ")
    assert unlocked.text == "open"
    step, told = len(calls), unlocked.tools
    while told is None:
        # over HTTP the news travel on a way of their own
        told = (await lease.step(step=step, action=call("contents"), deadline=30)).tools
        step += 1
    assert "haggle" in names(told)
    assert "quiet" not in names(told)
    haggled = await lease.step(step=step, action=call("haggle", price=9), deadline=30)
    assert haggled.text == "8"
    gone = await lease.step(step=step + 1, action=call("quiet"), deadline=30)
    assert gone.text.startswith("refused: no tool named 'quiet'")
    assert await lease.evaluate(deadline=30) is None
    return json.loads(left.text), json.loads(about.text)


async def test_a_program_is_played_through_a_lease_and_each_episode_finds_it_new(lease_of, shop):
    lease = await lease_of(**shop, env={"NAME": "${SHOP_NAME}", "PLAIN": "x"})
    check = await solved(lease)
    assert (check.success, check.score) == (True, 1.0)
    assert check.details == {"cart": {"apple": 1, "pear": 2}}
    left, about = await story(lease)
    assert left == {}
    assert {"NAME", "PLAIN", "PATH"} <= set(about["variables"])
    assert not [name for name in about["variables"] if "SECRET" in name]
    assert "/mcp-" in about["directory"]


async def test_an_address_is_played_through_a_lease(lease_of, shop_url):
    lease = await lease_of(url=shop_url())
    check = await solved(lease)
    assert check.success
    left, _ = await story(lease)
    # who runs the server resets it, or has tools for that
    assert left == {"apple": 1, "pear": 2}


async def test_a_server_at_an_address_that_dies_or_hangs_is_a_typed_failure(lease_of, shop_url):
    url = shop_url()
    hasty = await lease_of(url=url, call_seconds=1.0)
    lease = await lease_of(url=url, max_bytes=200_000)
    kinds = []
    lasts = ((hasty, call("hang")), (lease, call("huge", size=900_000)), (lease, call("die")))
    for episode, (lease, last) in enumerate(lasts):
        await lease.reset(episode=str(episode), task=PLAIN, seed=0, deadline=30)
        with pytest.raises(EnvironmentFailure) as caught:
            await lease.step(step=0, action=last, deadline=30)
        kinds.append(caught.value.kind)
        assert caught.value.phase == "step"
    assert kinds == ["timeout", "invalid", "crash"]
    with pytest.raises(EnvironmentFailure) as caught:
        await lease.reset(episode="again", task=PLAIN, seed=0, deadline=30)
    assert caught.value.kind == "unreachable"


async def test_what_a_gateway_says_is_no_answer_of_a_tool(lease_of, shop_url):
    lease = await lease_of(url=shop_url())
    await play(lease, [call("spoil")])
    with pytest.raises(EnvironmentFailure) as caught:
        await lease.step(step=1, action=call("contents"), deadline=30)
    assert caught.value.kind in ("invalid", "crash")
    with pytest.raises(EnvironmentFailure) as caught:
        await lease.reset(episode="again", task=PLAIN, seed=0, deadline=30)
    assert caught.value.kind == "unreachable"


async def test_a_variable_that_is_not_set_is_named_at_once(lease_of, raw):
    with pytest.raises(ConfigurationError, match="NO_SUCH_VARIABLE"):
        await lease_of(**raw(), env={"NAME": "${NO_SUCH_VARIABLE}"})


async def test_whatever_a_program_started_ends_with_the_lease(lease_of, raw, environment_server):
    lease = await lease_of(**raw())
    # the worker lives on for this one, whatever became of those before
    await lease_of(**raw())
    before = environment_server.processes_of(lease)
    await play(lease, [call("echo"), call("echo", do="breed")])
    assert len(environment_server.processes_of(lease)) == len(before) + 2
    await lease.release()
    assert environment_server.processes_of(lease) == before


async def test_whatever_a_program_started_ends_with_a_killed_worker(
    lease_of, raw, environment_server
):
    lease = await lease_of(**raw())
    await play(lease, [call("echo", do="breed")])
    running = [psutil.Process(pid) for pid in environment_server.processes_of(lease)]
    commands = [(process, " ".join(process.cmdline())) for process in running]
    for process in [p for p, command in commands if "environments.worker" in command]:
        # the kernel may end the others of its namespace first
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    with pytest.raises(EnvironmentFailure):
        await lease.step(step=1, action=call("echo"), deadline=30)
    await lease.release()
    assert environment_server.processes_of(lease) == []
