"""Numbers and texts for people: rounded towards privacy, made safe to print.

Decimal rounding that only ever moves towards privacy.

Text that is printed: made safe where it is from outside, and numbers of things.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal


def escape_control(text: str) -> str:
    r"""The text with everything that a terminal might obey, or cannot show, written as an escape.

    These are control characters, characters that turn the direction of writing or have no width,
    and bytes of a file's name that are no text.

    Example:
        >>> print(escape_control("a\x1b[2Jb \udcff"))
        a\x1b[2Jb \xff
    """
    return text if text.isprintable() else "".join(map(_escape_letter, text))


def format_count(number: int, what: str) -> str:
    """A number of things.

    Example:
        >>> format_count(1, "file"), format_count(3, "new output")
        ('1 file', '3 new outputs')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def format_seconds(seconds: float) -> str:
    """A length of time of which two digits are known at most.

    Example:
        >>> format_seconds(0.2), format_seconds(95), format_seconds(5400), format_seconds(1e6)
        ('about a second', 'about 1.6 minutes', 'about 1.5 hours', 'about 280 hours')
    """
    if seconds < 1.5:
        return "about a second"
    if seconds < 90:
        return f"about {_format_two_digits(seconds)} seconds"
    if seconds < 5400:
        return f"about {_format_two_digits(seconds / 60)} minutes"
    return f"about {_format_two_digits(seconds / 3600)} hours"


def format_bytes(count: float) -> str:
    """A size of which two digits are known at most.

    Example:
        >>> format_bytes(800), format_bytes(1_234_567), format_bytes(56e9)
        ('about 1 kB', 'about 1.2 MB', 'about 56 GB')
    """
    thousands = 0
    while count >= 1e6 and thousands < 3:
        count, thousands = count / 1e3, thousands + 1
    return (
        f"about {_format_two_digits(max(count / 1e3, 1.0))} {('kB', 'MB', 'GB', 'TB')[thousands]}"
    )


def _format_two_digits(number: float) -> str:
    rounded = float(f"{number:.2g}")
    return f"{rounded:.0f}" if rounded >= 10 or rounded == int(rounded) else f"{rounded:.1f}"


def _escape_letter(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()


_WIDE_CONTEXT = Context(prec=400)  # any double fits


def format_rounded_up(value: float, digits: int = 6) -> str:
    """A number for people, at most six significant digits, never less than it is.

    Example:
        >>> [format_rounded_up(value) for value in (8.0, 226.31812, 1.2345649e-05, 468600000.0)]
        ['8', '226.319', '1.23457e-05', '4.686e+08']
        >>> format_rounded_up(226.31812, 4)
        '226.4'
    """
    return f"{round_up_significant(value, digits):.{digits}g}"


def format_rounded_down(value: float, digits: int = 6) -> str:
    """A lower bound for people, at most that many significant digits, never more than it is.

    Example:
        >>> format_rounded_down(1.43919, 4), format_rounded_down(0.0), format_rounded_down(8.0)
        ('1.439', '0', '8')
    """
    return f"{-round_up_significant(-value, digits) or 0.0:.{digits}g}"


def round_up_decimals(value: float, decimals: int = 4) -> float:
    """Round up to ``decimals`` decimals; a number that already has that few is left alone.

    Example:
        >>> round_up_decimals(0.27211), round_up_decimals(0.2722), round_up_decimals(8.0)
        (0.2722, 0.2722, 8.0)
    """
    if not math.isfinite(value):
        return value
    # repr is the shortest decimal that reads back as value, so a printed number stays itself.
    exact = Decimal(repr(float(value)))
    return float(exact.quantize(Decimal(1).scaleb(-decimals), ROUND_CEILING, _WIDE_CONTEXT))


def round_up_significant(value: float, digits: int = 7) -> float:
    """Round up to ``digits`` significant digits.

    Example:
        >>> round_up_significant(0.54307506), round_up_significant(66471.9912)
        (0.5430751, 66472.0)
    """
    if value == 0 or not math.isfinite(value):
        return value
    exact = Decimal(repr(float(value)))
    last = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return float(exact.quantize(last, ROUND_CEILING, _WIDE_CONTEXT))
