"""Rollouts of verifiers environments, driven from outside, call by call."""

import asyncio
import signal

import pytest

from mintact_platform.errors import ConfigurationError, EnvironmentFailure


def answer(text):
    return {"name": "answer", "arguments": {"text": text}}


def tool(name, **arguments):
    return {"name": name, "arguments": arguments}


END = tool("terminate", status="success")


async def begin(environment, row=0, **more):
    task = {"params": {"part": "train", "row": row}, **more}
    return await environment.reset(seed=0, options={"task": task})


async def test_one_turn_is_asked_answered_and_scored(make):
    environment = make("reverse")
    seen, info = await begin(environment, 1)
    assert seen == {"text": "Answer with the word alone.\n\nReverse stressed."}
    assert info["tools"] == []
    seen, reward, terminated, truncated, info = await environment.step(answer("desserts"))
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["metrics"] == {"right": 1.0, "is_a_number": 0.0, "num_turns": 1.0}
    check = await environment.evaluate()
    assert (check.success, check.score, check.details["stop"]) == (True, 1.0, "max_turns_reached")
    await environment.close()


async def test_a_prompt_that_is_the_tasks_goal_is_not_repeated(make):
    goal = "Answer with the word alone.\n\nReverse abc."
    seen, _ = await begin(make("reverse"), goal=goal)
    assert seen == {"text": ""}


async def test_a_wrong_answer_is_reward_0_even_where_a_reward_function_cannot_read_it(make):
    environment = make("reverse")
    await begin(environment)
    assert (await environment.step(answer("no")))[1] == 0.0
    check = await environment.evaluate()
    assert not check.success
    assert check.details["errors"] == {
        "is_a_number": "ValueError: could not convert string to float: 'no'"
    }


async def test_a_judge_that_cannot_be_reached_is_the_environments_failure_and_no_zero(make):
    environment = make("without a judge")
    await begin(environment)
    with pytest.raises(EnvironmentFailure, match="'verdict' could not be computed: the judge is"):
        await environment.step(answer("hello"))


async def test_turns_go_back_and_forth_until_the_environment_is_content(make):
    environment = make("guess")
    await begin(environment)
    told = [await environment.step(answer(guess)) for guess in ("5", "2", "3")]
    assert [seen["text"] for seen, *_ in told] == ["It is lower.", "It is higher.", "You found it."]
    assert [reward for _, reward, *_ in told] == [0.0, 0.0, 1.0]
    with pytest.raises(EnvironmentFailure, match="the episode is over; reset first"):
        await environment.step(answer("3"))


async def test_a_turn_limit_truncates(make):
    environment = make("guess", max_turns=2)
    await begin(environment)
    await environment.step(answer("1"))
    _, reward, terminated, truncated, info = await environment.step(answer("2"))
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["stop"] == "max_turns_reached"


async def test_a_time_limit_truncates(make):
    environment = make("guess", timeout_seconds=0.05)
    await begin(environment)
    await asyncio.sleep(0.2)
    check = await environment.evaluate()
    assert (check.success, check.details["stop"]) == (False, "timeout_reached")


async def test_an_agent_that_ends_is_scored_as_it_stands(make):
    environment = make("guess")
    await begin(environment)
    await environment.step(answer("5"))
    _, reward, terminated, _, info = await environment.step(END)
    assert (reward, terminated, info["stop"]) == (0.0, True, "ended_by_agent")
    assert (await environment.evaluate()).details["errors"] == {}


async def test_an_agent_that_ends_without_a_word_gets_nothing_and_breaks_nothing(make):
    environment = make("reverse")
    await begin(environment)
    _, reward, terminated, *_ = await environment.step(END)
    assert (reward, terminated) == (0.0, True)
    assert (await environment.evaluate()).details["errors"] == {}


async def test_a_rollout_that_is_cut_from_outside_is_scored_by_evaluate_and_only_once(make):
    environment = make("guess")
    await begin(environment)
    await environment.step(answer("5"))
    first, second = await environment.evaluate(), await environment.evaluate()
    assert first == second
    assert first.details["metrics"]["num_turns"] == 1.0


async def test_tools_are_offered_called_and_answered(make):
    environment = make("shop")
    _, info = await begin(environment)
    assert [schema["function"]["name"] for schema in info["tools"]] == ["price", "weigh"]
    seen, _, terminated, _, info = await environment.step(tool("price", item="pear"))
    assert (seen["text"], terminated) == ("3", False)
    assert "tools" not in info, "they did not change"
    seen, *_ = await environment.step(tool("weigh", item="plum", count=3))
    assert seen["text"] == "300"
    assert (await environment.step(answer("8")))[1] == 1.0


async def test_a_foreign_tool_is_refused_in_words_and_nothing_happens(make):
    environment = make("shop")
    await begin(environment)
    seen, _, terminated, *_ = await environment.step(tool("search_tool", query="x"))
    assert "no tool 'search_tool' here" in seen["text"]
    assert not terminated
    assert (await environment.step(answer("8")))[1] == 1.0


async def test_a_tool_that_ends_the_rollout_by_the_agents_own_fault_is_scored(make):
    environment = make("shop")
    await begin(environment)
    _, reward, terminated, _, info = await environment.step(tool("weigh", item="stone", count=1))
    assert (reward, terminated, info["stop"]) == (0.0, True, "has_error")


@pytest.mark.parametrize(
    ("kind", "options", "action", "failure"),
    [
        ("shop", {}, tool("weigh", item="anvil", count=1), "the scale broke"),
        ("guess", {"fault": "infra"}, answer("5"), "the machine was lost"),
    ],
)
async def test_what_breaks_underneath_is_the_environments_failure(
    make, kind, options, action, failure
):
    environment = make(kind, **options)
    await begin(environment)
    with pytest.raises(EnvironmentFailure, match=failure) as caught:
        await environment.step(action)
    assert caught.value.kind == "InfraError"


async def test_a_bug_in_an_environment_is_raised_as_it_is(make):
    environment = make("guess", fault="crash")
    await begin(environment)
    with pytest.raises(TypeError, match="a bug in the environment"):
        await environment.step(answer("5"))
    await environment.close()


async def test_an_environment_that_calls_the_models_api_itself_says_so(make):
    environment = make("guess", fault="api")
    await begin(environment)
    with pytest.raises(AttributeError, match=r"calls the model's API itself \(.chat\)"):
        await environment.step(answer("5"))


async def test_a_setup_that_fails_is_a_failed_reset(make):
    with pytest.raises(EnvironmentFailure, match="no machine is free"):
        await begin(make("guess", fault="setup"))


async def test_a_conversation_that_is_rewritten_is_shown_whole(make):
    environment = make("forgetful")
    await begin(environment)
    seen, *_ = await environment.step(answer("5"))
    assert seen["text"] == "Find a number from 1 to 9.\n\nIt is lower."


async def test_an_environment_that_does_not_stop_asking_is_left(make):
    environment = make("stubborn")
    await begin(environment)
    with pytest.raises(EnvironmentFailure, match="goes on asking"):
        await environment.step(END)


async def test_pictures_of_the_prompt_are_shown(make):
    seen, _ = await begin(make("shade"))
    assert seen["images"][0].startswith(b"\x89PNG")


async def test_a_reset_leaves_the_running_rollout(make):
    environment = make("guess")
    for _ in range(3):
        await begin(environment)
        await environment.step(answer("5"))
    assert len([t for t in asyncio.all_tasks() if "Rollout" in repr(t.get_coro())]) == 1
    await environment.close()
    assert not [t for t in asyncio.all_tasks() if "Rollout" in repr(t.get_coro())]


async def test_cancelled_at_any_await_nothing_is_left(make):
    environment = make("guess")
    await begin(environment)
    stepping = asyncio.create_task(environment.step(answer("5")))
    stepping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stepping
    await environment.close()
    assert len(asyncio.all_tasks()) == 1


async def test_signal_handlers_stay_those_of_the_worker(make):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    make("reverse")
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_environments_that_score_groups_are_refused_in_one_line(make):
    with pytest.raises(ConfigurationError, match="scores a group of rollouts at once"):
        make("without a judge", fault="group")


async def test_an_unknown_environment_and_a_wrong_argument_are_named(make, standin):
    from mintact_plugin_verifiers.environment import VerifiersEnvironment

    with pytest.raises(ConfigurationError, match=r"'toy-gamse'.*no module 'toy_gamse'"):
        VerifiersEnvironment(id="toy-gamse")
    with pytest.raises(ConfigurationError, match="unexpected keyword argument 'colour'"):
        make("shade", colour="red")


def test_what_is_missing_is_named(standin):
    from mintact_plugin_verifiers.environment import VerifiersEnvironment

    assert VerifiersEnvironment.missing(id="toy-games") is None
    assert "no module 'toy_gamse'" in VerifiersEnvironment.missing(id="owner/toy-gamse")
