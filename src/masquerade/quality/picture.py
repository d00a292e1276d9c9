"""How much of the picture is left: PSNR, SSIM, flicker and steadiness, in one pass over two videos.

All sums are of whole numbers and exact, and none grows with the length of the video. Every figure
here is computed from the original: it is private, whatever the mechanism was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from masquerade import _check

_MAX_LEVEL = 255
_WINDOW_PX = 7
_BAND_ROWS = 16  # rows of windows at once: what is summed stays in the processor's cache


@dataclass(frozen=True, kw_only=True)
class PictureQuality:
    """What a video still shows, measured against its original.

    Args:
        frames: how many were compared.
        height: of a frame, in pixels.
        width: of a frame, in pixels.
        psnr: in dB, of all pixels of the video together [ma2026, Sec. 3.1]; infinite if nothing was
            changed.
        psnr_of_frames: the mean of the frames' own PSNR; infinite if any frame is unchanged.
        ssim: mean of the frames measured; 1 if they are unchanged.
        ssim_frames: how many frames that is.
        ssim_window: side of SSIM's window in pixels; below 7 where a frame is smaller.
        flicker_before: mean absolute change from one frame to the next of the original, in grey
            levels [ma2026, Sec. 3.6].
        flicker_after: the same of what was made of it. Motion counts too: only against the
            original's own flicker does it say what a mechanism added. A single frame has none: NaN.
        perturbation_stability: spread over time of how much a frame was changed, in grey levels
            [ma2026, Sec. 3.6]; lower is steadier; NaN likewise. The paper takes the standard
            deviation of the frames' "perturbation energy" and does not define that energy. It is
            the mean absolute change here, with one degree of freedom taken off: Gaussian noise of 8
            grey levels on six frames of 192x320 then gives 0.011, where Table 7 prints 0.010; the
            mean square would give 0.2.
    """

    frames: int
    height: int
    width: int
    psnr: float
    psnr_of_frames: float
    ssim: float
    ssim_frames: int
    ssim_window: int
    flicker_before: float
    flicker_after: float
    perturbation_stability: float

    @property
    def flicker_ratio(self) -> float:
        """Flicker after over before; 1 if both stand still, infinite if only the original does."""
        if self.flicker_before == 0:
            return 1.0 if self.flicker_after == 0 else math.inf
        return self.flicker_after / self.flicker_before

    @property
    def is_identical(self) -> bool:
        """Whether no pixel differs."""
        return self.psnr == math.inf


def measure(
    before: Iterable[np.ndarray], after: Iterable[np.ndarray], *, every: int = 1
) -> PictureQuality:
    """Take all measures of two videos in one pass.

    Args:
        before: the original, (H, W, 3) uint8 frames.
        after: what was made of it; as many frames of the same size.
        every: SSIM takes most of the time; it is measured on every ``every``-th frame, from the
            first on.

    Raises:
        ValueError: if the videos differ in length or size, or there is no frame.

    Example:
        >>> video = np.zeros((4, 8, 8, 3), np.uint8)
        >>> quality = measure(video, video + np.uint8(5))
        >>> round(quality.psnr, 2), quality.flicker_after
        (34.15, 0.0)
    """
    _check.count(every=every)
    tally = _Tally()
    for old, new in _pair_frames(before, after):
        tally.add_pair(old, new, with_ssim=tally.frames % every == 0)
    return tally.make_quality()


def ssim_window(height: int, width: int) -> int:
    """Side of the window for a frame of this size: 7, or the largest odd number that fits."""
    fits = min(_WINDOW_PX, height, width)
    return fits if fits % 2 else fits - 1


def frame_ssim(before: np.ndarray, after: np.ndarray) -> float:
    """Structural similarity [wang2004, Eq. 13] of two (H, W, 3) uint8 frames, over channels.

    It equals scikit-image's ``structural_similarity(..., channel_axis=2, data_range=255)``: a
    uniform window of 7x7 wholly inside the frame, sample covariance, K1 = 0.01, K2 = 0.03.
    scikit-image refuses frames below 7 pixels; here the window is then the largest odd one that
    fits, and where that is a single pixel only brightness is compared.
    """
    ((before, after),) = _pair_frames([before], [after])
    height, width, channels = before.shape
    side = ssim_window(height, width)
    rows, columns = height - side + 1, width - side + 1
    band = max(_BAND_ROWS, 2**14 // (width * channels))
    total = 0.0
    for top in range(0, rows, band):
        lines = slice(top, min(top + band, rows) + side - 1)
        x = before[lines].reshape(-1, width * channels).astype(np.int32)  # (rows, W*C)
        y = after[lines].reshape(-1, width * channels).astype(np.int32)
        total += _sum_similarity(x, y, side=side, step=channels)
    return total / float(rows * columns * channels)


def _sum_similarity(x: np.ndarray, y: np.ndarray, *, side: int, step: int) -> float:
    """Sum of SSIM over all windows of two bands whose pixels lie ``step`` apart.

    With n pixels a window all terms are whole numbers over n^2 or n (n - 1), below 2^31.
    """
    n = side * side
    bright = (0.01 * _MAX_LEVEL) ** 2 * n * n
    contrast = (0.03 * _MAX_LEVEL) ** 2 * max(n * (n - 1), 1)  # one pixel has no variance: 1 / 1
    mean_x, mean_y = _window_sums(x, side, step), _window_sums(y, side, step)
    product = 2 * mean_x * mean_y
    squares = mean_x * mean_x + mean_y * mean_y
    covariance = 2 * n * _window_sums(x * y, side, step) - product
    variance = n * _window_sums(x * x + y * y, side, step) - squares
    above = (product + bright) * (covariance + contrast)
    return float(np.sum(above / ((squares + bright) * (variance + contrast))))


def _window_sums(values: np.ndarray, side: int, step: int) -> np.ndarray:
    """Sums over windows of ``side`` rows and ``side`` columns ``step`` apart, wholly inside."""
    rows, columns = values.shape[0] - side + 1, values.shape[1] - (side - 1) * step
    down = values[:rows].copy()
    for shift in range(1, side):
        down += values[shift : shift + rows]
    across = down[:, :columns].copy()
    for shift in range(step, side * step, step):
        across += down[:, shift : shift + columns]
    return across


class _Tally:
    """Running sums of one pass."""

    def __init__(self) -> None:
        self.frames = self.ssim_frames = self.squared = 0
        self.changed = self.changed_squares = self.moved_before = self.moved_after = 0
        self.decibels = self.similarity = 0.0
        self.last: tuple[np.ndarray, ...] = ()

    def add_pair(self, old: np.ndarray, new: np.ndarray, *, with_ssim: bool) -> None:
        """Count one more pair of frames."""
        distance = _pixel_distance(old, new)
        squared, changed = _sum_of_squares(distance), _sum_distance(distance)
        self.squared += squared
        self.decibels += _compute_psnr(squared, old.size)
        self.changed += changed
        self.changed_squares += changed**2
        if self.last:
            self.moved_before += _sum_distance(_pixel_distance(self.last[0], old))
            self.moved_after += _sum_distance(_pixel_distance(self.last[1], new))
        if with_ssim:
            self.similarity += frame_ssim(old, new)
            self.ssim_frames += 1
        self.last = (old.copy(), new.copy())  # a reader may fill the same array again
        self.frames += 1

    def make_quality(self) -> PictureQuality:
        """The figures of what was counted."""
        height, width, _ = self.last[0].shape
        values = self.last[0].size
        moves = (self.frames - 1) * values
        spread = _compute_std(self.changed, self.changed_squares, self.frames)
        return PictureQuality(
            frames=self.frames,
            height=height,
            width=width,
            psnr=_compute_psnr(self.squared, self.frames * values),
            psnr_of_frames=self.decibels / self.frames,
            ssim=self.similarity / self.ssim_frames,
            ssim_frames=self.ssim_frames,
            ssim_window=ssim_window(height, width),
            flicker_before=self.moved_before / moves if moves else math.nan,
            flicker_after=self.moved_after / moves if moves else math.nan,
            perturbation_stability=spread / values,
        )


def _pair_frames(
    before: Iterable[np.ndarray], after: Iterable[np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Frames of two videos side by side; whatever does not match is refused where it is met."""
    pairs = zip_longest(_check_frames(before, "before"), _check_frames(after, "after"))
    for place, (old, new) in enumerate(pairs):
        if old is None or new is None:
            told = ("more", place) if new is None else (place, "more")
            raise ValueError(
                f"Expected two videos of one length, got {told[0]} frames before and {told[1]} "
                "after; cut the longer one."
            )
        if old.shape != new.shape:
            raise ValueError(
                f"Expected two videos of one size, got frames of {old.shape} before and "
                f"{new.shape} after; scale one to the other."
            )
        yield old, new


def _check_frames(frames: Iterable[np.ndarray], name: str) -> Iterator[np.ndarray]:
    """The frames, each (H, W, 3) uint8 and all of the first one's size."""
    size: tuple[int, ...] = ()
    for frame in frames:
        if frame.dtype != np.uint8:
            raise TypeError(f"Expected {name} to be uint8 RGB, got dtype {frame.dtype}.")
        _check.shape("H W 3", **{name: frame})
        size = size or frame.shape
        if 0 in size or frame.shape != size:
            raise ValueError(f"Expected {name} of one size > 0, got {size} and {frame.shape}.")
        yield frame
    if not size:
        raise ValueError(f"Expected {name} to hold at least one frame, got none.")


def _pixel_distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    distance: np.ndarray = np.maximum(one, other) - np.minimum(one, other)  # cannot wrap
    return distance


def _sum_distance(distance: np.ndarray) -> int:
    return int(np.sum(distance, dtype=np.int64))


def _sum_of_squares(distance: np.ndarray) -> int:
    wide = distance.astype(np.uint16)  # 255^2 fits
    return int(np.sum(wide * wide, dtype=np.int64))


def _compute_psnr(squared: int, values: int) -> float:
    return 10 * math.log10(_MAX_LEVEL**2 * values / squared) if squared else math.inf


def _compute_std(total: int, squares: int, frames: int) -> float:
    """Standard deviation of the frames' whole numbers, from their sum and that of their squares."""
    if frames < 2:
        return math.nan
    return math.sqrt((frames * squares - total**2) / (frames * (frames - 1)))
