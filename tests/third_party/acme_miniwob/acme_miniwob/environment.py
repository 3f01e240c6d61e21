"""MiniWoB++ in the platform's browser: its pages, its goals, its own reward."""

import mimetypes
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from mintact_env_web.environment import WebEnvironment

from mintact_platform import StateCheck

# found, not imported: the package itself wants selenium
HTML = Path(find_spec("miniwob").submodule_search_locations[0]) / "html"
PAGES = HTML / "miniwob"
ORIGIN = "http://miniwob.test"
START = files("acme_miniwob").joinpath("start.js").read_text()
GOAL = "() => { const goal = core.getUtterance(); return goal.utterance ?? goal; }"
RESULT = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL, WOB_REWARD_REASON]"


class Pages:
    """Serves the package's own files, and reads the reward before its discount by time."""

    failures = ()

    async def open(self, context, task, seed):
        await context.add_init_script(START.replace("SEED", str(seed)))
        await context.route(f"{ORIGIN}/**", self.answer)
        return f"{ORIGIN}/miniwob/{task.params['page']}.html"

    async def answer(self, route):
        path = (HTML / route.request.url.removeprefix(f"{ORIGIN}/").partition("?")[0]).resolve()
        if not path.is_relative_to(HTML) or not path.is_file():
            return await route.fulfill(status=404, body="not found")
        kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        return await route.fulfill(body=path.read_bytes(), content_type=kind + charset)

    async def check(self, page, task, answer):
        done, reward, reason = await page.evaluate(RESULT)
        success = done and reward > 0
        return StateCheck(success, max(0.0, min(1.0, reward)), {"done": done, "reason": reason})

    async def close(self):
        pass


class MiniWob(WebEnvironment):
    """An episode ends when its page says so; the reward is the page's."""

    def __init__(self, *, width: int = 500, height: int = 320):
        super().__init__(Pages(), width=width, height=height)

    async def reset(self, *, seed=None, options=None):
        observation, info = await super().reset(seed=seed, options=options)
        goal = await self.page.evaluate(GOAL)
        return observation | {"text": goal}, info | {"goal": goal}

    async def step(self, action):
        observation, _, ended, truncated, info = await super().step(action)
        done, reward, _ = await self.page.evaluate(RESULT)
        return observation, float(reward), ended or done, truncated, info
