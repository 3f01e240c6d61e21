"""The protocol against a model: whatever order requests come in, nothing runs twice."""

import asyncio
import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

TTL = 30.0
DEADLINE = 5.0
KEYS = ("a", "b", "c", "d")


class Known:
    """A lease as its client knows it: what the server told, and what was sent since."""

    def __init__(self, key, reply):
        self.key, self.id, self.token = key, reply["lease"], reply["token"]
        self.episode, self.step = "", 0


class Protocol(RuleBasedStateMachine):
    """Clients whose requests come late, twice, in any order, and whose replies get lost."""

    site_of = None

    def __init__(self):
        super().__init__()
        self.site = self.site_of()
        self.world = self.site.world
        self.leases: dict[str, Known] = {}
        self.sent: list = []
        self.pending: list = []
        self.replies: dict = {}
        self.names: set[str] = set()
        self.over: set[str] = set()
        self.unheard: set[str] = set()

    # ---- what clients send ----------------------------------------------------------------

    def send(self, what, path, body=None, *, token="", method="POST"):
        request = (what, path, body, token, method)
        self.sent.append(request)
        self.deliver(request, stream=len(self.sent) % 2 == 0)

    def deliver(self, request, *, stream):
        what, path, body, token, method = request
        task = self.site.post(path, body, token=token, method=method, stream=stream)
        lease = path.removeprefix("/v1/leases").removeprefix("/").partition("/")[0]
        self.pending.append(((*what, lease in self.over), task))

    @rule(key=st.sampled_from(KEYS), environment=st.sampled_from(["shared", "isolated"]))
    def create(self, key, environment):
        body = {"key": key, "environment": environment, "ttl_s": TTL, "deadline_s": DEADLINE}
        self.send(("create", key), "/v1/leases", body)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), name=st.integers(0, 2))
    def reset(self, data, name):
        lease = self.draw_lease(data)
        lease.episode, lease.step = f"e{name}", 0
        params = {"lease": lease.id, "episode": lease.episode}
        task = {"id": "t", "goal": "g", "domain": "web", "params": params}
        body = {"episode": lease.episode, "task": task, "deadline_s": DEADLINE}
        self.call(lease, ("reset", lease.episode), "reset", body)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), ahead=st.sampled_from([0, 0, 0, 0, 1, -1]))
    def step(self, data, ahead):
        lease = self.draw_lease(data)
        number = max(0, lease.step + ahead)
        lease.step = number + 1
        action = {"name": "act", "arguments": {"lease": lease.id, "step": number}}
        body = {
            "step": number, "episode": lease.episode, "action": action, "deadline_s": DEADLINE,
        }  # fmt: skip
        self.call(lease, ("step", lease.episode, number), "step", body)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def evaluate(self, data):
        lease = self.draw_lease(data)
        self.call(lease, ("evaluate",), "evaluate", {"deadline_s": DEADLINE})

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data):
        lease = self.draw_lease(data)
        path = f"/v1/leases/{lease.id}"
        self.send(("release", lease.id), path, token=lease.token, method="DELETE")

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def use_a_foreign_token(self, data):
        lease, other = self.draw_lease(data), self.draw_lease(data)
        token = other.token if other is not lease else "guess"
        self.send(("fenced", lease.id), f"/v1/leases/{lease.id}/evaluate", {}, token=token)

    @rule(key=st.sampled_from(KEYS))
    def cancel(self, key):
        self.send(("cancel", key), f"/v1/leases?key={key}", method="DELETE")

    @precondition(lambda self: self.leases)
    @rule()
    def heartbeat(self):
        leases = {lease.id: lease.token for lease in self.leases.values()}
        self.send(("heartbeat",), "/v1/heartbeat", {"leases": leases})

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), stream=st.booleans())
    def arrive_again(self, data, stream):
        """Any request ever sent comes again, however late, by either transport."""
        self.deliver(data.draw(st.sampled_from(self.sent)), stream=stream)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def hang_up(self, data):
        """A client goes away before its reply: the request is cancelled."""
        what, task = data.draw(st.sampled_from(self.pending))
        task.cancel()
        if what[0] == "create":
            self.unheard.add(what[1])

    def call(self, lease, what, route, body):
        path = f"/v1/leases/{lease.id}/{route}"
        self.send((lease.id, *what), path, body, token=lease.token)

    def draw_lease(self, data):
        return self.leases[data.draw(st.sampled_from(sorted(self.leases)))]

    # ---- what the world does ---------------------------------------------------------------

    @rule(number=st.integers(1, 40))
    def turns(self, number):
        self.site.loop.turns(number)

    @rule(seconds=st.sampled_from([0.3, 2.0, DEADLINE + 1, TTL + 1]))
    def time_passes(self, seconds):
        self.site.loop.pass_time(seconds)

    @rule(patient=st.booleans(), slow=st.booleans())
    def mood(self, patient, slow):
        self.world.patient, self.site.slow_boots = patient, slow

    @precondition(lambda self: self.world.waiting)
    @rule(data=st.data(), verdict=st.sampled_from([None, None, None, "raise", "garbage"]))
    def environment_answers(self, data, verdict):
        future = data.draw(st.sampled_from(self.world.waiting))
        if not future.done():
            future.set_result(verdict)

    @precondition(lambda self: self.site.boots)
    @rule(ok=st.booleans())
    def worker_boots(self, ok):
        gate = self.site.boots.pop(0)
        if not gate.done():
            if ok:
                gate.set_result(None)
            else:
                gate.set_exception(OSError("no memory"))

    @precondition(lambda self: any(c.alive() for c in self.site.children))
    @rule(data=st.data())
    def worker_dies(self, data):
        data.draw(st.sampled_from([c for c in self.site.children if c.alive()])).kill()

    @rule()
    def server_restarts(self):
        self.unheard |= {what[1] for what, _ in self.pending if what[0] == "create"}
        self.site.restart()
        self.collect()
        self.over |= set(self.leases)

    # ---- what must hold ---------------------------------------------------------------------

    @invariant()
    def replies_are_right(self):
        self.collect()

    def collect(self):
        for what, task in [p for p in self.pending if p[1].done()]:
            self.pending.remove((what, task))
            if not task.cancelled():
                self.judge(what[:-1], *task.result(), over=what[-1])

    def judge(self, what, status, body, *, over):
        error = body.get("error", {})
        assert status in (200, 400, 409, 410, 500, 503, 504), (what, status, body)
        assert error.get("kind") != "internal", (what, body)
        if status == 500:
            assert error["kind"] in ("ValueError", "invalid", "crash"), (what, body)
        if what[0] == "fenced" or (over and what[0] != "release"):
            assert status == 410, (what, body)
        if status != 200:
            return
        if what[0] == "create":
            self.created(what[1], body)
        elif what[0] == "release":
            self.over.add(what[1])
        elif len(what) > 1 and what[1] in ("reset", "step"):
            assert self.replies.setdefault(what, body) == body, "two replies to one call"
            seen = f"{what[0]}/{what[2]}"
            wanted = f"{seen} begins" if what[1] == "reset" else f"{seen} {what[3]} #{what[3] + 1}"
            assert body["text"] == wanted

    def created(self, key, body):
        self.names |= {body["lease"], body["token"]}
        known = self.leases.get(body["lease"])
        if known is None:
            self.leases[body["lease"]] = Known(key, body)
        else:
            assert (known.key, known.token) == (key, body["token"])

    @invariant()
    def every_lease_is_known_to_a_client_that_can_give_it_back(self):
        if not self.pending:
            for record in self.site.service.table:
                assert record.id in self.leases or record.key in self.unheard, record

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
            assert not self.site.residue(self.names)
            assert not [c for c in self.site.children if c.alive()], "workers are left"
            left = asyncio.all_tasks(self.site.loop) - self.site.permanent
            assert not left, left
        finally:
            self.site.close()
        assert not list(self.site.folder.iterdir()), "directories are left"


@pytest.mark.parametrize("_", [0])
def test_clients_that_repeat_reorder_and_die(site_of, _):
    Protocol.site_of = staticmethod(site_of)
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=int(os.environ.get("N", "150")), phases=[Phase.generate] if "N" in os.environ else tuple(Phase),
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
