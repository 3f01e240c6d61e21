import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mintact_platform.environments.protocol.wire import ErrorBody
from mintact_platform.environments.server.leases import Call, LeaseTable, Refusal


def table_of(capacity=4):
    numbers = itertools.count()
    return LeaseTable(capacity, names=lambda: f"name-{next(numbers)}")


def play(table, record, call, reply, *, ok=True, now=0.0):
    assert table.begin(record, call).action == "run"
    table.finish(record, call, reply, ok=ok, now=now)


def refused(action):
    with pytest.raises(Refusal) as caught:
        action()
    return caught.value.status, caught.value.error.kind


def test_the_same_key_gets_the_same_lease_and_another_request_a_conflict():
    table = table_of()
    record, new = table.create("k", "request", 10, 0)
    assert new
    assert table.create("k", "request", 10, 5) == (record, False)
    assert record.expires_at == 15
    assert refused(lambda: table.create("k", "other", 10, 0)) == (409, "conflict")
    assert len(table) == 1


def test_a_full_table_refuses_new_keys_but_knows_the_old_ones():
    table = table_of(1)
    record, _ = table.create("k", 0, 10, 0)
    assert refused(lambda: table.create("l", 0, 10, 0)) == (503, "full")
    assert table.create("k", 0, 10, 0) == (record, False)
    table.remove(record)
    assert table.create("l", 0, 10, 0)[1]


def test_a_cancelled_key_makes_no_lease_later():
    table = table_of()
    assert table.cancel("k") is None
    assert refused(lambda: table.create("k", 0, 10, 0)) == (410, "cancelled")


def test_a_wrong_token_and_a_removed_lease_are_gone():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    assert refused(lambda: table.find(record.id, "é", "step", 0)) == (410, "fenced")
    table.remove(record)
    assert refused(lambda: table.find(record.id, record.token, "step", 0)) == (410, "expired")


def test_steps_run_in_order_once_and_repeats_get_the_recorded_reply():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    step = [Call("step", "e", n) for n in range(3)]
    assert refused(lambda: table.begin(record, step[0])) == (409, "conflict")
    play(table, record, Call("reset", "e", 0), "first")
    assert table.begin(record, Call("reset", "e", 0)).reply == "first"
    assert refused(lambda: table.begin(record, step[1])) == (409, "conflict")
    play(table, record, step[0], "zero")
    assert table.begin(record, step[0]).reply == "zero"
    play(table, record, step[1], "one")
    assert refused(lambda: table.begin(record, step[0])) == (409, "conflict")
    assert refused(lambda: table.begin(record, Call("reset", "e", 0))) == (409, "conflict")


def test_a_repeat_joins_the_call_that_runs_and_another_call_is_refused():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    table.begin(record, Call("reset", "e", 0))
    assert table.begin(record, Call("reset", "e", 0)).action == "join"
    assert refused(lambda: table.begin(record, Call("reset", "f", 0))) == (409, "busy")


def test_a_late_repeat_of_an_old_reset_does_not_start_that_episode_again():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    for episode in "ef":
        play(table, record, Call("reset", episode, 0), episode)
    assert refused(lambda: table.begin(record, Call("reset", "e", 0))) == (409, "conflict")


def test_after_a_failed_step_only_its_repeat_and_a_reset_are_allowed():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    play(table, record, Call("reset", "e", 0), "r")
    play(table, record, Call("step", "e", 0), "error", ok=False)
    assert table.begin(record, Call("step", "e", 0)).reply == "error"
    assert refused(lambda: table.begin(record, Call("step", "e", 1))) == (409, "conflict")
    assert refused(lambda: table.begin(record, Call("evaluate", "e", 1))) == (409, "conflict")
    play(table, record, Call("reset", "f", 0), "r")
    play(table, record, Call("step", "f", 0), "fine")


def test_a_failed_evaluation_may_be_tried_again():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    play(table, record, Call("reset", "e", 0), "r")
    play(table, record, Call("evaluate", "e", 0), "error", ok=False)
    play(table, record, Call("evaluate", "e", 0), "check")
    assert table.begin(record, Call("evaluate", "e", 0)).reply == "check"
    play(table, record, Call("step", "e", 0), "s")
    play(table, record, Call("evaluate", "e", 1), "check again")


def test_a_broken_lease_answers_with_its_cause():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    table.break_(record, ErrorBody("crash", "step", "died"))
    table.break_(record, ErrorBody("timeout", "step", "later"))
    assert refused(lambda: table.find(record.id, record.token, "step", 0)) == (410, "crash")


def test_a_lease_expires_unless_it_is_used_or_a_call_runs():
    table = table_of()
    record, _ = table.create("k", 0, 10, 0)
    assert table.expired(9.9) == []
    table.find(record.id, record.token, "close", 9)
    assert table.expired(18) == []
    table.begin(record, Call("reset", "e", 0))
    assert table.expired(100) == []
    table.finish(record, Call("reset", "e", 0), "r", ok=True, now=100)
    assert table.expired(109) == []
    assert table.expired(110) == [record]


class Leases(RuleBasedStateMachine):
    """An unreliable client against the table: every request may come late, twice or out of order.

    The model is what an environment behind the lease saw.
    """

    @initialize()
    def make(self):
        self.table = table_of(1)
        self.record, _ = self.table.create("k", 0, 10, 0)
        self.executed = []
        self.sent = []
        self.replies = {}
        self.episode, self.next = "", 0

    @rule(name=st.integers(0, 6))
    def send_reset(self, name):
        self.sent.append(Call("reset", f"e{name}", 0))

    @rule(ahead=st.integers(-2, 2))
    def send_step(self, ahead):
        self.sent.append(Call("step", self.record.episode, max(0, self.record.next_step + ahead)))

    @rule()
    def send_evaluate(self):
        self.sent.append(Call("evaluate", self.record.episode, self.record.next_step))

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def deliver(self, data):
        """Any request ever sent arrives, perhaps again."""
        call = data.draw(st.sampled_from(self.sent))
        running = self.record.running
        try:
            decision = self.table.begin(self.record, call)
        except Refusal:
            return
        if decision.action == "run":
            assert running is None
            self.executed.append(call)
        elif decision.action == "join":
            assert running == call
        else:
            assert decision.reply == self.replies[call]

    @precondition(lambda self: self.record.running is not None)
    @rule(ok=st.booleans())
    def answer(self, ok):
        call = self.record.running
        reply = f"{call} #{len(self.executed)}"
        self.table.finish(self.record, call, reply, ok=ok, now=0)
        if ok or call.do != "evaluate":
            self.replies[call] = reply

    @invariant()
    def every_reset_and_step_ran_at_most_once_and_steps_in_order(self):
        once = [call for call in self.executed if call.do != "evaluate"]
        assert len(once) == len(set(once))
        episode, step = "", 0
        for call in self.executed:
            if call.do == "reset":
                episode, step = call.episode, 0
            else:
                assert (call.episode, call.step) == (episode, step)
                step += call.do == "step"


Leases.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLeases = Leases.TestCase
