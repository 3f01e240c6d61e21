"""Runs on virtual time: the scheduler's own objects, drawn durations in place of processes."""
