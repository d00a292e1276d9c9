"""The subspace of a run: found anew every so many steps, and the same again after a stop.

Public records beside private ones, by whose gradients a method finds its subspace.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade._optional import torch
from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.training import gradients
from masquerade.training.gradients import Tensors
from masquerade.training.method import Method
from masquerade.training.methods import DpSgd, Projecting
from masquerade.training.rows import Rows, gather_rows
from masquerade.training.step import ALONG
from masquerade.training.subspace import Subspace
from masquerade.training.units import PublicFingerprints, outputs_of

_REFRESH_PREFIX = "then/"  # before the names of weights as they were at the last refresh


class PublicGuide:
    """Public records that say along which directions a run's private part may go.

    Args:
        loss: of one unit.
        weights: that are trained.
        records: public ones.
        method: how many directions, and how often they are found anew.
        see: makes of inputs (B, k, ...) what the trained part is given.
        physical: records whose gradients are computed at once.
    """

    def __init__(
        self,
        loss: gradients.Loss,
        weights: Mapping[str, torch.Tensor],
        records: Rows,
        method: Projecting,
        *,
        see: Callable[[torch.Tensor], torch.Tensor],
        physical: int,
    ) -> None:
        if records.num_units < method.public_records:
            raise ValueError(
                f"Expected {method.public_records} public records, got {records.num_units}; take "
                "fewer "
                "with --public-records and --directions."
            )
        self._loss, self._records, self._see = loss, records, see
        self._physical, self._refresh = physical, method.refresh
        self._then = {name: value.detach().clone() for name, value in weights.items()}
        self._is_first = method.order == "project_first"
        self.subspace = Subspace(
            weights,
            records=method.public_records,
            directions=method.directions,
            each=self._compute_gradients,
        )

    @property
    def clip_subspace(self) -> Subspace | None:
        """The subspace in which contributions are clipped; None if they are clipped before it."""
        return self.subspace if self._is_first else None

    @property
    def checkpoint_tensors(self) -> Tensors:
        """What a checkpoint must hold to find the same directions again."""
        return {_REFRESH_PREFIX + name: value for name, value in self._then.items()}

    def restore_directions(self) -> None:
        """Find the directions of the last refresh again, after a stop."""
        self.subspace.renew_directions(self._then, chunk=self._physical)

    def refresh_directions(self, number: int, weights: Mapping[str, torch.Tensor]) -> None:
        """Before a step: find new directions if it is time."""
        if number % self._refresh:
            return
        with torch.no_grad():
            for name, value in weights.items():
                self._then[name].copy_(value)
        self.subspace.renew_directions(self._then, chunk=self._physical)

    def project_mean(self, found: Tensors) -> Tensors:
        """A noisy mean, of numbers along directions or of all weights, as a gradient."""
        return (
            self.subspace.expand_numbers(found[ALONG])
            if self._is_first
            else self.subspace.project_gradient(found)
        )

    def _compute_gradients(
        self, weights: Mapping[str, torch.Tensor], start: int, stop: int
    ) -> Tensors:
        inputs, *wanted = gather_rows(self._records, np.arange(start, stop))
        seen = self._see(inputs)
        return gradients.per_record(self._loss, weights, seen, tuple(wanted), chunk=stop - start)


class RecordSubset:
    """A few recordings of a collection, in memory.

    Args:
        held: the collection.
        numbers: of those that are meant.
    """

    mask_source = ""

    def __init__(self, held: Any, numbers: Sequence[int]) -> None:
        self.labels = [held.labels[number] for number in numbers]
        self.recordings = [held[number] for number in numbers]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Any:
        return self.recordings[index]


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicRecords:
    """Public records that were drawn.

    Args:
        records: in memory.
        seen_by: a method by which whole recordings are seen.
        apart: refuses them among private ones.
    """

    records: Any
    seen_by: Method
    apart: PublicFingerprints


def set_aside(
    public: Any, method: Method, names: tuple[str, ...], kind: Medium
) -> PublicRecords | None:
    """As many public records as a method wants, drawn by its public seed; None if it wants none.

    Raises:
        BadInput: if there are too few, or if they are not of the private ones' task.
    """
    if not isinstance(method, Projecting):
        return None
    if len(public) < method.public_records:
        raise BadInput(
            f"Expected {method.public_records} public recordings for {method.name}, got "
            f"{len(public)}; give more, or take fewer with --public-records and --directions."
        )
    if outputs_of(public, kind) != names:
        raise BadInput("Expected public recordings with the classes or joints of the private ones.")
    rng = np.random.default_rng((method.public_seed, 2))
    chosen = np.sort(rng.permutation(len(public))[: method.public_records])
    records = RecordSubset(public, chosen.tolist())
    return PublicRecords(
        records=records,
        seen_by=DpSgd(epsilon=math.inf, unit="video", segments=method.segments, part=method.part),
        apart=PublicFingerprints(records.recordings, is_by_subject=method.unit == "subject"),
    )
