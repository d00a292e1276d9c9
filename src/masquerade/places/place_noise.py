"""The noise of PPEDCRF: part of it stands still with the scene, so that it does not average out.

How a film moves, without the trembling of a flow: noise that stands still must not wear off.

Where sensors are noisy, or lines run one way only, a dense flow wanders though nothing moves. So
the motion of the camera is measured from the whole picture, and a pixel moves otherwise only where
that explains the picture clearly better.

Secret patterns that make pictures of places alike, drawn by a public network.

White noise is spread over directions that no network looks at. The network was taught against
public networks and public places (`networks/place_networks.py`); what it draws depends on secret
random numbers alone, as many as a canvas has pixels, so that who has the network cannot take it
out again.
"""

from __future__ import annotations

import math
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from masquerade._optional import lazy_module
from masquerade.mechanisms.selective_privacy import carry_pixels, steps_of
from masquerade.noise import Noise
from masquerade.noise.source import STEPS_PER_STD, sample_rough_gaussian, sample_rough_steps

if TYPE_CHECKING:
    from masquerade.networks import place_networks
else:
    place_networks = lazy_module("masquerade.networks.place_networks", extra="train")

cv2 = lazy_module("cv2", extra="vision")


_DIFFERENCE_BLUR_PX = 7  # pixels over which differences are gathered
_MIN_MOTION_RATIO, _MIN_MOTION_SHADES = (
    1.5,
    2.0,
)  # by which factor a motion must explain a picture better, and more
_MAX_LEFT_SHARE = (
    0.75  # what a guess must leave of a difference; moving a picture smooths its noise too
)
_RIDGE_STRENGTH = 0.1  # shades a pixel, squared: what moves along its own lines does not move
_MIN_CAMERA_STEP_PX = 1 / 128  # pixels: a camera that moves less stands
_BLUR_SIGMA_PX, _BORDER_PX, _NUM_SOLVER_ROUNDS = (
    1.5,
    8,
    2,
)  # pixels, pixels, and times, of least squares


class MotionFollower:
    """Says by how many whole pixels noise has to move to stay with the scene.

    Where the camera is, is known to a part of a pixel and summed up, so that rounding never adds
    up; things that move by themselves are right on average.

    Args:
        scale: pixels of a frame in one of the small picture, right and down.
    """

    def __init__(self, scale: tuple[float, float]) -> None:
        self._scale, self._camera = np.array(scale, np.float32), np.zeros(2)
        self._number = 0

    def compute_noise_steps(
        self, now: np.ndarray, before: np.ndarray, back: np.ndarray, moved: np.ndarray
    ) -> np.ndarray:
        """(H, W, 2) int16, in pixels of a frame, right and down: where the noise comes from.

        Args:
            now: (H, W, 3) uint8, a small frame.
            before: the one before.
            back: the flow, ``now`` at x shows ``before`` at x + back.
            moved: ``before``, moved by that flow.
        """
        grey, old, own = (cv2.cvtColor(one, cv2.COLOR_RGB2GRAY) for one in (now, before, moved))
        camera = _estimate_camera_motion(grey, old, back)
        stood = np.rint(self._camera)
        self._camera += camera * self._scale
        self._number += 1
        whole = np.rint(self._camera) - stood
        left, alone = (
            cv2.blur(_compute_difference(grey, one), (_DIFFERENCE_BLUR_PX,) * 2)
            for one in (_shift_picture(old, camera), own)
        )
        does_move = left > _MIN_MOTION_RATIO * alone + _MIN_MOTION_SHADES
        steps = np.empty(back.shape, np.int16)
        steps[:] = whole
        steps[does_move] = steps_of(back[does_move] * self._scale, self._number)
        return steps


def _estimate_camera_motion(now: np.ndarray, before: np.ndarray, back: np.ndarray) -> np.ndarray:
    """Motion of the whole picture, right and down."""
    found, guess = np.zeros(2), np.median(back[::4, ::4].reshape(-1, 2), axis=0)
    if (
        _compute_difference(now, _shift_picture(before, guess)).mean()
        < _MAX_LEFT_SHARE * _compute_difference(now, before).mean()
    ):
        found = guess
    soft, old = (
        cv2.GaussianBlur(one.astype(np.float32), (0, 0), _BLUR_SIGMA_PX) for one in (now, before)
    )
    for _ in range(_NUM_SOLVER_ROUNDS):
        found = found + _estimate_residual_motion(soft, _shift_picture(old, found))
    return np.where(np.abs(found) < _MIN_CAMERA_STEP_PX, 0.0, found)


def _estimate_residual_motion(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """The small motion that explains best what is left, by least squares over every other line."""
    ways = (cv2.Scharr(before, cv2.CV_32F, *way, scale=1 / 32) for way in ((1, 0), (0, 1)))
    some = np.s_[
        _BORDER_PX:-_BORDER_PX:2, _BORDER_PX:-_BORDER_PX:2
    ]  # at the edges something new comes in
    lines = np.stack([way[some].ravel() for way in ways])
    change = (now[some] - before[some]).ravel()
    if change.size == 0:
        return np.zeros(2)
    far = np.abs(change)
    usual = far < max(4.5 * float(np.median(far)), 2.0)  # others move by themselves
    lines, change = lines[:, usual], change[usual]
    square = lines @ lines.T + _RIDGE_STRENGTH * len(change) * np.eye(2)
    return np.asarray(np.clip(np.linalg.solve(square, lines @ change), -1, 1))


def _shift_picture(picture: np.ndarray, by: np.ndarray) -> np.ndarray:
    """What the picture shows at x + by."""
    if not by.any():
        return picture
    matrix = np.array([[1, 0, by[0]], [0, 1, by[1]]], np.float32)
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    size = picture.shape[::-1]
    edge = cv2.BORDER_REPLICATE
    return np.asarray(cv2.warpAffine(picture, matrix, size, flags=how, borderMode=edge))


def _compute_difference(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(cv2.absdiff(one, other), np.float32)


_LINES_PER_BAND = 64  # lines that are worked on at once
_FRAMES_PER_CANVAS = 16  # frames after which the fresh part has another canvas


class NoiseShape(StrEnum):
    """How the noise looks."""

    WHITE = "white"
    GRAIN = "grain"
    PATTERNS = "patterns"


class FilmNoise(Protocol):
    """Where the noise of a film comes from."""

    def next_frame_noise(self, steps: np.ndarray | None) -> np.ndarray:
        """(H, W, 3), times `STEPS_PER_STD`, of mean 0 and variance 1: the noise of the next frame.

        Args:
            steps: (H, W, 2), by how many pixels the scene moved; None where it did not.
        """


class ScatteredNoise:
    """A number of its own for each pixel and channel, or grains of some pixels.

    Args:
        size: (H, W) of the frames.
        still: the share of the power that stands still with the scene.
        grain_px: the standard deviation of a grain; below 1 each pixel is one.
        noise: where it comes from.
    """

    def __init__(
        self, size: tuple[int, int], *, still: float, grain_px: float, noise: Noise
    ) -> None:
        self._shape, self._still, self._grain_px = (*size, 3), still, grain_px
        self._rows = partial(_sample_noise_rows, noise=noise, power=still)
        self._fresh = partial(sample_rough_steps, self._shape, noise, power=1 - still)
        self._stays = sample_rough_steps(self._shape, noise, power=still) if still else None

    def next_frame_noise(self, steps: np.ndarray | None) -> np.ndarray:
        """The carried part and a fresh one."""
        grains = self._fresh()
        if self._stays is not None:
            if steps is not None:
                self._stays = carry_pixels(self._stays, steps, self._rows)
            grains = cv2.add(grains, self._stays)
        return _enlarge_grains(grains, self._grain_px)


class PatternedNoise:
    """Patterns of a public network, from secret random numbers.

    One canvas moves with the scene. The fresh part of a frame is another one, shifted at random;
    that one is drawn anew from time to time, since drawing takes as long as a frame may.

    Args:
        size: (H, W) of the frames.
        still: the share of the power that stands still.
        bank: a file of the network's weights.
        noise: where the random numbers come from.
    """

    def __init__(
        self, size: tuple[int, int], *, still: float, bank: str | None, noise: Noise
    ) -> None:
        from masquerade.places import place_noise as place_patterns  # needs another extra

        self._canvases = place_patterns.CanvasMaker(size, bank=bank, noise=noise)
        self._drawn = partial(self._canvases.render_canvas, unit=STEPS_PER_STD)
        self._over = place_patterns.shift_canvas_over
        self._still, self._noise, self._frames = still, noise, 0
        self._stays = self._drawn(power=still) if still else None
        self._pool = self._draw_fresh_canvas()

    def next_frame_noise(self, steps: np.ndarray | None) -> np.ndarray:
        """The carried part and a fresh one."""
        if self._frames and self._frames % _FRAMES_PER_CANVAS == 0:
            self._pool = self._draw_fresh_canvas()
        self._frames += 1
        if self._stays is not None and steps is not None:
            self._stays = carry_pixels(self._stays, steps, self._take_canvas_rows)
        return self._over(self._pool, self._canvases.sample_shift(), self._stays)

    def _draw_fresh_canvas(self) -> np.ndarray:
        return self._drawn(power=1 - self._still)

    def _take_canvas_rows(self, count: int) -> np.ndarray:
        """(N, 3) for what comes in: of a canvas from a random place on, one after the other."""
        canvas = self._pool.reshape(-1, 3)
        first = int(self._noise.sample_integers(len(canvas), (1,))[0])
        rows = canvas.take(range(first, first + count), axis=0, mode="wrap")
        strength = math.sqrt(self._still / (1 - self._still))
        return np.asarray(np.rint(strength * rows), np.int16)


def compute_noise_after_averaging(sigma: float, *, still: float, frames: int) -> float:
    """The noise of the mean of some frames of a still scene.

    Example:
        >>> round(compute_noise_after_averaging(8.0, still=0.5, frames=300), 3)
        5.666
    """
    return sigma * math.sqrt(still + (1 - still) / frames)


def compute_noise_of_change(sigma: float, *, still: float, frames: int) -> float:
    """The noise on what one frame alone shows, for who knows all frames of a still scene.

    Example:
        >>> round(compute_noise_of_change(8.0, still=0.9, frames=300), 3)
        2.534
    """
    fresh = 1 - still
    return sigma * math.sqrt(fresh / (1 - still / (fresh + still * frames)))


def add_place_noise(
    frame: np.ndarray, amount: np.ndarray, grains: np.ndarray, sigma: float
) -> np.ndarray:
    """The frame with noise of sigma times the amount; where that is 0, the frame itself.

    Args:
        frame: (H, W, 3) uint8.
        amount: (H, W) float32; `np.broadcast_to` makes one that is the same everywhere.
        grains: (H, W, 3), as `FilmNoise` gives them.
        sigma: in shades.
    """
    is_one = amount.strides == (0, 0)  # one number, repeated
    frame, out = np.ascontiguousarray(frame), np.empty(frame.shape, np.uint8)
    for start in range(0, len(frame), _LINES_PER_BAND):  # what is worked on fits the cache
        rows = slice(start, start + _LINES_PER_BAND)
        if is_one:
            strength = float(amount[0, 0]) * sigma / STEPS_PER_STD
            shades = cv2.addWeighted(grains[rows], strength, grains[rows], 0, 0)
        else:
            each = cv2.cvtColor(np.ascontiguousarray(amount[rows]), cv2.COLOR_GRAY2RGB)
            shades = cv2.multiply(grains[rows], each, scale=sigma / STEPS_PER_STD, dtype=cv2.CV_16S)
        cv2.add(frame[rows], shades, dst=out[rows], dtype=cv2.CV_8U)
    return out


def _sample_noise_rows(count: int, *, noise: Noise, power: float) -> np.ndarray:
    return sample_rough_steps((count, 3), noise, power=power)


def _enlarge_grains(grains: np.ndarray, size_px: float) -> np.ndarray:
    """The same with grains of some pixels, at the same variance."""
    if size_px < 1:
        return grains
    reach = 2 * math.ceil(3 * size_px) + 1
    kernel = cv2.getGaussianKernel(reach, size_px)[:, 0]
    kernel /= math.sqrt(float(np.sum(kernel**2)))  # along each axis
    border = cv2.BORDER_REFLECT_101
    return np.asarray(cv2.sepFilter2D(grains, cv2.CV_32F, kernel, kernel, borderType=border))


_MAX_CANVAS_VALUE, _NUM_CANVAS_STEPS = (
    15.0,
    2_048,
)  # of a canvas of variance 1: where it is cut, and steps of one


class CanvasMaker:
    """Draws patterns for frames of one size.

    Args:
        size: (H, W) of the frames.
        bank: a file of the network's weights; by default our own.
        noise: where the random numbers come from.
    """

    def __init__(self, size: tuple[int, int], *, bank: str | None, noise: Noise) -> None:
        path = place_networks.TEXTURE_WEIGHTS if bank is None else Path(bank)
        self._net = place_networks.load_texture_net(path)
        self._size, self._noise = size, noise

    def render_canvas(self, *, unit: int, power: float) -> np.ndarray:
        """(H, W, 3) int16 of mean 0; ``power`` is the variance over unit^2."""
        down, right = place_networks.choose_canvas_size(*self._size)
        codes = [
            sample_rough_gaussian(shape, self._noise)
            for shape in place_networks.list_code_shapes(down, right)
        ]
        canvas = place_networks.render_texture(self._net, codes)
        return _fit_canvas(canvas, self._size, deviation=unit * math.sqrt(power))

    def sample_shift(self) -> tuple[int, int, bool]:
        """A random way around the edges of a canvas, down and right, and whether it is mirrored."""
        down, right, turned = (
            int(self._noise.sample_integers(many, (1,))[0]) for many in (*self._size, 2)
        )
        return down, right, bool(turned)


def shift_canvas_over(
    canvas: np.ndarray, shift: tuple[int, int, bool], below: np.ndarray | None
) -> np.ndarray:
    """A canvas (H, W, 3), shifted around its edges, plus what is below it.

    The four parts into which a shift cuts a canvas are added where they belong: nothing is moved.
    """
    down, right, is_turned = shift
    out = np.empty_like(canvas)
    for rows, from_rows in _split_shifted_line(down, canvas.shape[0]):
        for columns, from_columns in _split_shifted_line(right, canvas.shape[1]):
            part = canvas[from_rows, from_columns]
            if is_turned:
                part, columns = cv2.flip(part, 1), _mirror_columns(columns, canvas.shape[1])
            if below is None:
                out[rows, columns] = part
            else:
                cv2.add(part, below[rows, columns], dst=out[rows, columns])
    return out


def _split_shifted_line(by: int, size: int) -> list[tuple[slice, slice]]:
    """Where the two parts of a line go that is shifted around its ends, and where they were."""
    cuts = [(slice(by, size), slice(0, size - by)), (slice(0, by), slice(size - by, size))]
    return [(to, was) for to, was in cuts if to.stop > to.start]


def _mirror_columns(columns: slice, width: int) -> slice:
    return slice(width - columns.stop, width - columns.start)


def _fit_canvas(canvas: np.ndarray, size: tuple[int, int], *, deviation: float) -> np.ndarray:
    """At the size of frames, in whole numbers of mean 0 and that standard deviation."""
    smaller = size[0] * size[1] < canvas.shape[0] * canvas.shape[1]
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    small = np.rint(
        np.clip(canvas, -_MAX_CANVAS_VALUE, _MAX_CANVAS_VALUE) * np.float32(_NUM_CANVAS_STEPS)
    ).astype(np.int16)
    large = cv2.resize(small, size[::-1], interpolation=how).reshape(*size, 3)
    middle, spread = cv2.meanStdDev(large.reshape(-1, 1))
    gain = deviation / max(float(spread[0, 0]), 1e-6)
    return np.asarray(cv2.addWeighted(large, gain, large, 0, -gain * float(middle[0, 0])))
