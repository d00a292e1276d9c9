"""What a row of a table promises: the true epsilon, for which unit, and what it is not.

Everything comes from the mechanism's or the plan's own statement about public shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from masquerade._formatting import shown, up_decimals
from masquerade.accounting.compose import epsilon as epsilon_of
from masquerade.guarantee import Guarantee, Relation, Unit, UnitName
from masquerade.mechanism import Mechanism, Shape
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan

_FRAME, _VIDEO = Unit(name=UnitName.FRAME), Unit(name=UnitName.VIDEO)


@dataclass(frozen=True, kw_only=True)
class RowPromise:
    """What holds for one release or one run.

    Args:
        nominal: the epsilon that was asked for, or that a paper claims.
        epsilon: that is proved for the unit and the relation; None where nothing is.
        unit: that it protects.
        relation: of neighbours.
        delta: beside epsilon.
        zero_out: epsilon of the same run under that relation (training).
        frame: epsilon for one frame under replace_one, to compare.
        video: epsilon for a whole recording under replace_one, to compare.
        claim: a paper's own number, marked.
        really: epsilon that is proved for the noise behind a claim, for its unit.
        said: what a reader must not confuse.
    """

    nominal: float | None = None
    epsilon: float | None = None
    unit: str | None = None
    relation: str | None = None
    delta: float | None = None
    zero_out: float | None = None
    frame: float | None = None
    video: float | None = None
    claim: str | None = None
    really: float | None = None
    said: str = "no privacy at all"


def of_release(mechanism: Mechanism, shapes: Iterable[Shape]) -> RowPromise:
    """The worst over the recordings: each frame and each person's data is in one of them."""
    several = sorted(set(shapes))
    guarantees = [mechanism.guarantee(shape) for shape in several]
    worst = max(guarantees, key=lambda found: found.epsilon or 0.0)
    if worst.epsilon is None or worst.delta is None:
        return RowPromise(said=f"{worst.kind.value}: nothing is proved, for no unit")
    nominal = float(getattr(mechanism, "epsilon", worst.epsilon))
    if worst.published_claim is not None:
        return _claimed(nominal, worst, worst.published_claim)
    frame, video = (
        max(_under(mechanism, shape, unit, worst.delta) for shape in several)
        for unit in (_FRAME, _VIDEO)
    )
    length = max(shape[0] for shape in several)
    said = f"a whole recording of up to {length} frames, and so any frame of it"
    if worst.unit.name is not UnitName.VIDEO:
        said = (
            f"{worst.unit}-level: one {worst.unit} of a recording of {length} frames; not a "
            f"video-level number, which would be {_finite(video)} (replace_one)"
        )
    return RowPromise(
        nominal=nominal,
        epsilon=worst.epsilon,
        unit=str(worst.unit),
        relation=worst.relation.value,
        delta=worst.delta,
        frame=frame,
        video=video,
        said=said,
    )


def _claimed(nominal: float, guarantee: Guarantee, claim: str) -> RowPromise:
    """No epsilon of the row's own: the claim, its mark, and what its noise really gives."""
    holds = shown(guarantee.epsilon or math.inf)
    return RowPromise(
        nominal=nominal,
        claim=claim,
        really=guarantee.epsilon,
        said=f"{claim.partition(':')[0]}; this noise gives at most epsilon {holds} for one "
        f"{guarantee.unit} at delta {guarantee.delta:g} ({guarantee.relation.value})",
    )


def _under(mechanism: Mechanism, shape: Shape, unit: Unit, delta: float) -> float:
    """Epsilon of the same noise for another unit; infinite where none can be stated."""
    event = mechanism.event_for(shape, unit)
    if event is None:
        return math.inf
    return up_decimals(epsilon_of(event, delta=delta, relation=Relation.REPLACE_ONE))


def _finite(value: float) -> str:
    return shown(value) if math.isfinite(value) else "without bound"


def of_training(method: Method, plan: TrainingPlan) -> RowPromise:
    """What a run promises, under both relations; none without noise."""
    if plan.noise_multiplier == 0:
        return RowPromise()
    zero_out, replaced = _both(plan)
    proved = zero_out if method.met is Relation.ZERO_OUT else replaced
    return RowPromise(
        nominal=method.epsilon,
        epsilon=proved,
        unit=str(method.unit),
        relation=method.met.value,
        delta=plan.delta,
        zero_out=zero_out,
        frame=replaced,  # to change one frame of a recording is to replace the recording
        video=replaced,
        said="a whole recording, and so any frame of it; the model alone is published",
    )


@lru_cache(maxsize=16)
def _both(plan: TrainingPlan) -> tuple[float, float]:
    """Epsilon under zero_out and replace_one."""
    return plan.epsilon(Relation.ZERO_OUT), plan.epsilon(Relation.REPLACE_ONE)
