"""Small verifiers environments, written with verifiers' own classes as an author would."""

import asyncio
import base64
import struct
import zlib

import verifiers as vf
from datasets import Dataset


def load_environment(kind="reverse", **options):
    return KINDS[kind](**options)


# ---- one turn ----------------------------------------------------------------------------------


def said(completion):
    return completion[-1]["content"]


def right(completion, answer):
    return 1.0 if said(completion) == answer else 0.0


def is_a_number(completion):
    """Raises on anything else: verifiers counts that as 0."""
    return 0.0 * float(said(completion))


def reverse(**options):
    words = ["abc", "stressed", "desserts"]
    rows = [{"question": f"Reverse {word}.", "answer": word[::-1]} for word in words]
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(rows),
        eval_dataset=Dataset.from_list([{"question": "Reverse live.", "answer": "evil"}]),
        system_prompt="Answer with the word alone.",
        rubric=vf.Rubric(funcs=[right, is_a_number], weights=[1.0, 0.5]),
        **options,
    )


def without_a_judge(fault="outage"):
    def verdict(completion):
        try:
            raise ConnectionError("the judge is down")
        except ConnectionError as error:
            raise RuntimeError("no verdict") from error

    def together(states) -> list[float]:
        return [0.0 for _ in states]

    function = {"outage": verdict, "group": together}[fault]
    rows = [{"question": "Say anything.", "answer": ""}]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[function]))


# ---- pictures ----------------------------------------------------------------------------------


def png(shade):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes([shade] * 6) for _ in range(2)))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def shade():
    url = f"data:image/png;base64,{base64.b64encode(png(200)).decode()}"
    content = [
        {"type": "text", "text": "Is this light or dark?"},
        {"type": "image_url", "image_url": {"url": url}},
    ]
    rows = [{"prompt": [{"role": "user", "content": content}], "answer": "light"}]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))


# ---- several turns -----------------------------------------------------------------------------


class Guess(vf.MultiTurnEnv):
    """Find a number; the environment says higher or lower."""

    def __init__(self, fault=None, **options):
        rows = [{"question": "Find a number from 1 to 9.", "answer": str(n)} for n in (3, 7)]

        async def found(state):
            return 1.0 if state["found"] else 0.0

        super().__init__(
            dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[found]), **options
        )
        self.fault = fault

    async def setup_state(self, state, **kwargs):
        if self.fault == "setup":
            raise vf.InfraError("no machine is free")
        state["found"] = False
        return state

    async def env_response(self, messages, state, **kwargs):
        if self.fault == "infra":
            raise vf.InfraError("the machine was lost")
        if self.fault == "crash":
            raise TypeError("a bug in the environment")
        if self.fault == "api":
            await state["client"].client.chat()
        guess, secret = messages[-1]["content"].strip(), state["answer"]
        state["found"] = guess == secret
        if state["found"]:
            told = [{"role": "user", "content": "You found it."}]
            state["final_env_response"] = told
            return told
        hint = "lower" if guess > secret else "higher"
        return [{"role": "user", "content": f"It is {hint}."}]


class Forgetful(Guess):
    """Shows only what was said last, as environments with a memory of their own do."""

    async def get_prompt_messages(self, state):
        if not state["trajectory"]:
            return state["prompt"]
        told = await self.env_response(state["trajectory"][-1]["completion"], state)
        return [*state["prompt"][:1], *told] if not state["final_env_response"] else told


class Stubborn(Guess):
    """Goes on asking when it is told that the agent left."""

    async def get_prompt_messages(self, state):
        if state.get("error") is not None:
            state["error"] = None
        return state["prompt"]

    async def has_error(self, state, **kwargs):
        return False


# ---- tools -------------------------------------------------------------------------------------

PRICES = {"pear": 3, "plum": 2}


def price(item: str) -> str:
    """The price of a fruit.

    Args:
        item: its name.
    """
    return str(PRICES[item])


async def weigh(item: str, count: int) -> str:
    """The weight of some fruits in grams.

    Args:
        item: the name of the fruit.
        count: how many.
    """
    await asyncio.sleep(0)
    if item == "anvil":
        raise vf.InfraError("the scale broke")
    if item == "stone":
        raise ValueError("that is no fruit")
    return str(100 * count)


def shop(**options):
    rows = [{"question": "What do 2 pears and a plum cost?", "answer": "8"}]
    return vf.ToolEnv(
        dataset=Dataset.from_list(rows),
        tools=[price, weigh],
        rubric=vf.Rubric(funcs=[right]),
        stop_errors=[vf.InfraError, ValueError],
        **options,
    )


KINDS = {
    "reverse": reverse,
    "without a judge": without_a_judge,
    "shade": shade,
    "guess": Guess,
    "forgetful": Forgetful,
    "stubborn": Stubborn,
    "shop": shop,
}
