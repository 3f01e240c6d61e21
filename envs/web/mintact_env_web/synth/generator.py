"""From a seed to a whole site, and to tasks on it. Pure: no browser, no clock, no network."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from mintact_env_web.synth.capabilities import capabilities, templates
from mintact_env_web.synth.categories import categories
from mintact_env_web.synth.site import Category, Site, SiteTask, Style
from mintact_env_web.synth.styles import styles

_DRAWS = 8
_STREETS = (
    "Mill Lane",
    "Harbour Street",
    "Rose Square",
    "Station Road",
    "Park Avenue",
    "King's Way",
)


def build(
    seed: int,
    *,
    category: str | None = None,
    style: str | None = None,
    include: Sequence[str] = (),
    count: int | None = None,
) -> Site:
    """The site of a seed.

    Args:
        seed: everything not given is drawn from it.
        category: what it is about.
        style: how it looks.
        include: capabilities it must have.
        count: capabilities in all; None draws 3 to 5.
    """
    rng = random.Random(f"site {seed}")
    about = categories()[category or rng.choice(sorted(categories()))]
    look = styles()[style or rng.choice(sorted(styles()))]
    wanted = max(count or rng.randint(3, 5), len(include))
    others = [name for name in capabilities() if name not in include]
    names = [*include, *rng.sample(others, min(len(others), wanted - len(include)))]
    rng.shuffle(names)
    parts = {name: _part(name, seed, about) for name in names}
    head = _head(rng, about)
    host = f"{_slug(head['brand'])}-{seed}.test"
    content = {"site": head, "modules": names, "parts": parts}
    return Site(seed, about.name, look.name, tuple(names), parts, _files(content, look), host)


def tasks(site: Site, count: int, *, allowed: frozenset[str] = frozenset()) -> list[SiteTask]:
    """Up to `count` tasks of different templates on a site.

    Args:
        site: where.
        count: at most this many.
        allowed: actions beyond `browser_use` that a task may need.
    """
    rng = random.Random(f"tasks {site.seed}")
    names = [t.name for c in site.capabilities for t in capabilities()[c].templates]
    rng.shuffle(names)
    found = (draw(site, name, rng) for name in names if templates()[name].needs <= allowed)
    return [task for task, _ in zip((t for t in found if t), range(count), strict=False)]


def draw(site: Site, template: str, rng: random.Random) -> SiteTask | None:
    """One task of a template on a site; None when the site's content does not allow it."""
    chosen = templates()[template]
    content = site.content[template.partition("/")[0]]
    # one draw may hit a tie or a thing that does not fit; the content may well have another
    drawn = (chosen.draw(rng, content) for _ in range(_DRAWS))
    params = next((values for values in drawn if values is not None), None)
    if params is None:
        return None
    # as the environment will get them: a tuple becomes a list on the way
    values = json.loads(json.dumps(params))
    return SiteTask(template, rng.choice(chosen.goals).format(**params), values)


def _part(name: str, seed: int, category: Category) -> dict[str, Any]:
    # of its own, so that a site with one more capability keeps the content of the others
    rng = random.Random(f"content {seed} {name}")
    capability = capabilities()[name]
    content = capability.content(rng, category)
    title = category.label(f"nav:{name}", capability.label)
    return {"title": title, "hue": rng.randrange(360), **content}


def _head(rng: random.Random, category: Category) -> dict[str, Any]:
    return {
        "brand": rng.choice(category.brands),
        "tagline": rng.choice(category.tagline),
        "about": f"{rng.choice(category.topics)}. {rng.choice(category.kinds)} and more.",
        "address": f"{rng.randint(1, 90)} {rng.choice(_STREETS)}, {rng.choice(category.places)}",
        "currency": category.currency,
        "motif": category.motif,
        "labels": dict(category.labels),
        "hue": rng.randrange(360),
    }


def _files(content: dict[str, Any], style: Style) -> dict[str, bytes]:
    # "<" would end the script element early
    data = json.dumps(content, ensure_ascii=False, sort_keys=True).replace("<", "\\u003c")
    names = content["modules"]
    scripts = "".join(f'<script src="{n}"></script>' for n in ("runtime.js", *_scripts(names)))
    layout = "".join(f' data-{key}="{value}"' for key, value in sorted(style.layout.items()))
    page = (
        f'<!doctype html><html lang="en" data-style="{style.name}"{layout}><head>'
        f'<meta charset="utf-8"><title>{content["site"]["brand"]}</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="site.css"></head><body>'
        f'<div id="app"></div><script id="content" type="application/json">{data}</script>'
        f"{scripts}<script>Site.start()</script></body></html>"
    )
    return {
        "index.html": page.encode(),
        "site.css": _sheet(style).encode(),
        "runtime.js": _read("runtime/runtime.js"),
        **{f"{name}.js": _read(f"capabilities/{name}.js") for name in names},
    }


def _scripts(names: Sequence[str]) -> Iterator[str]:
    return (f"{name}.js" for name in names)


def _sheet(style: Style) -> str:
    variables = "".join(f"--{key}: {value};" for key, value in style.variables.items())
    return f"{_read('runtime/base.css').decode()}\n:root {{{variables}}}\n{style.css}"


@cache
def _read(name: str) -> bytes:
    return files("mintact_env_web.synth").joinpath(name).read_bytes()


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text.lower()).split())
