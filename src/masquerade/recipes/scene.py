"""A person who never lived walks through a room that never stood: film for pictures and examples.

Everything is drawn with numpy from signed distances, with soft edges and the light of one window;
nothing is left to chance, so the film is the same every time. Lengths are in units of which a frame
is 120 high and the person 80.
"""

from __future__ import annotations

import copy
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from masquerade import _check
from masquerade.files import atomic
from masquerade.recordings import Video
from masquerade.video import write as writer

Point: TypeAlias = tuple[float, float]
Colour: TypeAlias = tuple[float, float, float]

_TALL = 120.0
_SKIN, _HAIR, _LIP = (214.0, 160.0, 128.0), (62.0, 40.0, 34.0), (172.0, 82.0, 78.0)
_JUMPER, _JEANS, _SHOE = (206.0, 88.0, 62.0), (66.0, 90.0, 140.0), (238.0, 236.0, 230.0)
_LEAF, _WOOD = (74.0, 122.0, 66.0), (118.0, 82.0, 54.0)
_LIGHT = (0.48, -0.58, 0.66)  # towards the window: right, up, and to the viewer

_GROUND, _HIP, _SHOULDER, _HEAD = 110.0, 71.5, 50.0, 37.5
_THIGH, _SHIN, _UPPER_ARM, _FOREARM = 18.6, 18.0, 11.5, 10.5
_STRIDE, _STANCE = 27.0, 0.6  # units that a standing foot is passed by; its share of a cycle


def walking(frames: int = 96, height: int = 120, width: int = 160, rate_hz: float = 25.0) -> Video:
    """A person crosses a room once, from left to right, before a still camera.

    Args:
        frames: how many; the way is the same, so fewer are a faster walk.
        height: of a frame, in pixels; the person has two thirds of it.
        width: of a frame, in pixels.
        rate_hz: frames a second.

    Example:
        >>> video = walking(frames=2, height=60, width=80)
        >>> video.frames.shape, bool(video.person_mask.any())
        ((2, 60, 80, 3), True)
    """
    _check.count(frames=frames, height=height, width=width)
    room = _room(height, width)
    wide = width * _TALL / height
    places = wide * (0.1 + 0.8 * (np.arange(frames) + 0.5) / frames)
    made = [_with_walker(room, x, wide) for x in places.tolist()]
    return _video(made, rate_hz, "walking")


def portrait(frames: int = 48, height: int = 120, width: int = 160, rate_hz: float = 25.0) -> Video:
    """The same person from near by, who talks, blinks and looks about.

    Args:
        frames: how many.
        height: of a frame, in pixels; the face has half of it.
        width: of a frame, in pixels.
        rate_hz: frames a second.
    """
    _check.count(frames=frames, height=height, width=width)
    room = _softened(_room(height, width), height // 40)
    middle = width * _TALL / height / 2
    made = []
    for number in range(frames):
        canvas = _Canvas(room, (0, 0, height, width), _TALL / height)
        _talker(canvas, middle, number / rate_hz)
        made.append(canvas.pixels())
    return _video(made, rate_hz, "talking")


def write(path: Path | str, video: Video | None = None) -> Path:
    """Write the scene, or another video, to a file such as ``scene.mp4``; give back its path."""
    video, path = video or walking(), Path(path)
    rate = Fraction(video.rate_hz).limit_denominator(1001)

    def save(stream: Any) -> None:
        writer.write(stream, iter(video.frames), suffix=path.suffix, rate=rate)

    with atomic.staged(path, save) as (_, commit):
        commit()
    return path


class _Canvas:
    """A part of a picture, drawn on with several samples a pixel."""

    def __init__(
        self, picture: np.ndarray, part: tuple[int, int, int, int], unit: float, fine: int = 2
    ) -> None:
        top, left, bottom, right = part
        piece = picture[top:bottom, left:right].astype(np.float32)
        self.fine, self.step = fine, unit / fine
        self.colour = piece.repeat(fine, 0).repeat(fine, 1)
        rows, columns, _ = self.colour.shape
        self.y = ((np.arange(rows, dtype=np.float32) + 0.5) * self.step + top * unit)[:, None]
        self.x = ((np.arange(columns, dtype=np.float32) + 0.5) * self.step + left * unit)[None]
        self.cover = np.zeros((rows, columns), np.float32)

    def inside(self, distance: np.ndarray) -> np.ndarray:
        """How much of each sample lies where a distance is below zero."""
        return np.clip(0.5 - distance / np.float32(self.step), 0, 1)

    def paint(
        self, alpha: np.ndarray, colour: Colour | np.ndarray, light: np.ndarray | float = 1.0
    ) -> None:
        """Lay a colour over what is there."""
        lit = np.asarray(colour, np.float32) * np.asarray(light, np.float32)[..., None]
        self.colour += alpha[..., None] * (lit - self.colour)
        np.maximum(self.cover, alpha, out=self.cover)

    def near(self, one: Point, other: Point, reach: float) -> _Canvas:
        """The part of the canvas around two points; what is painted on it shows here."""
        lines = zip((self.x[0], self.y[:, 0]), one, other, strict=True)
        columns, rows = (
            slice(*np.searchsorted(line, (min(a, b) - reach - 1, max(a, b) + reach + 1)).tolist())
            for line, a, b in lines
        )
        part = copy.copy(self)
        part.x, part.y = self.x[:, columns], self.y[rows]
        part.colour, part.cover = self.colour[rows, columns], self.cover[rows, columns]
        return part

    def limb(
        self, start: Point, end: Point, radii: Point, colour: Colour, depth: float = 1.0
    ) -> None:
        """A rounded cone, lit; ``depth`` below 1 darkens what is further away."""
        part = self.near(start, end, max(radii))
        right, down = part.x - start[0], part.y - start[1]
        dx, dy = end[0] - start[0], end[1] - start[1]
        along = dx**2 + dy**2
        share = np.clip((right * dx + down * dy) / along, 0, 1)
        radius = radii[0] + (radii[1] - radii[0]) * share
        away = np.hypot(right - share * dx, down - share * dy)
        aside = (right * dy - down * dx) / (along * radius)  # 0 on the axis
        part.paint(part.inside(away - radius), colour, depth * _lit(aside * dy, -aside * dx))

    def spot(
        self, middle: Point, radii: Point, colour: Colour, strength: float = 1.0, soft: float = 0.0
    ) -> None:
        """An ellipse; ``soft`` lets it fade by that share of itself."""
        reach = np.hypot((self.x - middle[0]) / radii[0], (self.y - middle[1]) / radii[1])
        edge = soft or 1.2 * self.step / min(radii)
        self.paint(strength * np.clip(0.5 + (1 - reach) / edge, 0, 1), colour)

    def shadow(self, middle: Point, radii: Point, dark: float) -> None:
        """Darken an ellipse, most in its middle; it is not part of what is painted."""
        far = ((self.x - middle[0]) / radii[0]) ** 2 + ((self.y - middle[1]) / radii[1]) ** 2
        self.colour *= 1 - dark * np.exp(-1.6 * far)[..., None]

    def box(self, middle: Point, half: Point, colour: Colour | np.ndarray) -> None:
        """A rectangle."""
        across, down = abs(self.x - middle[0]) - half[0], abs(self.y - middle[1]) - half[1]
        self.paint(self.inside(np.maximum(across, down)), colour)

    def leaf(self, root: Point, angle: float, size: Point, tint: float) -> None:
        """An ellipse that starts at its root, with a lighter half and a vein."""
        right, up = self.x - root[0], root[1] - self.y
        along = right * math.sin(angle) + up * math.cos(angle) - size[0]
        aside = right * math.cos(angle) - up * math.sin(angle) + 0.04 * along**2 / size[0] ** 0.5
        reach = np.hypot(along / size[0], aside / size[1])
        light = tint * np.where(aside > 0, 1.12, 0.86) + 0.2 * np.exp(-((aside / 0.25) ** 2))
        self.paint(self.inside((reach - 1) * size[1]), _LEAF, light)

    def pixels(self) -> tuple[np.ndarray, np.ndarray]:
        """The picture, (H, W, 3) uint8, and which pixels are mostly painted, (H, W) bool."""
        samples = np.dstack([self.colour, self.cover])
        rows, columns = (size // self.fine for size in self.cover.shape)
        means = samples.reshape(rows, self.fine, columns, self.fine, 4).mean(axis=(1, 3))
        return np.rint(np.clip(means[..., :3], 0, 255)).astype(np.uint8), means[..., 3] > 0.5


def _lit(across: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Light on a surface whose normal has these two parts; the third looks at the viewer."""
    outwards = np.sqrt(np.clip(1 - across**2 - down**2, 0, 1))
    lambert = across * _LIGHT[0] + down * _LIGHT[1] + outwards * _LIGHT[2]
    return np.asarray(0.66 + 0.48 * np.clip(lambert, -0.3, 1))


def _video(made: list[tuple[np.ndarray, np.ndarray]], rate_hz: float, activity: str) -> Video:
    return Video(
        frames=np.stack([picture for picture, _ in made]),
        rate_hz=rate_hz,
        subject="nobody",
        place="room",
        activity=activity,
        person_mask=np.stack([mask for _, mask in made]),
    )


def _with_walker(room: np.ndarray, x: float, wide: float) -> tuple[np.ndarray, np.ndarray]:
    """The room with the person at ``x``, and where the person is."""
    unit = _TALL / len(room)
    left, right = (round(np.clip(x + reach, 0, wide) / unit) for reach in (-30, 30))
    part = (round(26 / unit), left, len(room), max(right, left + 1))
    canvas = _Canvas(room, part, unit)
    canvas.shadow((x - 3, _GROUND + 0.5), (15, 3.4), 0.42)
    canvas.shadow((x - 11, _GROUND + 0.5), (20, 3.4), 0.22)
    _walker(canvas, x, (x - wide / 2) * _STANCE / _STRIDE + 0.06)
    picture, mask = room.copy(), np.zeros(room.shape[:2], bool)
    where = np.s_[part[0] : part[2], part[1] : part[3]]
    picture[where], mask[where] = canvas.pixels()
    return picture, mask


def _walker(canvas: _Canvas, x: float, cycle: float) -> None:
    """The whole person in mid-stride: far limbs, body, head, near limbs."""
    bob = 0.8 * math.cos(4 * math.pi * (cycle - 0.05))
    hip, shoulder = (x, _HIP + bob), (x + 1.5, _SHOULDER + bob)
    _arm(canvas, shoulder, cycle + 0.5, 0.72)
    _leg(canvas, (hip[0] + 0.8, hip[1]), cycle, 0.74)
    _leg(canvas, hip, cycle + 0.5, 1.0)
    canvas.limb((hip[0], hip[1] - 3), (hip[0], hip[1] + 0.5), (5.6, 5.4), _JEANS)
    neck = (shoulder[0] + 0.6, shoulder[1] - 5)
    canvas.limb(neck, (shoulder[0], shoulder[1] + 1), (2.4, 2.8), _SKIN, 0.86)
    canvas.limb((shoulder[0], shoulder[1] + 3), (hip[0], hip[1] - 4), (6.7, 5.9), _JUMPER)
    canvas.limb((shoulder[0] - 1.8, shoulder[1] - 2.6), neck, (2.0, 1.6), _JUMPER, 0.9)
    _head(canvas, (x + 2.6, _HEAD + bob), 7.4, 0.85 + 0.1 * math.sin(x / 20))
    _arm(canvas, (shoulder[0] - 0.6, shoulder[1] + 0.6), cycle, 1.04)


def _arm(canvas: _Canvas, shoulder: Point, cycle: float, depth: float) -> None:
    swing = 0.46 * math.cos(2 * math.pi * (cycle - 0.02)) - 0.02
    bend = swing + 0.3 + 0.16 * math.cos(2 * math.pi * cycle)
    elbow = _turned(shoulder, swing, _UPPER_ARM)
    wrist = _turned(elbow, bend, _FOREARM)
    canvas.limb(wrist, _turned(wrist, bend + 0.15, 1.8), (1.7, 1.5), _SKIN, depth)
    canvas.limb(shoulder, elbow, (3.3, 2.5), _JUMPER, depth * 0.94)
    canvas.limb(elbow, wrist, (2.5, 2.0), _JUMPER, depth * 0.94)


def _leg(canvas: _Canvas, hip: Point, cycle: float, depth: float) -> None:
    (x, y), pitch = _step(hip[0], cycle % 1.0)
    reach = min(math.dist(hip, (x, y)), _THIGH + _SHIN - 0.01)
    down = math.atan2(x - hip[0], y - hip[1])
    ankle = _turned(hip, down, reach)
    bend = math.acos((_THIGH**2 + reach**2 - _SHIN**2) / (2 * _THIGH * reach))  # of the thigh
    knee = _turned(hip, down + bend, _THIGH)
    heel = _turned(ankle, pitch - 0.55, 2.0)
    canvas.limb(heel, _turned(heel, pitch + math.pi / 2, 6.2), (2.1, 1.5), _SHOE, depth)
    canvas.limb(knee, ankle, (3.4, 2.4), _JEANS, depth * 0.98)
    canvas.limb(hip, knee, (5.2, 3.5), _JEANS, depth)


def _step(x: float, when: float) -> tuple[Point, float]:
    """Where the ankle is and how far the toes point up, at a moment 0..1 of a cycle."""
    floor = _GROUND - 3.0
    if when < _STANCE:  # the foot stands still and the body passes over it
        share = when / _STANCE
        rise = max(0.0, (share - 0.65) / 0.35)
        toes = 0.3 * max(0.0, 1 - share / 0.2) - 0.75 * rise**2
        return (x + _STRIDE * (0.5 - share), floor - 4.5 * rise**2), toes
    share = (when - _STANCE) / (1 - _STANCE)
    ease = share * share * (3 - 2 * share)
    lift = 4.5 * (1 - share) ** 2 + 3.5 * math.sin(math.pi * share)
    return (x + _STRIDE * (ease - 0.5), floor - lift), 1.05 * ease - 0.75


def _turned(start: Point, angle: float, length: float) -> Point:
    """The point that far away, at an angle from straight down towards the right."""
    return start[0] + length * math.sin(angle), start[1] + length * math.cos(angle)


def _talker(canvas: _Canvas, x: float, second: float) -> None:
    """Head and shoulders, a while into the talk."""
    x, y = x + 1.5 * math.sin(1.7 * second), 54.0 + 0.6 * math.sin(5 * second)
    canvas.limb((x - 31, 122), (x + 31, 122), (22, 22), _JUMPER)
    canvas.limb((x, 122), (x, 108), (30, 16), _JUMPER)
    canvas.limb((x, y + 26), (x, 100), (12.5, 13.5), _SKIN, 0.84)
    talk = max(0.0, math.sin(9 * second)) * (0.6 + 0.4 * math.sin(3.1 * second))
    blink = math.exp(-((((second + 0.6) % 1.9 - 1) / 0.08) ** 2))
    _head(canvas, (x, y), 33.0, 0.45 * math.sin(1.7 * second + 0.4), talk=talk, blink=blink)


def _head(
    canvas: _Canvas, centre: Point, size: float, yaw: float, talk: float = 0.0, blink: float = 0.0
) -> None:
    """A head that looks ``yaw`` to the right of the viewer: hair, then a painted ellipsoid."""
    (x, y), part = centre, canvas.near(centre, centre, 1.2 * size)
    u, v = (part.x - x) / size, (part.y - y) / size
    right, ahead = math.cos(yaw), math.sin(yaw)
    back = np.hypot((u + 0.16 * ahead) / 0.93, np.where(v < 0, (v + 0.1) / 1.03, v / 1.1))
    hair = (1 + 0.09 * np.sin(26 * np.arctan2(v + 1.4, u)))[..., None] * np.array(_HAIR)
    part.paint(part.inside(np.maximum((back - 1) * 0.9, v - 0.86) * size), hair, _lit(u, v) * 1.05)
    across = u / (0.76 - 0.16 * np.clip(v, 0, 1) ** 2)
    reach = np.hypot(across, v)
    outwards = np.sqrt(np.clip(1 - reach**2, 0, 1))
    fx, fz = across * right - outwards * ahead, across * ahead + outwards * right
    face = copy.copy(part)  # a picture in the head's own coordinates; its back is far away
    face.x, face.y, face.step = np.where(fz > 0.05, fx, 9.0), v, part.step / size
    face.colour, face.cover = np.full(part.colour.shape, _SKIN), np.zeros_like(part.cover)
    _features(face, talk, blink)
    sides = np.maximum(fz - 0.3 + 0.12 * v, v - 0.86)
    fringe = np.minimum(v + 0.5 - 0.22 * fx**2 + 0.05 * np.cos(9 * fx), sides)
    skin = face.colour * (1 - 0.3 * np.exp(-((np.maximum(fringe, 0) / 0.09) ** 2)))[..., None]
    skin += np.clip(0.5 - fringe / (1.2 * face.step), 0, 1)[..., None] * (hair - skin)
    part.paint(part.inside((reach - 1) * 0.7 * size), skin, _lit(across * 0.9, v * 0.9))
    top = (x + 0.74 * size * ahead, y + 0.06 * size)
    tip = (x + 0.84 * size * ahead, y + 0.24 * size)
    canvas.limb(top, tip, (0.04 * size, 0.105 * size), _SKIN, 0.98)


def _features(face: _Canvas, talk: float, blink: float) -> None:
    opened = 0.085 * (1 - 0.9 * blink)
    for side in (-1.0, 1.0):
        face.spot((0.46 * side, 0.32), (0.24, 0.2), (222, 126, 104), 0.35, 1.0)
        face.spot((0.34 * side, -0.1), (0.26, 0.19), (150, 100, 80), 0.5, 1.1)
        face.spot((0.34 * side, -0.06), (0.175, opened + 0.035), (58, 36, 32))
        face.spot((0.34 * side, -0.05), (0.165, opened), (240, 236, 230))
        face.spot((0.34 * side, -0.06), (0.085, min(0.1, opened)), (70, 46, 34))
        face.spot((0.34 * side, -0.06), (0.04, min(0.045, opened)), (18, 12, 12))
        face.spot((0.34 * side - 0.03, -0.1), (0.025, 0.025), (250, 250, 250), 1 - blink)
        face.spot((0.35 * side, -0.27), (0.21, 0.04), (60, 40, 34), 0.9)
    face.spot((-0.12, 0.14), (0.1, 0.22), (168, 112, 88), 0.5, 1.0)
    face.spot((0.0, 0.36), (0.16, 0.07), (150, 92, 76), 0.6, 0.9)
    face.spot((0.0, 0.6), (0.24, 0.075 + 0.09 * talk), _LIP)
    face.spot((0.0, 0.6), (0.2, 0.012 + 0.07 * talk), (76, 30, 34))
    face.spot((0.0, 0.77), (0.18, 0.05), (170, 118, 96), 0.4, 1.0)


def _room(height: int, width: int) -> np.ndarray:
    """The empty room, (H, W, 3) uint8: wall, window, picture, floor, plant."""
    blank = np.zeros((height, width, 3), np.uint8)
    canvas = _Canvas(blank, (0, 0, height, width), _TALL / height, fine=3)
    x, y, part = canvas.x, canvas.y, width / height * _TALL / 160
    glow = np.exp(-(((x - 124 * part) / 90) ** 2) - ((y - 40) / 80) ** 2)
    paper = 0.03 * np.sign(np.sin(x * 0.9)) + 0.015 * np.sin(3.1 * x + 2 * np.sin(0.7 * y))
    wall = (0.78 + 0.26 * glow + paper)[..., None] * np.array([212, 202, 184], np.float32)
    canvas.paint(np.ones_like(glow), wall)
    _floor(canvas, part)
    _window(canvas, 124 * part)
    _hang(canvas, 56 * part)
    _plant(canvas, 17 * part)
    return canvas.pixels()[0]


def _floor(canvas: _Canvas, part: float) -> None:
    x, y = canvas.x, canvas.y
    away = 26 / np.maximum(y - 66, 1.0)
    right, deep = (x - 80 * part) * away / 15, 4.6 * away
    checker = np.sign(np.sin(np.pi * right) * np.sin(np.pi * deep))
    grain = 0.03 * np.sin(9 * right + 3 * np.sin(7 * deep))
    beam = np.exp(-(((x - (86 * part + 0.9 * (104 - y))) / 17) ** 2) - ((y - 103) / 8) ** 2)
    light = 0.86 + 0.085 * checker + grain + 0.3 * beam - 0.1 * (y < 89)
    planks = light[..., None] * np.array([182, 148, 112], np.float32)
    canvas.paint(canvas.inside(87.5 - y + 0 * x), planks)
    canvas.box((0, 85.5), (1e4, 2.4), (232, 226, 214))
    canvas.box((0, 88.2), (1e4, 0.5), (120, 104, 88))


def _window(canvas: _Canvas, x: float) -> None:
    y = 38.0
    canvas.box((x - 1.5, y + 1.5), (23.5, 25.5), (150, 140, 126))
    canvas.box((x, y), (23, 25), (240, 238, 232))
    shade = np.clip((canvas.y - y + 21) / 42, 0, 1)[..., None]
    sky = (1 - shade) * np.array([138, 184, 226]) + shade * np.array([226, 236, 242])
    for cx, cy, wide in ((-8.0, -10.0, 7.0), (-2.0, -8.5, 5.0), (12.0, -3.0, 6.0)):
        cloud = np.exp(-(((canvas.x - x - cx) / wide) ** 2) - ((canvas.y - y - cy) / 2.6) ** 2)
        sky = sky + cloud[..., None] * (252 - sky)
    for height, green in ((8.0, (126, 160, 120)), (14.0, (88, 130, 84))):
        ridge = y + height + 2.5 * np.sin(canvas.x / 6 + height) - canvas.y
        sky = sky + canvas.inside(ridge)[..., None] * (np.array(green) - sky)
    canvas.box((x, y), (20.5, 22.5), sky)
    canvas.box((x, y), (0.9, 22.5), (236, 234, 228))
    canvas.box((x, y - 4), (20.5, 0.8), (236, 234, 228))
    canvas.box((x, y + 26), (26, 1.6), (244, 242, 236))


def _hang(canvas: _Canvas, x: float) -> None:
    """A picture whose rings get finer than a pixel can show."""
    y = 36.0
    canvas.box((x - 1.5, y + 1.8), (18.5, 16.5), (146, 136, 122))
    canvas.box((x, y), (18, 16), _WOOD)
    canvas.box((x, y), (16.4, 14.4), (238, 232, 218))
    rings = 0.5 + 0.5 * np.cos(((canvas.x - x + 9) ** 2 + (canvas.y - y - 8) ** 2) / 11)[..., None]
    canvas.box((x, y), (13.5, 11.5), 30 + rings * np.array([206, 190, 150]) + [6, 24, 60])


def _plant(canvas: _Canvas, x: float) -> None:
    canvas.shadow((x - 4, 100), (13, 3.2), 0.4)
    for number, angle in enumerate((-1.2, 1.15, -0.85, 0.8, -0.5, 0.5, -0.2, 0.22, 0.02)):
        canvas.leaf((x, 82), angle, (10.0 + 1.1 * number, 2.9), 0.8 + 0.07 * (number % 4))
    canvas.limb((x, 86), (x, 96), (7.2, 5.2), (188, 108, 76))
    canvas.box((x, 82.5), (8, 1.8), (200, 120, 86))


def _softened(picture: np.ndarray, reach: int) -> np.ndarray:
    """A picture out of focus: means over squares."""
    padded = np.pad(picture, ((reach, reach), (reach, reach), (0, 0)), mode="edge")
    side = 2 * reach + 1
    squares = np.lib.stride_tricks.sliding_window_view(padded, (side, side), axis=(0, 1))
    return np.asarray(squares.mean(axis=(-2, -1), dtype=np.float32)).astype(np.uint8)
