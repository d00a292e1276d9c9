"""Read and write .npy, .npz and .csv. A .npz is one joint release of all its arrays."""

from __future__ import annotations

import csv
import io
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput

SUFFIXES = (".npy", ".npz", ".csv")
_UNREADABLE = (
    ValueError,
    EOFError,
    OSError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    csv.Error,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Arrays of one file, with the names that the file gives them.

    Args:
        arrays: in the file's order.
        names: of the arrays in a .npz; empty otherwise.
        columns: of a .csv with a heading; empty otherwise.
    """

    arrays: tuple[np.ndarray, ...]
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def check_suffix(path: Path) -> str:
    """The file's suffix, if it is one of ours.

    Raises:
        ValueError: if it is not; the message lists those that are.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(_check.unknown("kind of file", suffix or path.name, SUFFIXES))
    return suffix


def read(path: Path, *, heading: bool = False) -> Table:
    """Read an array file.

    Args:
        path: a .npy, .npz or .csv file.
        heading: whether a .csv begins with names of its columns. They are published; whether a
            file has them must be said, never guessed from its private content.

    Raises:
        BadInput: if it is missing, truncated, empty, or holds anything but numbers. The message
            names the place, never a value.
    """
    suffix = check_suffix(path)
    if not path.is_file():
        raise BadInput(f"Expected a file at {path}; there is none.")
    try:
        if suffix == ".csv":
            table = _read_csv(path, heading=heading)
        else:
            table = _read_npz(path) if suffix == ".npz" else _read_npy(path)
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(f"Expected a whole {suffix} file at {path}; it cannot be read.") from error
    for place, array in enumerate(table.arrays):
        name = table.names[place] if table.names else path.name
        if array.dtype.kind not in "uif":
            raise BadInput(f"Expected numbers in {name}, got dtype {array.dtype}.")
        if array.ndim == 0 or array.size == 0:
            raise BadInput(f"Expected at least one number on an axis in {name}, got {array.shape}.")
        if not np.all(np.isfinite(array)):
            raise BadInput(
                f"Expected {name} without NaN or infinity; fill the gaps by a public rule first."
            )
    return table


def writer(path: Path, table: Table) -> Callable[[BinaryIO], None]:
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
    return {".npy": _write_npy, ".npz": _write_npz, ".csv": _write_csv}[suffix](table)


def _read_npy(path: Path) -> Table:
    with path.open("rb") as stream:
        return Table(arrays=(np.lib.format.read_array(stream, allow_pickle=False),))


def _read_npz(path: Path) -> Table:
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        names = tuple(info.filename.removesuffix(".npy") for info in infos)
        if not names:
            raise BadInput(f"Expected at least one array in {path}.")
        if len(set(names)) != len(names):  # one array under two names would be released twice
            raise BadInput(f"Expected every array in {path} to have a name of its own.")
        arrays = []
        for info in infos:
            with archive.open(info) as member:
                arrays.append(np.lib.format.read_array(member, allow_pickle=False))
    return Table(arrays=tuple(arrays), names=names)


def _read_csv(path: Path, *, heading: bool) -> Table:
    with path.open(newline="", encoding="utf-8-sig") as stream:
        rows = [(number, row) for number, row in enumerate(csv.reader(stream), 1) if row]
    columns: tuple[str, ...] = ()
    if heading and rows:
        columns, rows = tuple(cell.strip() for cell in rows[0][1]), rows[1:]
    if not rows:
        raise BadInput(f"Expected at least one row of numbers in {path}.")
    width = len(columns or rows[0][1])
    values = np.empty((len(rows), width))
    for place, (number, row) in enumerate(rows):
        if len(row) != width:
            raise BadInput(f"Expected {width} columns in line {number} of {path}, got {len(row)}.")
        for column, cell in enumerate(row):
            if not _is_number(cell):
                remedy = " If that line has the names of columns, say so: --heading." * (place == 0)
                raise BadInput(
                    f"Expected a number in line {number}, column {column + 1} of {path}.{remedy}"
                )
            values[place, column] = float(cell)
    return Table(arrays=(values,), columns=columns)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _write_npy(table: Table) -> Callable[[BinaryIO], None]:
    return lambda stream: np.lib.format.write_array(stream, table.arrays[0], allow_pickle=False)


def _write_npz(table: Table) -> Callable[[BinaryIO], None]:
    def write(stream: BinaryIO) -> None:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
            for name, array in zip(table.names, table.arrays, strict=True):
                entry = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed: no clock in the file
                with archive.open(entry, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    return write


def _write_csv(table: Table) -> Callable[[BinaryIO], None]:
    def write(stream: BinaryIO) -> None:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        rows = csv.writer(text, lineterminator="\n")
        if table.columns:
            rows.writerow(table.columns)
        values = table.arrays[0].reshape(len(table.arrays[0]), -1)
        rows.writerows([repr(float(cell)) for cell in row] for row in values)
        text.flush()
        text.detach()

    return write
