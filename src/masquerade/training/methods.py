"""The methods of private training and of teacher ensembles, each a choice of parts.

TEMPDIFF: teachers of several window lengths vote, with noise, on what people do.

What methods with public pictures share: which pictures they are, and how much they teach.

What methods with a public part share: which pixels are public, and how much they teach.

What methods that learn in a subspace share: which public records it is found by, and how.

DP-SGD: every unit's gradient is clipped, and the sum of a secret batch gets noise.

Feature DP: noise for the picture itself; its coarse public picture teaches without any.

Feature-projective DP: public pictures teach, and the noisy part stays in a public subspace.

MaskDP: noise only for what is private in a video; the rest teaches without any.

MultiClip: gradients of several stretches of a video are averaged before they are clipped.

PATE: teachers of one window length vote, with noise, on what people do.

Projected DP-SGD: the noisy sum moves weights only as public records would.

Public pictures alone: the lambda term of feature_dp, no private pixel read; to compare with.

The public part alone: the lambda term of MaskDP, no private pixel read; to compare with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from masquerade import _check
from masquerade.guarantee import Relation
from masquerade.training.ensemble import Ensemble
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan, as_claimed
from masquerade.training.views import BORDER_PX, Psi


@dataclass(frozen=True, kw_only=True)
class Featured(Method):
    """A method whose public part sees psi of every recording, and its labels or joints.

    Neighbours share psi and labels, and differ in all else of one unit. The public gradient is then
    the same for both; the private one is a function of that unit alone, clipped to C.

    Args:
        psi: how public pictures are made: pool, means of blocks, or blur, which hides less.
        block: side of a block in pixels, for pool.
        bits: of each mean, for pool.
        weight: lambda, of the public gradient.
        fade: whether lambda stays, or falls to 0 along a cosine, so that the private part has the
            last word; no recording decides it.
        public_batch: units in a public batch.
        form: independent batches, or the shared batch of the paper's figure.
    """

    HEADLINE: ClassVar[Relation] = Relation.REPLACE_ONE
    HAS_PUBLIC: ClassVar[bool] = True
    MARKS: ClassVar[tuple[str, ...]] = ("psi_sha256",)

    psi: Literal["pool", "blur"] = "pool"
    block: int = 16
    bits: int = 4
    weight: float = 1.0
    fade: Literal["none", "cosine"] = "none"
    public_batch: int = 32
    form: Literal["independent", "as_published"] = "independent"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.positive(weight=self.weight)
        _check.count(public_batch=self.public_batch)
        self.make_psi()  # says so if it hides nothing

    def make_psi(self) -> Psi:
        """The rule that makes public pictures."""
        return Psi(kind=self.psi, block=self.block, bits=self.bits)

    @property
    def is_batch_shared(self) -> bool:
        """Only as published."""
        return self.form == "as_published"

    def public_weight(self, number: int, steps: int) -> float:
        """lambda at a step."""
        if self.fade == "none" or not self.HAS_PRIVATE:
            return self.weight
        return self.weight * 0.5 * (1 + math.cos(math.pi * number / steps))

    @property
    def public_side(self) -> str:
        """Psi."""
        return "features"

    def plan_run(self, units: int) -> TrainingPlan:
        """As every method; as published, with the noise behind which the paper prints epsilon."""
        secret = super().plan_run(units)
        if not self.is_batch_shared or secret.noise_multiplier == 0:
            return secret
        return as_claimed(secret, self.epsilon)

    def _list_public_notes(self, plan: TrainingPlan) -> tuple[str, ...]:
        return (
            *super()._list_public_notes(plan),
            f"psi: {self.make_psi().rule_description}. Look at them: everything in them is "
            "treated as "
            "public",
            "labels, joints, visibility and boxes: they are part of psi, and joints are how "
            "somebody stands",
        )

    def _not_protected(self) -> tuple[str, ...]:
        return (
            *super()._not_protected(),
            "whatever psi of a recording still shows",
            "labels, and joints where there are some",
        )

    def _list_caveats(self, plan: TrainingPlan) -> tuple[str, ...]:
        warning = self.make_psi().warning
        return (*super()._list_caveats(plan), *((warning,) if warning else ()))

    def _describe_claim(self) -> str | None:
        if not self.is_batch_shared:
            return None
        return (
            f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} as if the shared batch were secret "
            "[sivangi2025, Fig. 1]"
        )


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

    def _list_public_notes(self, plan: TrainingPlan) -> tuple[str, ...]:
        side = "people" if self.private == "background" else "everything but people"
        return (
            *super()._list_public_notes(plan),
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

    def _list_public_notes(self, plan: TrainingPlan) -> tuple[str, ...]:
        return (
            *super()._list_public_notes(plan),
            f"{self.public_records} recordings beside the private ones, with their labels: their "
            f"gradients, un-noised, decide the {self.directions} directions of the subspace",
        )


@dataclass(frozen=True, kw_only=True)
class DpSgd(Method):
    """Learn from whole recordings with clipped, noised gradients of Poisson batches.

    Guarantee:
        unit: one recording, or one person with up to ``recordings`` of theirs.
        relation: zero_out (the unit's gradient is absent); the others are printed beside it.
        bound: norm C after clipping [abadi2016, Alg. 1]; Poisson-sampled Gaussians, by PLD.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """


@dataclass(frozen=True, kw_only=True)
class FeatureDp(Featured):
    """Learn from psi of every picture without noise, and with it from the picture [sivangi2025].

    Guarantee:
        unit: one recording, or one person's, among all with the same psi and labels.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping; Poisson-sampled Gaussians by PLD, or revealed batches exactly.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """


@dataclass(frozen=True, kw_only=True)
class FeatureProjective(Featured, Projecting):
    """Both of feature_dp and projected [sivangi2025, Alg. 1].

    Guarantee:
        unit: one recording, or one person's, among all with the same psi and labels.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping, of k numbers or of all; Poisson-sampled Gaussians by PLD, or
            revealed batches exactly. The subspace looks at public records and weights alone.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """

    MARKS: ClassVar[tuple[str, ...]] = (*Featured.MARKS, *Projecting.MARKS)


_VIEW = "whole"


@dataclass(frozen=True, kw_only=True)
class MaskDp(Masked):
    """Learn from public pixels without noise, and with it from what is private [schneider2024].

    By default the public part draws batches of its own. ``as_published`` is [schneider2024, Alg. 2]
    as it is printed: one batch for both parts, private gradients of private tokens alone, both sums
    divided by the size of the batch, plain gradient descent. The batch shows who is in it: nothing
    is amplified, and the epsilon is the one of that.

    What the private gradient sees changes no promise. Neighbours share masks, labels and public
    pixels, and differ in the private pixels of one unit. Whether its gradient is of whole
    recordings or of their private pixels on grey, it is a function of that unit alone, clipped to
    C: absent it moves the sum by at most C, replaced by at most 2 C, and no other term moves.

    Guarantee:
        unit: the private pixels of one recording, or of one person's recordings.
        relation: replace_one; zero_out (the private gradient is absent) is printed beside it.
        bound: norm C after clipping; Poisson-sampled Gaussians by PLD, or revealed batches exactly.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.

    Args:
        form: independent batches, or the shared batch as published.
        view: what the private gradient sees: whole recordings, or their private pixels alone.
    """

    LATER: ClassVar[tuple[str, ...]] = (*Masked.LATER, "view")

    form: Literal["independent", "as_published"] = "independent"
    view: Literal["whole", "private"] = "whole"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_batch_shared and self.view != _VIEW:
            raise ValueError(
                f"Expected no view with form=as_published, got view={self.view}: Algorithm 2 sees "
                "private tokens; take form=independent."
            )

    @property
    def is_batch_shared(self) -> bool:
        """One batch for both parts, as published."""
        return self.form == "as_published"

    @property
    def private_side(self) -> Literal["whole", "private", "tokens"]:
        """As published, private tokens alone."""
        return "tokens" if self.is_batch_shared else self.view

    @property
    def active_momentum(self) -> float:
        """As published, nothing, unless a momentum is given."""
        return 0.0 if self.is_batch_shared and self.momentum is None else super().active_momentum

    def plan_run(self, units: int) -> TrainingPlan:
        """As every method; as published, with the noise behind which the paper prints epsilon."""
        secret = super().plan_run(units)
        if self.form == "independent" or secret.noise_multiplier == 0:
            return secret
        return as_claimed(secret, self.epsilon)

    def _describe_claim(self) -> str | None:
        if self.form == "independent":
            return None
        return (
            f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} as if the shared batch were secret "
            "[schneider2024, Thm 1]"
        )


@dataclass(frozen=True, kw_only=True)
class MultiClip(Method):
    """DP-SGD whose unit contributes the mean over several segments [luo2024].

    Guarantee:
        unit: one recording, or one person with up to ``recordings`` of theirs.
        relation: zero_out (the unit's gradient is absent); the others are printed beside it.
        bound: the mean of a unit's gradients is clipped to C; Poisson-sampled Gaussians, by PLD.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """

    segments: int = 3


@dataclass(frozen=True, kw_only=True)
class Pate(Ensemble):
    """Learn from worn sensors by teachers on disjoint shards [papernot2017], to compare with.

    Guarantee:
        unit: one person, with all teachers that their data reaches; or one teacher's data.
        relation: replace_one; zero_out is the same number.
        bound: s votes move between two classes in each query; data-independent.
        numerics: whole votes, exact noise, ChaCha20; only winners leave.
    """


@dataclass(frozen=True, kw_only=True)
class Projected(Projecting):
    """DP-SGD in a subspace that public records span [sivangi2025, Sec. 3.3].

    Guarantee:
        unit: one recording, or one person with up to ``recordings`` of theirs.
        relation: zero_out (the unit's gradient is absent); the others are printed beside it.
        bound: norm C after clipping, of k numbers or of all; Poisson-sampled Gaussians, by PLD.
            The subspace looks at public records and published weights alone.
        numerics: clipped below C, summed on a grid, exact Gaussian, ChaCha20.
    """


@dataclass(frozen=True, kw_only=True)
class PublicFeatures(Featured):
    """Learn from psi of every picture only, without noise.

    Guarantee:
        none: only psi of private pictures is read, so nothing is promised beyond what is public.
    """

    HAS_PRIVATE: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class PublicPart(Masked):
    """Learn from public pixels only, without noise.

    Guarantee:
        none: nothing private is read, so nothing is promised beyond what is public already.
    """

    HAS_PRIVATE: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Tempdiff(Ensemble):
    """Learn from worn sensors by teachers that see time at several scales [roy2023].

    By default shards are whole people and votes get Gaussian noise. The published form has
    stretches of time (``--by time``), windows that do not overlap (``--overlap 0``) and Laplace
    noise (``--aggregator lnmax --gamma 0.1``), and prints an epsilon that depends on the votes: no
    guarantee, and never printed as one here.

    Guarantee:
        unit: one person, with all teachers that their data reaches; or one teacher's data.
        relation: replace_one; zero_out is the same number.
        bound: s votes move between two classes in each query; data-independent.
        numerics: whole votes, exact noise, ChaCha20; only winners leave.
    """

    windows: tuple[int, ...] = (64, 96, 128)
