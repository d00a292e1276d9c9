"""Recordings of your own, listed in one table: videos, photos or worn sensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import ClassVar, Literal, NoReturn, Self

import numpy as np

from masquerade import _check
from masquerade.collection import READ_CLASSES, Collection, CountLine, DataSource, Labels, Medium
from masquerade.datasets import manifest_table
from masquerade.datasets.manifest_table import ManifestRow, ManifestTable
from masquerade.datasets.recording_files import read_picture
from masquerade.errors import BadInput
from masquerade.io import arrays
from masquerade.io.video import is_video, probe, read
from masquerade.joints import COCO, JOINTS, MPII
from masquerade.recordings import Photo, Signal, Video

Split = Literal["all", "train", "val", "test", "public"]
_PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
_MAX_LISTED = 8


@dataclass(frozen=True, kw_only=True)
class Manifest(Collection[Video | Photo | Signal]):
    """A row a recording, in CSV or Parquet; what is not wanted is left out::

        path,          activity, subject, split, place
        ward/a.mp4,    walk,     anna,    train, ward 3
        ward/b.mp4,    fall,     ben,     test,  ward 3

    The columns are ``path`` and, where wanted, ``activity``, ``subject``, ``split`` (train,
    val, test, public), ``place``, ``view``, ``mask``, ``joints``, ``head_px``, ``start`` and
    ``end``. Paths begin at the table's own folder. All rows are of one kind: videos, photos, or
    signals (.csv with a heading, or .npy).

    ``start`` and ``end`` are seconds and choose a piece of a file; a video is counted by its mean
    rate. ``mask`` is a file as in the docs on masks, used with ``--masks table``. ``joints`` is a
    .npy file: (T, J, 2) pixels of a video, (J, 2) of a photo, missing ones NaN; the third column of
    (J, 3) says whether a joint is visible.

    The list of activities, the splits and the number of rows are treated as public.

    Args:
        table: the .csv, .tsv or .parquet file.
        kind: what its files are: videos, photos or signals.
        root: where its paths begin, if not in its folder.
        split: that of the command if not given, else ``all``.
        rate_hz: for signals: samples a second.
        columns: for signals: the columns that are used, by name, in this order; for .npy their
            names. All columns of the first file if not given.
        subjects: only these people; empty for all.
        classes: the public list of activities, in the order of a model's outputs; if not given read
            from the rows, and then assumed to be public.
        joint_list: which body points ``joints`` has and in which order: mpii (16), coco (17) or
            all (21); for photos that joints are learned from.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Recordings listed in a table",
        kind=Medium.VIDEOS,
        licence="that of your own files",
        home="",
        citation="",
    )

    table: Path
    kind: Medium = Medium.VIDEOS
    root: Path | None = None
    split: Split | None = None
    rate_hz: float | None = None
    columns: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    joint_list: Literal["mpii", "coco", "all"] = "coco"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate_hz is not None:
            _check.positive(rate_hz=self.rate_hz)

    @property
    def base_folder(self) -> Path:
        """Where the paths of the table begin."""
        return self.table.parent if self.root is None else self.root

    @property
    def kinds(self) -> tuple[Medium, ...]:
        """Any."""
        return tuple(Medium)

    @property
    def parts(self) -> tuple[str, ...]:
        """The splits that the table names; empty where it has no such column."""
        named = {row.split for row in self._manifest_table.rows}
        there = tuple(name for name in manifest_table.SPLITS if name in named)
        return ("all", *there) if there else ()

    @property
    def activities(self) -> tuple[str, ...]:
        """The public list; if there is none, the activities of all rows, sorted."""
        return self.classes or tuple(
            sorted({row.activity for row in self._manifest_table.rows if row.activity is not None})
        )

    @property
    def class_source(self) -> str:
        """The labels themselves, unless a list was given."""
        return "" if self.classes or not self.activities else READ_CLASSES

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Those of the list, where there are joints."""
        has_joints = any(row.joints is not None for row in self._manifest_table.rows)
        return {"mpii": MPII, "coco": COCO, "all": JOINTS}[self.joint_list] if has_joints else ()

    @property
    def explicit_subjects(self) -> tuple[str, ...]:
        """Whom somebody chose by name; empty for everybody."""
        return self.subjects

    def select_subjects(self, names: Iterable[str]) -> Self:
        """Only the recordings of these people."""
        return self._replace_fields(subjects=tuple(names))

    @property
    def mask_paths(self) -> Mapping[str, Path]:
        """Where the mask of each recording lies, by the recording's name."""
        if "mask" not in self._manifest_table.columns:
            raise BadInput(f"Expected a column mask in {self.table}, line 1, got none; add it.")
        rows = self._manifest_table.rows
        bare = [row.line for row in rows if row.mask is None]
        if bare:
            raise BadInput(f"Expected a mask in {self.table}, line {bare[0]}, got none; name it.")
        return {self._format_name(row): self.base_folder / row.mask for row in rows if row.mask}

    def find_path(self, index: int) -> Path:
        """Where a recording lies."""
        return self.base_folder / self._row_selection[index].path

    def check(self) -> tuple[CountLine, ...]:
        """Count rows and files, and the rows of each activity and each split."""
        rows = self._row_selection
        lost = [
            f"line {row.line}: {where}" for row in rows for where in self._list_missing_files(row)
        ]
        counted = [
            self._count_line(f"{self.kind} of {name}", many)
            for column in ("split", "activity")
            for name, many in sorted(Counter(_read_cell(row, column) for row in rows).items())
            if name
        ]
        lost += [fault for row in rows for fault in self._missing_columns(row)]
        people = {row.subject for row in rows} - {None}
        return (
            self._count_line(str(self.kind), len(rows), lost),
            *([self._count_line("subjects", len(people))] if people else []),
            *counted,
        )

    @cached_property
    def _manifest_table(self) -> ManifestTable:
        return manifest_table.read_manifest(self.table, self.base_folder)

    @cached_property
    def _row_selection(self) -> tuple[ManifestRow, ...]:
        """The rows of the chosen split and people."""
        part, rows = self.part_name, self._manifest_table.rows
        self._check_kind(rows)
        if part != "all" and part not in self.parts:
            has = ", ".join(self.parts) or "no column split"
            raise BadInput(f"Expected rows of the split {part} in {self.table}, got {has}.")
        listed = (None, *self.classes)
        strange = [row.line for row in rows if self.classes and row.activity not in listed]
        if strange:
            raise BadInput(
                f"Expected activities of --classes {' '.join(self.classes)} alone in {self.table}, "
                f"got another in line {strange[0]}; add it to the list, or drop its rows."
            )
        people = {row.subject for row in rows}
        for name in self.subjects:
            if name not in people:
                known = sorted(one for one in people if one is not None)
                raise BadInput(_check.describe_unknown("subject", name, known))
        return tuple(
            row
            for row in rows
            if part in ("all", row.split) and (not self.subjects or row.subject in self.subjects)
        )

    def _check_kind(self, rows: Sequence[ManifestRow]) -> None:
        for row in rows:
            found = _kind_of(Path(row.path))
            if found != self.kind:
                other = f" Is this a table of {found}? Then add --kind {found}." if found else ""
                raise BadInput(
                    f"Expected {self.kind} alone in {self.table}, line {row.line}, got {row.path}; "
                    f"make a table for each kind.{other}"
                )

    def _list_missing_files(self, row: ManifestRow) -> list[str]:
        named = [where for where in (row.path, row.mask, row.joints) if where is not None]
        return [where for where in named if not (self.base_folder / where).exists()]

    def _missing_columns(self, row: ManifestRow) -> list[str]:
        path = self.base_folder / row.path
        if not (self.columns and self.kind is Medium.SIGNALS and _has_heading(path)):
            return []
        there = arrays.read_columns(path) if path.is_file() else self.columns
        return [
            f"line {row.line}: column {c} of {row.path}" for c in self.columns if c not in there
        ]

    def _find(self) -> Sequence[Labels]:
        lost = [
            (row, where) for row in self._row_selection for where in self._list_missing_files(row)
        ]
        if lost:
            shown = "; ".join(f"line {row.line}: {where}" for row, where in lost[:_MAX_LISTED])
            more = f"; and {len(lost) - _MAX_LISTED} more" if len(lost) > _MAX_LISTED else ""
            raise BadInput(
                f"Expected every file that {self.table} names below {self.base_folder}, got none "
                "for "
                f"{shown}{more}; mend the paths, or give the --root that they begin at."
            )
        return [
            Labels(
                name=self._format_name(row),
                subject=row.subject,
                activity=row.activity,
                place=row.place,
                view=row.view,
            )
            for row in self._row_selection
        ]

    def _format_name(self, row: ManifestRow) -> str:
        """The file, and the piece of it: ``ward/a.mp4`` or ``ward/a.mp4#2-4.5``."""
        end = "" if row.end is None else f"{row.end:g}"
        return f"{row.path}#{row.start or 0.0:g}-{end}" if row.is_piece else row.path

    def _load(self, index: int) -> Video | Photo | Signal:
        row, path = self._row_selection[index], self.find_path(index)
        if self.kind is Medium.VIDEOS:
            return self._load_video(row, path)
        return (
            self._load_photo(row, path)
            if self.kind is Medium.PHOTOS
            else self._load_signal(row, path)
        )

    def _load_video(self, row: ManifestRow, path: Path) -> Video:
        begin = 0
        if not row.is_piece:
            frames, rate_hz = read.read_whole(path)
        elif row.end is None:
            frames, rate_hz = read.read_whole(path)
            begin = ceil((row.start or 0.0) * rate_hz)
            frames = frames[begin:]
        else:
            rate_hz = probe.probe_header(path).rate_hz
            begin, stop = ceil((row.start or 0.0) * rate_hz), ceil(row.end * rate_hz)
            frames, rate_hz = read.read_timed_segment(path, begin, stop)
        if not len(frames):
            self._refuse_cell(row, "a start before the end of the video", f"{row.start:g} s")
        joints = self._parse_joints(row, 3)
        if joints is not None:
            joints = joints[begin : begin + len(frames)]
        return Video(
            frames=frames,
            rate_hz=rate_hz,
            subject=row.subject,
            place=row.place,
            activity=row.activity,
            view=row.view,
            joints=joints,
        )

    def _load_photo(self, row: ManifestRow, path: Path) -> Photo:
        if row.is_piece:
            self._refuse_cell(row, "no start and end with a photo", "some")
        joints, visible = self._parse_joints(row, 2), None
        if joints is not None:
            visible = np.isfinite(joints[:, :2]).all(axis=1)
            if joints.shape[1] == 3:
                visible &= joints[:, 2] > 0
            joints = joints[:, :2]
        return Photo(
            image=read_picture(path),
            joints=joints,
            visible=visible,
            head_px=row.head_px,
            subject=row.subject,
        )

    def _parse_joints(self, row: ManifestRow, axes: int) -> np.ndarray | None:
        if row.joints is None:
            return None
        path = self.base_folder / row.joints
        if path.suffix.lower() != ".npy":
            self._refuse_cell(row, "joints in a .npy file", row.joints)
        (found,) = arrays.read_array_file(path, may_lack=True).arrays
        if found.ndim != axes or found.shape[-1] not in ((2,) if axes == 3 else (2, 3)):
            self._refuse_cell(
                row, "joints (T, J, 2) of a video, (J, 2) of a photo", str(found.shape)
            )
        return found.astype(np.float64)

    def _load_signal(self, row: ManifestRow, path: Path) -> Signal:
        if self.rate_hz is None:
            raise BadInput(
                f"Expected the samples a second of the signals in {self.table}, got none; give "
                "--rate-hz.",
                is_public=True,
            )
        values = self._read_values(row, path)
        first = ceil((row.start or 0.0) * self.rate_hz)
        stop = len(values) if row.end is None else ceil(row.end * self.rate_hz)
        if first >= len(values) or stop > len(values):
            seconds = f"{len(values) / self.rate_hz:g} s"
            self._refuse_cell(row, "a start and an end within the recording", f"{seconds} of it")
        values = values[first:stop]
        known = self.activities.index(row.activity) if row.activity is not None else -1
        return Signal(
            values=values,
            rate_hz=self.rate_hz,
            activity=np.full(len(values), known, np.int64) if self.activities else None,
            subject=row.subject,
            channels=self._channel_names,
        )

    @cached_property
    def _channel_names(self) -> tuple[str, ...]:
        """The names of the columns that are used: given once, or those of the first file."""
        if self.columns:
            return self.columns
        first = self.base_folder / self._manifest_table.rows[0].path
        return arrays.read_columns(first) if _has_heading(first) else ()

    def _read_values(self, row: ManifestRow, path: Path) -> np.ndarray:
        """(T, C) float32, the channels in their order."""
        has_heading = _has_heading(path)
        wanted = self._channel_names if has_heading else ()
        try:
            (values,) = arrays.read_array_file(path, heading=has_heading, columns=wanted).arrays
        except arrays.NotANumber as error:
            if has_heading:
                other = "" if self.columns else ", or name the columns that are used: --columns"
                error.add_note(f"Mend it{other}.")
            raise
        values = values.reshape(len(values), -1) if values.ndim == 1 else values
        if values.ndim != 2:
            self._refuse_cell(row, "one line a sample", f"shape {values.shape}")
        if self.columns and values.shape[1] != len(self.columns):
            self._refuse_cell(row, f"{len(self.columns)} columns", str(values.shape[1]))
        return values.astype(np.float32)

    def _refuse_cell(self, row: ManifestRow, rule: str, got: str) -> NoReturn:
        raise BadInput(
            f"Expected {rule} in {self.base_folder / row.path} ({self.table}, line {row.line}), "
            "got "
            f"{got}; mend the row or the file."
        )


def _kind_of(path: Path) -> Medium | None:
    if path.suffix.lower() in _PICTURE_SUFFIXES:
        return Medium.PHOTOS
    if path.suffix.lower() in (".csv", ".npy"):
        return Medium.SIGNALS
    return Medium.VIDEOS if is_video(path) else None


def _has_heading(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def _read_cell(row: ManifestRow, column: str) -> str:
    return getattr(row, column) or ""
