"""First-party distributions and the libraries and programs they use: what `doctor` looks for.

What is not installed cannot speak for itself, so that this list stands here. A test compares it
with the distributions of the repository.
"""

from __future__ import annotations

from typing import NamedTuple


class Part(NamedTuple):
    """A distribution of ours.

    Attributes:
        distribution: its name.
        folder: where it lies in a checkout.
        enables: what a run file can say with it.
        libraries: distributions that it imports when it is used.
        programs: keys of `PROGRAMS`.
    """

    distribution: str
    folder: str
    enables: str
    libraries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


class Program(NamedTuple):
    """Something that is no Python package.

    Attributes:
        names: of the executable, the preferred one first.
        variable: environment variable that may name it instead, "" for none.
        enables: what it is for.
        install: the command that brings it.
    """

    names: tuple[str, ...]
    variable: str
    enables: str
    install: str


PARTS = (
    Part(
        "mintact-env-micro",
        "envs/micro",
        "micro/web, micro/mobile, micro/desktop, micro/tools: the quickstart's domains",
        ("pillow", "playwright"),
        ("browser",),
    ),
    Part(
        "mintact-env-web",
        "envs/web",
        "websites in a real browser: made, written by a model, recorded",
        ("pillow", "playwright"),
        ("browser",),
    ),
    Part("mintact-reward-state", "rewards/state", "judges that read the environment's own state"),
    Part(
        "mintact-reward-vlm",
        "rewards/vlm",
        'judges "vlm" and "rubric": any OpenAI-compatible endpoint looks at the screenshots',
        ("httpx",),
    ),
    Part(
        "mintact-reward-panel",
        "rewards/panel",
        'judges "ensemble" and "process": several judges as one, rewards by turn',
    ),
    Part(
        "mintact-algorithm-grpo",
        "algorithms/grpo",
        "presets, advantages, objectives and corrections of the GRPO family",
        ("torch",),
    ),
    Part(
        "mintact-plugin-torch",
        "plugins/torch",
        'trainer "torch" and rollout engine "embedded": a whole run on one machine',
        ("torch", "transformers", "safetensors"),
    ),
    Part(
        "mintact-plugin-openai",
        "plugins/openai",
        'rollout engine "openai": any OpenAI-compatible endpoint as a teacher or for evaluation',
        ("openai",),
    ),
    Part(
        "mintact-plugin-sglang",
        "plugins/sglang",
        'rollout engine "sglang": servers behind their router',
        ("sglang-router",),
    ),
    Part(
        "mintact-plugin-openenv",
        "plugins/openenv",
        "any OpenEnv server as an environment",
        ("websockets",),
    ),
    Part(
        "mintact-plugin-mcp",
        "plugins/mcp",
        "servers of the Model Context Protocol as tools",
        ("mcp",),
    ),
    Part(
        "mintact-plugin-verifiers",
        "plugins/verifiers",
        "environments written for verifiers",
        ("verifiers",),
    ),
    Part(
        "mintact-plugin-verl",
        "plugins/verl",
        "our objectives and advantages inside verl's trainer",
        ("verl",),
    ),
)

PROGRAMS = {
    "browser": Program(
        ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
        "MINTACT_CHROMIUM",
        "web environments",
        "apt-get install chromium-headless-shell",
    ),
    "gpu": Program(
        ("nvidia-smi",),
        "",
        "models that do not fit a CPU; the quickstart needs none",
        "a machine with an NVIDIA GPU and its driver",
    ),
}
"""Looked for one by one; what keeps environments apart is tried and no program alone."""

LIBRARIES = {
    "torch": "training and the embedded engine",
    "transformers": "the models of mintact-plugin-torch",
    "playwright": "driving the browser of web environments",
    "mcp": "mintact-plugin-mcp",
    "openai": "mintact-plugin-openai",
    "openenv-core": "serving OpenEnv environments; mintact-plugin-openenv needs only a URL",
    "verifiers": "mintact-plugin-verifiers",
    "verl": "mintact-plugin-verl",
    "sglang-router": "mintact-plugin-sglang",
    "sglang": "model servers on GPUs; in an environment of its own for mintact-plugin-sglang",
    "ray": "clusters that verl trains on; a run of ours needs none",
    "megatron-core": "training over many GPUs; no distribution of ours uses it yet",
}
"""What each is for, by the name that pip knows."""

APART = {"sglang": "python3 -m venv .sglang-venv && .sglang-venv/bin/pip install sglang"}
"""How to get what pins other versions of what we use; on a CPU `make sglang-venv` does it."""
