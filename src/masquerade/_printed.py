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


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # how Python holds a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()
