"""The rows of Video-DPRP's four tables: what is released or trained, and how [nken2025, Sec. 4].

A row is a release mechanism, a training method, or both; nothing here has seen a recording. Every
mechanism that can treat a video has a row: one that is not named here gets its example's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from masquerade import _json, catalog
from masquerade.mechanism import Mechanism, Shape
from masquerade.recipes import bench
from masquerade.recipes.video_dprp.promises import RowPromise

DELTA = 1e-4
EPSILONS = (2.0, 5.0, 8.0)
SEGMENTS = 3
CLAIMED = "as_published"
_NUMBERS = 320 * 240 * 3  # of a frame in the paper
_COLUMNS = (20 * 20 * 3, 24 * 32 * 3, 32 * 32 * 3, 50 * 50 * 3, 64 * 80 * 3)  # [nken2025, Tab. 3]
_USUAL = 32 * 32 * 3
_SPLITS = (0.2, 0.4, 0.5, 0.6, 0.8)  # [nken2025, Tab. 4]


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """One row before it is measured.

    Args:
        table: 1 to 4.
        name: as it is shown.
        mechanism: that releases every recording; None where they stay as they are.
        fields: of the mechanism; None for those of its example.
        method: by which the model learns.
        epsilon: of the learning; infinite where there is no noise in it.
        segments: of a recording that are learned from, averaged.
        tested: segments of a test recording whose outputs are averaged.
        line: of the table's plot that the row is a point of, or its bar; empty for none.
        at: where on the line.
    """

    table: int
    name: str
    mechanism: str | None = None
    fields: Mapping[str, Any] | None = field(default_factory=dict)
    method: str = "dp_sgd"
    epsilon: float = math.inf
    segments: int = 1
    tested: int = 1
    line: str = ""
    at: float = 0.0

    def made(self) -> Mechanism | None:
        """The mechanism, if the row has one.

        Raises:
            MissingExtra: if it needs what is not installed.
        """
        if self.mechanism is None:
            return None
        example: Mechanism = catalog.example("release", self.mechanism)
        return example if self.fields is None else type(example)(**self.fields)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How often a row's models are right.

    Args:
        top_1: share of the test recordings, one number a seed; empty where nothing was tested.
        by_class: the same for each class that has test recordings, mean over seeds.
    """

    top_1: tuple[float, ...] = ()
    by_class: tuple[float, ...] = ()

    @property
    def mean(self) -> float:
        """Over seeds."""
        return float(np.mean(self.top_1))

    @property
    def shown(self) -> str:
        """Per cent, with the spread over seeds where there are several."""
        return bench.percent(self.top_1)


@dataclass(frozen=True, kw_only=True)
class ResultRow:
    """One row, measured.

    Args:
        spec: what it is.
        promise: what holds.
        raw: on the test recordings as they are (protocol 1).
        released: on the released test recordings (protocol 2).
        changed: share of the released test set's numbers that the release changed.
        missing: why it could not be measured.
    """

    spec: Spec
    promise: RowPromise
    raw: Score = Score()
    released: Score = Score()
    changed: float | None = None
    missing: str | None = None

    @property
    def held(self) -> dict[str, Any]:
        """What a journal holds of it."""
        kept = ("promise", "raw", "released", "changed")
        return {name: _json.encode(getattr(self, name)) for name in kept}

    @classmethod
    def of(cls, spec: Spec, held: Mapping[str, Any]) -> ResultRow:
        """From what a journal holds."""
        return cls(
            spec=spec,
            promise=_json.decode(RowPromise, held["promise"]),
            raw=_json.decode(Score, held["raw"]),
            released=_json.decode(Score, held["released"]),
            changed=held["changed"],
        )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the numbers were measured on.

    Args:
        shape: of the first training recording, (T, H, W, 3).
        seen: frames that the network sees.
        train: recordings.
        test: recordings.
        classes: activities.
        seeds: runs of each row.
        part: of the network that was trained.
        course: how, in words.
    """

    shape: Shape
    seen: int
    train: int
    test: int
    classes: int
    seeds: int
    part: str
    course: str


def scaled(columns: int, shape: Shape) -> int:
    """A k of the paper at another size of a frame: the same share of its numbers.

    Example:
        >>> scaled(3072, (16, 240, 320, 3)), scaled(3072, (16, 64, 64, 3))
        (3072, 163)
    """
    return max(1, columns * math.prod(shape[1:]) // _NUMBERS)


def all_rows(shape: Shape, *, is_quick: bool) -> list[Spec]:
    """The rows of the four tables for recordings of a shape; fewer of them where it is quick."""
    return [
        *_table_1(shape, is_quick),
        *_table_2(shape, is_quick),
        *_table_3(shape, is_quick),
        *_table_4(shape, is_quick),
    ]


def _frame(epsilon: float, **more: Any) -> dict[str, Any]:
    return {"epsilon": epsilon, "delta": DELTA, "unit": "frame", **more}


def _dprp(epsilon: float, shape: Shape, **more: Any) -> dict[str, Any]:
    return _frame(epsilon, **({"columns": scaled(_USUAL, shape)} | more))


def _table_1(shape: Shape, is_quick: bool) -> Iterator[Spec]:
    named: list[tuple[str, str, str | None, dict[str, Any]]] = [
        ("raw, no privacy", "raw", None, {}),
        (*_cells(32, 24), "low_resolution", {"columns": 32, "rows": 24}),
        (*_cells(16, 12), "low_resolution", {"columns": 16, "rows": 12}),
        ("blur of whole frames", "blur", "blur", {}),
        ("mosaic", "mosaic", "mosaic", {}),
        ("random_mask", "random mask", "random_mask", {}),
        ("appearance_free", "appearance free", "appearance_free", {}),
        ("face_blur, strength as in the paper", "faces", "face_blur", {"strength": "paper"}),
        ("gaussian_noise", "gaussian", "gaussian_noise", _frame(8.0)),
        ("pooled_gaussian", "pooled", "pooled_gaussian", _frame(8.0)),
        ("cosine_gaussian", "cosine", "cosine_gaussian", _frame(8.0)),
    ]
    for epsilon in (8.0,) if is_quick else EPSILONS:
        sound, paper = (_dprp(epsilon, shape, **more) for more in ({}, {"form": CLAIMED}))
        named.append(("video_dprp, sound form", f"dprp {epsilon:g}", "video_dprp", sound))
        named.append(("video_dprp as published", f"paper {epsilon:g}", "video_dprp", paper))
    for name, line, mechanism, fields in named:
        yield Spec(table=1, name=name, mechanism=mechanism, fields=fields, line=line)
    own = {mechanism for _, _, mechanism, _ in named}
    for mechanism in catalog.names("release"):
        if mechanism not in own:
            yield Spec(table=1, name=mechanism, mechanism=mechanism, fields=None, line=mechanism)


def _cells(columns: int, rows: int) -> tuple[str, str]:
    return f"low_resolution, {columns} x {rows} cells (ISR)", f"{columns} x {rows}"


def _table_2(shape: Shape, is_quick: bool) -> Iterator[Spec]:
    many: dict[str, Any] = {"segments": SEGMENTS, "tested": SEGMENTS}
    for epsilon in EPSILONS:
        learned: dict[str, Any] = {"table": 2, "epsilon": epsilon, "at": epsilon}
        yield Spec(**learned, name="DP-SGD", line="DP-SGD, video")
        yield Spec(**learned, name="DP-SGD, tested on 3 segments", tested=SEGMENTS)
        yield Spec(
            **learned, **many, name="MultiClip, 3 segments", method="multi_clip", line="MultiClip"
        )
        released: dict[str, Any] = {"table": 2, "at": epsilon, "mechanism": "video_dprp"}
        yield Spec(**released, name="video_dprp, sound form", fields=_dprp(epsilon, shape))
        yield Spec(
            **released,
            **many,
            name="video_dprp, sound form, 3 segments",
            fields=_dprp(epsilon, shape),
            line="video_dprp, frame",
        )
        if epsilon == EPSILONS[-1] or not is_quick:
            yield Spec(
                **released,
                **many,
                name="video_dprp as published, 3 segments",
                fields=_dprp(epsilon, shape, form=CLAIMED),
            )
        released["mechanism"] = "cosine_gaussian"
        for unit in ("frame", "video"):
            if unit == "frame" or epsilon == EPSILONS[-1] or not is_quick:
                yield Spec(
                    **released,
                    **many,
                    name=f"cosine_gaussian for one {unit}, 3 segments",
                    fields=_frame(epsilon) | {"unit": unit},
                    line=f"cosine, {unit}",
                )


def _table_3(shape: Shape, is_quick: bool) -> Iterator[Spec]:
    forms: tuple[tuple[str, dict[str, Any], tuple[int, ...]], ...] = (
        ("sound form", {}, (0, 2, 4)),
        ("as published", {"form": CLAIMED}, (0, 2)),
    )
    for number, paper in enumerate(_COLUMNS):
        k = scaled(paper, shape)
        for form, more, few in forms:
            if number in few or not is_quick:
                yield Spec(
                    table=3,
                    name=f"k = {k} (the paper's {paper}), {form}",
                    mechanism="video_dprp",
                    fields=_dprp(8.0, shape, columns=k, **more),
                    line=form,
                    at=k,
                )


def _table_4(shape: Shape, is_quick: bool) -> Iterator[Spec]:
    for split in (_SPLITS[0], _SPLITS[-1]) if is_quick else _SPLITS:
        for form, title in ((CLAIMED, "as published"), ("truncated", "truncated, sound")):
            yield Spec(
                table=4,
                name=f"b = {split:g}, {title}",
                mechanism="video_dprp",
                fields=_dprp(8.0, shape, form=form, split=split),
                line=title,
                at=split,
            )
