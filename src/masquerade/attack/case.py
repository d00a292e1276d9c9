"""`Case`: what an attacker holds, and what was published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from masquerade.errors import BadInput
from masquerade.mechanism import Mechanism
from masquerade.recordings import Photo, Signal, Video

Recording: TypeAlias = Video | Photo | Signal
Released: TypeAlias = Callable[[Recording], Recording]


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
    release: Released | None = None
    mechanism: Mechanism | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.targets) == 0 or len(self.targets) != len(self.raw):
            raise BadInput(
                f"Expected as many raw recordings as published ones, and at least one, got "
                f"{len(self.raw)} and {len(self.targets)}."
            )

    @property
    def random(self) -> Sequence[Recording]:
        """The floor: recordings of the targets' shapes and labels that show nothing."""
        return Each(self.raw, noise_like)

    @property
    def known_released(self) -> Sequence[Recording]:
        """The attacker's own recordings, released in the same way.

        Raises:
            BadInput: if it is not known how the targets were released.
        """
        if self.release is None:
            raise BadInput(
                "Expected a receipt beside what was published: an attacker who adapts releases "
                "their own recordings in the same way. Without one, use --attacker raw."
            )
        return Each(self.known, self.release)


class Each(Sequence[Recording]):
    """Recordings, each changed when it is read."""

    def __init__(self, of: Sequence[Recording], change: Released) -> None:
        self._of, self._change = of, change

    def __len__(self) -> int:
        return len(self._of)

    def __getitem__(self, index: int) -> Recording:  # type: ignore[override]  # no slices
        return self._change(self._of[index])

    def __iter__(self) -> Iterator[Recording]:
        return (self[index] for index in range(len(self)))


def noise_like(recording: Recording) -> Recording:
    """The same labels on pixels or samples that show nothing.

    The seed is of the shape alone, so nothing of the recording stays.
    """
    match recording:
        case Video():
            return replace(recording, frames=_bytes(recording.frames.shape))
        case Photo():
            return replace(recording, image=_bytes(recording.image.shape))
        case Signal():
            shape = recording.values.shape
            values = np.random.default_rng(shape).uniform(-1, 1, shape)
            return replace(recording, values=values.astype(np.float32))


def _bytes(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(shape).integers(0, 256, shape, np.uint8)
