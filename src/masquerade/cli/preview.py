"""See before and after at once: a sheet of three units and two epsilons, with rehearsal noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from masquerade import _check, _formatting, catalog
from masquerade.cli.flags import Positional, list_flags
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.guarantee import PROTECTS, UnitName, parse_unit_name
from masquerade.io import atomic
from masquerade.io.video import read
from masquerade.mechanisms.expected_view import ExpectedView, predict_view
from masquerade.noise import Noise
from masquerade.progress import show_spinner
from masquerade.publish.recording import make_mechanism, release_value
from masquerade.publish.sources import FilmRecording, read_header
from masquerade.recordings import Video
from masquerade.report import sheet
from masquerade.result import CommandResult

_REHEARSAL_SEED = 1  # of a rehearsal: nothing here is published
_SECONDS_PER_PIXEL = 4e-6  # seconds a pixel of the film, with six releases
_MIN_SIDE_PX = 32  # pixels; a stand-in below that shows nobody
_LONG_UNITS = (UnitName.TUBE, UnitName.VIDEO, UnitName.RECORD, UnitName.SUBJECT)
_FILE_UNITS = tuple(name for name in UnitName if name is not UnitName.SHARD)
_STAND_IN_NOTE = (
    "Nobody on this sheet ever lived: a generated film of the size of {name} stands in for it, so "
    "that settings can be chosen without looking at private footage."
)
_PRIVATE_NOTE = (
    "PRIVATE: this sheet shows {name} itself, under noise that protects nothing. Do not give it "
    "away, and choose no setting by it: a choice that was made by looking at private footage "
    "tells something about it that no epsilon counts."
)


@dataclass(frozen=True, kw_only=True)
class PreviewFilm:
    """Draw a sheet of before and after: three units, two epsilons; nothing is published or spent.

    A generated film of the same size stands in for the private one, of which only the header is
    read: settings must not be chosen by looking at private footage.

    Example:
        masquerade preview ward.mp4

    Args:
        source: the film or picture that you think of publishing.
        out: the sheet (.svg, for a browser); by default INPUT-preview.PRIVATE.svg.
        mechanism: one with a proof that takes a unit.
        units: what is protected, a row each.
        epsilons: a column each.
        delta: of all of them.
        pixels: m, for the units pixels and tube.
        frames: of the film that are shown; more take longer.
        private: draw the private film itself; the sheet is then private, and says so.
        overwrite: replace a sheet that stands there.
    """

    source: Positional[Path]
    out: Path | None = None
    mechanism: str = "cosine_gaussian"
    units: tuple[str, ...] = ("pixels", "frame", "subject")
    epsilons: tuple[float, ...] = (2.0, 8.0)
    delta: float = 1e-5
    pixels: int = 256
    frames: int = 32
    private: bool = False
    overwrite: bool = False

    def __post_init__(self) -> None:
        _check.count(frames=self.frames, pixels=self.pixels)
        _check.delta(delta=self.delta)
        for unit in self.units:
            parse_unit_name(unit, _FILE_UNITS)
        if self.mechanism not in (known := list_proved()):
            raise ValueError(
                _check.describe_unknown("mechanism with a proof", self.mechanism, known)
            )
        if not self.units or not self.epsilons:
            raise ValueError("Expected at least one of --units and one of --epsilons, got none.")

    @property
    def target(self) -> Path:
        """Where the sheet goes."""
        return self.out or self.source.with_name(f"{self.source.stem}-preview.PRIVATE.svg")

    def run(self) -> CommandResult:
        """Draw it."""
        self._check_target()
        found = read_header(self.source)
        if not isinstance(found, FilmRecording):
            raise BadInput(f"Expected a film or a picture, got {self.source}; --dry-run has words.")
        ((length, high, wide, _),) = found.shapes
        shown = min(length, self.frames)
        with show_spinner(
            "drawing the sheet", seconds=2 + shown * high * wide * _SECONDS_PER_PIXEL
        ):
            film = self._read_film(shown, high, wide)
            rows = [self._make_row(UnitName(unit), film) for unit in self.units]
        said = _PRIVATE_NOTE if self.private else _STAND_IN_NOTE
        words = [said.format(name=self.source.name), *self._describe_length(length, shown)]
        columns = (
            "before",
            *(f"epsilon {_formatting.format_rounded_up(each)}" for each in self.epsilons),
        )
        title = (
            f"PRIVATE preview: {self.mechanism}, delta {_formatting.format_rounded_up(self.delta)}"
        )
        text = sheet.draw_contact_sheet(title, words, columns, rows)
        atomic.write_whole(self.target, text.encode(), is_private=True)
        return CommandResult(
            data={"sheet": str(self.target), "is_stand_in": not self.private, "frames": shown},
            lines=[f"Wrote {self.target}; open it in a browser.", *words],
        )

    def _check_target(self) -> None:
        if self.target.suffix.lower() != ".svg":
            raise ValueError(f"Expected a sheet that ends in .svg, got {self.target.name}.")
        if self.target.exists() and not self.overwrite:
            raise FileExistsError(
                f"Expected no {self.target}, got one: give --overwrite, or another --out."
            )

    def _read_film(self, frames: int, high: int, wide: int) -> Video:
        if self.private:
            return Video(frames=read.read_segment(self.source, 0, frames), rate_hz=25.0)
        return make_stand_in(frames, high, wide)

    def _describe_length(self, length: int, shown: int) -> list[str]:
        """What a part of the film does not show."""
        longer = [unit for unit in self.units if unit in _LONG_UNITS]
        if shown == length or not longer:
            return []
        return [
            f"Drawn with {shown} of {length} frames: under {' and '.join(longer)} the whole film "
            "needs more noise, and leaves less than is shown here."
        ]

    def _make_row(self, unit: UnitName, film: Video) -> sheet.ContactRow:
        middle = len(film.frames) // 2
        pictures, notes = [film.frames[middle]], [""]
        fields: dict[str, Any] = {"delta": self.delta, "unit": unit.value}
        sites = unit in (UnitName.PIXELS, UnitName.TUBE)
        fields |= {"pixels": self.pixels} if sites else {}
        for epsilon in self.epsilons:
            mechanism = make_mechanism(self.mechanism, epsilon=epsilon, **fields)
            done = release_value(film, mechanism, noise=Noise(seed=_REHEARSAL_SEED))
            assert isinstance(done.value, Video)
            assert done.plan is not None  # whatever was released has one
            sight = predict_view(done.plan, (film.frames.shape,), is_video=True)
            pictures.append(done.value.frames[middle])
            notes.append("grey: a release asks for --yes" if sight is ExpectedView.GREY else "")
        label = f"unit {unit.value}" + (f", {self.pixels}" if sites else "")
        about = f"protects {PROTECTS[unit].replace(' m ', f' {self.pixels} ')}"
        return sheet.ContactRow(label=label, about=about, pictures=pictures, notes=notes)


def list_proved() -> list[str]:
    """The mechanisms that need no more than a budget and a unit."""
    found = []
    for name in catalog.list_entries("mechanisms"):
        own = list_flags(catalog.load_class("mechanisms", name))
        needed = {each.name for each in own.values() if each.is_needed}
        if "unit" in own and needed <= {"epsilon", "delta"}:
            found.append(name)
    return found


def make_stand_in(frames: int, high: int, wide: int) -> Video:
    """Somebody who never lived, in a film of this size."""
    grown = max(1, math.ceil(_MIN_SIDE_PX / min(high, wide)))
    stage = Stage(
        seed=11, height=high * grown, width=wide * grown, subjects=12, videos=12, frames=frames
    )
    made = stage[0]
    assert isinstance(made, Video)
    if grown == 1:
        return made
    small = made.frames.reshape(frames, high, grown, wide, grown, 3).mean(axis=(2, 4))
    return Video(frames=np.rint(small).astype(np.uint8), rate_hz=made.rate_hz)


COMMAND = PreviewFilm
