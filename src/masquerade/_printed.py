"""Text that is printed: made safe where it is from outside, and numbers of things."""

from __future__ import annotations


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
