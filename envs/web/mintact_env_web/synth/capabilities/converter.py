"""Calculators: units, currencies, instalments; their answers, and results that are kept."""

from __future__ import annotations

import random
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from mintact_env_web.synth.endings import Edit, Question
from mintact_env_web.synth.site import Capability, Category, Ending, Hand, Params, answered

_UNITS = (
    ("Length", (("metres", 1.0), ("feet", 0.3048), ("miles", 1609.344), ("inches", 0.0254))),
    ("Weight", (("kilograms", 1.0), ("pounds", 0.4536), ("ounces", 0.02835), ("stones", 6.35))),
    ("Volume", (("litres", 1.0), ("gallons", 3.785), ("pints", 0.568), ("cups", 0.24))),
)
_MONEY = (
    ("EUR", "Euro", (1.0, 1.0)),
    ("USD", "US dollar", (0.85, 0.97)),
    ("GBP", "Pound", (1.1, 1.25)),
    ("CHF", "Swiss franc", (0.95, 1.09)),
    ("NOK", "Norwegian krone", (0.08, 0.1)),
    ("PLN", "Polish zloty", (0.2, 0.26)),
)
_MONTHS = (6, 12, 24, 36, 48, 60)


def _fixed(value: float, digits: int) -> str:
    """A number as the page's script rounds it."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _monthly(loan: Mapping[str, Any]) -> float:
    whole = loan["sum"] * (1 + loan["rate"] * loan["months"] / 1200)
    return float(whole / loan["months"])


def _units(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any]:
    kind = rng.choice(content["units"])
    pairs = [(a, b) for a in kind["units"] for b in kind["units"] if a is not b]
    a, b = rng.choice([(a, b) for a, b in pairs if a["is"] / b["is"] > 0.02])
    n = rng.randint(3, 90)
    out, back = (_fixed(n * x["is"] / y["is"], 3) for x, y in ((a, b), (b, a)))
    row = {"tab": "units", "kind": kind["name"], "from": a["name"], "to": b["name"], "n": n}
    return {**row, "out": out, "back": back, "text": f"{n} {a['name']} = {out} {b['name']}"}


def _money(rng: random.Random, content: Mapping[str, Any]) -> dict[str, Any]:
    a, b = rng.sample(content["rates"], 2)
    n = rng.randint(11, 990)
    out, back = (_fixed(n * x["is"] / y["is"], 2) for x, y in ((a, b), (b, a)))
    row = {"tab": "money", "from": a["code"], "to": b["code"], "n": n}
    return {**row, "out": out, "back": back, "text": f"{n} {a['code']} = {out} {b['code']}"}


async def _convert(hand: Hand, p: Params) -> None:
    await hand.open("converter")
    await hand.click(f"tab:{p['tab']}")
    if p["tab"] == "units":
        await hand.choose("kind", p["kind"])
    await hand.type(f"amount:{p['tab']}", str(p["n"]))
    await hand.choose(f"from:{p['tab']}", p["from"])
    await hand.choose(f"to:{p['tab']}", p["to"])
    await hand.click(f"go:{p['tab']}")


async def _loan(hand: Hand, loan: Mapping[str, Any]) -> None:
    await hand.open("converter")
    await hand.click("tab:loan")
    await hand.type("sum", str(loan["sum"]))
    await hand.choose("months", str(loan["months"]))
    await hand.choose("percent", str(loan["rate"]))
    await hand.click("go:loan")


class Units(Question):
    """So much in another unit."""

    name = "converter/units"
    goals = ("How many {to} are {n} {from}? Use the calculator; give all three decimals.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _units(rng, content)
        return {**p, "truth": p["out"], "lie": p["back"]}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _convert(hand, p)
        return await hand.read(f"result:{p['tab']}:0")


class Money(Units):
    """So much in another currency."""

    name = "converter/currency"
    goals = ("What are {n} {from} in {to} by the site's own rates? Answer with two decimals.",)

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _money(rng, content)
        return {**p, "truth": p["out"], "lie": p["back"]}


class Keep(Edit):
    """A result saved."""

    name = "converter/save_result"
    goals = ("Convert {n} {from} into {to} and save the result.",)
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = rng.choice((_units, _money))(rng, content)
        return {**p, "wrong": {"from": p["to"], "to": p["from"]}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"].append(p["text"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _convert(hand, p)
        await hand.click(f"keep:{p['tab']}")
        return None


class Replace(Keep):
    """A saved result deleted and another saved in its place."""

    name = "converter/replace"
    goals = ('Delete the saved result "{old}", and save what {n} {from} are in {to}.',)
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        p = _money(rng, content)
        at, other = rng.sample(range(len(content["state"]["saved"])), 2)
        old = content["state"]["saved"][at]
        return {**p, "at": at, "old": old, "wrong": {"at": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        del state["saved"][p["at"]]
        super().change(state, p)

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("converter")
        await hand.click(f"drop:{p['at']}")
        return await super().solve(hand, p)


class Forget(Edit):
    """A saved result deleted."""

    name = "converter/delete_result"
    goals = ('Delete the saved result "{old}" from the calculator.',)
    level = 1

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        at, other = rng.sample(range(len(content["state"]["saved"])), 2)
        return {"at": at, "old": content["state"]["saved"][at], "wrong": {"at": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        del state["saved"][p["at"]]

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await hand.open("converter")
        await hand.click(f"drop:{p['at']}")
        return None


class Monthly(Question):
    """What a credit costs each month."""

    name = "converter/monthly"
    goals = (
        "What does one pay each month for {sum} paid back in {months} months at {rate} % interest "
        "a year? Use the site's calculator.",
    )
    level = 3

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        loan = {"sum": 50 * rng.randint(6, 90), "months": rng.choice(_MONTHS)}
        loan["rate"] = rng.choice(content["percents"])
        monthly = _monthly(loan)
        whole = _fixed(monthly * loan["months"], 2)
        return {**loan, "loan": loan, "truth": _fixed(monthly, 2), "lie": whole}

    async def solve(self, hand: Hand, p: Params) -> str:
        await _loan(hand, p["loan"])
        return await hand.read("result:loan:0")


class Cheaper(Edit):
    """The better of two credits saved."""

    name = "converter/save_cheaper_credit"
    goals = (
        "Which costs less each month for {sum}: {m1} months at {r1} %, or {m2} months at {r2} %? "
        "Save the result of that one, and answer with the monthly sum.",
    )
    level = 4

    def draw(self, rng: random.Random, content: Mapping[str, Any]) -> Params | None:
        months, rates = rng.sample(_MONTHS[1:], 2), rng.sample(content["percents"], 2)
        total = 100 * rng.randint(5, 60)
        loans = [{"sum": total, "months": months[i], "rate": rates[i]} for i in (0, 1)]
        best, other = sorted(loans, key=_monthly)
        if _monthly(other) - _monthly(best) < 0.1:
            return None
        said = {"sum": total, "m1": months[0], "r1": rates[0], "m2": months[1], "r2": rates[1]}
        truth = _fixed(_monthly(best), 2)
        text = f"{total} over {best['months']} months at {best['rate']} % = {truth} a month"
        own = {**said, "first": other, "last": best, "text": text, "truth": truth}
        return {**own, "wrong": {"first": best, "last": other}}

    def change(self, state: dict[str, Any], p: Params) -> None:
        state["saved"].append(p["text"])

    def done(self, end: Ending, p: Params) -> bool:
        return super().done(end, p) and answered(end.answer, p["truth"])

    async def solve(self, hand: Hand, p: Params) -> str | None:
        await _loan(hand, p["first"])
        await _loan(hand, p["last"])
        await hand.click("keep:loan")
        return await hand.read("result:loan:0")


class Converter(Capability):
    """Calculators."""

    name, group, label = "converter", "tools", "Calculator"
    templates = (Units(), Money(), Keep(), Replace(), Forget(), Monthly(), Cheaper())

    def content(self, rng: random.Random, category: Category) -> dict[str, Any]:
        units = [
            {"name": name, "units": [{"name": unit, "is": size} for unit, size in rows]}
            for name, rows in _UNITS
        ]
        rates = [
            {"code": code, "name": name, "is": round(rng.uniform(*span), 3)}
            for code, name, span in _MONEY
        ]
        known = {"units": units, "rates": rates}
        home = {"€": "EUR", "$": "USD", "£": "GBP"}.get(category.currency, "EUR")
        saved = [_units(rng, known)["text"], _money(rng, known)["text"], _units(rng, known)["text"]]
        percents = sorted(rng.sample([2, 3, 4, 5, 6, 7, 8, 9], 4))
        return {
            **known,
            "home": home,
            "items": [item["name"] for item in category.items(rng, 2)],
            "months": list(_MONTHS),
            "percents": percents,
            "about": "Units, currencies, instalments",
            "state": {"saved": list(dict.fromkeys(saved))},
        }
