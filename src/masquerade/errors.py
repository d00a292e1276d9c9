"""The errors that the command line turns into exit codes.

A wrong argument is an ordinary ``ValueError`` (exit 2). What else can go wrong
has one class each::

    ValueError
      BadInput             a file or a value in it cannot be used        exit 4
        SignatureMissing   no key that the reader named has signed it    exit 7
    RuntimeError
      BudgetExceeded       a spend does not fit the account              exit 3
      EvidenceAboveClaim   an audit refutes the claimed epsilon          exit 5
      NotHidden            a heuristic would publish people as they were exit 6
    ImportError
      MissingExtra         an optional dependency is not installed       exit 2
    KeyboardInterrupt                                                    exit 130
      Stopped              the system asked us to end (SIGTERM, SIGHUP)  exit 143
"""

from __future__ import annotations

import errno


class BadInput(ValueError):
    """A file, or something inside it, cannot be used.

    Args:
        said: the message.
        is_public: whether it speaks of what is public alone, such as masks, so that a run over
            private recordings may say it.
    """

    def __init__(self, *said: object, is_public: bool = False) -> None:
        super().__init__(*said)
        self.is_public = is_public


class SignatureMissing(BadInput):
    """A signature was asked for, and there is none, or one of a key that nobody named."""


class BudgetExceeded(RuntimeError):
    """A spend does not fit what is left of an account."""


class EvidenceAboveClaim(RuntimeError):
    """An audit measured more leakage than the mechanism claims."""


class NotHidden(RuntimeError):
    """A heuristic found nobody, or somebody whom it neither covers nor replaces."""


class MissingExtra(ImportError):
    """An optional dependency is needed and not installed."""


class StopRequested(KeyboardInterrupt):
    """The system asked us to end; everything is cleaned up as after Ctrl-C."""


EXIT_CODES: dict[type[BaseException], int] = {
    BadInput: 4,
    SignatureMissing: 7,
    BudgetExceeded: 3,
    EvidenceAboveClaim: 5,
    NotHidden: 6,
    MissingExtra: 2,
    ValueError: 2,
    FileExistsError: 2,
    OSError: 4,
    MemoryError: 4,
    KeyboardInterrupt: 130,
    StopRequested: 143,
}


def format_error(error: BaseException, otherwise: str = "") -> str:
    """What an error says, or else its name, and its notes, in one paragraph.

    Example:
        >>> error = OSError("No space left on device")
        >>> error.add_note("Two were written.")
        >>> format_error(error)
        'No space left on device. Two were written.'
    """
    said = str(error) or otherwise or type(error).__name__
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        said = f"Expected a name that fits this disk, got {error.filename}; choose a shorter one."
    if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTDIR):
        said = f"Expected folders alone on the way to {error.filename}, got a file; choose another."
    notes = getattr(error, "__notes__", ())
    return " ".join([said if said.endswith(".") else f"{said}.", *notes]) if notes else said


def exit_code(error: BaseException) -> int:
    """Exit code of the command line for ``error``: its own class first, then its bases."""
    for cls in type(error).__mro__:
        if cls in EXIT_CODES:
            return EXIT_CODES[cls]
    return 1
