"""Shoulder exercises measured by a smartwatch, as the package seglearn carries them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from masquerade.collection import CountLine, DataSource, Labels, Medium, PublishedCounts
from masquerade.datasets.recording_files import SignalFiles
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.recordings import Signal

ASSET = "watch_dataset"
RATE_HZ = 50.0
# Pendulum, abduction, forward elevation, internal and external rotation, trapezius extension,
# upright row.
ACTIVITIES = ("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW")
SUBJECTS = tuple(str(number) for number in range(1, 11))
_FILE_CHANNELS = ("ax", "ay", "az", "wx", "wy", "wz")
CHANNELS = tuple(
    f"wrist_{sensor}_{axis}" for sensor in ("accelerometer", "gyroscope") for axis in "xyz"
)
_KEYS = ("X", "y", "subject", "side", "X_labels", "y_labels")
_SOURCE = "the documentation of seglearn 1.2.5"


@dataclass(frozen=True, kw_only=True)
class Watch(SignalFiles):
    """Seven shoulder exercises by ten people, worn on either wrist, at 50 Hz [burns2018].

    The file is one pickle, ``seglearn/data/watch_dataset.npy`` of the package seglearn 1.2.5. It is
    taken from the package index, verified, and read by a reader that builds lists, texts, numbers
    and arrays and can do nothing else. It is read as a whole when the labels are asked for. The
    attribute ``side`` is left or right.

    What is not certain: units. At rest the accelerometer reads about 1, so g is likely; of the
    gyroscope nothing is said.

    Args:
        root: the file, if it is on this machine already; None fetches it.
        subjects: only these, ``"1"`` to ``"10"``; empty for all.
    """

    ABOUT: ClassVar[DataSource] = DataSource(
        title="SPARS, smartwatch shoulder exercises",
        kind=Medium.SIGNALS,
        licence="BSD-3-Clause (the package's)",
        home="https://dmbee.github.io/seglearn",
        citation="burns2018",
    )
    CLASSES: ClassVar[tuple[str, ...]] = ACTIVITIES
    PUBLISHED: ClassVar[PublishedCounts] = {
        "series": (140, _SOURCE),
        "subjects": (10, "the file of seglearn 1.2.5"),
        "exercises": (7, _SOURCE),
    }

    root: Path | None = None
    subjects: tuple[str, ...] = ()

    @property
    def people(self) -> tuple[str, ...]:
        """Ten, by number."""
        return SUBJECTS

    def check(self) -> tuple[CountLine, ...]:
        """Count series, people and exercises of the whole file."""
        data = self._file_content
        return (
            self._count_line("series", len(data["X"])),
            self._count_line("subjects", len(set(data["subject"].tolist()))),
            self._count_line("exercises", len(set(data["y"].tolist()))),
        )

    @cached_property
    def _file_content(self) -> dict[str, Any]:
        path = downloads.fetch_asset(ASSET) if self.root is None else self.root
        if not path.is_file():
            raise BadInput(f"Expected a file at {path}; there is none. Leave root out to fetch it.")
        with path.open("rb") as stream:
            return _check_content(_unpickle_file(stream, path), path)

    @cached_property
    def _series_numbers(self) -> tuple[int, ...]:
        wanted = self.subjects or SUBJECTS
        subjects = enumerate(self._file_content["subject"].tolist())
        return tuple(place for place, subject in subjects if str(subject) in wanted)

    def _find(self) -> Sequence[Labels]:
        data = self._file_content
        return [
            Labels(
                name=f"series_{place:03}",
                subject=str(data["subject"][place]),
                activity=ACTIVITIES[data["y"][place]],
                attributes={"side": "right" if data["side"][place] else "left"},
            )
            for place in self._series_numbers
        ]

    def _load(self, index: int) -> Signal:
        labels, place = self.labels[index], self._series_numbers[index]
        values = self._file_content["X"][place].astype(np.float32)  # (T, C)
        return Signal(
            values=values,
            rate_hz=RATE_HZ,
            activity=np.full(len(values), self._file_content["y"][place], np.int64),
            subject=labels.subject,
            channels=CHANNELS,
            attributes=labels.attributes,
        )


class _PickledArray:
    """An array while it is being unpickled; our own code builds it from bytes or from a list."""

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, content = state
        order = "F" if is_fortran else "C"
        if kind.text == "O":
            self.value: Any = list(content)
        else:
            flat = np.frombuffer(content, np.dtype(kind.text))
            self.value = flat.reshape(shape, order=order)  # type: ignore[call-overload]


class _PickledType:
    """A dtype while it is being unpickled: one of three."""

    def __init__(self, text: str, *_: object) -> None:
        if text not in ("f8", "i8", "O8"):
            raise pickle.UnpicklingError(f"an array of {text!r}")
        self.text = text.replace("O8", "O")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if self.text != "O":
            self.text = {"<": "<", ">": ">"}[state[1]] + self.text


def _make_array(*_: object) -> _PickledArray:
    return _PickledArray()


def _encode_latin(text: str, codec: str) -> bytes:
    if codec != "latin1":
        raise pickle.UnpicklingError(f"the codec {codec!r}")
    return text.encode("latin1")


class _SafeUnpickler(pickle.Unpickler):
    """Knows four names, and for each something harmless of this file."""

    _KNOWN: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): _make_array,
        ("numpy._core.multiarray", "_reconstruct"): _make_array,
        ("numpy", "ndarray"): "ndarray",
        ("numpy", "dtype"): _PickledType,
        ("_codecs", "encode"): _encode_latin,
    }

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        known = self._KNOWN.get((module_name, global_name))
        if known is None:
            raise pickle.UnpicklingError(f"a call of {module_name}.{global_name}")
        return known

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("a reference to something outside")


def _unpickle_file(stream: BinaryIO, path: Path) -> Any:
    """The one object in an .npy file with a pickle in it."""
    try:
        np.lib.format.read_magic(stream)
        np.lib.format.read_array_header_1_0(stream)
        found = _SafeUnpickler(stream).load()
        return found.value[0]
    except pickle.UnpicklingError as error:
        raise BadInput(
            f"Expected arrays and nothing else in the pickle {path}, got {error}; it was not run. "
            "Use the file of seglearn 1.2.5."
        ) from error
    except (ValueError, EOFError, LookupError, TypeError, AttributeError, MemoryError) as error:
        raise BadInput(
            f"Expected a whole .npy file at {path}; it cannot be read. Fetch it again."
        ) from error


def _check_content(found: Any, path: Path) -> dict[str, Any]:
    """The content with its arrays, once it is known to be what it should be."""
    if not isinstance(found, dict) or not set(_KEYS) <= set(found):
        raise BadInput(f"Expected {', '.join(_KEYS)} in {path}; use the file of seglearn 1.2.5.")
    data = {
        key: item.value if isinstance(item, _PickledArray) else item for key, item in found.items()
    }
    data["X"] = [getattr(series, "value", None) for series in data["X"]]
    if tuple(data["X_labels"]) != _FILE_CHANNELS or tuple(data["y_labels"]) != ACTIVITIES:
        raise BadInput(
            f"Expected the channels {', '.join(_FILE_CHANNELS)} and the exercises "
            f"{', '.join(ACTIVITIES)} in {path}; use the file of seglearn 1.2.5."
        )
    for key in ("y", "subject", "side"):
        if np.shape(data[key]) != (len(data["X"]),):
            raise BadInput(
                f"Expected one {key} a series in {path}, got shape {np.shape(data[key])} for "
                f"{len(data['X'])} series."
            )
    for place, series in enumerate(data["X"]):
        if np.ndim(series) != 2 or np.shape(series)[1] != len(_FILE_CHANNELS):
            raise BadInput(
                f"Expected series {place} of {path} with 6 channels, got shape {np.shape(series)}."
            )
    return data
