"""Three goals a split."""

from mintact_platform import Task


def tasks(*, split: str):
    return [
        Task(f"{split}-{n}", f"tap {n} times", "mobile", split, {"goal": n}, seed=n, template="tap")
        for n in (1, 2, 3)
    ]
