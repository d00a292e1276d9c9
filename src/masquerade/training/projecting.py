"""What methods that learn in a subspace share: which public records it is found by, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan


@dataclass(frozen=True, kw_only=True)
class Projecting(Method):
    """A method whose private part moves the weights along k directions alone.

    Noise has as many numbers as there are directions: of its energy k / p is left. So is of the
    gradient only what lies along them.

    Args:
        directions: k.
        public_records: that the directions are found by; nobody in them is protected.
        refresh: steps after which they are found anew.
        order: project_first, then clip and add noise in the subspace, or clip_first as published.
    """

    HAS_SUBSPACE: ClassVar[bool] = True
    MARKS: ClassVar[tuple[str, ...]] = ("guide_sha256",)

    directions: int = 100
    public_records: int = 100
    refresh: int = 50
    order: Literal["project_first", "clip_first"] = "project_first"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.count(directions=self.directions, public_records=self.public_records)
        _check.count(refresh=self.refresh)
        if self.directions > self.public_records:
            raise ValueError(
                "Expected at most as many directions as public records, got "
                f"directions={self.directions} of public_records={self.public_records}."
            )

    def _public(self, plan: TrainingPlan) -> tuple[str, ...]:
        return (
            *super()._public(plan),
            f"{self.public_records} recordings beside the private ones, with their labels: their "
            f"gradients, un-noised, decide the {self.directions} directions of the subspace",
        )
