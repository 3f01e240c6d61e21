"""What workers are asked before they get work."""

import httpx
import pytest
from mintact_plugin_sglang.capabilities import detect
from mintact_plugin_sglang.engine import SGLangEngine
from mintact_plugin_sglang.transfer import ROUTES

from mintact_platform.errors import ModelServerError
from mintact_platform.models.protocol import WeightsRef


@pytest.fixture
async def http():
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client


@pytest.mark.parametrize("transfer", list(ROUTES))
async def test_a_present_release_can_all(stand_in, http, transfer):
    able = await detect(stand_in().url, http, needs=ROUTES[transfer])
    assert (able.version, able.ranks) == ("0.5.23", 1)
    assert able.modes == ("drain", "abort_resume", "retract", "in_place")


async def test_asking_changes_nothing(stand_in, http):
    worker = stand_in()
    await detect(worker.url, http, needs=ROUTES["disk"])
    assert {route for route, _ in worker.calls} == {"/server_info", "/model_info"}


async def test_a_release_without_a_route_is_refused_in_one_line(stand_in, http):
    worker = stand_in(version="0.4.6", lacks=("/pause_generation", "/v1/loads"))
    with pytest.raises(ModelServerError) as caught:
        await detect(worker.url, http, needs=())
    assert str(caught.value) == (
        f"{worker.url}: SGLang 0.4.6 lacks /pause_generation, /v1/loads; use SGLang 0.5.23 or later"
    )
    assert caught.value.kind == "old"


async def test_brackets_around_an_update_are_not_needed(stand_in, spec, running, tmp_path):
    worker = stand_in(lacks=("/begin_weight_update", "/end_weight_update"))
    engine = SGLangEngine(mode="attach", worker_urls=[worker.url])
    async with running(engine, spec(WeightsRef(tmp_path, 3))):
        assert worker.weights == "3"


async def test_what_is_no_sglang_is_told_from_an_old_one(http):
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="<html>")

    async with httpx.AsyncClient(transport=httpx.MockTransport(other)) as client:
        with pytest.raises(ModelServerError, match="this is no SGLang server"):
            await detect("http://host", client, needs=())


async def test_a_key_that_is_wanted_is_asked_for(stand_in, http):
    with pytest.raises(ModelServerError, match="it wants an API key"):
        await detect(stand_in(key="secret").url, http, needs=())


async def test_a_release_without_pause_modes_refuses_them_only(stand_in, spec, running, tmp_path):
    worker = stand_in(version="0.5.5")
    engine = SGLangEngine(mode="attach", worker_urls=[worker.url])
    async with running(engine, spec()):
        with pytest.raises(ModelServerError, match="cannot pause by 'retract'"):
            await engine.update(WeightsRef(tmp_path, 2), mode="retract")
        assert worker.weights == "1"
        await engine.update(WeightsRef(tmp_path, 2))
        assert worker.weights == "2"
