"""The engine beside others: what is heavy happens in threads, what is cancelled is let go."""

from __future__ import annotations

import asyncio
import io
import threading

import pytest
from mintact_plugin_openai import engine as module
from mintact_plugin_openai.engine import OpenAIEngine
from PIL import Image

from mintact_platform.actions.ui import BrowserUse
from mintact_platform.config import Deadlines
from mintact_platform.environments.protocol.wire import EncodedImage, Observation
from mintact_platform.models import inline
from mintact_platform.models.messages import ChatSpec
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.rollouts.episode import Episode, EpisodeKey, EpisodeSettings, EpisodeTools
from mintact_platform.storage.images import ImageStore

BACK = '<tool_call>{"name": "browser_use", "arguments": {"action": "go_back"}}</tool_call>'
STOP = '<tool_call>{"name": "browser_use", "arguments": {"action": "stop"}}</tool_call>'


class Lease:
    instance = "i"

    def __init__(self):
        self.steps = 0

    def shown(self):
        buffer = io.BytesIO()
        Image.new("RGB", (64, 64), (self.steps, 0, 0)).save(buffer, "PNG")
        image = EncodedImage(buffer.getvalue(), "png", 64, 64)
        return Observation("", (image,), None, 0.0, False, False, {})

    async def reset(self, **_):
        return self.shown()

    async def step(self, **_):
        self.steps += 1
        return self.shown()

    async def evaluate(self, **_):
        return None


@pytest.fixture
async def play(endpoint, tmp_path):
    """`play()` is an episode of three turns that is about to be played."""
    engine = OpenAIEngine(base_url=endpoint.url, model="m")
    await engine.start(ChatSpec(tmp_path, 4))
    settings = EpisodeSettings(1.0, 64, 1, 5, 3, "system", Deadlines(), 0)

    def begin():
        tools = EpisodeTools(
            None, None, VisionSize(1, 1, 10**6), ImageStore(tmp_path), BrowserUse(), engine
        )
        return Episode(Task("t", "go", "web"), EpisodeKey("e"), settings, tools).run(Lease())

    yield begin
    await engine.close()


async def test_images_and_bodies_are_encoded_in_threads(play, endpoint, say, monkeypatch):
    threads = []

    def noted(function):
        def wrapped(*arguments):
            threads.append(threading.current_thread())
            return function(*arguments)

        return wrapped

    monkeypatch.setattr(inline, "_data_url", noted(inline._data_url))
    monkeypatch.setattr(module, "_dump", noted(module._dump))
    endpoint.does(say.completion(BACK), say.completion(STOP))
    assert await play() is Outcome.COMPLETED
    # two pictures, each encoded once however often it is sent, and two bodies
    assert len(threads) == 4
    assert threading.main_thread() not in threads


async def test_an_episode_cancelled_anywhere_leaves_no_task_and_the_engine_usable(
    play, endpoint, say
):
    await asyncio.sleep(0)
    for wanted in range(0, 60, 4):
        endpoint.does(say.completion(BACK), say.completion(BACK), say.completion(STOP))
        before = asyncio.all_tasks()
        playing = asyncio.create_task(play())
        for _ in range(wanted):
            await asyncio.sleep(0)
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        assert playing.cancelled() or playing.result() is Outcome.COMPLETED
        assert asyncio.all_tasks() - before <= {playing}
    endpoint.does(say.completion(STOP))
    assert await play() is Outcome.COMPLETED
