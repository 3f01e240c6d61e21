import asyncio
import time
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server import boots, status
from mintact_platform.environments.server.app import create_app
from mintact_platform.environments.server.quarantine import FAILURES, Quarantine, key_of

KEY = key_of("a/b", {"x": 1}, None)


def broken(phase="create"):
    return ErrorBody("crash", phase, "it fell over")


def quarantined(now=0.0, phase="create"):
    quarantine = Quarantine()
    for _ in range(FAILURES):
        quarantine.failed(KEY, broken(phase), now)
    return quarantine


@pytest.fixture
def clock(monkeypatch):
    """The clock of every quarantine: it stands still unless a test moves it."""
    clock = SimpleNamespace(now=1000.0)
    stopped = {"monotonic": lambda: clock.now, "perf_counter": time.perf_counter}
    monkeypatch.setattr(boots, "time", SimpleNamespace(**stopped))
    return clock


async def fails(service, lease, refused, params, times):
    for _ in range(times):
        status, error = await refused(service, params=params)
        assert (status, error.kind) == (500, "RuntimeError")


async def test_three_failed_boots_quarantine_an_environment_with_its_log(
    serve, lease, refused, tmp_path, clock
):
    service, flag = await serve(), tmp_path / "flag"
    params = {"fail_while": str(flag)}
    flag.touch()
    await fails(service, lease, refused, params, 3)
    code, error = await refused(service, params=params)
    assert (code, error.kind, error.retryable) == (503, "quarantined", True)
    assert error.retry_after_s == 1
    assert "failed 3 times in a row, last at create: no display" in error.message
    assert "no display, no fun" in error.log_tail
    (kept,) = (service.logs / "quarantine").iterdir()
    assert str(kept) in error.message
    first, _, rest = kept.read_text().partition("\n")
    assert first.startswith("wild_envs:Wild {")
    assert first.endswith("last at create: RuntimeError: no display")
    assert "no display, no fun" in rest
    assert status.overview(service)["environments"]["wild_envs:Wild"]["quarantined"] == 1
    await lease(service)  # other parameters are not concerned


async def test_a_client_is_told_when_to_come_back(serve, tmp_path, clock):
    flag = tmp_path / "flag"
    flag.touch()
    body = {"environment": "wild_envs:Wild", "params": {"fail_while": str(flag)}}
    app = httpx.ASGITransport(create_app(await serve()))
    async with httpx.AsyncClient(transport=app, base_url="http://127.0.0.1") as http:
        for number in range(3):
            reply = await http.post("/v1/leases", json={**body, "key": f"k{number}"})
            assert reply.status_code == 500
        reply = await http.post("/v1/leases", json={**body, "key": "late"})
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert reply.json()["error"]["kind"] == "quarantined"


async def test_one_probe_is_let_through_and_its_success_ends_the_quarantine(
    serve, lease, refused, tmp_path, clock
):
    service, flag = await serve(), tmp_path / "flag"
    params = {"fail_while": str(flag)}
    flag.touch()
    await fails(service, lease, refused, params, 3)
    assert (await refused(service, params=params))[1].retry_after_s == 1
    clock.now += 1
    await fails(service, lease, refused, params, 1)
    assert (await refused(service, params=params))[1].retry_after_s == 2, "twice as long as before"
    flag.unlink()
    clock.now += 2
    outcomes = await asyncio.gather(
        *(lease(service, params=params) for _ in range(3)), return_exceptions=True
    )
    assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
    await lease(service, params=params)


@pytest.mark.parametrize(("how", "code"), [("fail_while", 500), ("crash_while", 410)])
async def test_resets_that_fail_on_fresh_instances_count(
    serve, lease, refused, tmp_path, clock, how, code
):
    service, flag = await serve(), tmp_path / "flag"
    flag.touch()
    for number in range(3):
        tenant = await lease(service)
        assert (await tenant.reset(f"e{number}", **{how: str(flag)})).status == code
        await tenant.release()
    refusal, error = await refused(service)
    assert (refusal, error.kind) == (503, "quarantined")
    assert "last at reset" in error.message
    assert Path(error.message.partition("kept in ")[2].partition(";")[0]).exists()


async def test_steps_that_fail_do_not_count(serve, lease):
    service = await serve()
    for _ in range(4):
        tenant = await lease(service)
        await tenant.reset()
        assert (await tenant.step("raise")).error.kind == "ValueError"
        await tenant.release()
    await lease(service)


async def test_a_boot_that_was_given_up_or_hurried_does_not_count(serve, lease, refused, tmp_path):
    service = await serve()
    for _ in range(4):
        status, error = await refused(service, deadline_s=0.001)
        assert (status, error.kind) == (504, "timeout")
    await lease(service)


def test_the_pauses_grow_to_a_minute():
    quarantine, now, pauses = quarantined(), 0.0, []
    for _ in range(9):
        refusal = quarantine.refusal(KEY, now)
        assert refusal is not None
        pauses.append(refusal.retry_after_s)
        now += refusal.retry_after_s
        assert quarantine.refusal(KEY, now) is None
        quarantine.failed(KEY, broken(), now)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_boot_alone_does_not_end_a_streak_of_resets():
    quarantine = quarantined(phase="reset")
    assert quarantine.refusal(KEY, 1.0) is None
    quarantine.succeeded(KEY, "create", 1.5)
    assert quarantine.refusal(KEY, 2.0) is not None
    assert quarantine.refusal(KEY, 2.6) is None, "its probe was never reset; another may try"
    quarantine.succeeded(KEY, "reset", 3.0)
    assert quarantine.refusal(KEY, 3.0) is None
    assert quarantine.held() == {}


def test_a_probe_that_never_ends_is_followed_by_another():
    quarantine = quarantined()
    assert quarantine.refusal(KEY, 1.0) is None
    assert quarantine.refusal(KEY, 100.0) is not None
    assert quarantine.refusal(KEY, 1000.0) is None


def test_what_is_remembered_is_bounded():
    quarantine = Quarantine()
    for number in range(5000):
        quarantine.failed(key_of("a", {"n": number}, None), broken(), 0.0)
    assert len(quarantine._streaks) == 1024


EVENTS = st.lists(
    st.tuples(st.sampled_from(["ask", "fail", "boot", "reset", "give up"]), st.floats(0, 90)),
    max_size=40,
)


@given(EVENTS)
def test_a_quarantine_always_ends_and_never_lets_two_probes_through_at_once(events):
    quarantine, now, probing = Quarantine(), 0.0, False
    for do, after in events:
        now += after
        if do == "ask" and quarantine.held():
            if quarantine.refusal(KEY, now) is None:
                assert not probing or after > 0
                probing = True
        elif do == "fail":
            quarantine.failed(KEY, broken(), now)
            probing = False
        elif do in ("boot", "reset"):
            quarantine.succeeded(KEY, "create" if do == "boot" else "reset", now)
            assert quarantine.held() == {}
            probing = False
        elif do == "give up":
            quarantine.undecided(KEY, now)
            probing = False
    assert quarantine.refusal(KEY, now + 1000) is None


@pytest.mark.parametrize("name", ["a/b", "module:attribute", "../../etc/passwd", "x" * 200, "é"])
def test_the_name_of_a_kept_log_is_a_plain_file_name(name):
    file_name = key_of(name, {}, None).file_name()
    assert "/" not in file_name
    assert not file_name.startswith(".")
    assert file_name != key_of(name, {"x": 1}, None).file_name()
