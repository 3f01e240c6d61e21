"""Days as sites show them; a site's today is part of its content, never the clock's."""

from __future__ import annotations

from datetime import date, timedelta

from mintact_env_web.synth.site import Hand


def said(day: str) -> str:
    """A day as one says it: `14 March 2025`."""
    d = date.fromisoformat(day)
    return f"{d.day} {d:%B} {d.year}"


def after(day: str, days: int) -> str:
    """The day so many days later."""
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


def working_days(day: str, count: int) -> list[str]:
    """The next Mondays to Fridays after a day."""
    coming = (after(day, n) for n in range(1, 2 * count + 8))
    return [d for d in coming if date.fromisoformat(d).weekday() < 5][:count]


async def pick(hand: Hand, key: str, shown: str, day: str) -> None:
    """Turn a month calendar from the month of the day `shown` to that of `day` and click it."""
    months = [12 * int(d[:4]) + int(d[5:7]) for d in (shown, day)]
    away = months[1] - months[0]
    for _ in range(abs(away)):
        await hand.click(f"{key}:{'next' if away > 0 else 'previous'}")
    await hand.click(f"{key}:{day}")
