"""Decimal rounding that only ever moves towards privacy.

Text that is printed: made safe where it is from outside, and numbers of things.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal


def printable(text: str) -> str:
    r"""The text with everything that a terminal might obey, or cannot show, written as an escape.

    These are control characters, characters that turn the direction of writing or have no width,
    and bytes of a file's name that are no text.

    Example:
        >>> print(printable("a\x1b[2Jb \udcff"))
        a\x1b[2Jb \xff
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def counted(number: int, what: str) -> str:
    """A number of things.

    Example:
        >>> counted(1, "file"), counted(3, "new output")
        ('1 file', '3 new outputs')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def about_seconds(seconds: float) -> str:
    """A length of time of which two digits are known at most.

    Example:
        >>> about_seconds(0.2), about_seconds(95), about_seconds(5400), about_seconds(1e6)
        ('about a second', 'about 1.6 minutes', 'about 1.5 hours', 'about 280 hours')
    """
    if seconds < 1.5:
        return "about a second"
    if seconds < 90:
        return f"about {_two_digits(seconds)} seconds"
    if seconds < 5400:
        return f"about {_two_digits(seconds / 60)} minutes"
    return f"about {_two_digits(seconds / 3600)} hours"


def about_bytes(count: float) -> str:
    """A size of which two digits are known at most.

    Example:
        >>> about_bytes(800), about_bytes(1_234_567), about_bytes(56e9)
        ('about 1 kB', 'about 1.2 MB', 'about 56 GB')
    """
    thousands = 0
    while count >= 1e6 and thousands < 3:
        count, thousands = count / 1e3, thousands + 1
    return f"about {_two_digits(max(count / 1e3, 1.0))} {('kB', 'MB', 'GB', 'TB')[thousands]}"


def _two_digits(number: float) -> str:
    rounded = float(f"{number:.2g}")
    return f"{rounded:.0f}" if rounded >= 10 or rounded == int(rounded) else f"{rounded:.1f}"


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


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
