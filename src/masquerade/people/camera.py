"""A pinhole camera and the light in the world: metres, z up, the floor at z = 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from masquerade import _check

Point = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Light:
    """One lamp or sun far away; what it lights is ``albedo * colour * level``.

    The level is ``ambient + (1 - ambient) * max(0, n . towards)`` for a surface with normal n.

    Args:
        towards: unit vector to the light.
        colour: red, green and blue of full light.
        ambient: what surfaces turned away still get, in [0, 1].
    """

    towards: Point
    colour: Point
    ambient: float


@dataclass(frozen=True, kw_only=True)
class Camera:
    """Where the picture is taken from.

    Convention: pixel (row i, column j) has its centre at x = j + 0.5, y = i + 0.5; x grows to the
    right and y down. Pixels are square.

    Args:
        eye: where the camera is, in metres.
        target: the point in the middle of the picture.
        fov_deg: the angle between the upper and the lower edge.
        height: of the picture, in pixels.
        width: of the picture, in pixels.
        roll_deg: by which the camera is turned about its view; what is seen turns the other way.
    """

    eye: Point
    target: Point
    fov_deg: float
    height: int
    width: int
    roll_deg: float = 0.0

    def __post_init__(self) -> None:
        _check.count(height=self.height, width=self.width)
        _check.positive(fov_deg=self.fov_deg)
        if self.fov_deg >= 170:
            raise ValueError(f"Expected fov_deg < 170, got fov_deg={self.fov_deg}.")
        if math.dist(self.eye[:2], self.target[:2]) < 1e-6:
            raise ValueError(f"Expected a camera that looks sideways, got eye={self.eye}.")

    @property
    def focal_px(self) -> float:
        """Distance of the picture from the pinhole, in pixels."""
        return self.height / 2 / math.tan(math.radians(self.fov_deg) / 2)

    @cached_property
    def axes(self) -> np.ndarray:
        """(3, 3): the rows are right, down and forward in the world."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / np.linalg.norm(forward)
        right = np.array([forward[1], -forward[0], 0.0])
        right /= np.linalg.norm(right)
        down = np.cross(forward, right)
        if self.roll_deg:
            cos, sin = math.cos(math.radians(self.roll_deg)), math.sin(math.radians(self.roll_deg))
            right, down = cos * right + sin * down, cos * down - sin * right
        return np.stack([right, down, forward])

    def see(self, points: np.ndarray) -> np.ndarray:
        """World points (..., 3) as x, y in pixels and depth in metres along the view, (..., 3)."""
        seen = (points - np.asarray(self.eye)) @ self.axes.T
        depth = seen[..., 2:]
        safe = np.where(np.abs(depth) < 1e-9, 1e-9, depth)
        middle = np.array([self.width / 2, self.height / 2])
        flat = seen[..., :2] / safe * self.focal_px + middle
        return np.concatenate([flat, depth], axis=-1)

    def enlarged(self, times: int) -> Camera:
        """The same view with ``times`` as many pixels along each side."""
        return replace(self, height=self.height * times, width=self.width * times)
