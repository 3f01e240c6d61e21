"""Bad input gives one clear line and exit code 2, and nothing is lost."""

from __future__ import annotations

import pytest

CASES = {
    "an unknown key": ({"rollout__temprature": 1.0}, "did you mean 'temperature'"),
    "a wrong type": ({"trainer__steps": "many"}, "trainer.steps"),
    "a missing model": ({"model__path": "nowhere"}, "nowhere"),
    "an unknown environment": ({"domains__mobile__environment": "micro/mobil"}, "micro/mobile"),
    "an unknown parameter": ({"domains__mobile__params": {"iconz": 3}}, "icons"),
    "a parameter of the environment out of its range": (
        {"domains__mobile__params": {"icons": 100}},
        "domains.mobile.params: parameter 'icons': input should be less than or equal to 8, got 1",
    ),
    "a share that is none": (
        {"domains__mobile__params": {"fault_rate": 1.5}},
        "domains.mobile.params: parameter 'fault_rate': input should be less than or equal to 1",
    ),
    "an unknown judge": ({"domains__mobile__judge": "stat"}, "did you mean 'state'"),
    "where an unknown judge stands": (
        {"domains__mobile__judge": "stat"},
        "domains.mobile.judge: no judge",
    ),
    "a judge that is none": (
        {"domains__mobile__judge": "stand_ins:takes_one"},
        "domains.mobile.judge: judge 'stand_ins:takes_one' cannot be called with (task,",
    ),
    "a judge that adds": (
        {"domains__mobile__judge": "stand_ins:adds"},
        "domains.mobile.judge: judge 'stand_ins:adds' returns int, not a Verdict; a judge is def",
    ),
    "an unknown preset": ({"objective__preset": "mintakt"}, "mintact"),
    "an unknown split": ({"domains__mobile__tasks": "micro/mobile:tarin"}, "split"),
    "an unknown loss": ({"objective__objective": "mintakt"}, "did you mean 'mintact'"),
    "no quota at all": ({"domains__mobile__quota": 0}, "quota"),
    "an impossible group": ({"rollout__min_live": 9}, "min_live"),
    "an impossible beta": ({"trainer__betas": [2, 3]}, "trainer.betas"),
    "a seed too large": ({"seed": 2**40}, "seed"),
    "a push the engine lacks": (
        {"rollout__engine": "stand_ins:OnlyDrains", "sync__mode": "retract"},
        "it can: drain",
    ),
    "a parameter of the loss": (
        {"objective__params": {"clip_lo": 1}},
        "unknown parameter 'clip_lo'",
    ),
    "a parameter of a part": (
        {"objective__normaliser": {"name": "token_mean", "params": {"x": 1}}},
        "normaliser 'token_mean': unknown parameter 'x'",
    ),
    "a loss that is none": (
        {"objective__objective": "stand_ins:CONSTANT"},
        "objective 'stand_ins:CONSTANT': its parameters cannot be read",
    ),
    "a judge that is a number": (
        {"domains__mobile__judge": "stand_ins:CONSTANT"},
        "domains.mobile.judge: ",
    ),
    "a mixture that is none": (
        {"schedule__mixture": "stand_ins:takes_nothing"},
        "mixture 'stand_ins:takes_nothing': cannot be made",
    ),
    "an engine that needs more": (
        {"rollout__engine": "stand_ins:takes_one"},
        "rollout_engine 'stand_ins:takes_one': cannot be made",
    ),
    "an action space that needs more": (
        {"domains__mobile__action_space": "stand_ins:takes_one"},
        "action_space 'stand_ins:takes_one': cannot be made",
    ),
    "a chat format that is none": (
        {"model__chat": "stand_ins:takes_nothing"},
        "chat format 'stand_ins:takes_nothing': cannot be made",
    ),
    "checkpoints never": ({"trainer__checkpoint_every": 0}, "trainer.checkpoint_every"),
    "an interpreter that is not there": (
        {"domains__mobile__python": "/nowhere/python"},
        "domains.mobile.python: interpreter '/nowhere/python': cannot be run: No such file",
    ),
    "an interpreter that may not run": (
        {"domains__mobile__python": __file__},
        "domains.mobile.python: interpreter ",
    ),
    "an interpreter that is none": (
        {"domains__mobile__python": "/bin/true"},
        "domains.mobile.python: interpreter '/bin/true': is no Python interpreter",
    ),
    "no thread for the trainer": (
        {"trainer__params": {"threads": 0}},
        "trainer.params: trainer 'torch': parameter 'threads': ",
    ),
    "a device that is none": (
        {"trainer__params": {"device": "cudaa"}},
        "trainer.params: trainer 'torch': parameter 'device': no such device; did you mean 'cuda'",
    ),
    "a device that is not there": (
        {"trainer__params": {"device": "cuda:9"}},
        "parameter 'device': cannot be used here: ",
    ),
    "no thread for the engine": (
        {"rollout__params": {"threads": 0}},
        "rollout.params: rollout_engine 'embedded': parameter 'threads': ",
    ),
    "a device of the engine": (
        {"rollout__params": {"device": "cpu:x"}},
        "rollout.params: rollout_engine 'embedded': parameter 'device': no such device",
    ),
    "an engine without a context": (
        {"rollout__params": {"context": 0}},
        "rollout.params: rollout_engine 'embedded': parameter 'context': ",
    ),
    "an engine whose context is too short": (
        {"rollout__params": {"context": 100}},
        "rollout.max_context = 600: engine 'embedded' holds 100 tokens",
    ),
    "no room for a prompt": (
        {"rollout__max_new_tokens": 600},
        "rollout.max_new_tokens: 600 new tokens leave no room in 600",
    ),
    "an engine that is none": (
        {"rollout__engine": "stand_ins:takes_nothing"},
        "rollout.engine: rollout_engine 'stand_ins:takes_nothing': makes a NoneType, without start",
    ),
    "where an unknown engine stands": (
        {"rollout__engine": "embeded"},
        "rollout.engine: no rollout engine named 'embeded'; did you mean 'embedded'",
    ),
    "where an unknown trainer stands": (
        {"trainer__name": "torhc"},
        "trainer.name: no trainer named 'torhc'; did you mean 'torch'",
    ),
    "a trainer that needs more": (
        {"trainer__name": "stand_ins:takes_one"},
        "trainer.name: trainer 'stand_ins:takes_one': needs more than its parameters",
    ),
    "a mixture that gives no quotas": (
        {"schedule__mixture": "stand_ins:takes_one"},
        "schedule.mixture: mixture 'stand_ins:takes_one': makes a NoneType, without quotas()",
    ),
    "where an unknown flow control stands": (
        {"schedule__flow_control": "credits"},
        "schedule.flow_control: no flow control named 'credits'; did you mean 'credit'",
    ),
    "where an unknown chat format stands": (
        {"model__chat": "qwen3-vk"},
        "model.chat: no chat format named 'qwen3-vk'; did you mean 'qwen3-vl'",
    ),
    "where an unknown preset stands": (
        {"objective__preset": "mintakt"},
        "objective.preset: no preset named 'mintakt'; did you mean 'mintact'",
    ),
    "a preset that is none": (
        {"objective__preset": "stand_ins:takes_nothing"},
        "objective.preset: preset 'stand_ins:takes_nothing' is a function",
    ),
    "where a part of the loss stands": (
        {"objective__advantage": "group_maen"},
        "objective.advantage: no advantage named 'group_maen'",
    ),
    "a term that nobody registers": (
        {"objective__terms": ["kl_k9"]},
        "objective.terms: no objective named 'kl_k9'; did you mean 'kl_k",
    ),
    "a correction that takes too little": (
        {"objective__correction": "stand_ins:takes_one"},
        "objective.correction: correction 'stand_ins:takes_one': cannot be called with (proximal_",
    ),
    "an advantage that takes nothing": (
        {"objective__advantage": "stand_ins:takes_nothing"},
        "objective.advantage: advantage 'stand_ins:takes_nothing': cannot be called with (batch)",
    ),
    "tasks of another environment": (
        {"domains__mobile__tasks": "micro/web:train"},
        "domains.mobile.tasks: task set 'micro/web' is another environment's; "
        "did you mean 'micro/mobile:train'",
    ),
    "a misspelt split": (
        {"domains__mobile__tasks": "micro/mobile:trian"},
        "domains.mobile.tasks: 'micro/mobile:trian' names no split; did you mean 'micro/mobile:tra",
    ),
    "a second split": (
        {"domains__mobile__task_params": {"split": "test"}},
        "domains.mobile.task_params: the split stands in tasks",
    ),
    "a parameter of the tasks": (
        {"domains__mobile__task_params": {"icon": 3}},
        "domains.mobile.task_params: task set 'micro/mobile': unknown parameter 'icon'",
    ),
    "tasks that are none": (
        {"domains__mobile__tasks": "stand_ins:gives_words:train"},
        "domains.mobile.tasks: task set 'stand_ins:gives_words': holds a str, not a",
    ),
    "tasks without a first": (
        {"domains__mobile__tasks": "stand_ins:gives_a_mapping:train"},
        "domains.mobile.tasks: task set 'stand_ins:gives_a_mapping': its first task cannot be read",
    ),
    "tasks that cannot be counted": (
        {"domains__mobile__tasks": "stand_ins:gives_nothing:train"},
        "domains.mobile.tasks: task set 'stand_ins:gives_nothing': makes a NoneType, without __len",
    ),
    "an environment that is none": (
        {"domains__mobile__environment": "operator:add"},
        "domains.mobile.environment: ",
    ),
    "an environment of one's own that is not there": (
        {"domains__mobile__environment": "nowhere_to_be_found:Env"},
        "domains.mobile.environment: ",
    ),
    "an action space that is none": (
        {"domains__mobile__action_space": "stand_ins:takes_nothing"},
        "domains.mobile.action_space: action_space 'stand_ins:takes_nothing': makes a NoneType, ",
    ),
    "a server without an address": (
        {"domains__mobile__servers": ["localhost:80"]},
        "domains.mobile.servers: 'localhost:80' is no address; write http://host:port",
    ),
    "a token that is not set": (
        {
            "domains__mobile__servers": ["http://localhost:80"],
            "domains__mobile__bearer_env": "NO_SUCH_VARIABLE",
        },
        "domains.mobile.bearer_env: the environment variable 'NO_SUCH_VARIABLE' is not set",
    ),
    "a judge that is a function of the interpreter": (
        {"domains__mobile__judge": "operator:add"},
        "domains.mobile.judge: judge 'operator:add': its parameters cannot be read",
    ),
    "a member that is no judge": (
        {"domains__mobile__judge": {"name": "ensemble", "params": {"judges": ["operator:add"]}}},
        "domains.mobile.judge: judges[0]: judge 'operator:add': its parameters cannot be read",
    ),
    "a member that nobody registers": (
        {"domains__mobile__judge": {"name": "ensemble", "params": {"judges": ["state", "stat"]}}},
        "domains.mobile.judge: judges[1]: no judge named 'stat'; did you mean 'state'",
    ),
    "a target that interrupts": (
        {"domains__mobile__judge": "interrupts:judge"},
        "domains.mobile.judge: judge 'interrupts:judge' of interrupts: cannot import "
        "'interrupts:judge' (KeyboardInterrupt)",
    ),
    "a truth value for a whole number": ({"trainer__steps": True}, "trainer.steps: a truth value"),
    "a truth value for a number": ({"trainer__lr": True}, "trainer.lr: a truth value is no number"),
    "a truth value in a pair": ({"trainer__betas": [True, 0.9]}, "trainer.betas: a truth value"),
    "a truth value for a parameter": (
        {"domains__mobile__params": {"icons": True}},
        "domains.mobile.params: parameter 'icons': a truth value is no number",
    ),
    "an endless number": ({"trainer__steps": 10**30}, "trainer.steps: input should be a number of"),
    "more than a machine holds": (
        {"evaluation__episodes": 10**9},
        "evaluation.episodes: input should be less than",
    ),
    "too hot": ({"rollout__temperature": 1e300}, "rollout.temperature: input should be less than"),
    "too cold": ({"rollout__temperature": 1e-300}, "rollout.temperature: input should be greater"),
    "too hot for an evaluation": (
        {"evaluation__temperature": 1e300},
        "evaluation.temperature: input should be 0 or from 0.001 to 100",
    ),
    "below zero": ({"evaluation__temperature": -1}, "evaluation.temperature: input should be 0"),
    "for ever": ({"deadlines__start": 1e300}, "deadlines.start: input should be less than"),
    "a missing plugin": ({"required_plugins": ["mintact-env-desktop>=0.2"]}, "pip install"),
}


@pytest.fixture(scope="module")
def model(untrained):
    """Nothing here gets so far as to ask it."""
    return untrained


@pytest.mark.parametrize("case", CASES)
def test_it_is_one_line_and_exit_code_two(mintact, case, capsys):
    overrides, expected = CASES[case]
    assert mintact.here("train", mintact.run_file(**overrides)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1
    assert expected in said.err
    assert not mintact.run.exists()


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (
            "{name='ensemble', params={judges=[{name='state', params={rewards='x'}}]}}",
            "judges[0]: judges[0]: judge 'state': unknown parameter 'rewards'; did you mean 'rewa",
        ),
        (
            "{name='process', params={judge='stand_ins:takes_one'}}",
            "judges[0]: judge 'process': judge 'stand_ins:takes_one' cannot be called with (task,",
        ),
    ],
)
def test_a_member_of_a_member_is_looked_at_too(mintact, member, expected, capsys):
    judge = f"domains.mobile.judge={{name='ensemble', params={{judges=[{member}]}}}}"
    assert mintact.here("train", mintact.run_file(), judge) == 2
    assert f"mintact: domains.mobile.judge: {expected}" in capsys.readouterr().err
    assert not mintact.run.exists()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (
            "sft.data=[{name='micro/episode'}]",
            "sft.data[0]: no demonstration named 'micro/episode'",
        ),
        ("sft.data=[{}]", "sft.data[0]: a name is needed"),
        ("sft.data=[{name='micro/episodes', share=true}]", "sft.data[0]: share must be positive"),
        (
            "sft.data=[{name='micro/episodes', params={domains=['mobil']}}]",
            "sft.data[0]: micro: unknown domain 'mobil'; did you mean 'mobile'",
        ),
        (
            "sft.action_spaces={mobil_use={}}",
            "sft.action_spaces.mobil_use: no action space named 'mobil_use'; did you mean 'mobile",
        ),
        (
            "sft.params={guidence=0.3}",
            "sft.params: trainer 'torch': unknown parameter 'guidence'; did you mean 'guidance'?",
        ),
        ("sft.params={guidance=-1}", "sft.params: trainer 'torch': parameter 'guidance': input"),
        ("sft.params={betas=[0.9, 2]}", "sft.params: trainer 'torch': parameter 'betas.1': input"),
        ("sft.gate=2", "sft.gate: input should be less than or equal to 1"),
    ],
)
def test_a_supervised_stage_is_looked_at_as_a_whole(mintact, override, expected, capsys):
    words = [mintact.run_file(), "sft.data=[{name='micro/episodes'}]", override]
    assert mintact.here("sft", *words) == 2
    said = capsys.readouterr()
    assert expected in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert not mintact.run.exists()


def test_an_interrupt_before_anything_began_offers_no_resume(mintact, capsys):
    path = mintact.run_file(domains__mobile__judge="stand_ins:Interrupted")
    assert mintact.here("train", path) == 130
    assert capsys.readouterr().err == "mintact: interrupted\n"
    assert not mintact.run.exists()


@pytest.mark.parametrize("text", ["1" * 5000, "[" * 5000])
def test_a_value_without_end_is_one_line(mintact, text, capsys):
    path = mintact.run_file()
    path.write_text(f"seed = {text}\n{path.read_text()}")
    assert mintact.here("train", path) == 2
    assert "not valid TOML" in capsys.readouterr().err
    assert mintact.here("train", mintact.run_file(), f"trainer.steps={text}") == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "trainer.steps: " in said[0]
    assert len(said[0]) < 500


@pytest.mark.parametrize("case", ["an unknown key", "an unknown judge"])
def test_a_process_of_its_own_says_and_leaves_no_more(mintact, case):
    overrides, expected = CASES[case]
    output = mintact("train", mintact.run_file(**overrides), code=2)
    assert len(output.strip().splitlines()) == 1
    assert expected in output
    assert not mintact.run.exists()


def test_a_missing_run_file_and_a_missing_run(mintact):
    assert "no such run file" in mintact("train", "absent.toml", code=2)
    assert len(mintact("check", "absent", code=2).strip().splitlines()) == 1


def test_without_a_browser_a_web_domain_is_refused_with_what_to_install(mintact):
    path = mintact.run_file("web")
    output = mintact("train", path, code=2, PATH="/usr/bin/nowhere", MINTACT_CHROMIUM="/nowhere")
    assert len(output.strip().splitlines()) == 1
    assert "chromium-headless-shell" in output
    assert not mintact.run.exists()
