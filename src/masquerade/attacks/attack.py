"""`Attack`: what every attack on published recordings is.

`Case`: what an attacker holds, and what was published.

`ModelCase`: a published model, and what its attacker can do about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from masquerade import _check
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism
from masquerade.recordings import Photo, Signal, Video
from masquerade.scores import AttackResult

Recording: TypeAlias = Video | Photo | Signal
ReleaseFunction: TypeAlias = Callable[[Recording], Recording]


@dataclass(frozen=True, kw_only=True, eq=False)
class Case:
    """Recordings on both sides. What is read of them is read one at a time.

    Args:
        known: the attacker's own recordings, raw, with their labels.
        targets: what was published, with the truth as labels, which the attacker does not see.
        raw: the same recordings before they were released, in the same order.
        release: what was done to the targets, to be done by the attacker to their own recordings,
            since mechanisms are public; None if that is not known.
        mechanism: the same as it stands in a receipt; None if that is not known.
        seed: of everything random in the attack.
    """

    known: Sequence[Recording]
    targets: Sequence[Recording]
    raw: Sequence[Recording]
    release: ReleaseFunction | None = None
    mechanism: Mechanism | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.targets) == 0 or len(self.targets) != len(self.raw):
            raise BadInput(
                f"Expected as many raw recordings as published ones, and at least one, got "
                f"{len(self.raw)} and {len(self.targets)}."
            )

    @property
    def random_recordings(self) -> Sequence[Recording]:
        """The floor: recordings of the targets' shapes and labels that show nothing."""
        return RandomRecordings(self.raw)

    @property
    def own_releases(self) -> Sequence[Recording]:
        """The attacker's own recordings, released in the same way.

        Raises:
            BadInput: if it is not known how the targets were released.
        """
        if self.release is None:
            raise BadInput(
                "Expected a receipt beside what was published: an attacker who adapts releases "
                "their own recordings in the same way. Without one, use --attacker raw."
            )
        return MappedRecordings(self.known, self.release)


class MappedRecordings(Sequence[Recording]):
    """Recordings, each changed when it is read."""

    def __init__(self, of: Sequence[Recording], change: ReleaseFunction) -> None:
        self._of, self._change = of, change

    def __len__(self) -> int:
        return len(self._of)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        return self._change(self._of[index])

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))


class RandomRecordings(Sequence[Recording]):
    """The same labels on recordings that show nothing, each another nothing.

    Args:
        of: recordings, whose shapes and labels stay.
        stream: other numbers give other nothings.
    """

    def __init__(self, of: Sequence[Recording], *, stream: int = 0) -> None:
        self._of, self._stream = of, stream

    def __len__(self) -> int:
        return len(self._of)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        return noise_like(self._of[index], seed=(self._stream, index % len(self)))

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))


def noise_like(recording: Recording, *, seed: tuple[int, ...] = ()) -> Recording:
    """The same labels on pixels or samples that show nothing: of the seed and the shape alone."""
    match recording:
        case Video():
            return replace(recording, frames=_sample_bytes(recording.frames.shape, seed))
        case Photo():
            return replace(recording, image=_sample_bytes(recording.image.shape, seed))
        case Signal():
            shape = recording.values.shape
            values = np.random.default_rng((*seed, *shape)).uniform(-1, 1, shape)
            return replace(recording, values=values.astype(np.float32))


def _sample_bytes(shape: tuple[int, ...], seed: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng((*seed, *shape)).integers(0, 256, shape, np.uint8)


ProgressCallback: TypeAlias = Callable[[str, int, int], None]
Whose: TypeAlias = Literal["same people", "other people", "same places", "nobody"]


class Attack(ABC):
    """A frozen dataclass with public fields. Its package lists it.

    It reads what was published and what the attacker holds, and changes neither, nor any receipt
    or ledger. What it returns is private.
    """

    ON: ClassVar[tuple[Medium, ...]] = (Medium.VIDEOS,)
    """Kinds of recordings that it can be run on."""
    KNOWN: ClassVar[Whose] = "other people"
    """Whose recordings the attacker holds."""

    @abstractmethod
    def run(self, case: Case, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """Attack; one answer for each attacker.

        Args:
            case: both sides.
            told: called with what is done, how far, and of how much.

        Raises:
            BadInput: if nothing can be measured, for want of labels or because nobody is seen; it
                says which recordings, and what to do.
        """


def ignore_progress(what: str, done: int, total: int) -> None:
    """Tell nobody."""


TrainFunction: TypeAlias = Callable[[np.ndarray, int], np.ndarray]
"""Trains on some of the units, (U,) bool, by a seed; gives (R, K) outputs for the rows of all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCase:
    """A way of training, rows that it may have learned from, and perhaps one trained model.

    A unit is what the guarantee protects, a recording or a person; it has one row or more. Half of
    the units are members of every model that is trained here, so that telling a unit that was
    learned from and one that was not is telling two neighbours under replace_one.

    Args:
        targets: (R,) the class of each row.
        whose: (R,) the number of each row's unit, from 0 to U - 1.
        learn: trains a model as the published one was.
        overfit: trains one that must leak: without noise and for long.
        outputs: (R, K) of the published model, before the softmax; None to attack the way of
            training, by each shadow model in turn.
        members: (U,) bool, which units the published model learned from; with the outputs.
        allowed: how often an attacker can be right at a rate of false alarms, by the guarantee.
        of: what units are, such as "recordings" or "people".
        seed: of everything random in the attack.
    """

    targets: np.ndarray
    whose: np.ndarray
    learn: TrainFunction
    overfit: TrainFunction
    outputs: np.ndarray | None = None
    members: np.ndarray | None = None
    allowed: Callable[[float], float] | None = None
    of: str = "recordings"
    seed: int = 0

    def __post_init__(self) -> None:
        _check.shape("R", targets=self.targets)
        if self.whose.shape != self.targets.shape or len(self.targets) == 0:
            raise BadInput(
                f"Expected a unit for each row, and a row, got {self.whose.shape} for "
                f"{self.targets.shape}."
            )
        if set(np.unique(self.whose)) != set(range(self.num_units)) or self.num_units < 4:
            raise BadInput(
                f"Expected at least 4 units, numbered from 0 on, got {self.num_units}; name more "
                "recordings."
            )
        if (self.outputs is None) != (self.members is None):
            raise ValueError("Expected outputs and members of the published model together.")
        if self.members is not None:
            _check.shape("U", members=self.members)
            inside = int(self.members.sum())
            if len(self.members) != self.num_units or not 0 < inside < self.num_units:
                raise BadInput(
                    f"Expected units that the model learned from and others, got {inside} of "
                    f"{len(self.members)} for {self.num_units} units."
                )

    @property
    def num_units(self) -> int:
        """How many there are."""
        return int(self.whose.max()) + 1


class ModelAttack(ABC):
    """A frozen dataclass with public fields, run on a model. Its package lists it."""

    @abstractmethod
    def run(self, case: ModelCase, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """Attack; one answer for each attacker.

        Args:
            case: the model, and what can be trained like it.
            told: called with what is done, how far, and of how much.
        """
