"""A small taskset for verifiers 0.4, written with its own classes as an author would."""

from toy_chat.taskset import ToyChatTaskset

__all__ = ["ToyChatTaskset"]
