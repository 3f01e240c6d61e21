"""The stand-in's version of `chats/toy_chat`, which needs verifiers' tool servers."""

import json
from types import SimpleNamespace

import verifiers.v1 as vf

__all__ = ["ToyChatTaskset"]

TOOL = {
    "type": "function",
    "function": {
        "name": "shop_price",
        "description": "The price of a fruit.",
        "parameters": {"type": "object", "properties": {"item": {"type": "string"}}},
    },
}


class ToyChatTask(vf.Task):
    async def run(self, trace, chat):
        data = self.data
        messages = [{"role": "user", "content": data.prompt}]
        if data.system_prompt:
            messages.insert(0, {"role": "system", "content": data.system_prompt})
        while True:
            said = await chat(messages, [TOOL])
            messages.append(said)
            if not said.get("tool_calls"):
                break
            for call in said["tool_calls"]:
                item = json.loads(call["function"]["arguments"])["item"]
                price = str({"pear": 3, "plum": 2}[item])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": price})
        if said["content"] == "unreadable":
            raise ConnectionError("the judge is down")
        trace.rewards["right"] = SimpleNamespace(value=float(said["content"] == data.answer))
        trace.metrics["length"] = float(len(said["content"]))


class ToyChatTaskset(vf.Taskset):
    def __iter__(self):
        brief = "Answer with the word alone."
        rows = [("Reverse abc.", "cba", brief), ("What do 2 pears and a plum cost?", "8", None)]
        for prompt, answer, system in rows:
            yield ToyChatTask(SimpleNamespace(prompt=prompt, answer=answer, system_prompt=system))
