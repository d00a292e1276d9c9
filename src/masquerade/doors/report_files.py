"""Published files as sections of their page: pictures, curves and words, each checked before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from masquerade import video
from masquerade._printed import counted
from masquerade.doors.receipt import Checked, read_checked
from masquerade.doors.source import Numbers, find
from masquerade.errors import BadInput
from masquerade.mechanism import Shapes
from masquerade.report import media, page, releases, series
from masquerade.report.page import Section

_SHOWN = 4  # films or pictures of those that were released in one way
_MOST_BYTES = 24 << 20  # of films in a page; after that single frames are shown
_MOST_NAMES = 200


def checked(files: Sequence[Path], *, signers: Sequence[Path | str] = ()) -> list[Checked]:
    """All of them, films first.

    Args:
        files: published files.
        signers: public keys that the reader trusts.

    Raises:
        BadInput: for the first that does not agree with its receipt; it says why.
    """
    found = [read_checked(path, signers=signers) for path in files]
    return sorted(found, key=lambda one: not one.is_film)


def sections(found: Sequence[Checked], original: Path | None) -> list[Section]:
    """A section for each way in which files were released.

    Args:
        found: what was published.
        original: what one of them was before; then it is the only one.
    """
    ways: dict[str, list[Checked]] = {}
    for one in found:
        ways.setdefault(_way(one), []).append(one)
    made: list[Section] = []
    for files in ways.values():
        is_still = sum(len(section.body) for section in made) > _MOST_BYTES
        made.append(_section(files, original, is_still=is_still))
    return made


def _way(one: Checked) -> str:
    """Files that share it are promised the same, in the same words."""
    said = json.loads(one.receipt.to_json())
    same = [said[key] for key in ("mechanism", "fields", "guarantee", "is_rehearsal")]
    doubts = [one.signed_by, one.doubt]
    return json.dumps([one.is_film, *doubts, *same, one.receipt.kept_sound], sort_keys=True)


def _section(files: list[Checked], original: Path | None, *, is_still: bool) -> Section:
    first, *others = files
    title = f"{counted(len(files), 'file')}, all released in one way" if others else first.name
    unit = media.unit_on_frame(first.receipt.guarantee.unit, first.path) if first.is_film else ""
    section = releases.section(
        title,
        first.receipt,
        pictures=_pictures(files, original, is_still=is_still),
        unit=unit,
        is_film=first.is_film,
        cautions=releases.cautions(
            first.receipt,
            is_film=first.is_film,
            is_signed=first.signed_by is not None,
            doubt=first.doubt,
        ),
    )
    names = tuple(one.name for one in files)
    return replace(section, has_originals=original is not None, names=names)


def _pictures(files: list[Checked], original: Path | None, *, is_still: bool) -> str:
    first = files[0]
    if first.receipt.mechanism and first.path.suffix == ".safetensors":
        return page.paragraphs([f"A model that was trained by {first.receipt.mechanism}."])
    if not first.is_film:
        return _curves(first, original) + _names(files)
    if original is not None:
        if not video.is_video(original):
            raise BadInput(f"Expected a film or a picture as --original, got {original.name}.")
        return media.side_by_side([("Before (private)", original), ("Published", first.path)])
    several = len(files) > 1
    pairs = [(one.name if several else "Published", one.path) for one in files[:_SHOWN]]
    return media.side_by_side(pairs, is_still=is_still) + _names(files)


def _names(files: list[Checked]) -> str:
    """Which files they are, where there are several."""
    if len(files) == 1:
        return ""
    said = [one.name for one in files[:_MOST_NAMES]]
    if len(files) > len(said):
        said.append(f"and {counted(len(files) - len(said), 'file')} more")
    return page.folded("Which files", page.listing(said))


def _curves(one: Checked, original: Path | None) -> str:
    """The first column of numbers that vary over time; nothing for anything else."""
    shapes = one.receipt.shapes
    drawn = {"published": _column(one.path, shapes)}
    if original is not None:
        drawn = {"before": _column(original, shapes), **drawn}
    if any(column is None for column in drawn.values()):
        return page.paragraphs(["Numbers that are not drawn here."])
    told = {name: column for name, column in drawn.items() if column is not None}
    columns = shapes[0][1] if len(shapes[0]) == 2 else 1
    caption = "The numbers in order." if columns == 1 else f"The first of {columns} columns."
    return page.captioned(series.svg(told), caption)


def _column(path: Path, shapes: Shapes) -> np.ndarray | None:
    """The first column of the file's first array, if it is a table or a list of numbers."""
    for heading in (False, True):
        try:
            found = find(path, heading=heading)
        except BadInput:
            if heading or path.suffix.lower() != ".csv":
                raise
            continue
        if isinstance(found, Numbers) and (found.shapes == shapes or heading):
            break
        if path.suffix.lower() != ".csv":
            break
    if not isinstance(found, Numbers):
        raise BadInput(f"Expected numbers as --original, got {path.name}.")
    array = np.asarray(found.table.arrays[0], dtype=np.float64)
    if array.ndim > 2 or array.ndim == 0 or len(array) < 2:
        return None
    column = array if array.ndim == 1 else array[:, 0]
    return column if np.isfinite(column).sum() > 1 else None
