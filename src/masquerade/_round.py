"""Decimal rounding that only ever moves towards privacy."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

_ROOMY = Context(prec=400)  # any double fits


def shown(value: float, digits: int = 6) -> str:
    """A number for people, at most six significant digits, never less than it is.

    Example:
        >>> shown(8.0), shown(226.31812), shown(1.2345649e-05), shown(468600000.0)
        ('8', '226.319', '1.23457e-05', '4.686e+08')
        >>> shown(226.31812, 4)
        '226.4'
    """
    return f"{up_significant(value, digits):.{digits}g}"


def shown_below(value: float, digits: int = 6) -> str:
    """A lower bound for people, at most that many significant digits, never more than it is.

    Example:
        >>> shown_below(1.43919, 4), shown_below(0.0), shown_below(8.0)
        ('1.439', '0', '8')
    """
    return f"{-up_significant(-value, digits) or 0.0:.{digits}g}"


def up_decimals(value: float, decimals: int = 4) -> float:
    """Round up to ``decimals`` decimals; a number that already has that few is left alone.

    Example:
        >>> up_decimals(0.27211), up_decimals(0.2722), up_decimals(8.0)
        (0.2722, 0.2722, 8.0)
    """
    if not math.isfinite(value):
        return value
    # repr is the shortest decimal that reads back as value, so a printed number stays itself.
    exact = Decimal(repr(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(-decimals), ROUND_CEILING, _ROOMY))


def up_significant(value: float, digits: int = 7) -> float:
    """Round up to ``digits`` significant digits.

    Example:
        >>> up_significant(0.54307506), up_significant(66471.9912)
        (0.5430751, 66472.0)
    """
    if value == 0 or not math.isfinite(value):
        return value
    exact = Decimal(repr(float(value)))
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return float(exact.quantize(last, ROUND_CEILING, _ROOMY))
