"""`Attack`: what every attack on published recordings is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Literal, TypeAlias

from masquerade.attack.case import Case
from masquerade.collection import Medium
from masquerade.scores import Attacked

Told: TypeAlias = Callable[[str, int, int], None]
Whose: TypeAlias = Literal["same people", "other people", "same places", "nobody"]


class Attack(ABC):
    """A frozen dataclass with public fields. Its file assigns ``EXAMPLE``.

    It reads what was published and what the attacker holds, and changes neither, nor any receipt
    or ledger. What it returns is private.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS,)
    """Kinds of recordings that it can be run on."""
    KNOWN: ClassVar[Whose] = "other people"
    """Whose recordings the attacker holds."""

    @abstractmethod
    def run(self, case: Case, *, told: Told) -> tuple[Attacked, ...]:
        """Attack; one answer for each attacker.

        Args:
            case: both sides.
            told: called with what is done, how far, and of how much.

        Raises:
            BadInput: if nothing can be measured, for want of labels or because nobody is seen; it
                says which recordings, and what to do.
        """


def silent(what: str, done: int, total: int) -> None:
    """Tell nobody."""
