"""Sessions, pages and a browser to play in."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mintact_env_micro.browser import browser_path
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mintact_platform.cli.main import parser_of
from mintact_platform.cli.play import play_settings
from mintact_platform.models.chat import Qwen3VLChat
from mintact_platform.play.serving import play
from mintact_platform.play.session import PlaySession
from mintact_platform.play.tasks import choose_tasks
from mintact_platform.registry.names import Registry
from mintact_platform.storage.images import ImageStore

MODULES = Path(__file__).parent / "modules"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if browser_path() is None:
        skip = pytest.mark.skip(reason="no Chromium: apt-get install chromium-headless-shell")
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(skip)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one environment server for many tests: `mintact serve --allow-any`."""
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "mintact_platform.cli.main", "serve", "--allow-any", "--json"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(MODULES)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130
    process.stdout.close()


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environments and judges of these tests, by `module:attribute`, also in workers."""
    monkeypatch.setenv("PYTHONPATH", str(MODULES))
    monkeypatch.setattr(sys, "path", [*sys.path, str(MODULES)])


def chosen(words: list[str], folder: Path) -> tuple[Any, Any, Registry]:
    """What `mintact play` makes of its command line."""
    from mintact_platform.cli import play as verb

    registry = Registry.discover()
    arguments = parser_of("play", verb).parse_args([*words, "--runs", str(folder)])
    tasks = choose_tasks(
        registry,
        arguments.environment,
        tasks=arguments.tasks,
        task=arguments.task,
        goal=arguments.goal,
        seed=arguments.seed,
    )
    return play_settings(arguments, registry), tasks, registry


async def until(session: PlaySession, *phases: str) -> PlaySession:
    """Wait until the session is in one of these phases."""
    async with asyncio.timeout(60):
        while session.phase not in phases:
            await session.changed(session.revision, 60)
    return session


@pytest.fixture
def wait() -> Callable[..., Any]:
    return until


@pytest.fixture
async def open_session(tmp_path: Path, server: str) -> AsyncIterator[Callable[..., Any]]:
    """Start a session from the words of a command line; it waits for the person then."""
    async with AsyncExitStack() as stack:

        async def start(
            *words: str, phases: tuple[str, ...] = ("waiting", "failed"), at: str | None = server
        ) -> Any:
            where = ["--server", at] if at else []
            settings, tasks, registry = chosen([*words, *where], tmp_path)
            images = ImageStore(tmp_path / "screens")
            session = PlaySession(settings, tasks, registry, images=images)
            stack.push_async_callback(session.close)
            session.start()
            return await until(session, *phases)

        yield start


@pytest.fixture
async def open_page(tmp_path: Path, server: str) -> AsyncIterator[Callable[..., Any]]:
    """Serve the page of a command line; gives its address."""
    async with AsyncExitStack() as stack:

        async def start(*words: str) -> str:
            words = (*words, "--server", server)
            return await stack.enter_async_context(served(list(words), tmp_path))

        yield start


@asynccontextmanager
async def served(words: list[str], folder: Path) -> AsyncIterator[str]:
    settings, tasks, registry = chosen(words, folder)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(play(settings, tasks, registry, ready=address.set_result))
    try:
        async with asyncio.timeout(60):
            url = await address
        yield url
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.fixture(scope="session")
def chat() -> Qwen3VLChat:
    """A model's chat format, over single bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    names = ("endoftext", "im_start", "im_end", "vision_start", "vision_end", "image_pad")
    tokenizer.add_special_tokens([AddedToken(f"<|{n}|>", special=True) for n in names])
    return Qwen3VLChat(tokenizer)
