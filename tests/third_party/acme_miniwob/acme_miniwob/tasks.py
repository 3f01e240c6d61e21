"""Every page of the benchmark is a template; a seed draws what it asks."""

from acme_miniwob.environment import PAGES
from mintact_platform import Task

PER_PAGE = {"train": 100, "validation": 5, "test": 5}
GOAL = "Do what the box at the top of the page asks."


def task(page: str, seed: int, split: str = "train") -> Task:
    return Task(
        id=f"{page}/{seed}",
        goal=GOAL,
        domain="web",
        split=split,
        params={"page": page},
        seed=seed,
        max_turns=20,
        template=page,
    )


def tasks(*, split: str, pages: tuple[str, ...] = ()):
    first = list(PER_PAGE).index(split) * 1_000_000
    names = pages or tuple(sorted(path.stem for path in PAGES.glob("*.html")))
    return [task(name, first + n, split) for name in names for n in range(PER_PAGE[split])]
