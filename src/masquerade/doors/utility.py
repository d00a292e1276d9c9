"""Measure how much of the picture is left of a video; the figures are private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tyro.conf import Positional

from masquerade import _check, _json, video
from masquerade.compute.progress import bars
from masquerade.doors import Answer
from masquerade.errors import BadInput
from masquerade.files import arrays
from masquerade.mechanism import Frames
from masquerade.utility import picture
from masquerade.utility.picture import PictureQuality
from masquerade.video import probe, read

_ARRAYS = (".npy", ".npz")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Film:
    """A file whose shape is known and whose frames are still to come."""

    shape: tuple[int, ...]
    frames: Frames
    is_rounded: bool = False


def measure_files(before: Path | str, after: Path | str, *, every: int = 1) -> PictureQuality:
    """Measure what is left of a video: two video files, pictures, .npy or .npz files.

    Args:
        before: the original. An array is (T, H, W, 3) uint8.
        after: what was made of it. An array of other numbers, as a mechanism that adds noise gives
            it, is rounded and clamped to 0..255 first, as it must be to be shown.
        every: SSIM is measured on every ``every``-th frame.

    Raises:
        BadInput: if a file is missing, damaged or holds no video.
        ValueError: if the two differ in length or size.
    """
    return _compare(_original(Path(before)), _open(Path(after)), every=every)


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Compare a video with its original: PSNR, SSIM, flicker. The figures are private.

    Args:
        before: the original: a video, a picture, or a .npy or .npz of (T, H, W, 3) uint8.
        after: what was made of it, of the same length and size.
        every: measure SSIM, the slow one, on every so many frames.
    """

    before: Positional[Path]
    after: Positional[Path]
    every: int = 1

    def __post_init__(self) -> None:
        _check.count(every=self.every)

    def run(self) -> Answer:
        """Measure, and say to whom the figures may be shown."""
        before, after = _original(self.before), _open(self.after)
        quality = _compare(before, after, every=self.every)
        return Answer(
            data={
                "private": True,
                **_json.encode(quality),
                "flicker_ratio": quality.flicker_ratio,
                "identical": quality.is_identical,
                "rounded": after.is_rounded,
            },
            lines=[
                "PRIVATE: computed from the original. Keep these figures where the original is.",
                *_lines(quality),
                *(["AFTER was rounded and clamped to 0..255 to be shown."] * after.is_rounded),
            ],
        )


def _original(path: Path) -> _Film:
    film = _open(path)
    if film.is_rounded:
        raise BadInput(
            f"Expected the original in {path} as uint8 RGB, got other numbers; "
            "convert to 0..255 with a public range first."
        )
    return film


def _open(path: Path) -> _Film:
    suffix = path.suffix.lower()
    if suffix in _ARRAYS:
        return _open_array(path)
    if not video.is_video(path):
        choices = (*video.SUFFIXES, *_ARRAYS)
        raise ValueError(_check.unknown("kind of file", suffix or path.name, choices))
    with bars() as progress:
        progress.add_task(f"counting {path.name}", total=None)
        shape = probe.probe(path).shape
    return _Film(shape=shape, frames=read.frames(path))


def _open_array(path: Path) -> _Film:
    table = arrays.read(path)
    if len(table.arrays) != 1:
        raise BadInput(
            f"Expected one array in {path}, got {', '.join(table.names)}; save the video alone."
        )
    values = table.arrays[0]
    if values.ndim != 4 or values.shape[3] != 3:
        raise BadInput(f"Expected video of (T, H, W, 3) in {path}, got shape {values.shape}.")
    if values.dtype == np.uint8:
        return _Film(shape=values.shape, frames=iter(values))
    return _Film(shape=values.shape, frames=map(_shown, values), is_rounded=True)


def _shown(frame: np.ndarray) -> np.ndarray:
    """The frame as a screen would show it."""
    shown: np.ndarray = np.clip(np.rint(frame), 0, 255).astype(np.uint8)
    return shown


def _compare(before: _Film, after: _Film, *, every: int) -> PictureQuality:
    if before.shape != after.shape:
        raise ValueError(
            f"Expected two videos of one length and size, got {before.shape} before and "
            f"{after.shape} after (frames, height, width, channels); cut or scale one of them."
        )
    with bars() as progress:
        seen = progress.track(before.frames, total=before.shape[0], description="comparing")
        return picture.measure(seen, after.frames, every=every)


def _lines(quality: PictureQuality) -> list[str]:
    """The figures for people."""
    side = quality.ssim_window
    told = [f"{quality.frames} frames of {quality.width}x{quality.height} pixels."]
    if quality.is_identical:
        told.append("PSNR:      infinite; no pixel differs")
    else:
        of_frames = f"{quality.psnr_of_frames:.2f} dB"
        if math.isinf(quality.psnr_of_frames):
            of_frames = "infinite, some are unchanged"
        told.append(
            f"PSNR:      {quality.psnr:.2f} dB over all pixels (mean of frames {of_frames})"
        )
    told.append(
        f"SSIM:      {quality.ssim:.4f}, the mean of {quality.ssim_frames} frames "
        f"(window {side}x{side})"
    )
    if quality.frames == 1:
        return [*told, "Flicker:   none; there is a single frame"]
    times = "" if math.isinf(quality.flicker_ratio) else f", {quality.flicker_ratio:.3g} times it"
    return [
        *told,
        f"Flicker:   {quality.flicker_before:.3g} grey levels a frame before, "
        f"{quality.flicker_after:.3g} after{times}",
        f"Stability: the change made varies by {quality.perturbation_stability:.3g} grey levels "
        "from frame to frame",
    ]


COMMAND = Measure
