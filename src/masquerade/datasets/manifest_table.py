"""A table with a row a recording: read from CSV or Parquet, its faults named by line."""

from __future__ import annotations

import csv
import io
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NoReturn

from masquerade import _check
from masquerade._optional import require_extra
from masquerade.errors import BadInput

SPLITS = ("train", "val", "test", "public")
_DELIMITERS = ",;\t"
_MAX_LISTED = 8


@dataclass(frozen=True, kw_only=True)
class ManifestRow:
    """One recording of a table; the names of the fields after ``line`` are the columns.

    Args:
        line: where it stands, the heading being line 1; of Parquet, its number from 1 on.
        path: of its file, as the table has it.
        activity: what is done.
        subject: who it is.
        split: train, val, test or public.
        place: where.
        view: from which camera.
        mask: path of its mask.
        joints: path of its joints, a .npy file.
        head_px: head size in pixels, for photos with joints.
        start: seconds from which on it is used.
        end: seconds up to which it is used.
    """

    line: int
    path: str
    activity: str | None = None
    subject: str | None = None
    split: str | None = None
    place: str | None = None
    view: str | None = None
    mask: str | None = None
    joints: str | None = None
    head_px: float | None = None
    start: float | None = None
    end: float | None = None

    @property
    def is_piece(self) -> bool:
        """Whether only a stretch of the file is meant."""
        return self.start is not None or self.end is not None


COLUMNS = tuple(each.name for each in fields(ManifestRow))[1:]
_NUMBER_COLUMNS = ("head_px", "start", "end")


@dataclass(frozen=True, kw_only=True)
class ManifestTable:
    """The rows of a table, and which columns it has.

    Args:
        rows: in the table's order.
        columns: that it names.
    """

    rows: tuple[ManifestRow, ...]
    columns: tuple[str, ...]


def read_manifest(path: Path, root: Path) -> ManifestTable:
    """Read a table; paths in it begin at ``root``.

    Raises:
        BadInput: if it is missing, empty or no table; if a column is not known; if a row lacks its
            path, has a wrong split or time, is there twice or overlaps another; or if one person
            stands in two splits. Each is named by its line.
    """
    if not path.is_file():
        got = "a folder" if path.is_dir() else "nothing"
        raise BadInput(f"Expected a table at {path}, got {got}; give a .csv or .parquet file.")
    heading, lines = _READERS.get(path.suffix.lower(), _refuse_format)(path)
    _check_heading(heading, path)
    rows = tuple(
        _parse_row(line, dict(zip(heading, cells, strict=True)), path) for line, cells in lines
    )
    if not rows:
        raise BadInput(f"Expected a row for each recording in {path}, got a heading alone.")
    _check_marked(rows, heading, path)
    _check_apart(rows, path, root)
    _check_subjects(rows, path)
    return ManifestTable(rows=rows, columns=tuple(heading))


def as_csv(rows: Iterable[ManifestRow]) -> str:
    """The table of these rows, without columns that say nothing.

    Example:
        >>> print(as_csv([ManifestRow(line=2, path="a.mp4", subject="anna")]), end="")
        path,subject
        a.mp4,anna
    """
    listed = list(rows)
    columns = [name for name in COLUMNS if any(getattr(row, name) is not None for row in listed)]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([getattr(row, name) for name in columns] for row in listed)
    return stream.getvalue()


def _read_csv(path: Path) -> tuple[list[str], Iterable[tuple[int, list[str]]]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"Expected UTF-8 text in {path}, got other bytes; save it anew.") from error
    first = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter, strict=True)
    lines: list[tuple[int, list[str]]] = []
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                lines.append((reader.line_num, [cell.strip() for cell in cells]))
    except csv.Error as error:
        raise BadInput(f"Expected CSV in {path}, line {reader.line_num}, got {error}.") from error
    if not lines:
        raise BadInput(f"Expected a heading and rows in {path}, got an empty file.")
    (_, heading), *rest = lines
    for line, cells in rest:
        if len(cells) != len(heading):
            _refuse_line(path, line, f"{len(heading)} cells, as the heading has", len(cells))
    return heading, rest


def _read_parquet(path: Path) -> tuple[list[str], Iterable[tuple[int, list[str]]]]:
    parquet: Any = require_extra("pyarrow.parquet", extra="tables")
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are kinds of these
        raise BadInput(f"Expected Parquet in {path}, got {error}; save it anew.") from error
    heading = [str(name).strip() for name in table.column_names]
    columns = [column.to_pylist() for column in table.columns]
    cells = zip(*columns, strict=True)
    return heading, [(line, [_as_text(cell) for cell in row]) for line, row in enumerate(cells, 1)]


def _as_text(cell: object) -> str:
    is_absent = cell is None or (isinstance(cell, float) and math.isnan(cell))
    return "" if is_absent else str(cell).strip()


def _refuse_format(path: Path) -> NoReturn:
    raise BadInput(f"Expected a .csv or .parquet file, got {path}; save the table as one of them.")


_READERS: Mapping[str, Callable[[Path], tuple[list[str], Iterable[tuple[int, list[str]]]]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}


def _check_heading(heading: Sequence[str], path: Path) -> None:
    for place, name in enumerate(heading):
        if name not in COLUMNS:
            raise BadInput(
                f"{_check.describe_unknown('column', name, COLUMNS)} It stands in line 1 of "
                f"{path}; rename "
                "it, or leave it out."
            )
        if name in heading[:place]:
            raise BadInput(f"Expected each column once in {path}, line 1, got {name} twice.")
    if "path" not in heading:
        raise BadInput(f"Expected a column path in {path}, line 1, got {', '.join(heading)}.")


def _parse_row(line: int, cells: Mapping[str, str], path: Path) -> ManifestRow:
    said = {name: cell for name, cell in cells.items() if cell}
    if "path" not in said:
        _refuse_line(path, line, "the path of a recording", "none")
    split = said.get("split")
    if split is not None and split not in SPLITS:
        _refuse_line(path, line, f"a split ({', '.join(SPLITS)})", repr(split))
    numbers = {
        name: _parse_number(said.pop(name), name, path, line)
        for name in _NUMBER_COLUMNS
        if name in said
    }
    row = ManifestRow(line=line, **said, **numbers)  # type: ignore[arg-type]
    if row.end is not None and row.end <= (row.start or 0.0):
        _refuse_line(
            path, line, f"an end after the start at {row.start or 0.0:g} s", f"{row.end:g} s"
        )
    return row


def _parse_number(text: str, name: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        unit = "pixels" if name == "head_px" else "seconds"
        _refuse_line(path, line, f"{name} in {unit}, 0 or more", repr(text))
    return value


def _check_marked(rows: Sequence[ManifestRow], heading: Sequence[str], path: Path) -> None:
    """A column that says something of one row says it of all: who is left out would be guessed."""
    for name in ("split", "activity", "subject"):
        if name in heading:
            bare = [row.line for row in rows if getattr(row, name) is None]
            if bare and len(bare) < len(rows):
                raise BadInput(
                    f"Expected a {name} in every row of {path}, got none in "
                    f"{_format_lines(bare)}; fill "
                    "it in, or leave those rows out."
                )


def _check_apart(rows: Sequence[ManifestRow], path: Path, root: Path) -> None:
    """No second of a recording may stand in two rows: it would be counted once and used twice."""
    by_file: dict[Path, list[ManifestRow]] = {}
    for row in rows:
        by_file.setdefault((root / row.path).resolve(), []).append(row)
    for same in by_file.values():
        ordered = sorted(same, key=lambda row: (row.start or 0.0, row.line))
        for before, after in itertools.pairwise(ordered):
            if (after.start or 0.0) < (math.inf if before.end is None else before.end):
                raise BadInput(
                    f"Expected each piece of a recording in one row of {path}, got {after.path} in "
                    f"{_format_lines([before.line, after.line])}; leave one out, or give both a "
                    "start and "
                    "an end that do not overlap."
                )


def _check_subjects(rows: Sequence[ManifestRow], path: Path) -> None:
    seen: dict[str, ManifestRow] = {}
    for row in rows:
        if row.subject is None:
            continue
        first = seen.setdefault(row.subject, row)
        if first.split != row.split:
            raise BadInput(
                f"Expected each subject in one split of {path}, got {row.subject!r} in "
                f"{first.split} (line {first.line}) and {row.split} (line {row.line}); a model "
                "would be tested on somebody it learned from. Move the rows."
            )


def _format_lines(numbers: Sequence[int]) -> str:
    shown = ", ".join(str(number) for number in sorted(numbers)[:_MAX_LISTED])
    more = f" and {len(numbers) - _MAX_LISTED} more" if len(numbers) > _MAX_LISTED else ""
    return f"line{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _refuse_line(path: Path, line: int, rule: str, got: object) -> NoReturn:
    raise BadInput(f"Expected {rule} in {path}, line {line}, got {got}; mend the row.")
