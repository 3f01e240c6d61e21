"""Whole commands: a scripted teacher behind HTTP is evaluated, collected from, and learned from."""

from __future__ import annotations

import itertools
import json
import sqlite3

import pytest

from mintact_platform.cli.main import main
from mintact_platform.datasets.rollouts import rollouts
from mintact_platform.storage import trajectories

DOMAINS = {"mobile": "mobile_use", "desktop": "computer_use", "tools": "tool_use"}


@pytest.fixture
def run_file(tmp_path, endpoint):
    """`run_file(tools=…, **params)` writes a run file of three domains and returns its path."""

    def write(*domains, name="run", **params):
        params = {"base_url": endpoint.url, "model": "teacher-1", "price_in": 1.0,
                  "price_out": 4.0, "price_cached": 0.1, **params}  # fmt: skip
        shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in params.items())
        lines = [
            f'name = "{name}"',
            "[rollout]",
            f'engine = "openai"\nparams = {{ {shown} }}',
            "max_new_tokens = 256\nactive = 8\nretries = 0",
        ]
        for domain in domains or DOMAINS:
            lines += [
                f"[domains.{domain}]",
                f'environment = "micro/{domain}"\ntasks = "micro/{domain}:train"',
                'instances = 2\nmax_turns = 6\njudge = "state"',
            ]
            if domain == "tools":
                lines += ['params = { announce = "registry" }']
        path = tmp_path / "run.toml"
        path.write_text("\n".join(lines))
        return path

    return write


def rows(run, query):
    with sqlite3.connect(run / "run.db") as database:
        database.row_factory = sqlite3.Row
        return database.execute(query).fetchall()


@pytest.mark.parametrize(
    ("tools", "domains"),
    [
        pytest.param("text", ["mobile", "desktop"], marks=pytest.mark.runs),
        ("native", ["desktop", "tools"]),
    ],
)
def test_a_teacher_that_solves_its_tasks_is_measured_so(
    tools, domains, run_file, endpoint, teacher, tmp_path, capsys
):
    endpoint.does(teacher(*domains, native=tools == "native"))
    path, runs = run_file(*domains, tools=tools), tmp_path / "runs"
    assert main(["eval", str(path), "evaluation.episodes=3", "--runs", str(runs)]) == 0
    err = capsys.readouterr().err
    assert "evaluating teacher-1 through openai" in err
    found = rows(runs / "run", "SELECT * FROM evaluations")
    assert len(found) == 6
    assert [row["reward"] for row in found] == [1.0] * 6
    replies = len(endpoint.requests)
    (cost,) = rows(runs / "run", "SELECT value FROM metrics WHERE name = 'messages/cost'")
    assert cost["value"] == pytest.approx(replies * (600 * 1.0 + 400 * 0.1 + 20 * 4.0) / 1e6)
    assert f"used {1000 * replies} tokens in ({400 * replies} cached)" in err
    for row in found:
        one = trajectories.load(runs / "run" / row["path"])
        assert one.segments == ()
        assert one.tokens == row["tokens"] == 20 * len(one.turns)
        assert one.chat.usage.cost == pytest.approx(len(one.turns) * 720e-6)
        # whatever the endpoint speaks, one form is recorded
        assert all(turn.response.startswith("<think>") for turn in one.turns)
        assert all("<tool_call>" in turn.response for turn in one.turns)
        if one.task.domain == "tools":
            assert [turn.tools for turn in one.turns] == [0, 1, 1]
    offered = [request.get("tools") for request in endpoint.requests]
    assert all(offered) if tools == "native" else not any(offered)


def test_collected_rollouts_are_read_and_judged_again_and_learned_from(
    run_file, endpoint, teacher, tmp_path, capsys, say
):
    solve = teacher("mobile", "tools", split="train", count=4000)
    asked = itertools.count()

    def stumbles(body):
        # every fifth answer is none: an error turn, of which no one learns
        return say.completion("well…") if next(asked) % 5 == 4 else solve(body)

    def forgiving(body):
        kept = [m for m in body["messages"] if m["content"] != "well…"]
        return stumbles({**body, "messages": kept})

    endpoint.does(forgiving)
    path, runs = run_file("mobile", "tools", name="teacher"), tmp_path / "runs"
    words = ["rollout", str(path), "--runs", str(runs), "evaluation.split=test"]
    assert main([*words, "--count", "4"]) == 0
    assert "4 rollouts a domain by teacher-1 through openai" in capsys.readouterr().err
    run = runs / "teacher"
    found = rows(run, "SELECT * FROM evaluations")
    assert {row["label"] for row in found} == {"rollout"}
    assert len(found) == 8
    assert all("/train/" in row["task"] for row in found)
    assert main(["show", "teacher", "--runs", str(runs)]) == 0
    assert main(["show", "teacher", found[0]["id"], "--runs", str(runs)]) == 0
    assert "used: " in capsys.readouterr().out
    assert main(["check", "teacher", "--runs", str(runs)]) == 0
    assert main(["judge", "run", "teacher", "--runs", str(runs), "--judge", "state"]) == 0
    recorded = [trajectories.load(run / row["path"]) for row in found if row["reward"] == 1.0]
    assert len(recorded) >= 4
    given = list(itertools.islice(rollouts(seed=1, path=run), len(recorded)))
    assert {d.extra["id"] for d in given} == {t.id for t in recorded}
    for one in given:
        twin = next(t for t in recorded if t.id == one.extra["id"])
        used = [turn for turn in twin.turns if not turn.error]
        assert [turn.response for turn in one.turns] == [turn.response for turn in used]
        assert one.action_space == DOMAINS[one.domain]
        assert all("well…" not in turn.response for turn in one.turns)
        changes = [turn.tools is not None for turn in one.turns]
        assert sum(changes) == (1 if one.domain == "tools" else 0)


@pytest.mark.runs
def test_a_collection_goes_on_where_it_stopped_and_one_that_never_began_leaves_its_name(
    run_file, endpoint, teacher, tmp_path, capsys, say
):
    endpoint.does(teacher("mobile", split="train", count=4000))
    path, runs = run_file("mobile", name="teacher"), tmp_path / "runs"
    words = ["rollout", str(path), "--runs", str(runs)]
    endpoint.models = say.refuses(401)
    assert main([*words, "--count", "3"]) == 1
    assert "HTTP 401" in capsys.readouterr().err
    endpoint.models = None
    assert main([*words, "--count", "3"]) == 0
    assert main([*words, "--count", "4"]) == 2
    capsys.readouterr()
    assert main([*words, "--count", "4", "--resume", "rollout.active=3"]) == 2
    assert "begun with another run file" in capsys.readouterr().err
    assert main([*words, "--count", "4", "--resume"]) == 0
    assert "teacher-1 through openai, 1 of them now" in capsys.readouterr().err
    assert main([*words, "--count", "4", "--resume"]) == 0
    tasks = [row["task"] for row in rows(runs / "teacher", "SELECT task FROM evaluations")]
    assert len(tasks) == len(set(tasks)) == 4
    assert main(["eval", str(path), "--runs", str(runs), "evaluation.episodes=1"]) == 2


@pytest.mark.runs
def test_a_model_that_is_not_served_is_told_with_the_endpoints_words(
    run_file, endpoint, tmp_path, capsys, say
):
    endpoint.does(say.refuses(404, "no model named 'teacher-1'"))
    runs = tmp_path / "runs"
    words = ["evaluation.episodes=2", "--runs", str(runs)]
    assert main(["eval", str(run_file("mobile")), *words]) == 1
    told = "mobile: 2 masked, the first for generate: not_found: HTTP 404: no model named"
    assert told in capsys.readouterr().err
    found = rows(runs / "run", "SELECT outcome, reward FROM evaluations")
    assert [tuple(row) for row in found] == [("model_failure", None)] * 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_student_is_trained_on_what_was_collected(run_file, endpoint, teacher, tmp_path, capsys):
    endpoint.does(teacher("mobile", split="train", count=4000))
    path, runs = run_file("mobile", name="teacher"), tmp_path / "runs"
    assert main(["rollout", str(path), "--runs", str(runs), "--count", "8"]) == 0
    make_tiny = pytest.importorskip("mintact_plugin_torch.warmstart.tiny").make_tiny
    student = tmp_path / "student.toml"
    student.write_text(
        f'name = "student"\nmodel = {{ path = "{make_tiny(tmp_path / "tiny")}" }}\n'
        "[sft]\nsteps = 12\nbatch = 8\n"
        f'data = [{{ name = "rollouts", params = {{ path = "{runs / "teacher"}" }} }}]\n'
        'action_spaces = { mobile_use = { prompt = "short" } }\n'
    )
    assert main(["sft", str(student), "--runs", str(runs)]) == 0
    losses = [
        row["value"]
        for row in rows(runs / "student", "SELECT value FROM metrics WHERE name = 'sft/loss'")
    ]
    assert len(losses) == 12
    assert losses[-1] < losses[0] / 2
    assert (runs / "student" / "model" / "config.json").is_file()
