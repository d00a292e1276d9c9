"""Where the camera is, and the floor: one for the whole film, from how people stand in it.

People who stand are upright, so their mean direction says by how much the camera looks down; their
feet, as far away as people of usual stature are who look so large, say how high it hangs. A film
has no scale of its own: the height of the camera, if somebody knows it, is the only thing that
tells a tall person near by from a small one who is nearer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter1d, maximum_filter1d

from masquerade import _check
from masquerade.people.camera import Camera
from masquerade.people.inverse import POINTS
from masquerade.release.avatar import lift
from masquerade.sight.person_tracks import Track

FOV_DEG = 50.0  # between the upper and the lower edge, if nobody knows
_EYE_M = 1.5  # the height of a camera that sees nobody's feet
_USUAL_DEG = 8.0  # by which a camera looks down that sees nobody stand
_SURE_S = 0.5  # seconds of standing after which people say more than what is usual
_LEVEL_DEG, _MOST_DEG = -20.0, 60.0  # down from the horizon
_LEANS = 0.07  # radians by which people lean
_SURE_DEG = 3.0  # how well people who stand say where down is
_OFF_M = 0.12  # how far feet lie beside the floor
_UPRIGHT = 0.88  # of the length of a straight body
_SLOW = 0.35, 0.9  # m/s: a foot that stands is slower than one of these,
_SLOWER = 0.2  # in between, than this share of the fastest foot in the same stride
_STRIDE_S = 0.5  # seconds before and after
_SEEN = 0.3  # trust from which feet count
_AT = {name: place for place, name in enumerate(POINTS)}
_FEET = [[_AT[f"{side}_{part}"] for part in ("ankle", "heel", "toe")] for side in ("left", "right")]


def camera_of(
    tracks: Sequence[Track],
    *,
    height: int,
    width: int,
    rate_hz: float = 25.0,
    fov_deg: float = FOV_DEG,
    eye_m: float | None = None,
) -> Camera:
    """The camera of a film, over a floor at z = 0.

    Args:
        tracks: everybody in it.
        height: of a frame, in pixels.
        width: of a frame, in pixels.
        rate_hz: frames a second.
        fov_deg: the angle between the upper and the lower edge.
        eye_m: how high the camera is over the floor, if that is known.
    """
    _check.count(height=height, width=width)
    if eye_m is not None:
        _check.positive(eye_m=eye_m)
    level = _camera((0.0, 0.0), _EYE_M, fov_deg, height, width)
    points = [lift.placed(track, level, rate_hz=rate_hz) for track in tracks]
    lean = _lean(points, [lift.points_of(track)[1] for track in tracks], rate_hz)
    feet = [standing(*each, rate_hz=rate_hz) for each in zip(tracks, points, strict=True)]
    soles = [_soles(each)[stand] for each, stand in zip(points, feet, strict=True)]
    if not sum(map(len, soles)):
        return _camera(lean, eye_m or _EYE_M, fov_deg, height, width)
    lean, eye = _floor(np.concatenate(soles), lean)
    return _camera(lean, eye_m or eye, fov_deg, height, width)


def standing(track: Track, points: np.ndarray, *, rate_hz: float) -> np.ndarray:
    """(T, 2) bool: which foot stands, of points (T, P, 3) in metres; an unseen one does not."""
    _, trust, _ = lift.points_of(track)
    found = np.stack([trust[:, foot].mean(axis=1) for foot in _FEET], axis=1) > _SEEN
    if len(points) > 1:
        middle = np.stack([points[:, foot].mean(axis=1) for foot in _FEET], axis=1)
        middle = gaussian_filter1d(middle, max(0.03 * rate_hz, 0.5), axis=0, mode="nearest")
        # In the picture's plane: how far away somebody is shakes too much.
        speed = np.linalg.norm(np.gradient(middle[..., :2], axis=0), axis=2) * rate_hz
        near = 2 * round(_STRIDE_S * rate_hz) + 1
        fastest = maximum_filter1d(speed.max(axis=1), near, mode="nearest")[:, None]
        found &= speed < np.clip(_SLOWER * fastest, *_SLOW)
    for foot in range(2):  # neither for a moment, nor not for a moment
        gone = ~_runs(~found[:, foot], max(1, round(0.12 * rate_hz)))
        found[:, foot] = _runs(gone, max(1, round(0.1 * rate_hz)))
    return np.asarray(found)


def _runs(flags: np.ndarray, least: int) -> np.ndarray:
    """Only runs of at least so many."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(int), [0]])))
    out = np.zeros(len(flags), bool)
    for start, stop in zip(edges[::2], edges[1::2], strict=True):
        out[start:stop] = stop - start >= min(least, len(flags))
    return out


def _soles(points: np.ndarray) -> np.ndarray:
    """(T, 2, 3): the middle between heel and toe."""
    return np.stack([points[:, foot[1:]].mean(axis=1) for foot in _FEET], axis=1)


def _lean(points: list[np.ndarray], trust: list[np.ndarray], rate_hz: float) -> tuple[float, float]:
    """Radians by which the camera looks down and is rolled, from people who stand."""
    ups = []
    for each, sure in zip(points, trust, strict=True):
        ankle, knee, hip, shoulder = (
            (each[:, _AT[f"left_{part}"]] + each[:, _AT[f"right_{part}"]]) / 2
            for part in ("ankle", "knee", "hip", "shoulder")
        )
        way = shoulder - ankle
        parts = ((ankle, knee), (knee, hip), (hip, shoulder))
        whole = np.sum([np.linalg.norm(b - a, axis=1) for a, b in parts], axis=0)
        is_up = np.linalg.norm(way, axis=1) > _UPRIGHT * whole
        is_up &= sure[:, [foot[0] for foot in _FEET]].mean(axis=1) > _SEEN
        is_up &= -way[:, 1] > 0.5 * np.linalg.norm(way, axis=1)
        ups.append(way[is_up] / np.linalg.norm(way[is_up], axis=1, keepdims=True))
    held = np.concatenate(ups) if ups else np.zeros((0, 3))
    if not len(held):
        return math.radians(_USUAL_DEG), 0.0
    right, down, away = -np.median(held, axis=0)
    tilt = np.clip(math.atan2(away, math.hypot(right, down)), *np.radians([_LEVEL_DEG, _MOST_DEG]))
    known = len(held) / (len(held) + _SURE_S * rate_hz)
    tilt = known * tilt + (1 - known) * math.radians(_USUAL_DEG)
    roll = math.atan2(right, down)  # a little is rather somebody who leans
    roll *= float(np.clip((abs(roll) - _LEANS) / _LEANS, 0, 1))
    return float(tilt), roll


def _floor(soles: np.ndarray, lean: tuple[float, float]) -> tuple[tuple[float, float], float]:
    """How the camera leans, and its height over a floor under these soles (N, 3)."""
    tilt, roll = lean
    best = math.inf, tilt, _EYE_M
    for angle in tilt + np.radians(np.linspace(-8, 8, 33)):
        down = [math.sin(roll) * np.cos(angle), math.cos(roll) * np.cos(angle), np.sin(angle)]
        below = soles @ np.array(down)
        eye = float(np.median(below))
        off = np.sqrt(1 + ((below - eye) / _OFF_M) ** 2).mean() - 1
        cost = off * 8 + (np.degrees(angle - tilt) / _SURE_DEG) ** 2 / 2
        if cost < best[0] and eye > 0.1:
            best = float(cost), float(angle), eye
    return (best[1], roll), float(np.clip(best[2], 0.2, 50.0))


def _camera(
    lean: tuple[float, float], eye: float, fov_deg: float, height: int, width: int
) -> Camera:
    tilt, roll = lean
    return Camera(
        eye=(0.0, 0.0, eye),
        target=(0.0, math.cos(tilt), eye - math.sin(tilt)),
        fov_deg=fov_deg,
        height=height,
        width=width,
        roll_deg=math.degrees(roll),
    )
