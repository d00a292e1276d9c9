"""What a run learns from: rows of inputs, and which rows belong to which protected unit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masquerade import _check
from masquerade._optional import torch
from masquerade.errors import BadInput


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """Inputs of the trainable part, one row a stretch of a recording.

    Or films, with the frozen trunk that comes first: then it runs again at every step, which takes
    longer and needs no room for what it gives.

    Args:
        private: (R, ...) what only clipped and noised gradients may see.
        public: (R, ...) what everyone may see, or None.
        targets: (R,) the class of each row, or (R, J, 3) where its joints are.
        slots: (U, k) rows of each protected unit; -1 where it has fewer.
        trunk: what is frozen and comes first; None where the rows are its output.
        guide: public records, each a unit of its own, by which a subspace is found; or None.
    """

    private: torch.Tensor
    public: torch.Tensor | None
    targets: torch.Tensor
    slots: np.ndarray
    trunk: torch.nn.Module | None = None
    guide: Rows | None = None

    def __post_init__(self) -> None:
        _check.shape("U K", slots=self.slots)
        if len(self.private) != len(self.targets):
            raise ValueError(
                f"Expected a target for each of {len(self.private)} rows, got {len(self.targets)}."
            )
        if self.public is not None and self.public.shape != self.private.shape:
            raise ValueError(
                f"Expected public and private rows of one shape, got {tuple(self.public.shape)} "
                f"and {tuple(self.private.shape)}."
            )
        used = self.slots[self.slots >= 0]
        if len(used) != len(np.unique(used)):
            raise ValueError("Expected each row to belong to one unit, got a row in two.")

    @property
    def units(self) -> int:
        """How many are protected, each as a whole."""
        return len(self.slots)


def slots_of(owners: Sequence[Hashable], *, segments: int, most: int) -> np.ndarray:
    """(U, k): the rows of each owner's first ``most`` recordings; k is what the largest needs.

    Args:
        owners: of each recording; its own number where recordings are protected one by one.
        segments: rows of a recording, one after the other.
        most: recordings of one owner that are used; a rule that looks at that owner alone.

    Example:
        >>> slots_of(["a", "b", "a"], segments=2, most=2)
        array([[ 0,  1,  4,  5],
               [ 2,  3, -1, -1]])
    """
    _check.count(segments=segments, most=most)
    if not len(owners):
        raise BadInput("Expected at least one recording to learn from, got none.")
    held: dict[Hashable, list[int]] = {}
    for recording, owner in enumerate(owners):
        held.setdefault(owner, []).append(recording)
    most = min(most, max(map(len, held.values())))
    found = np.full((len(held), most * segments), -1)
    for unit, recordings in enumerate(held.values()):
        rows = [r * segments + s for r in recordings[:most] for s in range(segments)]
        found[unit, : len(rows)] = rows
    return found


class Picks(NamedTuple):
    """Which rows some units have, sent to where the targets are; all at once, as it waits."""

    here: torch.Tensor  # (B, k) rows, on the processor
    there: torch.Tensor  # (B, k) the same, where the targets are
    shares: torch.Tensor  # (B, k) of a unit's rows in its loss: they add up to 1, or all are 0
    present: torch.Tensor  # (B,) whether it is a unit, and not nobody
    is_empty: torch.Tensor  # (B,) whether it has no row at all

    def cut(self, start: int, size: int) -> Picks:
        """Some units of them."""
        return Picks(*(each[start : start + size] for each in self))


def picked(rows: Rows, units: np.ndarray) -> Picks:
    """The rows of some units; -1 is nobody."""
    slots = np.where((units >= 0)[:, None], rows.slots[np.maximum(units, 0)], -1)
    is_real = slots >= 0
    count = np.maximum(is_real.sum(axis=1, keepdims=True), 1)
    first = np.take_along_axis(slots, is_real.argmax(axis=1, keepdims=True), axis=1)
    own = np.where(is_real, slots, first)  # filled up with the unit's own, never another's
    index, device = np.maximum(own, 0), rows.targets.device
    shares = (is_real / count).astype(np.float32)
    is_empty = np.logical_not(is_real.any(axis=1))
    sent = [_sent(np.asarray(each), device) for each in (index, shares, units >= 0, is_empty)]
    return Picks(torch.from_numpy(index), *sent)


def taken(
    rows: Rows, picks: Picks, *, is_public: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (B, k, ...) and targets (B, k, ...) of picked units.

    Rows are picked where they lie, and what was picked goes to where the targets are. Nobody, and a
    unit without any row, is all zeros.
    """
    view = rows.public if is_public else rows.private
    if view is None:
        raise ValueError("Expected rows with a public view, got none.")
    device = rows.targets.device
    inputs = view[picks.there] if view.device == device else view[picks.here].to(device)
    empty = picks.is_empty[:, None]
    targets = rows.targets[picks.there]
    for each in (inputs, targets):
        each.masked_fill_(empty.reshape(-1, *[1] * (each.dim() - 1)), 0)
    return inputs, targets


def gathered(
    rows: Rows, units: np.ndarray, *, is_public: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Inputs (B, k, ...), targets (B, k) and shares (B, k) of some units; -1 is nobody.

    The shares of a unit add up to 1; rows that only fill up have share 0. Nobody, and a unit
    without any row, is all zeros: inputs, targets and shares.
    """
    picks = picked(rows, units)
    return *taken(rows, picks, is_public=is_public), picks.shares


def is_unknown(targets: np.ndarray) -> np.ndarray:
    """(R,): rows that add nothing: a class below 0, or joints (R, J, 3) of which none counts."""
    return np.asarray(targets < 0 if targets.ndim == 1 else ~(targets[..., 2] > 0).any(axis=1))


def _sent(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """The array on the device; nobody waits until it is there."""
    held = torch.from_numpy(array)
    return held.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else held
