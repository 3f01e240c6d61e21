"""The words of the question: what an agent is called, what counts as its environment failing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Words(NamedTuple):
    """How a domain is spoken of.

    Attributes:
        agent: who is judged.
        broken: what is the environment's fault, never the agent's.
    """

    agent: str
    broken: str


PLAIN = Words(
    "an agent that acts in a digital environment",
    "the environment itself broke: it crashed, froze, showed nothing, or could not have been used "
    "by anybody",
)

DOMAINS: Mapping[str, Words] = {
    "web": Words(
        "an agent that uses websites in a browser",
        "the website failed: a page that does not load, an error of the server, a block or captcha "
        "that no visitor could pass, a missing part without which nobody could do the task",
    ),
    "mobile": Words(
        "an agent that uses a phone",
        "the phone failed: an app that crashes or never opens, a frozen or black screen, a system "
        "dialog that cannot be left",
    ),
    "desktop": Words(
        "an agent that uses a desktop computer",
        "the desktop failed: a program that crashes or never starts, a frozen or black screen, a "
        "session that ended by itself",
    ),
    "tools": Words(
        "an assistant that works by calling tools",
        "the tools failed: a tool that answers with an internal error or not at all although it "
        "was called rightly, an image that cannot be opened",
    ),
}
"""By the task's domain; any other domain is spoken of plainly."""

OUTCOMES: Mapping[str, str] = {
    "completed": "the agent ended it",
    "max_turns": "the agent used up its turns",
    "context_overflow": "the agent's context was full",
    "agent_error": "the agent's answers could not be used",
}

CRITERIA: Mapping[str, str] = {
    "task_completion": "everything that was asked for is done in the end",
    "instruction_following": "it was done in the way that was asked for, within every constraint "
    "given",
    "tool_use_validity": "actions and tools were used rightly: real ones, with sensible "
    "arguments, none of them needlessly repeated",
    "no_side_effects": "nothing else was changed, sent, bought or deleted",
    "information_accuracy": "everything the agent told the user is true by what the screenshots, "
    "tool results and state show",
}
"""The five pass/fail criteria of MM-ToolSandBox, which the paper judges tool use by."""


def words_for(domain: str) -> Words:
    """How a domain is spoken of."""
    return DOMAINS.get(domain, PLAIN)
