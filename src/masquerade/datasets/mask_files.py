"""Masks that lie in a folder of their own, one for each recording, found by the recording's name.

For ``Archery/v_Archery_g01_c01.avi`` one of these is looked for, and two are refused::

    folder/Archery/v_Archery_g01_c01/0001.png, 0002.png, ...    one picture a frame
    folder/Archery/v_Archery_g01_c01.masks.npz, or .npz         one array
    folder/Archery/v_Archery_g01_c01.mkv                        a video, of any kind that we read

People are white. A pixel that is not clearly on the public side counts as private: in a picture
0 is background, 128 and more a person (or 1, where nothing is more than 1), and in a video, which
may have lost something, up to 63 and from 192 on; all between is private. The mask of a video that
is played turned is upright, as the video is seen.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NoReturn

import numpy as np

from masquerade._optional import lazy_module
from masquerade.errors import BadInput
from masquerade.io.arrays import list_array_names, read_array
from masquerade.io.video import is_video

if TYPE_CHECKING:
    from masquerade.io.video import read
else:
    read = lazy_module("masquerade.io.video.read")


Side = Literal["background", "person"]
_NUMBER = re.compile(r"(\d+)\D*$")
# What an avatar's masks are called: drawn surely, drawn, and all that blending touched.
_AVATAR = {"background": "eroded_r", "person": "q"}
_PERSON = "person"
_MASK_SUFFIX = ".masks.npz"  # stands beside the recording, as an avatar's does
# Beside a person's mask that a segmenter made for one private side: what made it, as UTF-8 bytes.
_SEGMENTER_FIELDS = {"background": "segmenter_background", "person": "segmenter_person"}

_MAX_WORDS_BYTES = 1000  # bytes of that


class MaskForm(StrEnum):
    """How a mask is kept."""

    PICTURES = "pictures"
    ARRAY = "array"
    AVATAR = "avatar"
    FILM = "video"


@dataclass(frozen=True, kw_only=True, eq=False)
class Mask:
    """A mask that was read.

    Args:
        person: (T, H, W) bool, True on people; what is in doubt is on the private side.
        form: how it was kept.
        made_by: what the segmenter was that made it, if one did.
    """

    person: np.ndarray
    form: MaskForm
    made_by: str = ""


@dataclass(frozen=True, kw_only=True)
class MaskFiles:
    """A folder of masks, or those that a table names.

    Args:
        folder: where the names of recordings begin.
        private: which side of a mask is.
        named: where the mask of each recording lies, by the recording's name, if a table says so.
    """

    folder: Path
    private: Side
    named: Mapping[str, Path] | None = None
    _listed: dict[Path, list[str]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.folder.is_dir():
            got = "a file" if self.folder.exists() else "nothing"
            _refuse_mask(f"Expected a folder of masks at {self.folder}, got {got}; check --masks.")
        if not any(self.folder.iterdir()):
            _refuse_mask(f"Expected masks in {self.folder}, got an empty folder; check --masks.")

    def find_mask_path(self, name: str) -> Path:
        """Where the mask of a recording lies.

        Raises:
            BadInput: if there is none, or more than one, or the name or a link leads elsewhere.
        """
        if self.named is not None:
            return self.named[name]
        stem = PurePosixPath(name).with_suffix("")
        if stem.is_absolute() or {"", ".."} & set(stem.parts):
            _refuse_mask(
                f"Expected a recording's name below its folder, got {name!r}; mend its list."
            )
        place = self.folder / stem
        found = self._find_same_name(place)
        if any(one.name.lower().endswith(_MASK_SUFFIX) for one in found):  # of the recording itself
            found = [one for one in found if one.name != PurePosixPath(name).name]
        if not found:
            _refuse_mask(
                f"Expected a mask of {name} in {self.folder}: {stem}.masks.npz, {stem}.npz, a "
                f"folder {stem} of PNG files or a video {stem}.mkv; got none."
            )
        if len(found) > 1:
            listed = " and ".join(str(path.relative_to(self.folder)) for path in found)
            _refuse_mask(f"Expected one mask of {name}, got {listed}; move the wrong one away.")
        self._check_inside(found[0])
        return found[0]

    def read_mask(self, name: str, shape: tuple[int, ...]) -> Mask:
        """The mask of a recording whose frames have this shape, (T, H, W, ...).

        Raises:
            BadInput: as `path`, and if it cannot be read or does not fit.
        """
        path, wanted = self.find_mask_path(name), shape[:3]
        if path.is_dir():
            return self._from_frames(path, self._read_pictures(path), wanted, MaskForm.PICTURES)
        if path.suffix.lower() == ".npz":
            return self._from_arrays(path, wanted)
        return self._from_frames(
            path, _stream_public_frames(read.read_frames(path), path), wanted, MaskForm.FILM
        )

    def _find_same_name(self, place: Path) -> list[Path]:
        """Masks of this name; letter case is ignored only where nothing has the very name."""
        if place.parent not in self._listed:
            is_there = place.parent.is_dir()
            names = (each.name for each in place.parent.iterdir()) if is_there else ()
            self._listed[place.parent] = sorted(names)
        every = [place.parent / name for name in self._listed[place.parent] if name[:1] != "."]
        exact = [path for path in every if _find_stem(path) == place.name]
        alike = [path for path in every if _find_stem(path).lower() == place.name.lower()]
        return exact or alike

    def _check_inside(self, path: Path) -> None:
        if not path.resolve().is_relative_to(self.folder.resolve()):
            _refuse_mask(
                f"Expected masks below {self.folder}, got {path.relative_to(self.folder)}, a link "
                "that leads out of it; copy the mask."
            )

    def _read_pictures(self, folder: Path) -> Iterator[np.ndarray]:
        """The pictures of a folder, by the number in their names."""
        numbered: dict[int, Path] = {}
        for path in sorted(each for each in folder.iterdir() if each.name[:1] != "."):
            found = _NUMBER.search(path.stem)
            if path.suffix.lower() != ".png" or found is None:
                _refuse_mask(
                    f"Expected PNG files with a number alone in {folder}, got {path.name}."
                )
            if int(found[1]) in numbered:
                _refuse_mask(f"Expected one mask a frame, got number {found[1]} twice in {folder}.")
            if self.named is None:
                self._check_inside(path)
            numbered[int(found[1])] = path
        if not numbered:
            _refuse_mask(f"Expected PNG files in {folder}, got none; put one there for each frame.")
        missing = set(range(min(numbered), max(numbered))) - set(numbered)
        if missing:
            _refuse_mask(f"Expected every number once in {folder}, got none for {min(missing)}.")
        for number in sorted(numbered):
            yield from _stream_public_frames(read.read_frames(numbered[number]), numbered[number])

    def _from_frames(
        self, path: Path, frames: Iterator[np.ndarray], wanted: tuple[int, ...], form: MaskForm
    ) -> Mask:
        values = np.empty(wanted, np.uint8)
        count = 0
        for count, frame in enumerate(frames, 1):
            if frame.shape[:2] != wanted[1:]:
                _refuse_misfit(path, (None, *frame.shape[:2]), wanted)
            if count <= len(values):
                values[count - 1] = frame.max(axis=2)
        if count != len(values):
            _refuse_misfit(path, (count, *wanted[1:]), wanted)
        return Mask(person=self._select_people(values, is_lossy=form is MaskForm.FILM), form=form)

    def _select_people(self, values: np.ndarray, *, is_lossy: bool) -> np.ndarray:
        """Who is surely a person where people are public; else who is not surely background."""
        least, most = (192, 63) if is_lossy else (128, 0)
        if not is_lossy and values.max() <= 1:  # bits
            least = 1
        return values >= least if self.private == "background" else values > most

    def _from_arrays(self, path: Path, wanted: tuple[int, ...]) -> Mask:
        try:
            names = list_array_names(path)
            avatar = _AVATAR[self.private]
            if (_PERSON in names) == (avatar in names):
                _refuse_mask(
                    f"Expected one of {_PERSON} and {avatar} (an avatar's, where the "
                    f"{self.private} is private) in {path}, got {', '.join(names)}; save it again."
                )
            key, form = (_PERSON, MaskForm.ARRAY) if _PERSON in names else (avatar, MaskForm.AVATAR)
            made_by = self._find_segmenter(names, path)
            held = read_array(path, partial(_check_mask, path, wanted), name=key)
            return Mask(person=_unpack_bits(held, path, wanted), form=form, made_by=made_by)
        except BadInput as error:
            raise BadInput(str(error), is_public=True) from error

    def _find_segmenter(self, names: tuple[str, ...], path: Path) -> str:
        """The segmenter of a mask; one that leans to the other side is refused."""
        found = [side for side, key in _SEGMENTER_FIELDS.items() if key in names]
        if not found:
            return ""
        if found != [self.private]:
            _refuse_mask(
                f"Expected a mask that was made for {self.private} private, got {path}, which a "
                f"segmenter made for {' and '.join(found)} private, so that its doubt falls on the "
                "wrong side; make it again."
            )
        said = read_array(path, partial(_check_words, path), name=_SEGMENTER_FIELDS[self.private])
        return said.tobytes().decode("utf-8", "replace")


def pack_mask(mask: np.ndarray, *, private: Side, made_by: str) -> bytes:
    """A .npz of a mask that a segmenter made for one private side, as `MaskFiles` reads it."""
    stream = io.BytesIO()
    said = np.frombuffer(made_by.encode(), np.uint8)
    held = {_PERSON: np.packbits(mask, axis=2), _SEGMENTER_FIELDS[private]: said}
    np.savez_compressed(stream, **held)  # type: ignore[arg-type]
    return stream.getvalue()


def _find_stem(path: Path) -> str:
    """The recording that a mask is named after; nothing for other files."""
    name = path.name
    for suffix in (_MASK_SUFFIX, ".npz"):
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    if path.is_dir():
        return name
    return path.stem if is_video(path) else ""


def _check_mask(
    path: Path, wanted: tuple[int, ...], shape: tuple[int, ...], dtype: np.dtype[np.generic]
) -> None:
    """Refuse what is no mask of these frames, before it is unpacked."""
    if dtype.kind not in "bu":
        _refuse_mask(f"Expected bool or uint8 in {path}, got {dtype}; a mask is True or False.")
    if shape != wanted and not (_is_packed(shape, wanted) and dtype == np.uint8):
        _refuse_misfit(path, shape, wanted)


def _check_words(path: Path, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
    if len(shape) != 1 or shape[0] > _MAX_WORDS_BYTES or dtype != np.uint8:
        _refuse_mask(
            f"Expected at most {_MAX_WORDS_BYTES} bytes on what made the mask in {path}, got "
            f"{shape} of "
            f"{dtype}; make it again."
        )


def _is_packed(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    return shape == (*wanted[:2], -(-wanted[2] // 8)) and shape != wanted


def _unpack_bits(array: np.ndarray, path: Path, wanted: tuple[int, ...]) -> np.ndarray:
    """A bool array, from bool, from whole numbers 0 and 1 or 255, or from bits packed by lines."""
    if _is_packed(array.shape, wanted):
        return np.unpackbits(array, axis=2, count=wanted[2]).view(bool)
    if array.dtype.kind == "u" and not any(
        all(np.isin(frame, pair).all() for frame in array) for pair in ((0, 1), (0, 255))
    ):
        _refuse_mask(f"Expected 0 and 1, or 0 and 255, in {path}, got other values; save bool.")
    return array.astype(bool)


def _stream_public_frames(frames: Iterator[np.ndarray], path: Path) -> Iterator[np.ndarray]:
    """The same frames; a mask is public, so what is wrong with it may be said."""
    try:
        yield from frames
    except BadInput as error:
        raise BadInput(str(error), is_public=True) from error


def _refuse_misfit(path: Path, got: tuple[int | None, ...], wanted: tuple[int, ...]) -> NoReturn:
    if len(got) != 3:
        said = f"an array of shape {got}"
    elif got[1:] != wanted[1:]:
        said = f"{got[1]} x {got[2]} pixels"
    else:
        said = f"{got[0]} frames"
    _refuse_mask(
        f"Expected a mask of {wanted[0]} frames, {wanted[1]} x {wanted[2]} pixels upright, as its "
        f"recording has, got {said} in {path}; make the mask from the recording as it is read."
    )


def _refuse_mask(said: str) -> NoReturn:
    raise BadInput(said, is_public=True)
