"""Draw figures into an emptied frame: colour, depth, and exactly how much of each pixel is theirs.

Only the part of the picture that a figure can reach is drawn, at four samples a pixel. What is
outside is the background, bit for bit. Figures are drawn from the farthest to the nearest, each
hidden where another is nearer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from masquerade import _check
from masquerade.avatars.body import StandIn
from masquerade.avatars.outline import shown_faces
from masquerade.stage import raster
from masquerade.stage.bodies import BONES
from masquerade.stage.figure import SAMPLES, Dressed, Person, mix, skinned
from masquerade.stage.raster import Camera, Light

_DARK = 0.45  # how much of the light a contact shadow takes, at most
_SHADOW_M = 0.22  # radius of the shadow of a foot,
_HIGH_M = 0.25  # and the height of the foot at which there is none
_FAR_M = 1e4  # of the background: behind everybody
_AMBIENT = 0.62
_BRIGHT = 1.15  # of people over the mean of the place: they stand out a little


@dataclass(frozen=True, kw_only=True, eq=False)
class Rendered:
    """A frame with figures in it.

    Args:
        image: (H, W, 3) uint8; the background, bit for bit, where ``alpha`` is 0.
        alpha: (H, W) float32, how much of each pixel is drawn, from 0 to 1; a shadow stays below 1.
        depth: (H, W) float32 metres along the view, infinite where no figure is.
        owner: (H, W) int16, whose pixel it is, by the figure's place in the list; -1 nobody's.
    """

    image: np.ndarray
    alpha: np.ndarray
    depth: np.ndarray
    owner: np.ndarray


def drawn(
    figures: Sequence[StandIn],
    number: int,
    background: np.ndarray,
    *,
    camera: Camera,
    light: Light,
    shadow: bool = False,
    people: np.ndarray | None = None,
) -> Rendered:
    """One frame.

    Args:
        figures: everybody in the film.
        number: of the frame.
        background: (H, W, 3) uint8 without people; is not changed.
        camera: of the film.
        light: on the figures, see ``light_of``.
        shadow: whether feet darken the floor where they stand.
        people: (H, W) bool, where people were; hidden legs are drawn nowhere else.
    """
    _check.shape("H W 3", background=background)
    rows, columns = background.shape[:2]
    if (rows, columns) != (camera.height, camera.width):
        raise ValueError(
            f"Expected a background of {camera.height} x {camera.width} pixels as the camera "
            f"has, got {rows} x {columns}."
        )
    out = Rendered(
        image=background.copy(),
        alpha=np.zeros((rows, columns), np.float32),
        depth=np.full((rows, columns), np.inf, np.float32),
        owner=np.full((rows, columns), -1, np.int16),
    )
    here = [place for place, one in enumerate(figures) if one.start <= number < one.stop]
    if not here:
        return out
    place_of = np.array([number])
    posed = {k: figures[k].posed.at(place_of - figures[k].start) for k in here}
    far = {k: float(camera.see(posed[k].heads[0, 0])[2]) for k in here}
    if shadow:
        for k in here:
            _shade(out, posed[k].heads[0], camera)
    for k in sorted(here, key=lambda each: -far[each]):
        person, is_hidden = figures[k].person, figures[k].hidden_at(number)
        vertices, normals = (each[0] for each in skinned(person.model, person, posed[k]))
        seen, faces = camera.see(vertices.astype(np.float64)), person.model.faces
        if people is not None and is_hidden.any():
            faces = shown_faces(person.model, seen, is_hidden, people)
        _draw(out, k, _SeenFigure(person, seen, normals.astype(np.float64), faces), light)
    return out


def light_of(background: np.ndarray, camera: Camera) -> Light:
    """Light as it is in a place without people: its mean colour, and the side that is brighter."""
    _check.shape("H W 3", background=background)
    values = background.astype(np.float64)[:: max(1, len(background) // 128)] / 255
    values = values[:, :: max(1, background.shape[1] // 128)]
    mean = values.mean(axis=(0, 1))
    grey = values.mean(axis=2)
    level = max(float(grey.mean()), 0.02)
    half_row, half_column = (max(1, size // 2) for size in grey.shape)
    right = float(grey[:, -half_column:].mean() - grey[:, :half_column].mean()) / level
    above = float(grey[:half_row].mean() - grey[-half_row:].mean()) / level
    across, _, ahead = camera.axes
    towards = np.clip(1.2 * right, -0.8, 0.8) * across - 0.6 * ahead
    towards = towards + np.array([0.0, 0.0, 0.9 + np.clip(0.5 * above, -0.3, 0.6)])
    towards = towards / np.linalg.norm(towards)
    tint = mean / level
    colour = np.clip(_BRIGHT * (0.35 + 1.3 * level) * (0.5 + 0.5 * tint), 0.15, 1.25)
    return Light(
        towards=(float(towards[0]), float(towards[1]), float(towards[2])),
        colour=(float(colour[0]), float(colour[1]), float(colour[2])),
        ambient=_AMBIENT,
    )


class _SeenFigure(NamedTuple):
    """A figure as the camera sees it: pixels and depths, normals (V, 3), and triangles (F, 3)."""

    person: Person
    seen: np.ndarray
    normals: np.ndarray
    faces: np.ndarray


def _draw(out: Rendered, place: int, one: _SeenFigure, light: Light) -> None:
    """Put one figure over those that are farther away."""
    window = _window(one.seen, out.alpha.shape)
    if window is None:
        return
    rows, columns = window
    before = np.minimum(out.depth[window], _FAR_M)
    buffer = raster.blank(before.repeat(SAMPLES, 0).repeat(SAMPLES, 1))
    corner = np.array([columns.start, rows.start, 0.0])
    raster.draw((one.seen - corner) * [SAMPLES, SAMPLES, 1], one.faces, buffer)
    covered = buffer.face >= 0
    share = np.mean(_samples(covered.astype(np.float32)), axis=0)
    nearest = np.max(_samples(np.where(covered, buffer.nearness, 0.0)), axis=0)
    whose = np.empty(share.shape, np.int8)
    dressed = Dressed(one.faces, (one.person.paint,), (one.normals,))
    mix(buffer, dressed, light, out.image[window], whose)
    is_own = share > 0
    out.alpha[window] = 1 - (1 - out.alpha[window]) * (1 - share)
    out.depth[window][is_own] = 1 / nearest[is_own]
    out.owner[window][is_own] = place


def _samples(values: np.ndarray) -> list[np.ndarray]:
    """(H, W) of each sample of a pixel."""
    return [values[i::SAMPLES, j::SAMPLES] for i in range(SAMPLES) for j in range(SAMPLES)]


def _window(seen: np.ndarray, size: tuple[int, ...]) -> tuple[slice, slice] | None:
    """Rows and columns that a body (V, 3) can reach, if there are any in the picture."""
    ahead = seen[seen[:, 2] > raster.NEAR, :2]
    if not len(ahead):
        return None
    left, top = np.maximum(np.floor(ahead.min(axis=0)).astype(int) - 1, 0)
    right, bottom = np.minimum(np.ceil(ahead.max(axis=0)).astype(int) + 2, [size[1], size[0]])
    if left >= right or top >= bottom:
        return None
    return slice(int(top), int(bottom)), slice(int(left), int(right))


def _shade(out: Rendered, heads: np.ndarray, camera: Camera) -> None:
    """Darken the floor under each foot; soft, so that no pixel is all shadow."""
    for letter in "LR":
        ankle = heads[BONES.index(f"foot.{letter}")].astype(np.float64)
        strength = _DARK * float(np.clip(1 - (ankle[2] - 0.08) / _HIGH_M, 0, 1))
        spot = np.array([ankle[0], ankle[1], 0.0])
        ring = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        rim = spot + 1.6 * _SHADOW_M * np.stack([np.cos(ring), np.sin(ring), 0 * ring], axis=1)
        seen = camera.see(rim)
        window = _window(seen, out.alpha.shape)
        if strength <= 0 or window is None or seen[:, 2].min() < 0.3:
            continue
        rows, columns = window
        far = _on_floor(rows, columns, camera) - spot[:2]
        part = strength * np.exp(-2 * (far**2).sum(axis=-1) / _SHADOW_M**2)
        part = np.where(part > 0.01, part, 0.0)
        dark = out.image[window] * (1 - part[..., None])
        out.image[window] = np.rint(dark).astype(np.uint8)
        out.alpha[window] = 1 - (1 - out.alpha[window]) * (1 - part)


def _on_floor(rows: slice, columns: slice, camera: Camera) -> np.ndarray:
    """(h, w, 2): where on the floor each pixel of a window lies; far away above the horizon."""
    y, x = np.mgrid[rows, columns] + 0.5
    flat = np.stack([x - camera.width / 2, y - camera.height / 2], axis=-1) / camera.focal_px
    ways = np.concatenate([flat, np.ones((*flat.shape[:2], 1))], axis=-1) @ camera.axes
    down = np.minimum(ways[..., 2:], -1e-6)
    return np.asarray(np.asarray(camera.eye)[:2] - ways[..., :2] * (camera.eye[2] / down))
