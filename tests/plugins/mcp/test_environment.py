"""What servers may do wrong, and what an agent is offered."""

import asyncio
import json
import re
import ssl
import tomllib
from pathlib import Path

import pytest
import trustme
from mintact_plugin_mcp import stdio

from mintact_platform.config import parse
from mintact_platform.errors import ConfigurationError, EnvironmentFailure
from mintact_platform.records.task import Task
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind, check
from mintact_platform.testing import check_environment


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """However late the kernel says that a program ended, it is heard why."""
    monkeypatch.setattr(stdio, "_EXIT_S", 60.0)


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


async def begin(environment, **params):
    return await environment.reset(seed=0, options={"task": {"params": params}})


async def failure_of(environment, action):
    with pytest.raises(EnvironmentFailure) as caught:
        await environment.step(action)
    assert caught.value.phase == "step"
    return caught.value


def names(info):
    return [tool["function"]["name"] for tool in info["tools"]]


async def test_a_name_that_the_action_space_uses_itself_gets_the_servers_before_it(playing, raw):
    environment = playing(**raw())
    _, info = await begin(environment)
    assert names(info) == ["echo", "mcp__terminate", "secret_key"]
    seen, *_ = await environment.step(call("mcp__terminate", a=1))
    assert seen["text"] == 'terminate {"a": 1}'
    seen, _, terminated, *_ = await environment.step(call("terminate", status="success"))
    assert terminated


async def test_tools_of_several_servers_carry_their_names(playing, raw):
    environment = playing(servers={"left": raw(), "right": raw()}, deny=["*secret*"])
    _, info = await begin(environment)
    sides = ("left", "right")
    assert names(info) == [f"{side}__{tool}" for side in sides for tool in ("echo", "terminate")]
    seen, *_ = await environment.step(call("right__echo", to="you"))
    assert seen["text"] == 'echo {"to": "you"}'


async def test_only_allowed_tools_are_offered_and_called(playing, raw):
    environment = playing(**raw(), allow=["ec*", "secret_*"], deny=["secret_key"])
    _, info = await begin(environment)
    assert names(info) == ["echo"]
    seen, *_ = await environment.step(call("secret_key"))
    assert seen["text"].startswith("refused: no tool named 'secret_key'")
    seen, *_ = await environment.step(call("search_tool", query="secret echo"))
    assert seen["text"] == "echo: echo it"
    seen, _, _, _, info = await environment.step(call("answer", text="42"))
    assert info == {"answer": "42"}
    seen, *_ = await environment.step({"name": "echo", "arguments": [1]})
    assert seen["text"] == "refused: the arguments must be an object"


async def test_a_changed_list_of_tools_is_told_with_the_answer(playing, raw):
    environment = playing(**raw())
    await begin(environment)
    *_, info = await environment.step(call("echo"))
    assert info == {}
    *_, info = await environment.step(call("echo", do="tools"))
    assert names(info) == ["other"]
    seen, *_ = await environment.step(call("echo"))
    assert seen["text"].startswith("refused")


async def test_words_on_standard_output_are_not_taken_for_messages(playing, raw, capfd):
    environment = playing(**raw())
    await begin(environment)
    seen, *_ = await environment.step(call("echo", do="noise"))
    assert seen["text"].startswith("echo")
    assert "loading weights" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("how", "seconds", "kind", "words"),
    [
        ("exits", 20.0, "unreachable", "ended with exit code 1"),
        ("babbles", 20.0, "unreachable", "ended with exit code 0"),
        ("silent", 0.5, "timeout", "said nothing within 0.5 s"),
    ],
)
async def test_a_program_that_is_no_server_is_named(playing, raw, how, seconds, kind, words):
    environment = playing(**raw(how), start_seconds=seconds)
    with pytest.raises(EnvironmentFailure) as caught:
        await begin(environment)
    assert (caught.value.kind, caught.value.phase) == (kind, "reset")
    assert words in str(caught.value)
    assert "mcp server 'mcp'" in str(caught.value)


async def test_a_server_that_dies_fails_the_episode_and_the_next_starts_it_anew(playing, raw):
    environment = playing(**raw())
    await begin(environment)
    failure = await failure_of(environment, call("echo", do="die"))
    assert failure.kind == "crash"
    assert "ended with exit code 7" in str(failure)
    assert (await failure_of(environment, call("echo"))).kind == "crash"
    await begin(environment)
    seen, *_ = await environment.step(call("echo"))
    assert seen["text"] == "echo {}"


async def test_a_server_that_hangs_fails_at_the_deadline(playing, raw):
    environment = playing(**raw(), call_seconds=0.2)
    await begin(environment)
    failure = await failure_of(environment, call("echo", do="hang"))
    assert failure.kind == "timeout"


async def test_a_late_answer_can_be_the_agents_to_deal_with(playing, raw):
    environment = playing(**raw(), call_seconds=0.2, on_timeout="show")
    await begin(environment)
    seen, *_ = await environment.step(call("echo", do="late"))
    assert seen["text"] == "error: no answer within 0.2 s"
    environment._call_s = 60.0
    seen, *_ = await environment.step(call("echo", n=2))
    assert seen["text"] == 'echo {"n": 2}'


@pytest.mark.parametrize("do", ["huge", "endless"])
async def test_a_message_over_the_cap_breaks_the_connection_not_the_worker(playing, raw, do):
    environment = playing(**raw(), max_bytes=100_000)
    await begin(environment)
    failure = await failure_of(environment, call("echo", do=do, size=300_000))
    assert failure.kind == "invalid"
    assert "over 100000 bytes" in str(failure)


async def test_long_answers_are_cut_with_a_note(playing, raw):
    environment = playing(**raw(), max_text=50)
    await begin(environment)
    seen, *_ = await environment.step(call("echo", do="huge", size=1000))
    assert seen["text"] == "x" * 50 + "\n[cut: 950 more characters]"


async def test_an_answer_that_is_none_is_invalid(playing, raw):
    environment = playing(**raw())
    await begin(environment)
    failure = await failure_of(environment, call("echo", do="shapeless"))
    assert failure.kind == "invalid"


async def test_a_picture_that_cannot_be_shown_is_named(playing, raw):
    environment = playing(**raw())
    await begin(environment)
    seen, *_ = await environment.step(call("echo", do="picture"))
    assert seen == {"text": "[picture that cannot be shown, image/webp]", "images": []}


async def test_a_program_deaf_to_the_end_of_its_input_ends_with_its_kin(playing, raw):
    environment = playing(**raw("stays"))
    await begin(environment)
    await environment.close()


async def test_a_wrong_setup_or_check_is_named(playing, raw):
    environment = playing(**raw())
    with pytest.raises(ConfigurationError, match="did you mean 'echo'"):
        await begin(environment, setup=[{"name": "ecko"}])
    with pytest.raises(ConfigurationError, match=r"write \{name, arguments\}"):
        await begin(environment, check="echo")
    await begin(environment, check={"name": "echo"})
    with pytest.raises(EnvironmentFailure, match="no state check"):
        await environment.evaluate()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "by 'command' or by 'url'"),
        ({"command": "no-such-program"}, "no program 'no-such-program'"),
        ({"command": "cat", "url": "http://x"}, "by 'command' or by 'url'"),
        ({"servers": {}}, "no server is named"),
        ({"servers": {"a": {"comand": "cat"}}}, "did you mean 'command'?"),
        ({"command": "cat", "servers": {"a": {"command": "cat"}}}, "both 'servers' and"),
    ],
)
def test_a_server_that_cannot_be_as_described_is_refused_at_once(playing, params, words):
    with pytest.raises(ConfigurationError, match=words.replace("?", r"\?")):
        playing(**params)


@pytest.mark.parametrize("scheme", ["https", "HTTPS"])
async def test_a_server_that_cannot_prove_its_name_gets_nothing(playing, scheme):
    context, came = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    trustme.CA().issue_cert("localhost").configure_cert(context)

    async def greet(_, writer):
        came.append(writer)
        writer.close()

    async with await asyncio.start_server(greet, "localhost", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(EnvironmentFailure):
            await begin(playing(url=f"{scheme}://localhost:{port}/mcp"))
    assert not came


def test_it_keeps_the_contract_of_an_environment(raw):
    check_environment("mcp/tools", params=raw(), tasks=[Task("t", "say it", "tools")], http=False)


def tasks(path, split="train"):
    target = Registry.discover().get("task_sets", "mcp/tasks")
    return bind(target, {"split": split, "path": str(path)}, where="")()


def test_tasks_come_from_a_file(tmp_path):
    lines = [
        {"id": "a", "goal": "buy pears", "params": {"check": {"name": "verify"}}, "max_turns": 5},
        {"id": "b", "goal": "buy figs", "split": "test", "domain": "shop"},
    ]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    (first,) = tasks(path)
    assert (first.id, first.domain, first.max_turns) == ("a", "tools", 5)
    assert [task.domain for task in tasks(path, "test")] == ["shop"]


@pytest.mark.parametrize(
    ("line", "words"),
    [("{", "no task"), ('{"id": "a"}', "no task"), ('{"id": "a", "gaol": ""}', "did you mean")],
)
def test_a_line_that_is_no_task_is_named(tmp_path, line, words):
    path = tmp_path / "tasks.jsonl"
    path.write_text(f'{{"id": "x", "goal": "y"}}\n{line}\n')
    with pytest.raises(ConfigurationError, match=words) as caught:
        tasks(path)
    assert f"{path}:2" in str(caught.value)


def test_the_run_file_of_the_readme_is_one():
    text = (Path(__file__).parents[3] / "plugins/mcp/README.md").read_text()
    snippet = tomllib.loads(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1])
    config = parse({"name": "readme", **snippet})
    (domain,) = config.domains.values()
    registry = Registry.discover()
    check(registry.get("environments", domain.environment), domain.params, where="params")
    name, _, split = domain.tasks.partition(":")
    given = {**domain.task_params, "split": split}
    check(registry.get("task_sets", name), given, where="task_params")
    assert registry.knows("judges", domain.judge.name)
