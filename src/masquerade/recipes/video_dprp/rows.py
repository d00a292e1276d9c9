"""The rows of Video-DPRP's first four tables: what is released or trained [nken2025, Sec. 4].

A row is a release mechanism, a training method, or both; nothing here has seen a recording. Every
mechanism that can treat a video has a row: one that is not named here gets its example's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from masquerade import catalog
from masquerade.mechanism import Mechanism, Shape

SEGMENTS = 3
CLAIMED = "as_published"
RAW, ALONE = "raw, no privacy", "public weights alone"
DP_SGD, MULTI_CLIP = "DP-SGD", f"MultiClip, {SEGMENTS} segments"
SOUND, SOUND_3 = "video_dprp, sound form", f"video_dprp, sound form, {SEGMENTS} segments"
PUBLISHED = "video_dprp as published"
_NUMBERS = 320 * 240 * 3  # of a frame in the paper
_USUAL = 32 * 32 * 3
_READABLE = {
    "blur": "blur of whole frames",
    "spact": "spact (SPAct)",
    "alf": "alf (ALF)",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Spec:
    """One row, or one cell of a row, before it is measured.

    Args:
        table: 1 to 4.
        name: as it is shown.
        mechanism: that releases every recording; None where they stay as they are.
        fields: of the mechanism; None for those of its example.
        method: by which the model learns; empty where none does.
        epsilon: of the learning; infinite where there is no noise in it.
        segments: of a recording that are learned from, averaged.
        tested: segments of a test recording whose outputs are averaged.
        line: of the table's plot that the row is a point of, or its bar; empty for none.
        at: where on the line: epsilon, k or b.
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
        example: Mechanism = catalog.example("mechanisms", self.mechanism)
        return example if self.fields is None else type(example)(**self.fields)


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the tables vary.

    Args:
        epsilons: of releases and of training.
        delta: beside each.
        ks: columns of R at the paper's size.
        bs: the projection's share of the budget.
    """

    epsilons: tuple[float, ...]
    delta: float
    ks: tuple[int, ...]
    bs: tuple[float, ...]

    @property
    def most(self) -> float:
        """The largest epsilon: that of Tables 3 and 4, and of the first where it is quick."""
        return max(self.epsilons)

    def frame(self, epsilon: float, **more: Any) -> dict[str, Any]:
        """Fields of a release for one frame."""
        return {"epsilon": epsilon, "delta": self.delta, "unit": "frame", **more}

    def dprp(self, epsilon: float, shape: Shape, **more: Any) -> dict[str, Any]:
        """The same of video_dprp with the paper's usual k."""
        return self.frame(epsilon, **({"columns": scaled(_USUAL, shape)} | more))


def scaled(columns: int, shape: Shape) -> int:
    """A k of the paper at another size of a frame: the same share of its numbers.

    Example:
        >>> scaled(3072, (16, 240, 320, 3)), scaled(3072, (16, 64, 64, 3))
        (3072, 163)
    """
    return max(1, columns * math.prod(shape[1:]) // _NUMBERS)


_ANYBODYS = "learned_filter"  # the user's own network: our example's row would say nothing
_ELSEWHERE = "avatar"  # its films take minutes, and benchmarks/avatar.py measures them


def all_rows(shape: Shape, choices: Choices, *, is_quick: bool) -> list[Spec]:
    """The rows of the four tables for recordings of a shape; fewer of them where it is quick."""
    return [
        *_table_1(shape, choices, is_quick),
        *_table_2(shape, choices, is_quick),
        *_table_3(shape, choices, is_quick),
        *_table_4(shape, choices, is_quick),
    ]


def _table_1(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    frame = choices.frame(choices.most)
    named: list[tuple[str, str, str | None, dict[str, Any]]] = [
        (*_cells(32, 24), "low_resolution", {"columns": 32, "rows": 24}),
        (*_cells(16, 12), "low_resolution", {"columns": 16, "rows": 12}),
        ("face_blur, strength as in the paper", "faces", "face_blur", {"strength": "paper"}),
        ("selective_privacy, faces", "selective, faces", "selective_privacy", {}),
        (
            "selective_privacy, people by their masks",
            "selective, people",
            "selective_privacy",
            {"region": "given"},
        ),
        (f"gaussian_noise, epsilon {choices.most:g}", "gaussian", "gaussian_noise", frame),
        (f"pooled_gaussian, epsilon {choices.most:g}", "pooled", "pooled_gaussian", frame),
        (f"cosine_gaussian, epsilon {choices.most:g}", "cosine", "cosine_gaussian", frame),
    ]
    for epsilon in (choices.most,) if is_quick else choices.epsilons:
        for name, line, more in ((SOUND, "dprp", {}), (PUBLISHED, "published", {"form": CLAIMED})):
            fields = choices.dprp(epsilon, shape, **more)
            row = f"{name}, epsilon {epsilon:g}"
            named.append((row, f"{line} {epsilon:g}", "video_dprp", fields))
    yield Spec(table=1, name=RAW, line="raw")
    yield Spec(table=1, name=ALONE, line="public alone", method="")
    own = {_ANYBODYS, _ELSEWHERE, *(mechanism for _, _, mechanism, _ in named)}
    for mechanism in catalog.names("mechanisms"):
        if mechanism not in own:
            name = _READABLE.get(mechanism, mechanism)
            line = mechanism.replace("_", " ")
            yield Spec(table=1, name=name, mechanism=mechanism, fields=None, line=line)
    for name, line, known, fields in named:
        if known not in catalog.names("mechanisms"):
            continue
        yield Spec(table=1, name=name, mechanism=known, fields=fields, line=line)


def _cells(columns: int, rows: int) -> tuple[str, str]:
    return f"low_resolution, {columns} x {rows} cells (ISR)", f"ISR {columns} x {rows}"


def _table_2(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    many: dict[str, Any] = {"segments": SEGMENTS, "tested": SEGMENTS}
    for epsilon in choices.epsilons:
        is_whole = epsilon == choices.most or not is_quick
        learned: dict[str, Any] = {"table": 2, "epsilon": epsilon, "at": epsilon}
        yield Spec(**learned, name=DP_SGD, line="DP-SGD, video")
        yield Spec(**learned, name=f"{DP_SGD}, tested on {SEGMENTS}", tested=SEGMENTS)
        yield Spec(**learned, **many, name=MULTI_CLIP, method="multi_clip", line="MultiClip")
        released: dict[str, Any] = {"table": 2, "at": epsilon, "mechanism": "video_dprp"}
        sound = choices.dprp(epsilon, shape)
        yield Spec(**released, name=SOUND, fields=sound)
        yield Spec(**released, **many, name=SOUND_3, fields=sound, line="video_dprp, frame")
        if is_whole:
            name, fields = f"{PUBLISHED}, {SEGMENTS} segments", sound | {"form": CLAIMED}
            yield Spec(**released, **many, name=name, fields=fields)
        released["mechanism"] = "cosine_gaussian"
        for unit in ("frame", "video") if is_whole else ("frame",):
            name, fields = f"cosine_gaussian, {SEGMENTS} segments", choices.frame(epsilon)
            fields["unit"] = unit
            line = f"cosine, {unit}"
            yield Spec(**released, **many, name=f"{name}, one {unit}", fields=fields, line=line)


def _ends(values: Sequence[Any], is_quick: bool) -> Sequence[Any]:
    return sorted({values[0], values[-1]}) if is_quick else values


def _table_3(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    for paper in _ends(choices.ks, is_quick):
        k = scaled(paper, shape)
        for form, more in (("sound form", {}), ("as published", {"form": CLAIMED})):
            yield Spec(
                table=3,
                name=f"k = {k} (the paper's {paper}), {form}",
                mechanism="video_dprp",
                fields=choices.dprp(choices.most, shape, columns=k, **more),
                line=form,
                at=k,
            )


def _table_4(shape: Shape, choices: Choices, is_quick: bool) -> Iterator[Spec]:
    kept = max(1, min(scaled(_USUAL, shape) // 4, shape[0]))
    forms: tuple[tuple[str, dict[str, Any]], ...] = (
        ("as published", {"form": CLAIMED}),
        ("as published, V cut", {"form": CLAIMED, "rank": kept}),
        ("truncated, sound", {"form": "truncated", "rank": kept}),
    )
    if kept >= scaled(_USUAL, shape):  # nothing to cut
        forms = forms[:1]
    for split in _ends(choices.bs, is_quick):
        for title, more in forms:
            yield Spec(
                table=4,
                name=f"b = {split:g}, {title}",
                mechanism="video_dprp",
                fields=choices.dprp(choices.most, shape, split=split, **more),
                line=title,
                at=split,
            )
