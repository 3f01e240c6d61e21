"""What a run file says of devices, threads and the embedded engine, read without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest
from mintact_plugin_torch.engine.embedded import EmbeddedEngine
from mintact_plugin_torch.factory import torch_trainer
from mintact_plugin_torch.settings import usable

from mintact_platform.errors import ConfigurationError
from mintact_platform.registry.parameters import bind, check

LIGHT = """
import sys
from mintact_platform.registry.parameters import bind
from mintact_plugin_torch.engine.embedded import EmbeddedEngine
from mintact_plugin_torch.factory import torch_trainer
bind(torch_trainer, {"device": "cpu:0", "threads": 2}, where="trainer")
bind(EmbeddedEngine, {"context": 900}, where="engine")()
print("torch" in sys.modules)
"""


@pytest.mark.parametrize("name", ["cpu", "cpu:0"])
def test_a_cpu_is_always_there(name):
    assert usable(name) == name


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cudaa", "no such device; did you mean 'cuda'?"),
        ("", "no such device; known: cpu, cuda"),
        ("cpu:", "no such device"),
        ("cuda:-1", "no such device"),
        ("cuda:0:0", "no such device"),
        ("CPU", "no such device"),
    ],
)
def test_what_is_no_device_is_told_with_a_near_one(name, said):
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        usable(name)


@pytest.mark.parametrize("name", ["cuda:99", "xla"])
def test_a_device_that_torch_cannot_use_is_told_in_a_sentence_of_its_own(name):
    with pytest.raises(ValueError, match=r"cannot be used here: \w+") as caught:
        usable(name)
    assert "\n" not in str(caught.value)
    assert ". " not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("target", "params"),
    [
        (torch_trainer, {"threads": 0}),
        (torch_trainer, {"threads": 10**6}),
        (torch_trainer, {"threads": True}),
        (EmbeddedEngine, {"threads": -1}),
        (EmbeddedEngine, {"context": 0}),
        (EmbeddedEngine, {"slots": 0}),
        (EmbeddedEngine, {"slot_megabytes": 0}),
        (EmbeddedEngine, {"forward_tokens": 0}),
        (EmbeddedEngine, {"dtype": "int8"}),
        (EmbeddedEngine, {"device": "gpu"}),
    ],
)
def test_what_no_model_can_run_with_is_refused(target, params):
    (name,) = params
    with pytest.raises(ConfigurationError, match=f"x: parameter '{name}': "):
        check(target, params, where="x")


def test_the_engine_has_the_defaults_of_the_server_behind_it():
    described = bind(EmbeddedEngine, {}, where="x")()
    plain = EmbeddedEngine()
    assert (described._limits, described._settings) == (plain._limits, plain._settings)
    assert described.context == plain._limits["context"]


def test_parameters_are_read_without_torch():
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr
