"""Two tasks: one needs a word, the other a tool."""

import verifiers.v1 as vf

from toy_chat.prices import PricesToolset


class ToyChatTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class ToyChatData(vf.TaskData):
    answer: str


class ToyChatTask(vf.Task[ToyChatData, vf.State, ToyChatTaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [PricesToolset(config.tools)]

    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))

    @vf.reward(weight=0.0)
    async def readable(self, trace: vf.Trace) -> float:
        if trace.last_reply == "unreadable":
            raise ConnectionError("the judge is down")
        return 0.0


class ToyChatConfig(vf.TasksetConfig):
    task: ToyChatTaskConfig = ToyChatTaskConfig()


class ToyChatTaskset(vf.Taskset[ToyChatTask, ToyChatConfig]):
    def load(self):
        brief = "Answer with the word alone."
        rows = [
            {"prompt": "Reverse abc.", "answer": "cba", "system_prompt": brief},
            {"prompt": "What do 2 pears and a plum cost?", "answer": "8"},
        ]
        for index, row in enumerate(rows):
            yield ToyChatTask(ToyChatData(idx=index, **row), self.config.task)
