"""The floor of a step: the environment in the client's own process."""

import asyncio

import driving
from echo import Echo


async def open_session() -> driving.Step:
    environment = Echo()
    environment.reset()

    async def step(number: int, image: bool) -> None:
        call = {"name": "echo", "arguments": {"number": number, "image": image}}
        observation = environment.step(call)[0]
        assert observation["text"] == str(number)
        assert not image or len(observation["screenshot"]) > 80_000

    return step


if __name__ == "__main__":
    driving.end_with_parent()
    asyncio.run(driving.serve(open_session, None))
