"""Signals in three parts, of some channels alone, and dealt to teachers in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from masquerade.collection import About, Collection, Count, Labels, Medium
from masquerade.errors import BadInput
from masquerade.networks.network import normalisation
from masquerade.recordings import Signal
from masquerade.training.worn import labelled_windows, read, signal_of


@dataclass(frozen=True, kw_only=True)
class ChosenSignals(Collection[Signal]):
    """Signals of a data set in another order, with some of their channels.

    Args:
        whole: the data set.
        places: of its recordings.
        channels: how the names of the channels begin that are kept; empty for all.
    """

    ABOUT: ClassVar[About] = About(
        title="Chosen signals", kind=Medium.SIGNALS, licence="its source's", home="", citation=""
    )

    whole: Collection[Any]
    places: tuple[int, ...]
    channels: str = ""

    @property
    def activities(self) -> tuple[str, ...]:
        """Those of the data set."""
        return self.whole.activities

    def check(self) -> tuple[Count, ...]:
        """That of the data set."""
        return self.whole.check()

    def _find(self) -> Sequence[Labels]:
        return [self.whole.labels[place] for place in self.places]

    def _load(self, index: int) -> Signal:
        return narrowed(signal_of(self.whole[self.places[index]]), self.channels)


def narrowed(signal: Signal, begins: str) -> Signal:
    """Only the channels whose names begin so.

    Raises:
        BadInput: if there are none.
    """
    if not begins:
        return signal
    names = signal.channels or ()
    kept = [place for place, name in enumerate(names) if name.startswith(begins)]
    if not kept:
        raise BadInput(
            f"Expected channels whose names begin with {begins}, got {', '.join(names) or 'none'}."
        )
    return replace(
        signal, values=signal.values[:, kept], channels=tuple(names[place] for place in kept)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SignalParts:
    """What an experiment has: signals in three parts.

    Args:
        private: collection of the private part.
        signals: its recordings.
        public: recordings of the public part.
        tested: recordings of the test part.
        classes: there are.
    """

    private: Collection[Any]
    signals: Sequence[Signal]
    public: Sequence[Signal]
    tested: Sequence[Signal]
    classes: int

    @classmethod
    def of(cls, parts: dict[str, Collection[Any]], *, channels: str = "") -> SignalParts:
        """Read all three parts."""
        chosen = {
            name: ChosenSignals(whole=part, places=tuple(range(len(part))), channels=channels)
            for name, part in parts.items()
        }
        return cls(
            private=chosen["train"],
            signals=read(chosen["train"]),
            public=read(chosen["public"]),
            tested=read(chosen["test"]),
            classes=len(chosen["train"].activities),
        )

    @property
    def people(self) -> int:
        """Who are private."""
        return len({signal.subject for signal in self.signals})

    @property
    def scale(self) -> tuple[np.ndarray, np.ndarray]:
        """The public normalisation."""
        return normalisation([signal.values for signal in self.public])

    def dealt(self, seed: int) -> SignalParts:
        """The same with private people in another order, so that other teachers see them.

        A person's recordings stay together, in their order.
        """
        people = list(dict.fromkeys(signal.subject for signal in self.signals))
        turns = np.random.default_rng((seed, 3)).permutation(len(people)).tolist()
        turn = dict(zip(people, turns, strict=True))
        places = sorted(
            range(len(self.signals)), key=lambda place: turn[self.signals[place].subject]
        )
        private = ChosenSignals(whole=self.private, places=tuple(places))
        return replace(self, private=private, signals=[self.signals[place] for place in places])

    def asked(
        self, window: int, count: int | None, *, seed: int, overlap: float = 0.5
    ) -> tuple[np.ndarray, np.ndarray]:
        """Public windows that one activity fills, in a public order, and that activity.

        ``count`` of them, or all where it is None.
        """
        found, truth = labelled_windows(self.public, window, classes=self.classes, overlap=overlap)
        some = np.random.default_rng((seed, 2)).permutation(len(found))[:count]
        return found[some], truth[some]

    def few(
        self, window: int, each: int, *, seed: int, overlap: float = 0.5
    ) -> tuple[np.ndarray, np.ndarray]:
        """Up to ``each`` public windows of every class, as somebody might label by hand."""
        found, truth = self.asked(window, None, seed=seed, overlap=overlap)
        places = [np.flatnonzero(truth == number)[:each] for number in range(self.classes)]
        some = np.concatenate(places)
        return found[some], truth[some]
