import asyncio

from mintact_platform.environments.protocol.sweeper import Sweeper


class Call:
    def __init__(self, name, due):
        self.name, self.due = name, due


class Calls(dict):
    """Open calls, and the order in which they came due."""

    def __init__(self):
        super().__init__()
        self.order = []
        self.sweeper = Sweeper(self, self.end)

    def begin(self, name, seconds, *, now=None):
        due = (asyncio.get_running_loop().time() if now is None else now) + seconds
        self[name] = Call(name, due)
        self.sweeper.watch(due)

    def end(self, call):
        assert asyncio.get_running_loop().time() >= call.due
        self.order.append(call.name)
        del self[call.name]

    async def all_ended(self):
        async with asyncio.timeout(60):
            while self:
                await asyncio.sleep(0.005)


async def test_calls_end_in_the_order_of_their_deadlines_whatever_order_they_began_in():
    calls = Calls()
    now = asyncio.get_running_loop().time()
    for name, seconds in {"late": 0.2, "first": 0.01, "second": 0.1}.items():
        calls.begin(name, seconds, now=now)
    await calls.all_ended()
    assert calls.order == ["first", "second", "late"]


async def test_calls_that_all_came_due_while_the_loop_stood_still_end_in_that_order_too():
    calls = Calls()
    now = asyncio.get_running_loop().time() - 1
    for name, seconds in {"late": 0.2, "first": 0.01, "second": 0.1}.items():
        calls.begin(name, seconds, now=now)
    await calls.all_ended()
    assert calls.order == ["first", "second", "late"]


async def test_a_call_that_ended_in_time_is_left_alone_and_the_others_still_end():
    calls = Calls()
    calls.begin("done", 0.01)
    calls.begin("late", 0.05)
    del calls["done"]
    await calls.all_ended()
    assert calls.order == ["late"]


async def test_many_calls_share_one_timer():
    calls = Calls()
    loop = asyncio.get_running_loop()
    before = len(loop._scheduled)
    for number in range(100):
        calls.begin(number, 60 + number)
    assert len(loop._scheduled) == before + 1
    calls.sweeper.close()


async def test_a_call_may_be_given_a_later_moment():
    calls = Calls()
    visits = []

    def visit(call):
        visits.append(call.name)
        if len(visits) < 3:
            call.due = asyncio.get_running_loop().time() + 0.01
        else:
            calls.end(call)

    calls.sweeper = Sweeper(calls, visit)
    calls.begin("probed", 0.01)
    await calls.all_ended()
    assert visits == ["probed"] * 3
