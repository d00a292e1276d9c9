"""What methods with a public part share: which pixels are public, and how much they teach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.guarantee import Relation
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan
from masquerade.training.views import BORDER_PX


@dataclass(frozen=True, kw_only=True)
class Masked(Method):
    """A method whose public part sees recordings with their private pixels filled.

    Args:
        private: which side of the person mask is: background (people are avatars) or person.
        weight: lambda, of the public gradient.
        public_batch: units in a public batch.
    """

    HEADLINE: ClassVar[Relation] = Relation.REPLACE_ONE
    HAS_PUBLIC: ClassVar[bool] = True
    MARKS: ClassVar[tuple[str, ...]] = ("mask_sha256",)

    private: Literal["background", "person"] = "background"
    weight: float = 1.0
    public_batch: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(weight=self.weight)
        _check.count(public_batch=self.public_batch)

    def public_weight(self, number: int, steps: int) -> float:
        """lambda, the same at every step."""
        return self.weight

    @property
    def public_side(self) -> str:
        """The other side of the mask than the private one."""
        return "people" if self.private == "background" else "background"

    def _public(self, plan: TrainingPlan) -> tuple[str, ...]:
        side = "people" if self.private == "background" else "everything but people"
        return (
            *super()._public(plan),
            f"the masks, the labels, and {side} in every video (but for {BORDER_PX} pixels beside "
            "what is private, where it was decoded from a file)",
        )

    def _not_protected(self) -> tuple[str, ...]:
        is_place = self.private == "background"
        kept = (
            "people in the videos, their pose and gait" if is_place else "the place around people"
        )
        return (
            *super()._not_protected(),
            kept,
            "labels",
            "the outline of the mask",
            "what a codec carried from private pixels into public ones: neighbours are decoded "
            "pixels",
        )
