"""Public records beside private ones, by whose gradients a method finds its subspace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from masquerade.collection import Medium
from masquerade.errors import BadInput
from masquerade.train.apart import Apart
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.method import Method
from masquerade.train.projecting import Projecting
from masquerade.train.units import outputs_of


class SomeRecords:
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
class SetAside:
    """Public records that were drawn.

    Args:
        records: in memory.
        seen_by: a method by which whole recordings are seen.
        apart: refuses them among private ones.
    """

    records: Any
    seen_by: Method
    apart: Apart


def set_aside(public: Any, method: Method, names: tuple[str, ...], kind: Medium) -> SetAside | None:
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
    records = SomeRecords(public, chosen.tolist())
    return SetAside(
        records=records,
        seen_by=DpSgd(epsilon=math.inf, unit="video", segments=method.segments, part=method.part),
        apart=Apart(records.recordings, is_by_subject=method.unit == "subject"),
    )
