"""The rows of Video-DPRP's tables: what is released or trained, and what that promises.

A row is a release mechanism, a training method, or both [nken2025, Sec. 4]. Every mechanism that
can treat a video has one: where none is named here it is released as in its example. Promises are
the mechanism's or the plan's own statements about public shapes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from experiments.claims import Runs
from masquerade import catalog
from masquerade._formatting import format_rounded_up, round_up_decimals
from masquerade.accounting.compose import compute_epsilon as epsilon_of
from masquerade.guarantee import Guarantee, Relation, Unit, UnitName
from masquerade.mechanism import Mechanism, Shape
from masquerade.scores import AttackResult
from masquerade.training.method import Method
from masquerade.training.plan import TrainingPlan

SEGMENTS = 3
CLAIMED = "as_published"
RAW, ALONE = "raw, no privacy", "public weights alone"
DP_SGD, MULTI_CLIP = "DP-SGD", f"MultiClip, {SEGMENTS} segments"
SOUND, SOUND_3 = "video_dprp, sound form", f"video_dprp, sound form, {SEGMENTS} segments"
PUBLISHED = "video_dprp as published"
_NUMBERS = 320 * 240 * 3  # of a frame in the paper
_USUAL = 32 * 32 * 3  # its k

# Table 1: name, bar, mechanism and fields of the heuristics that are named
_Named = tuple[str, str, str, dict[str, Any] | None]
_HEURISTICS: tuple[_Named, ...] = (
    *(
        (f"low_resolution, {w} x {h} cells (ISR)", f"ISR {w} x {h}", "low_resolution", fields)
        for w, h in ((32, 24), (16, 12))
        for fields in [{"columns": w, "rows": h}]
    ),
    ("face_blur, strength as in the paper", "faces", "face_blur", {"strength": "paper"}),
    ("selective_privacy, faces", "selective, faces", "selective_privacy", {}),
    (
        "selective_privacy, people by their masks",
        *("selective, people", "selective_privacy", {"region": "given"}),
    ),
)
_NOISY = {"gaussian_noise": "gaussian", "pooled_gaussian": "pooled", "cosine_gaussian": "cosine"}
_READABLE = {"blur": "blur of whole frames", "spact": "spact (SPAct)", "alf": "alf (ALF)"}
_LEFT_OUT = (
    "learned_filter",  # the user's own network: our example's row would say nothing
    "avatar",  # its films take minutes, and the experiment avatar measures them
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """One row, or one cell of a row, before it is measured."""

    table: int  # 1 to 4
    name: str  # as it is shown
    mechanism: str | None = None  # that releases every recording; None where they stay as they are
    # of the mechanism; None for those of its example
    fields: Mapping[str, Any] | None = field(default_factory=dict)
    method: str = "dp_sgd"  # by which the model learns; empty where none does
    epsilon: float = math.inf  # of the learning; infinite where there is no noise in it
    segments: int = 1  # of a recording that are learned from, averaged
    tested: int = 1  # segments of a test recording whose outputs are averaged
    line: str = ""  # of the table's plot that the row is a point of, or its bar; empty for none
    at: float = 0.0  # where on the line: epsilon, k or b

    def build_mechanism(self) -> Mechanism | None:
        """The mechanism, if the row has one.

        Raises:
            MissingExtra: if it needs what is not installed.
        """
        if self.mechanism is None:
            return None
        example: Mechanism = catalog.make_example("mechanisms", self.mechanism)
        return example if self.fields is None else type(example)(**self.fields)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the tables vary."""

    epsilons: tuple[float, ...]  # of releases and of training
    delta: float  # beside each
    ks: tuple[int, ...]  # columns of R at the paper's size
    bs: tuple[float, ...]  # the projection's share of the budget

    @property
    def most(self) -> float:
        """The largest epsilon: that of Tables 3 and 4, and of the first where it is quick."""
        return max(self.epsilons)

    def fill_frame(self, epsilon: float, **more: Any) -> dict[str, Any]:
        """Fields of a release for one frame."""
        return {"epsilon": epsilon, "delta": self.delta, "unit": "frame", **more}

    def fill_dprp(self, epsilon: float, shape: Shape, **more: Any) -> dict[str, Any]:
        """The same of video_dprp with the paper's usual k."""
        return self.fill_frame(epsilon, **({"columns": scale_columns(_USUAL, shape)} | more))


def scale_columns(columns: int, shape: Shape) -> int:
    """A k of the paper at another size of a frame: the same share of its numbers.

    Example:
        >>> scale_columns(3072, (16, 240, 320, 3)), scale_columns(3072, (16, 64, 64, 3))
        (3072, 163)
    """
    return max(1, columns * math.prod(shape[1:]) // _NUMBERS)


def list_rows(shape: Shape, choices: Choices, *, is_quick: bool) -> list[Spec]:
    """The rows of the four tables for recordings of a shape; fewer of them where it is quick."""
    tables = (_list_table_1, _list_table_2, _list_table_3, _list_table_4)
    return [spec for table in tables for spec in table(shape, choices, is_quick)]


def _list_table_1(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    most, known = choices.most, catalog.list_entries("mechanisms")
    named: list[_Named] = [*_HEURISTICS]
    named += [
        (f"{name}, epsilon {most:g}", line, name, choices.fill_frame(most))
        for name, line in _NOISY.items()
    ]
    for epsilon in (most,) if is_quick else choices.epsilons:
        for name, line, more in ((SOUND, "dprp", {}), (PUBLISHED, "published", {"form": CLAIMED})):
            row, fields = f"{name}, epsilon {epsilon:g}", choices.fill_dprp(epsilon, shape, **more)
            named.append((row, f"{line} {epsilon:g}", "video_dprp", fields))
    own = {*_LEFT_OUT, *(mechanism for _, _, mechanism, _ in named)}
    others = [name for name in known if name not in own]
    named[:0] = [(_READABLE.get(n, n), n.replace("_", " "), n, None) for n in others]
    yield Spec(table=1, name=RAW, line="raw")
    yield Spec(table=1, name=ALONE, line="public alone", method="")
    for name, line, mechanism, given in named:
        if mechanism in known:
            yield Spec(table=1, name=name, mechanism=mechanism, fields=given, line=line)


def _list_table_2(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    many: dict[str, Any] = {"segments": SEGMENTS, "tested": SEGMENTS}
    for epsilon in choices.epsilons:
        is_whole = epsilon == choices.most or not is_quick
        learned: dict[str, Any] = {"table": 2, "epsilon": epsilon, "at": epsilon}
        yield Spec(**learned, name=DP_SGD, line="DP-SGD, video")
        yield Spec(**learned, name=f"{DP_SGD}, tested on {SEGMENTS}", tested=SEGMENTS)
        yield Spec(**learned, **many, name=MULTI_CLIP, method="multi_clip", line="MultiClip")
        released: dict[str, Any] = {"table": 2, "at": epsilon, "mechanism": "video_dprp"}
        sound = choices.fill_dprp(epsilon, shape)
        yield Spec(**released, name=SOUND, fields=sound)
        yield Spec(**released, **many, name=SOUND_3, fields=sound, line="video_dprp, frame")
        if is_whole:
            name, fields = f"{PUBLISHED}, {SEGMENTS} segments", sound | {"form": CLAIMED}
            yield Spec(**released, **many, name=name, fields=fields)
        released["mechanism"] = "cosine_gaussian"
        for unit in ("frame", "video") if is_whole else ("frame",):
            name, fields = (
                f"cosine_gaussian, {SEGMENTS} segments, one {unit}",
                choices.fill_frame(epsilon),
            )
            fields["unit"] = unit
            yield Spec(**released, **many, name=name, fields=fields, line=f"cosine, {unit}")


def _take_ends(values: Sequence[Any], is_quick: bool) -> Sequence[Any]:
    return sorted({values[0], values[-1]}) if is_quick else values


def _list_table_3(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    for paper in _take_ends(choices.ks, is_quick):
        k = scale_columns(paper, shape)
        for form, more in (("sound form", {}), ("as published", {"form": CLAIMED})):
            fields = choices.fill_dprp(choices.most, shape, columns=k, **more)
            name = f"k = {k} (the paper's {paper}), {form}"
            yield Spec(table=3, name=name, mechanism="video_dprp", fields=fields, line=form, at=k)


def _list_table_4(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    usual = scale_columns(_USUAL, shape)
    kept = max(1, min(usual // 4, shape[0]))
    forms: dict[str, dict[str, Any]] = {
        "as published": {"form": CLAIMED},
        "as published, V cut": {"form": CLAIMED, "rank": kept},
        "truncated, sound": {"form": "truncated", "rank": kept},
    }
    for split in _take_ends(choices.bs, is_quick):
        for line, more in forms.items():
            if "rank" in more and kept >= usual:
                continue  # nothing to cut
            fields = choices.fill_dprp(choices.most, shape, split=split, **more)
            name = f"b = {split:g}, {line}"
            yield Spec(
                table=4, name=name, mechanism="video_dprp", fields=fields, line=line, at=split
            )


# --- what a row promises

_FRAME, _VIDEO = Unit(name=UnitName.FRAME), Unit(name=UnitName.VIDEO)


@dataclass(frozen=True, kw_only=True)
class RowPromise:
    """What holds for one release or one run."""

    nominal: float | None = None  # the epsilon that was asked for, or that a paper claims
    # that is proved for the unit and the relation; None where nothing is
    epsilon: float | None = None
    unit: str | None = None  # that it protects
    relation: str | None = None  # of neighbours
    delta: float | None = None  # beside epsilon
    zero_out: float | None = None  # epsilon of the same run under that relation (training)
    frame: float | None = None  # epsilon for one frame under replace_one, to compare
    video: float | None = None  # epsilon for a whole recording under replace_one, to compare
    claim: str | None = None  # a paper's own number, marked
    really: float | None = None  # epsilon that is proved for the noise behind a claim, for its unit
    said: str = "no privacy at all"  # what a reader must not confuse


def state_release(mechanism: Mechanism, shapes: Iterable[Shape]) -> RowPromise:
    """The worst over the recordings: each frame and each person's data is in one of them."""
    several = sorted(set(shapes))
    worst = max(map(mechanism.guarantee, several), key=lambda found: found.epsilon or 0.0)
    if worst.epsilon is None or worst.delta is None:
        return RowPromise(said=f"{worst.kind.value}: nothing is proved, for no unit")
    nominal = float(getattr(mechanism, "epsilon", worst.epsilon))
    if worst.published_claim is not None:
        return _state_claim(nominal, worst, worst.published_claim)
    frame, video = (
        max(_find_epsilon(mechanism, shape, unit, worst.delta) for shape in several)
        for unit in (_FRAME, _VIDEO)
    )
    length = max(shape[0] for shape in several)
    said = f"a whole recording of up to {length} frames, and so any frame of it"
    if worst.unit.name is not UnitName.VIDEO:
        whole = format_rounded_up(video) if math.isfinite(video) else "without bound"
        said = (
            f"{worst.unit}-level: one {worst.unit} of a recording of {length} frames; not a "
            f"video-level number, which would be {whole} (replace_one)"
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


def _state_claim(nominal: float, guarantee: Guarantee, claim: str) -> RowPromise:
    """No epsilon of the row's own: the claim, its mark, and what its noise really gives."""
    holds = format_rounded_up(guarantee.epsilon or math.inf)
    return RowPromise(
        nominal=nominal,
        claim=claim,
        really=guarantee.epsilon,
        said=f"{claim.partition(':')[0]}; this noise gives at most epsilon {holds} for one "
        f"{guarantee.unit} at delta {guarantee.delta:g} ({guarantee.relation.value})",
    )


def _find_epsilon(mechanism: Mechanism, shape: Shape, unit: Unit, delta: float) -> float:
    """Of the same noise for another unit; infinite where none can be stated."""
    event = mechanism.event_for(shape, unit)
    if event is None:
        return math.inf
    return round_up_decimals(epsilon_of(event, delta=delta, relation=Relation.REPLACE_ONE))


def state_training(method: Method, plan: TrainingPlan) -> RowPromise:
    """What a run promises, under both relations; none without noise."""
    if plan.noise_multiplier == 0:
        return RowPromise()
    zero_out, replaced = _find_both(plan)
    return RowPromise(
        nominal=method.epsilon,
        epsilon=zero_out if method.target_relation is Relation.ZERO_OUT else replaced,
        unit=str(method.unit),
        relation=method.target_relation.value,
        delta=plan.delta,
        zero_out=zero_out,
        frame=replaced,  # to change one frame of a recording is to replace the recording
        video=replaced,
        said="a whole recording, and so any frame of it; the model alone is published",
    )


@lru_cache(maxsize=16)
def _find_both(plan: TrainingPlan) -> tuple[float, float]:
    """Epsilon under zero_out and replace_one."""
    return plan.compute_epsilon(Relation.ZERO_OUT), plan.compute_epsilon(Relation.REPLACE_ONE)


# --- what rows came out as


@dataclass(frozen=True, kw_only=True)
class Looks:
    """What attackers tell of the people in a release."""

    attacks: tuple[AttackResult, ...]  # who has learned from raw recordings, and who adapts

    @property
    def strongest(self) -> AttackResult:
        """The attack of the highest headline."""
        return max(self.attacks, key=lambda one: one.published[0].value)

    @property
    def kind(self) -> str:
        """Its verdict in short."""
        return self.strongest.verdict.partition(":")[0]


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One row, measured."""

    spec: Spec  # what it is
    promise: RowPromise  # what holds
    # on the test recordings as they are (protocol 1); None where nothing was measured
    raw: Runs | None = None
    # on released test recordings (protocol 2), a part of them in each run
    released: Runs | None = None
    changed: float | None = None  # share of the released recordings' numbers that changed
    missing: str | None = None  # why it could not be measured
    # what attackers tell of the people in the release; None where nothing is released
    looks: Looks | None = None


@dataclass(frozen=True, kw_only=True)
class TimedRow:
    """How long a release of one video takes."""

    name: str  # of the mechanism
    seconds: float  # a video
    paper: float | None = None  # that the paper prints for UCF101, on its own GPU


@dataclass(frozen=True, kw_only=True)
class FaceCount:
    """Faces that a detector could see, and those that it found."""

    visible: int  # with nose and both eyes in sight
    found: int  # of them


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the numbers were measured on."""

    name: str  # of the setting
    shape: Shape  # of the first training recording, (T, H, W, 3)
    seen: int  # frames that the network sees
    train: int  # recordings
    test: int  # recordings
    classes: int  # activities
    seeds: int  # runs of each row
    network: str  # its name
    part: str  # of the network that was trained
    course: str  # how, in words
    epsilons: tuple[float, ...]  # of the tables
    delta: float  # beside each
    left_open: tuple[str, ...] = ()  # what the paper does not say, and what was taken


@dataclass(frozen=True, kw_only=True)
class VideoDprpFound:
    """All that was measured."""

    rows: tuple[ResultRow, ...]  # of Tables 1 to 4
    settings: Setting  # what they were measured on
    timed: tuple[TimedRow, ...] = ()  # of Table 5
    timed_shape: Shape = ()  # of the video that was timed
    faces: FaceCount | None = None  # that face_blur found; None where the truth is not known
    is_gpu: bool = False  # whether that ran on a GPU
    preset: str = ""  # of Stage, unless it is the usual one

    def list_measured(self, table: int) -> dict[tuple[str, float], tuple[ResultRow, Runs]]:
        """Rows of a table and their Top-1 on raw tests, by name and place, where there is one."""
        return {
            (row.spec.name, row.spec.at): (row, row.raw)
            for row in self.rows
            if row.spec.table == table and row.raw is not None
        }
