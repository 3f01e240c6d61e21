"""The paper's mechanisms as pure state machines, and the wiring of a run."""
