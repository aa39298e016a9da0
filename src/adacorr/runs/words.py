"""Numbers as a reader may take them: never more exact, or more certain, than the data allow."""

from __future__ import annotations

MOST_CERTAIN = 0.99
FEW_ROWS = 30
"""With fewer rows a chance cannot be told from a guess, and none is printed."""


def share(value: float) -> str:
    """A share in per cent; a rounded 0 or 100 is only written where it is exact.

    >>> share(0.123), share(0.0), share(0.0001), share(0.9999)
    ('12.3%', '0%', 'under 0.1%', 'over 99.9%')
    """
    if value in (0, 1):
        return f"{value:.0%}"
    if value < 0.001:
        return "under 0.1%"
    return "over 99.9%" if value > 0.999 else f"{value:.1%}"


def count(value: float) -> str:
    """An expected number of rows.

    >>> count(0.05), count(0.0), count(1234.4)
    ('under 1', '0', '1,234')
    """
    return "under 1" if 0 < value < 1 else f"{value:,.0f}"


def between(low: float, high: float) -> str:
    """A range of shares.

    >>> between(0.0, 0.231), between(0.05, 0.08)
    ('0% to 23.1%', '5.0% to 8.0%')
    """
    return f"{share(low)} to {share(high)}"


def chance(value: float | None, rows: int) -> str | None:
    """The chance of a single row, no surer than `rows` rows can support; None: not stated.

    A model that is wrong once in n/3 rows may show no error in n (the rule of three), so a chance
    above 1 - 3/n, or above 99%, is a claim that nothing backs.

    >>> chance(0.9999, 5000), chance(0.9999, 100), chance(0.62, 100), chance(0.9, 10)
    ('over 99%', 'over 97%', '62%', None)
    """
    if value is None or rows < FEW_ROWS:
        return None
    most = int(100 * min(MOST_CERTAIN, 1 - 3 / rows))
    if 100 * value > most:
        return f"over {most}%"
    return f"under {100 - most}%" if 100 * value < 100 - most else f"{value:.0%}"
