"""What the environment shows after the last response is kept: judges need the screen at the end."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mintact_platform.actions.ui import BrowserUse
from mintact_platform.config import Deadlines
from mintact_platform.environments.protocol.wire import EncodedImage, Observation
from mintact_platform.judging.judge import JudgeView
from mintact_platform.models.chat import Qwen3VLChat
from mintact_platform.models.protocol import Generation
from mintact_platform.models.vision import VisionSize
from mintact_platform.records.outcome import Outcome
from mintact_platform.records.task import Task
from mintact_platform.records.trajectory import Trajectory
from mintact_platform.rollouts.episode import Episode, EpisodeKey, EpisodeSettings, EpisodeTools
from mintact_platform.storage.images import ImageStore

VISION = VisionSize(16, 2, 1 << 20)
CLICK = {"action": "click", "coordinate": [1, 2]}
STOP = {"action": "stop", "response": "done"}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>",
           "<|image_pad|>", "<|video_pad|>")  # fmt: skip


def chat():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL))
    return Qwen3VLChat(tokenizer)


def screen(shade):
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64), (shade, 0, 0)).save(buffer, "PNG")
    return EncodedImage(buffer.getvalue(), "png", 64, 64)


class Lease:
    """Shows a darker screen after every step; ends or truncates as told."""

    instance = "i"

    def __init__(self, truncates):
        self.steps, self.truncates = 0, truncates

    def observation(self):
        cut = self.truncates and self.steps == 2
        text = f"step {self.steps}"
        return Observation(text, (screen(250 - self.steps),), None, 0.0, False, cut, {})

    async def reset(self, **_):
        return self.observation()

    async def step(self, **_):
        self.steps += 1
        return self.observation()

    async def evaluate(self, **_):
        return None


@pytest.mark.parametrize(
    ("calls", "truncates", "turns", "outcome", "shown"),
    [
        ([CLICK, STOP], False, 8, Outcome.COMPLETED, 2),
        ([CLICK, CLICK], True, 8, Outcome.MAX_TURNS, 2),
        ([CLICK, CLICK, CLICK], False, 3, Outcome.MAX_TURNS, 3),
        ([None], False, 1, Outcome.MAX_TURNS, None),
    ],
)
async def test_the_screen_after_the_last_action_is_recorded(
    calls, truncates, turns, outcome, shown, tmp_path
):
    codec, images, answers = chat(), ImageStore(tmp_path), iter(calls)

    async def generate(request):
        call = next(answers)
        text = "?" if call is None else json.dumps({"name": "browser_use", "arguments": call})
        said = text if call is None else f"<tool_call>{text}</tool_call>"
        ids = np.asarray([*codec.encode(said), codec.end_id], np.int32)
        zeros = np.zeros(len(ids), np.float32)
        size = VISION.tokens(64, 64) - 1
        prompt = len(request.ids) + size * len(request.images)
        return Generation(ids, zeros, zeros.astype(np.int32), "stop", prompt)

    settings = EpisodeSettings(1.0, 256, 10**6, turns, 3, "system", Deadlines(), 0)
    tools = EpisodeTools(generate, codec, VISION, images, BrowserUse())
    episode = Episode(Task("t", "g", "web"), EpisodeKey("e"), settings, tools)
    assert await episode.run(Lease(truncates)) == outcome, episode.failure
    trajectory = episode.trajectory(outcome, 1.0)
    again = Trajectory.from_json(json.loads(json.dumps(trajectory.to_json())), ())
    view = JudgeView(again, images.get)
    if shown is None:  # the response could not be used, so nothing happened after it
        assert (view.final_observation, view.final_images()) == ("", [])
        return
    assert view.final_observation == f"step {shown}"
    (last,) = view.final_images()
    with Image.open(io.BytesIO(last)) as picture:
        assert picture.getpixel((1, 1)) == (250 - shown, 0, 0)
    assert again.final_images[0] not in {d for turn in again.turns for d in turn.images}


def test_a_record_from_before_there_was_a_final_screen_is_read():
    old = Trajectory("t", "g", 0, 0, Task("t", "g", "web"), Outcome.COMPLETED).to_json()
    del old["final_images"], old["final_observation"]
    assert Trajectory.from_json(old, ()).final_images == ()
