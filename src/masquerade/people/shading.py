"""Light on people, and soft edges over the place behind; with numba or without.

Both ways compute the same expressions, up to the order of three additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from masquerade.people import look, raster
from masquerade.people.camera import Light

SAMPLES = 2  # along each side of a pixel
SKY = (0.85, 0.15)  # a little more light from above than from below


class Dressed(NamedTuple):
    """The people of a picture as light sees them; N of them.

    Args:
        faces: (F, 3), corners of the triangles.
        paint: the colours of each.
        normals: (N, V, 3), outward.
    """

    faces: np.ndarray
    paint: tuple[look.Paint, ...]
    normals: tuple[np.ndarray, ...]


def mix(
    buffer: raster.Buffer, people: Dressed, light: Light, image: np.ndarray, owner: np.ndarray
) -> None:
    """Draw people over a place.

    Args:
        buffer: which triangle is seen at each sample; those of person n have numbers from n F on.
        people: whose triangles.
        light: on them.
        image: (H, W, 3) uint8 of the place; is changed.
        owner: (H, W) int8, is filled with whose pixel it is; -1 nobody's.
    """
    sun, tint = np.asarray(light.towards, float), np.asarray(light.colour, float)
    if raster.numba is not None:
        seen = buffer.face, buffer.second, buffer.third
        _compiled(seen, people, sun, tint, light.ambient, image, owner)
        return
    colour = _lit(buffer, people, sun, tint, light.ambient)
    share = _pooled(buffer.face >= 0) / SAMPLES**2
    mixed = _pooled(colour) / SAMPLES**2 + (1 - share)[..., None] * image
    image[share > 0] = np.rint(mixed[share > 0])
    whose = np.where(buffer.face >= 0, buffer.face // len(people.faces), -1)
    owner[:] = np.max([whose[i::2, j::2] for i in (0, 1) for j in (0, 1)], axis=0)


def _pooled(values: np.ndarray) -> np.ndarray:
    """The sum over the samples of each pixel."""
    rows = values[0::2].astype(float) + values[1::2]
    return np.asarray(rows[:, 0::2] + rows[:, 1::2])


def _lit(
    buffer: raster.Buffer, people: Dressed, sun: np.ndarray, tint: np.ndarray, ambient: float
) -> np.ndarray:
    """Colours (H, W, 3) from 0 to 255 where a person is seen, else 0."""
    colour = np.zeros((*buffer.face.shape, 3))
    for number, (paint, normals) in enumerate(zip(people.paint, people.normals, strict=True)):
        own = buffer.face // len(people.faces) == number  # -1 where there is nobody
        face = buffer.face[own] - number * len(people.faces)
        second, third = buffer.second[own], buffer.third[own]
        i, j = (
            np.minimum((part * look.TEXELS).astype(int), look.TEXELS - 1)
            for part in (second, third)
        )
        a, b, c = (normals[people.faces[face, k]] for k in range(3))
        normal = a + second[:, None] * (b - a) + third[:, None] * (c - a)
        normal /= np.maximum(np.sqrt((normal * normal).sum(axis=1, keepdims=True)), 1e-9)
        bright = np.maximum(normal @ sun, 0)
        shade = ambient * (SKY[0] + SKY[1] * normal[:, 2]) + (1 - ambient) * bright
        lit = paint.palette[paint.texels[face, i, j]] * shade[:, None] * tint
        colour[own] = np.minimum(lit * 255, 255)
    return colour


def _mix_loops(
    seen: Any, people: Any, sun: Any, tint: Any, ambient: float, image: Any, owner: Any
) -> None:
    """As ``mix``; plain loops, meant to be compiled."""
    face, second, third = seen
    shown, normal = np.zeros((4, 3)), np.zeros(3)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            owner[i, j], covered = -1, 0
            for sample in range(4):
                y, x = 2 * i + sample % 2, 2 * j + sample // 2
                shown[sample] = 0.0
                if face[y, x] < 0:
                    continue
                covered += 1
                number, own = divmod(face[y, x], len(people.faces))
                owner[i, j] = max(owner[i, j], number)
                s, t = second[y, x], third[y, x]
                p, q, r = people.faces[own]
                turned = people.normals[number]
                for k in range(3):
                    a = turned[p, k]
                    normal[k] = a + s * (turned[q, k] - a) + t * (turned[r, k] - a)
                size = np.sqrt(normal[0] ** 2 + normal[1] ** 2 + normal[2] ** 2)
                normal /= max(size, 1e-9)
                bright = max(normal[0] * sun[0] + normal[1] * sun[1] + normal[2] * sun[2], 0.0)
                shade = ambient * (SKY[0] + SKY[1] * normal[2]) + (1 - ambient) * bright
                u, v = min(int(s * look.TEXELS), look.TEXELS - 1), int(t * look.TEXELS)
                paint = people.paint[number]
                painted = paint.palette[paint.texels[own, u, min(v, look.TEXELS - 1)]]
                for k in range(3):
                    shown[sample, k] = min(painted[k] * shade * tint[k] * 255, 255.0)
            if covered:
                for k in range(3):
                    total = (shown[0, k] + shown[1, k]) + (shown[2, k] + shown[3, k])
                    image[i, j, k] = np.rint(total / 4 + (1 - covered / 4) * image[i, j, k])


_compiled: Callable[..., None] = (
    raster.numba.njit(cache=True)(_mix_loops) if raster.numba is not None else _mix_loops
)
