"""Read and write .npy, .npz and .csv. A .npz is one joint release of all its arrays.

One array of a .npy or .npz file: judged by its header, then read from disk piece by piece.

A few kB of a .npz can unpack to more than any memory holds. So what its header says is compared
with what is expected before a byte is unpacked; and it is unpacked into a file without a name, no
further than the header says, and mapped.
"""

from __future__ import annotations

import csv
import functools
import io
import math
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput

Check = Callable[[tuple[int, ...], "np.dtype[np.generic]"], None]

_BYTES_PER_PIECE = 1 << 20  # bytes that are unpacked at a time


def list_array_names(path: Path) -> tuple[str, ...]:
    """The names of the arrays in a .npz; those of a .npy are none.

    Raises:
        BadInput: if the file cannot be read, or two have one name.
    """
    if not _is_archive(path):
        return ()
    try:
        with zipfile.ZipFile(path) as archive:
            names = tuple(info.filename.removesuffix(".npy") for info in archive.infolist())
    except Exception as error:
        raise _make_array_error(path) from error
    if len(set(names)) != len(names):
        raise BadInput(f"Expected every array in {path} to have a name of its own.")
    return names


def read_array(path: Path, check: Check, *, name: str | None = None) -> np.ndarray:
    """The array of a .npy, or one of a .npz, which stays on disk until it is looked at.

    Args:
        path: the file; its content decides which of the two it is.
        check: raises if shape and type, which the header says, are not those expected.
        name: of the array in a .npz; the first if None.

    Raises:
        BadInput: if the file cannot be read.
    """
    try:
        if _is_archive(path):
            with zipfile.ZipFile(path) as archive:
                info = archive.infolist()[0] if name is None else archive.getinfo(f"{name}.npy")
                with archive.open(info) as member:
                    return _unpack_member(member, check)
        with path.open("rb") as stream:
            shape, _, dtype = read_npy_header(stream)
        check(shape, dtype)
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except BadInput:
        raise
    except Exception as error:  # NumPy and zipfile raise whatever garbage makes them stumble over
        raise _make_array_error(path) from error


def _is_archive(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"PK"


def read_npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Shape, whether the first axis is the fastest, and type.

    Only version 1.0 is taken, which NumPy writes for all numbers: the header of a later one may
    be 4 GB long, and NumPy would read all of it.

    Raises:
        ValueError: if it is no header of numbers.
    """
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("no header of version 1.0")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("no array of numbers")
    return shape, is_fortran, dtype


def _unpack_member(member: IO[bytes], check: Check) -> np.ndarray:
    shape, is_fortran, dtype = read_npy_header(member)
    check(shape, dtype)
    left = math.prod(shape) * dtype.itemsize
    with tempfile.TemporaryFile() as held:  # the map keeps it
        while left:
            piece = member.read(min(left, _BYTES_PER_PIECE))
            if not piece:
                raise ValueError("the array breaks off")
            held.write(piece)
            left -= len(piece)
        if member.read(1):  # at the end its checksum is compared
            raise ValueError("more than the header says")
        held.flush()
        return np.memmap(held, dtype, "r", shape=shape, order="F" if is_fortran else "C")


def _make_array_error(path: Path) -> BadInput:
    return BadInput(
        f"Expected a whole {path.suffix} file at {path}; it cannot be read: save it again."
    )


SUFFIXES = (".npy", ".npz", ".csv")
MAX_BYTES = 1 << 30  # of all numbers together, unless a caller asks for more
_FORMULA_SIGNS = ("=", "+", "-", "@")  # a spreadsheet would run what begins so


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrayFile:
    """Arrays of one file, with the names that the file gives them.

    Args:
        arrays: in the file's order.
        names: of the arrays in a .npz; empty otherwise.
        columns: of a .csv with a heading; empty otherwise.
    """

    arrays: tuple[np.ndarray, ...]
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


class NotANumber(BadInput):
    """A cell of a .csv holds something else."""


def check_suffix(path: Path) -> str:
    """The file's suffix, if it is one of ours.

    Raises:
        ValueError: if it is not; the message lists those that are.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(_check.describe_unknown("kind of file", suffix or path.name, SUFFIXES))
    return suffix


def read_array_file(
    path: Path,
    *,
    heading: bool = False,
    columns: Sequence[str] = (),
    max_bytes: int = MAX_BYTES,
    kinds: str = "uif",
    may_lack: bool = False,
) -> ArrayFile:
    """Read an array file.

    Args:
        path: a .npy, .npz or .csv file.
        heading: whether a .csv begins with names of its columns. They are published; whether a
            file has them must be said, never guessed from its private content.
        columns: of a .csv with a heading, the ones that are read, in this order; the others may
            hold anything. All if empty.
        max_bytes: of all its numbers together, as the file's headers tell before they are read.
        kinds: of numbers that are taken, as NumPy's letters.
        may_lack: whether NaN may stand for what is missing.

    Raises:
        BadInput: if it is missing, truncated, empty, too large, or holds anything but numbers. The
            message names the place, never a value.
    """
    suffix = check_suffix(path)
    if not path.is_file():
        raise BadInput(f"Expected a file at {path}; there is none.")
    try:
        if suffix == ".csv":
            _check_bytes(path.stat().st_size, max_bytes, path)
            table = _read_csv(path, heading=heading, wanted=columns)
        elif suffix == ".npz":
            table = _read_npz(path, max_bytes)
        else:
            table = _read_npy(path, max_bytes)
    except BadInput:
        raise
    except Exception as error:  # NumPy and zipfile raise whatever garbage makes them stumble over
        raise BadInput(f"Expected a whole {suffix} file at {path}; it cannot be read.") from error
    for place, array in enumerate(table.arrays):
        name = table.names[place] if table.names else path.name
        if array.dtype.kind not in kinds:
            raise BadInput(f"Expected numbers in {name}, got dtype {array.dtype}.")
        if array.ndim == 0 or array.size == 0:
            raise BadInput(f"Expected at least one number on an axis in {name}, got {array.shape}.")
        if not may_lack and not np.all(np.isfinite(array)):
            raise BadInput(
                f"Expected {name} without NaN or infinity; fill the gaps by a public rule first."
            )
    return table


def read_columns(path: Path) -> tuple[str, ...]:
    """The heading of a .csv that has one; nothing else of it is read.

    Raises:
        BadInput: if it is no .csv, or a spreadsheet may run a name.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
            return _check_csv_heading(next(filter(None, csv.reader(stream)), []), path)
    except csv.Error as error:
        raise BadInput(f"Expected a whole .csv file at {path}; it cannot be read.") from error


def make_writer(path: Path, table: ArrayFile) -> Callable[[BinaryIO], None]:
    """What writes ``table`` in the format of ``path``'s name, byte for byte reproducible."""
    suffix = check_suffix(path)
    if (suffix == ".npz") != bool(table.names):
        raise ValueError(
            f"Expected a .npz to become a .npz and nothing else to, got {path.name}; "
            "give the output the suffix of the input."
        )
    if suffix == ".csv" and table.arrays[0].ndim > 2:
        raise ValueError(
            f"Expected one or two axes for a .csv, got {table.arrays[0].ndim}; write a .npy."
        )
    write = {".npy": _write_npy, ".npz": _write_npz, ".csv": _write_csv}[suffix]
    return functools.partial(write, table)


def _read_npy(path: Path, max_bytes: int) -> ArrayFile:
    size = path.stat().st_size
    with path.open("rb") as stream:
        _check_bytes(_count_announced_bytes(stream, size), max_bytes, path)
        stream.seek(0)
        return ArrayFile(arrays=(np.lib.format.read_array(stream, allow_pickle=False),))


def _read_npz(path: Path, max_bytes: int) -> ArrayFile:
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        names = tuple(info.filename.removesuffix(".npy") for info in infos)
        if not names:
            raise BadInput(f"Expected at least one array in {path}.")
        if len(set(names)) != len(names):  # one array under two names would be released twice
            raise BadInput(f"Expected every array in {path} to have a name of its own.")
        _check_names(names, path)
        if not {info.compress_type for info in infos} <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise BadInput(f"Expected a .npz as NumPy writes it at {path}; save it again.")
        _check_bytes(sum(info.file_size for info in infos), max_bytes, path)
        arrays = []
        for info in infos:
            with archive.open(info) as member:
                _count_announced_bytes(member, info.file_size)
            with archive.open(info) as member:
                arrays.append(np.lib.format.read_array(member, allow_pickle=False))
    return ArrayFile(arrays=tuple(arrays), names=names)


def _count_announced_bytes(stream: IO[bytes], size: int) -> int:
    """The bytes of numbers that a .npy header announces, if ``size`` can hold them."""
    shape, _, dtype = read_npy_header(stream)
    announced = math.prod(shape) * dtype.itemsize
    if announced + stream.tell() > size:
        raise ValueError("more is announced than is there")
    return announced


def _check_bytes(size: int, max_bytes: int, path: Path) -> None:
    if size > max_bytes:
        raise BadInput(
            f"Expected at most {max_bytes} bytes of numbers, got {size} in {path}; cut it into "
            "several files, or allow more with --max-bytes."
        )


def _check_names(names: tuple[str, ...], path: Path) -> None:
    """Names are published as they are: none may lead out of the folder where it is unpacked."""
    for number, name in enumerate(names, 1):
        parts = name.split("/")
        if not name.isprintable() or "\\" in name or ":" in name or {"", ".", ".."} & set(parts):
            raise BadInput(
                f"Expected a plain name for array {number} of {path}, got one that is empty, "
                "hidden or a path out of the file; save it under another name."
            )


def _check_csv_heading(cells: Sequence[str], path: Path) -> tuple[str, ...]:
    """Headings are published as they are: a spreadsheet must not take one for a formula."""
    columns = tuple(cell.strip() for cell in cells)
    for number, column in enumerate(columns, 1):
        if not column.isprintable() or column.startswith(_FORMULA_SIGNS):
            raise BadInput(
                f"Expected a plain name for column {number} of {path}, got one that a spreadsheet "
                f"may run: it begins with one of {' '.join(_FORMULA_SIGNS)}, or cannot be printed; "
                "rename it."
            )
    return columns


def _read_csv(path: Path, *, heading: bool, wanted: Sequence[str]) -> ArrayFile:
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as stream:
        rows = [(number, row) for number, row in enumerate(csv.reader(stream), 1) if row]
    columns: tuple[str, ...] = ()
    if heading and rows:
        columns, rows = _check_csv_heading(rows[0][1], path), rows[1:]
    if not rows:
        raise BadInput(f"Expected at least one row of numbers in {path}.")
    width = len(columns or rows[0][1])
    places = _find_columns(columns, wanted, path) if wanted else range(width)
    values = np.empty((len(rows), len(places)))
    for line, (number, row) in enumerate(rows):
        if len(row) != width:
            raise BadInput(f"Expected {width} columns in line {number} of {path}, got {len(row)}.")
        for column, place in enumerate(places):
            try:
                values[line, column] = float(row[place])
            except ValueError:
                name = f" ({columns[place]})" if columns else ""
                is_heading = line == 0 and not heading
                remedy = " If that line has the names of columns, say so: --heading." * is_heading
                raise NotANumber(
                    f"Expected a number in line {number}, column {place + 1}{name} of "
                    f"{path}.{remedy}"
                ) from None
    return ArrayFile(arrays=(values,), columns=tuple(wanted) or columns)


def _find_columns(columns: Sequence[str], wanted: Sequence[str], path: Path) -> list[int]:
    """Where the columns that are wanted stand."""
    for name in wanted:
        if (count := columns.count(name)) != 1:
            raise BadInput(
                f"Expected one column {name} in the heading of {path}, got {count or 'none'}; mend "
                "the heading, or name others."
            )
    return [columns.index(name) for name in wanted]


def _write_npy(table: ArrayFile, stream: BinaryIO) -> None:
    np.lib.format.write_array(stream, table.arrays[0], allow_pickle=False)


def _write_npz(table: ArrayFile, stream: BinaryIO) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in zip(table.names, table.arrays, strict=True):
            entry = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed: no clock in the file
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _write_csv(table: ArrayFile, stream: BinaryIO) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
    rows = csv.writer(text, lineterminator="\n")
    if table.columns:
        rows.writerow(table.columns)
    values = table.arrays[0].reshape(len(table.arrays[0]), -1)
    rows.writerows([repr(float(cell)) for cell in row] for row in values)
    text.flush()
    text.detach()
