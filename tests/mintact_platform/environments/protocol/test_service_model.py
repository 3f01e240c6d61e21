"""The protocol against a model: whatever order requests come in, nothing runs twice."""

import asyncio
import itertools
import threading
import time

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

TTL = 30.0
DEADLINE = 5.0
LATER = 1.0
"""Seconds in which everything ends that nothing keeps waiting."""
MINDING = ["heartbeat", "foreign", "foreign", "release", "cancel"]


class Known:
    """A lease as its client knows it.

    Attributes:
        episode: the last one that was begun.
        step: number of the next step.
        last: the last call that was answered, with its reply, if nothing was sent since.
    """

    def __init__(self, key, reply):
        self.key, self.id, self.token = key, reply["lease"], reply["token"]
        self.episode, self.step, self.episodes = "", 0, itertools.count()
        self.last = None


class Protocol(RuleBasedStateMachine):
    """Clients whose requests come late, twice, in any order, and whose replies get lost."""

    site_of = None

    def __init__(self):
        super().__init__()
        self.site = self.site_of()
        self.world = self.site.world
        self.keys = (f"key-{number}" for number in itertools.count())
        self.leases: dict[str, Known] = {}
        self.sent: list = []
        self.pending: list = []
        self.replies: dict = {}
        self.over: set[str] = set()
        self.unheard: set[str] = set()

    # ---- what clients send ----------------------------------------------------------------

    @precondition(lambda self: len(self.leases) - len(self.over) < 3)
    @rule(environment=st.sampled_from(["shared", "isolated"]), settle=st.booleans())
    def create(self, environment, settle):
        key = next(self.keys)
        body = {"key": key, "environment": environment, "ttl_s": TTL, "deadline_s": DEADLINE}
        self.send(("create", key), "/v1/leases", body, settle=settle)

    @initialize(kinds=st.lists(st.sampled_from(["shared", "isolated"]), min_size=1, max_size=2))
    def begin(self, kinds):
        """Some leases, each in its first episode."""
        for kind in kinds:
            self.create(kind, settle=True)
            self.collect()
        for lease in self.leases.values():
            self.reset(lease, settle=True)

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        do=st.sampled_from([*["step"] * 5, "early", "old", "reset", "same reset", "evaluate"]),
        settle=st.sampled_from([True, True, False]),
    )
    def converse(self, data, do, settle):
        """A client goes on with its episode, or makes a mistake."""
        lease = self.draw_lease(data)
        if do == "reset" or not lease.episode:
            self.reset(lease, settle=settle)
        elif do == "same reset":
            self.call(lease, ("reset", lease.episode), self.reset_body(lease), settle=settle)
        elif do == "evaluate":
            self.call(lease, ("evaluate",), {"deadline_s": DEADLINE}, settle=settle)
        else:
            number = max(0, lease.step + {"early": 1, "old": -1}.get(do, 0))
            lease.step += do == "step"
            self.step(lease, number, settle=settle)

    def reset(self, lease, *, settle):
        lease.episode, lease.step = f"e{next(lease.episodes)}", 0
        self.call(lease, ("reset", lease.episode), self.reset_body(lease), settle=settle)

    def reset_body(self, lease):
        params = {"lease": lease.id, "episode": lease.episode}
        task = {"id": "t", "goal": "g", "domain": "web", "params": params}
        return {"episode": lease.episode, "task": task, "deadline_s": DEADLINE}

    def step(self, lease, number, *, settle):
        action = {"name": "act", "arguments": {"lease": lease.id, "step": number}}
        episode = lease.episode
        body = {"step": number, "episode": episode, "action": action, "deadline_s": DEADLINE}
        self.call(lease, ("step", episode, number), body, settle=settle)

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), stream=st.booleans())
    def arrive_again(self, data, stream):
        """Any request ever sent comes again, however late, by either transport."""
        late = data.draw(st.sampled_from([*self.sent, *self.sent[-5:], *self.sent[-2:]]))
        self.deliver(late, stream=stream)

    @precondition(lambda self: not self.pending and self.repeatable())
    @rule(data=st.data(), stream=st.booleans())
    def ask_again(self, data, stream):
        """The last reply got lost: the same call gets the same reply, by either transport."""
        lease = data.draw(st.sampled_from(self.repeatable()))
        request, reply = lease.last
        self.deliver(request, stream=stream)
        self.site.loop.pass_time(LATER)
        ((_, task),) = self.pending
        status, body = task.result()
        assert (status, body) == reply or status == 410, f"{reply} became {status} {body}"
        self.collect()

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), what=st.sampled_from(MINDING))
    def mind_leases(self, data, what):
        lease, other = self.draw_lease(data), self.draw_lease(data)
        path = f"/v1/leases/{lease.id}"
        if what == "release":
            self.send(("release", lease.id), path, token=lease.token, method="DELETE")
        elif what == "foreign":
            token = other.token if other is not lease else "guess"
            self.send(("foreign", lease.id), f"{path}/evaluate", {}, token=token)
        elif what == "cancel":
            self.send(("cancel", lease.key), f"/v1/leases?key={lease.key}", method="DELETE")
        else:
            leases = {lease.id: lease.token for lease in self.leases.values()}
            self.send(("heartbeat",), "/v1/heartbeat", {"leases": leases})

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def hang_up(self, data):
        """A client goes away before its reply: the request is cancelled."""
        (request, _), task = data.draw(st.sampled_from(self.pending))
        task.cancel()
        if request[0][0] == "create":
            self.unheard.add(request[0][1])

    def call(self, lease, what, body, *, settle):
        path = f"/v1/leases/{lease.id}/{what[0]}"
        self.send((lease.id, *what), path, body, token=lease.token, settle=settle)

    def send(self, what, path, body=None, *, token="", method="POST", settle=False):
        request = (what, path, body, token, method)
        self.sent.append(request)
        self.deliver(request, stream=len(self.sent) % 2 == 0)
        if settle:
            self.site.loop.pass_time(LATER)

    def deliver(self, request, *, stream):
        what, path, body, token, method = request
        task = self.site.post(path, body, token=token, method=method, stream=stream)
        for lease in self.leases.values():
            if what[0] in (lease.id, "create", "cancel", "release"):
                lease.last = None if lease.last is None or lease.last[0] != request else lease.last
        lease = path.removeprefix("/v1/leases").removeprefix("/").partition("/")[0]
        self.pending.append(((request, lease in self.over), task))

    def draw_lease(self, data):
        alive = [name for name in self.leases if name not in self.over]
        return self.leases[data.draw(st.sampled_from(alive * 5 + list(self.leases)))]

    def repeatable(self):
        return [lease for lease in self.leases.values() if lease.last and lease.id not in self.over]

    # ---- what the world does ---------------------------------------------------------------

    @rule(number=st.integers(1, 40))
    def turns(self, number):
        self.site.loop.turns(number)

    @rule(seconds=st.sampled_from([*[0.3] * 5, *[2.0] * 3, DEADLINE + 1, TTL + 1]))
    def time_passes(self, seconds):
        self.site.loop.pass_time(seconds)

    @rule(patient=st.booleans(), slow=st.sampled_from([False, False, True]))
    def mood(self, patient, slow):
        self.world.patient, self.site.slow_boots = patient, slow

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data(), verdict=st.sampled_from([None, None, None, "raise", "garbage"]))
    def environment_answers(self, data, verdict):
        future = data.draw(st.sampled_from(self.world.waiting))
        if not future.done():
            future.set_result(verdict)

    @precondition(lambda self: self.site.boots)
    @rule(ok=st.sampled_from([True, True, False]))
    def worker_boots(self, ok):
        gate = self.site.boots.pop(0)
        if not gate.done():
            if ok:
                gate.set_result(None)
            else:
                gate.set_exception(OSError("no memory"))

    @precondition(lambda self: any(c.alive() for c in self.site.children))
    @rule(data=st.data(), restart=st.sampled_from([False, False, True]))
    def something_dies(self, data, restart):
        """A worker, or the server itself."""
        if not restart:
            data.draw(st.sampled_from([c for c in self.site.children if c.alive()])).kill()
            return
        for (request, _), _ in self.pending:
            if request[0][0] == "create":
                self.unheard.add(request[0][1])
        self.site.restart()
        self.collect()
        self.over |= set(self.leases)

    # ---- what must hold ---------------------------------------------------------------------

    @invariant()
    def replies_are_right(self):
        self.collect()

    def collect(self):
        for one in [p for p in self.pending if p[1].done()]:
            self.pending.remove(one)
            (request, over), task = one
            if not task.cancelled():
                self.judge(request, *task.result(), over=over)

    def judge(self, request, status, body, *, over):
        what, error = request[0], body.get("error", {})
        do = what[0] if what[0] not in self.leases else what[1]
        event(f"{do} {status}")
        assert status in (200, 409, 410, 500, 503, 504), (what, status, body)
        assert error.get("kind") != "internal", (what, body)
        if status == 500:
            assert error["kind"] in ("ValueError", "invalid", "crash"), (what, body)
        if do == "foreign" or (over and do != "release"):
            assert status == 410, (what, body)
        if status == 200:
            self.went_well(request, do, body)

    def went_well(self, request, do, body):
        what = request[0]
        if do == "create":
            self.created(what[1], body)
        elif do == "release":
            self.over.add(what[1])
        elif do in ("reset", "step"):
            assert self.replies.setdefault(what, body) == body, "two replies to one call"
            seen = f"{what[0]}/{what[2]}"
            wanted = f"{seen} begins" if do == "reset" else f"{seen} {what[3]} #{what[3] + 1}"
            assert body["text"] == wanted
        unanswered = any(pending[0][0][0][0] == what[0] for pending in self.pending)
        if what[0] in self.leases and not unanswered and self.sent[-1] is request:
            self.leases[what[0]].last = (request, (200, body))

    def created(self, key, body):
        known = self.leases.get(body["lease"])
        if known is None:
            self.leases[body["lease"]] = Known(key, body)
        else:
            assert (known.key, known.token) == (key, body["token"])

    @invariant()
    def nothing_ran_twice(self):
        for call, times in self.world.executed.items():
            assert times == 1 or call[1] == "evaluate", f"{call} ran {times} times"

    @invariant()
    def no_instance_has_two_holders(self):
        for users in self.world.users.values():
            assert len(users) <= 1, f"an instance served {users}"

    @invariant()
    def never_more_leases_than_seats(self):
        assert len(self.site.service.table) <= self.site.capacity

    @invariant()
    def every_lease_is_known_to_a_client_that_can_give_it_back(self):
        if not self.pending:
            for record in self.site.service.table:
                assert record.id in self.leases or record.key in self.unheard, record

    def teardown(self):
        try:
            self.world.patient = self.site.slow_boots = False
            for gate in self.site.boots:
                if not gate.done():
                    gate.set_result(None)
            self.site.loop.pass_time(TTL + DEADLINE + 2)
            self.site.loop.pass_time(TTL + DEADLINE + 30)
            self.collect()
            assert not self.pending, f"requests without an answer: {self.pending}"
            assert len(self.site.service.table) == 0
            names = {name for one in self.leases.values() for name in (one.id, one.token)}
            assert not self.site.residue(names)
            assert not [c for c in self.site.children if c.alive()], "workers are left"
            left = asyncio.all_tasks(self.site.loop) - self.site.permanent
            assert not left, left
        finally:
            self.site.close()
        assert not list(self.site.folder.iterdir()), "directories are left"


def check(site_of, examples, steps):
    Protocol.site_of = staticmethod(site_of)
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_clients_that_repeat_reorder_and_die(site_of):
    check(site_of, 100, 30)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_clients_that_repeat_reorder_and_die_for_long(site_of):
    check(site_of, 3000, 50)


def test_no_other_thread_sees_the_clock_that_tests_move(site_of):
    site, seen = site_of(), []

    async def look():
        others = threading.Thread(target=lambda: seen.append(time.monotonic()))
        others.start()
        others.join()
        return time.monotonic()

    start = time.monotonic()
    assert site.loop.play(look()) == site.loop.time()
    assert start <= seen[0] <= time.monotonic()
    site.close()
