"""What collections of worn sensors share: people who can be chosen by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Self

from masquerade import _check
from masquerade.collection import Collection
from masquerade.recordings import Signal


class SignalFiles(Collection[Signal]):
    """Signals of people whom a field ``subjects`` chooses; empty is everybody."""

    subjects: tuple[str, ...]

    @property
    @abstractmethod
    def people(self) -> tuple[str, ...]:
        """Whom the publisher has, by name."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for subject in self.subjects:
            if subject not in self.people:
                raise ValueError(_check.unknown("subject", subject, self.people))

    @property
    def chosen_subjects(self) -> tuple[str, ...]:
        """Whom somebody chose by name; empty for everybody."""
        return self.subjects

    def of_subjects(self, names: Iterable[str]) -> Self:
        """Only the recordings of these people."""
        return self._with(subjects=tuple(names))
