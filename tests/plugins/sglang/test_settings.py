"""What a run file may say about model servers, and what is refused before anything starts."""

import itertools

import pytest
from mintact_plugin_sglang.addresses import api_key, base_url, is_loopback
from mintact_plugin_sglang.engine import SGLangEngine
from mintact_plugin_sglang.launch import free_ports, options
from mintact_plugin_sglang.servers import SGLangServer, interpreter

from mintact_platform.errors import ConfigurationError
from mintact_platform.models.protocol import WeightsRef, sync_modes
from mintact_platform.registry.names import Registry
from mintact_platform.registry.parameters import bind

ATTACH = {"mode": "attach", "worker_urls": ["http://10.0.0.7:30000"]}


def refused(**params) -> str:
    with pytest.raises(ConfigurationError) as caught:
        bind(SGLangEngine, params, where="rollout.params")()
    return str(caught.value)


def test_the_engine_is_found_by_its_name():
    assert Registry.discover().get("rollout_engines", "sglang") is SGLangEngine
    assert sync_modes(SGLangEngine) == ("drain", "abort_resume", "retract", "in_place")


def test_a_key_in_the_run_file_is_refused_and_the_way_is_told():
    assert "did you mean 'api_key_env'?" in refused(**ATTACH, api_key="sk-123")


@pytest.mark.parametrize("secret", ["sk-live-123", "sk live", "0abc"])
def test_a_key_in_place_of_its_variable_is_refused_and_not_repeated(secret):
    said = refused(**ATTACH, api_key_env=secret)
    assert "no name of an environment variable" in said
    assert secret not in said


def test_a_key_that_looks_like_a_name_is_not_repeated_either():
    assert "sk_live_123" not in refused(**ATTACH, api_key_env="sk_live_123")


def test_a_variable_that_is_not_set_is_named():
    assert "MINTACT_TEST_KEY is not set" in refused(**ATTACH, api_key_env="MINTACT_TEST_KEY")


def test_a_key_is_read_from_its_variable():
    assert api_key("KEY", {"KEY": " abc\n"}) == "abc"
    assert api_key(None, {"KEY": "abc"}) is None


@pytest.mark.parametrize(
    "url",
    ["", "localhost:30000", "http://", "ftp://host:1", "http://host:99999", "http://host:1/v1",
     "http://host:1?x=1", "http://[::1", "http://host:port"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url):
    assert "worker_urls" in refused(mode="attach", worker_urls=[url])


def test_an_address_with_a_password_is_refused_and_not_repeated():
    said = refused(mode="attach", router_url="http://me:secret@host:1")
    assert "no password" in said
    assert "secret" not in said


def test_addresses_lose_their_slash():
    assert base_url("http://[::1]:80/", where="here") == "http://[::1]:80"
    assert base_url(" https://host ", where="here") == "https://host"


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"mode": "attach"}, "no server to attach to"),
        ({"router_url": "http://h:1"}, "is for running servers"),
        ({"api_key_env": "KEY"}, "is for running servers"),
        ({**ATTACH, "server_args": {"tp-size": 2}}, "is for servers that are launched"),
        ({"workers": 2, "router": False}, "several workers need a router"),
        ({"workers": 0}, "must be more than 0"),
        ({"health_seconds": -1}, "must be more than 0"),
        ({"server_args": {"api-key": "x"}}, "'api-key' is not yours to set"),
        ({"server_args": {"model_path": "x"}}, "'model-path' is not yours to set"),
        ({"router_args": {"prometheus-host": "0.0.0.0"}}, "is not yours to set"),
        ({"worker": "embedded", "transfer": "tensor"}, "takes no weights by 'tensor'"),
        ({"worker": "embedded", "server_args": {"slot": 1}}, "did you mean 'slots'?"),
        ({**ATTACH, "transfer": "tensor"}, "pickles and shared memory, on this host only"),
        ({**ATTACH, "transfer": "distributed"}, "cannot connect to 127.0.0.1"),
        ({"transfer": "ipc"}, "'transfer'"),
    ],
)
def test_what_does_not_fit_together_is_refused(params, said):
    assert said in refused(**params)


def test_weights_go_to_other_hosts_by_a_group_that_they_can_reach():
    SGLangEngine(**ATTACH, transfer="distributed", transfer_address="10.0.0.1")


def test_loopback_is_known_by_its_address_and_not_by_names():
    assert is_loopback("http://127.0.0.1:1")
    assert is_loopback("http://[::1]:1")
    assert is_loopback("http://localhost:1")
    assert not is_loopback("http://127.0.0.1.example.com:1")
    assert not is_loopback("http://10.0.0.1:1")


def test_a_launched_worker_gets_explicit_places_and_what_a_cpu_needs(tmp_path):
    (tmp_path / "config.json").write_text('{"vision_config": {}}')
    server = SGLangServer("python", "cpu", "float32", {"context_length": 512})
    words = server.command(WeightsRef(tmp_path, 7), 4321, 0)
    given = dict(itertools.pairwise(words))
    assert words[:3] == ["python", "-m", "sglang.launch_server"]
    assert (given["--host"], given["--port"]) == ("127.0.0.1", "4321")
    assert (given["--model-path"], given["--weight-version"]) == (str(tmp_path), "7")
    assert given["--context-length"] == "512"
    assert given["--attention-backend"] == "torch_native"
    assert "--enable-multimodal" in words
    assert "--base-gpu-id" not in words
    assert server.environ()["SGLANG_VLM_CACHE_SIZE_MB"] == "0"


def test_workers_on_gpus_take_one_after_the_other(tmp_path):
    server = SGLangServer("python", "cuda", "auto", {"tp_size": 2, "base_gpu_id": 1})
    words = server.command(WeightsRef(tmp_path, 0), 1, 2)
    assert words[words.index("--base-gpu-id") + 1] == "5"
    assert "torch_native" not in words
    assert "--enable-multimodal" not in words


def test_flags_are_words_without_a_value():
    assert options({"a_b": True, "c": False, "d": 0}) == ["--a-b", "--d", "0"]


def test_free_ports_differ():
    assert len(set(free_ports(20))) == 20


def test_an_interpreter_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="no interpreter"):
        interpreter(str(tmp_path / "python"))
