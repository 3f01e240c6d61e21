"""What the models are told."""

from __future__ import annotations

import json
from collections.abc import Sequence

from mintact_env_web.agentic.site import Triple, WrittenSite, to_json
from mintact_env_web.agentic.source import TODAY
from mintact_env_web.synth.validate import Finding

_CONTRACT = f"""\
You write small websites on which software agents learn to use a browser. An agent sees 1280x720
screenshots only and has a mouse and a keyboard. A program tests your site in a browser without a
network and refuses it with reasons if anything below does not hold.

THE SITE
- Plain HTML, CSS and JavaScript without frameworks. index.html is the start; further files lie
  beside it and are named relatively. No URL to anywhere else, no fetch/WebSocket/Worker, no eval.
  Pictures are inline SVG or CSS.
- It looks and works like a finished site that people use: navigation, headings, realistic content
  (at least 12 records), empty states, validation messages. Several views.
- All state lies as ONE JSON object in localStorage under one key, written at the first load with
  the start data and updated after every change; reloading shows the same state. Nothing that is
  only about the view (open menus, sorting, filters, typed drafts) belongs into it, unless a task
  is about it. No sessionStorage, cookies or other keys.
- Deterministic: the clock stands at {TODAY} 10:00 UTC, random numbers repeat, but better use
  neither. No animations, no timers over 300 ms, no alert().
- Every element that can be clicked or typed into has a data-k attribute, unique on the page and
  stable: data-k="add:42".

THE TASKS, each an object
  {{"name": "slug", "goal": "…", "level": 1-4, "check": …, "solve": [steps], "miss": [steps]}}
- goal: a person's request with everything needed to do it; never mentions the page's internals.
- Levels 1 (one or two actions) to 4 (many steps over several views), mixed. Tasks differ in kind,
  not only in names and numbers. Some are questions that are answered with stop.
- solve reaches the goal. miss is a plausible wrong ending: the wrong record, the last click left
  out, off by one.
- check: true after solve and false at the start, after miss, after any other task's solve, and
  after solve when anything else was changed as well: end with "only_changed".

STEPS: {{"click": t}} {{"hover": t}} {{"type": t, "text": "…", "enter": true}} {{"choose": t,
"option": "…"}} (a <select>) {{"drag": t, "to": t}} {{"press": "Enter"}} {{"back": true}}
{{"stop": "answer"}}. A target t is a data-k, or the text an element goes by.

CHECKS are JSON, over the state before and after and the agent's answer.
Conditions: {{"all": […]}} {{"any": […]}} {{"not": c}} {{"equals": [v, v]}} {{"contains": [v, v]}}
{{"less": [v, v]}} {{"at_most": …}} {{"more": …}} {{"at_least": …}} {{"exists": v}}
{{"answered": v}} {{"unchanged": [paths]}} {{"only_changed": [paths]}} (everything else as before).
Values: JSON literals, {{"after": "cart.lines.0.id"}} {{"before": path}} {{"answer": true}}
{{"literal": any JSON}} {{"count": v}} {{"sum": v}} {{"pick": [list, path]}}
{{"where": [list, {{path: v}}]}}.
Example: {{"all": [{{"equals": [{{"pick": [{{"after": "cart.lines"}}, "id"]}}, [42]]}},
{{"only_changed": ["cart.lines"]}}]}}. A question: {{"all": [{{"answered": "12.50"}},
{{"only_changed": []}}]}}.

YOUR ANSWER: one fenced block for each file with its name in the fence's line, and one named
site.json for the rest:
```html index.html
…
```
```json site.json
{{"name": "slug-of-the-site", "key": "state", "tasks": […]}}
```
"""

EXTRACT = """\
You see a browser agent at work: screenshots, and what it did after each. Name the fine-grained
capabilities of websites that these actions used or needed, as a test author would list them:
"filter products by price range", "pick a date in a calendar popup". Not what this site is about,
no names, no colours; only what could be built into any site. Answer with JSON:
{"capabilities": ["…", …]}, at most 8, none for actions without a purpose.
"""

MERGE = """\
Here are capabilities of websites, found in recordings. Merge those that one kind of website
feature would train together into groups, and name each group in two to five words ("filter and
sort lists"). Every name belongs to exactly one group; one that fits nowhere is its own group.
Answer with JSON: {"groups": {"group name": ["capability", …], …}}, names spelled as given.
"""


def contract() -> str:
    """What a site must be: the system message of the writer."""
    return _CONTRACT


def wish(triple: Triple, tasks: int) -> str:
    """What this site is to be."""
    skills = "".join(f"\n- {skill}" for skill in triple.skills)
    return (
        f"Write a site that trains the capability: {triple.capability}{skills}\n\n"
        f"Category: {triple.category}\nVisual style: {triple.style}\n"
        f"Tasks: at least {tasks}, each needing one or more of these capabilities."
    )


def rendered(site: WrittenSite) -> str:
    """A site as the answer that would give it."""
    blocks = [
        f"```{path.rpartition('.')[2]} {path}\n{text.rstrip()}\n```"
        for path, text in site.files.items()
    ]
    whole = to_json(site)
    values = {key: whole[key] for key in ("name", "key", "tasks")}
    meta = json.dumps(values, ensure_ascii=False, indent=1)
    return "\n".join([*blocks, f"```json site.json\n{meta}\n```"])


def complaint(findings: Sequence[Finding], *, whole: bool) -> str:
    """Why a site is refused, and how to answer.

    Args:
        findings: the reasons.
        whole: whether all of it must be written again.
    """
    reasons = "".join(f"\n- {finding.what}: {finding.reason}" for finding in findings[:30])
    how = (
        "Write the whole answer again in the form that was asked for."
        if whole
        else "Mend it. Give every file that changes as a whole; files that you leave out stay as "
        "they are. In site.json give the tasks that change; the others stay. A task "
        '{"name": "…", "drop": true} is taken away.'
    )
    return f"The site is refused:{reasons}\n\n{how}"
