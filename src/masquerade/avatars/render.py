"""Draw figures into an emptied frame: colour, depth, and exactly how much of each pixel is theirs.

Only the part of the picture that a figure can reach is drawn, at four samples a pixel. What is
outside is the background, bit for bit. Figures are drawn from the farthest to the nearest, each
hidden where another is nearer.

Make drawn figures look like people: smooth crops of each through a user's video diffusion.

After [schneider2024, Alg. 1], with one change: figures are drawn once more before plain grey, and
the networks see that alone, never the film. So what they make owes no more to the film than the
drawing did, and eroded r stays what is synthetic for certain. Depth, pose and face are not
detected but known, as the figure is ours. What comes back is put where nothing but a figure is
seen; the rims stay as they were drawn, and nothing outside of r changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from masquerade import _check
from masquerade._optional import lazy_module, ndimage
from masquerade.avatars.body import StandIn
from masquerade.avatars.diffusion import FigureCrop, FigureDiffusion
from masquerade.avatars.segment import select_visible_faces
from masquerade.io.streams import Spool
from masquerade.joints import JOINTS
from masquerade.stage import figure, raster
from masquerade.stage.bodies import BONES
from masquerade.stage.figure import SAMPLES, DressedPeople, Person, compute_skin, mix_people
from masquerade.stage.raster import Camera, SceneLight

cv2 = lazy_module("cv2", extra="vision")


_DARK = 0.45  # how much of the light a contact shadow takes, at most
_SHADOW_M = 0.22  # radius of the shadow of a foot,
_HIGH_M = 0.25  # and the height of the foot at which there is none
_FAR_M = 1e4  # of the background: behind everybody
_AMBIENT = 0.62
_BRIGHT = 1.15  # of people over the mean of the place: they stand out a little


@dataclass(frozen=True, kw_only=True, eq=False)
class RenderedFrame:
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


def render_figures(
    figures: Sequence[StandIn],
    number: int,
    background: np.ndarray,
    *,
    camera: Camera,
    light: SceneLight,
    shadow: bool = False,
    people: np.ndarray | None = None,
) -> RenderedFrame:
    """One frame.

    Args:
        figures: everybody in the film.
        number: of the frame.
        background: (H, W, 3) uint8 without people; is not changed.
        camera: of the film.
        light: on the figures, see ``estimate_light``.
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
    out = RenderedFrame(
        image=background.copy(),
        alpha=np.zeros((rows, columns), np.float32),
        depth=np.full((rows, columns), np.inf, np.float32),
        owner=np.full((rows, columns), -1, np.int16),
    )
    here = [place for place, one in enumerate(figures) if one.start <= number < one.stop]
    if not here:
        return out
    place_of = np.array([number])
    posed = {k: figures[k].posed.select_times(place_of - figures[k].start) for k in here}
    far = {k: float(camera.project_points(posed[k].heads[0, 0])[2]) for k in here}
    if shadow:
        for k in here:
            _shade_floor(out, posed[k].heads[0], camera)
    for k in sorted(here, key=lambda each: -far[each]):
        person, is_hidden = figures[k].person, figures[k].find_hidden_legs(number)
        vertices, normals = (each[0] for each in compute_skin(person.model, person, posed[k]))
        seen, faces = camera.project_points(vertices.astype(np.float64)), person.model.faces
        if people is not None and is_hidden.any():
            faces = select_visible_faces(person.model, seen, is_hidden, people)
        _draw_figure(out, k, _SeenFigure(person, seen, normals.astype(np.float64), faces), light)
    return out


def estimate_light(background: np.ndarray, camera: Camera) -> SceneLight:
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
    across, _, ahead = camera.view_axes
    towards = np.clip(1.2 * right, -0.8, 0.8) * across - 0.6 * ahead
    towards = towards + np.array([0.0, 0.0, 0.9 + np.clip(0.5 * above, -0.3, 0.6)])
    towards = towards / np.linalg.norm(towards)
    tint = mean / level
    colour = np.clip(_BRIGHT * (0.35 + 1.3 * level) * (0.5 + 0.5 * tint), 0.15, 1.25)
    return SceneLight(
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


def _draw_figure(out: RenderedFrame, place: int, one: _SeenFigure, light: SceneLight) -> None:
    """Put one figure over those that are farther away."""
    window = _find_body_window(one.seen, out.alpha.shape)
    if window is None:
        return
    rows, columns = window
    before = np.minimum(out.depth[window], _FAR_M)
    buffer = raster.make_depth_buffer(before.repeat(SAMPLES, 0).repeat(SAMPLES, 1))
    corner = np.array([columns.start, rows.start, 0.0])
    raster.rasterise_mesh((one.seen - corner) * [SAMPLES, SAMPLES, 1], one.faces, buffer)
    covered = buffer.face >= 0
    share = np.mean(_list_sample_planes(covered.astype(np.float32)), axis=0)
    nearest = np.max(_list_sample_planes(np.where(covered, buffer.nearness, 0.0)), axis=0)
    whose = np.empty(share.shape, np.int8)
    dressed = DressedPeople(one.faces, (one.person.paint,), (one.normals,))
    mix_people(buffer, dressed, light, out.image[window], whose)
    is_own = share > 0
    out.alpha[window] = 1 - (1 - out.alpha[window]) * (1 - share)
    out.depth[window][is_own] = 1 / nearest[is_own]
    out.owner[window][is_own] = place


def _list_sample_planes(values: np.ndarray) -> list[np.ndarray]:
    """(H, W) of each sample of a pixel."""
    return [values[i::SAMPLES, j::SAMPLES] for i in range(SAMPLES) for j in range(SAMPLES)]


def _find_body_window(seen: np.ndarray, size: tuple[int, ...]) -> tuple[slice, slice] | None:
    """Rows and columns that a body (V, 3) can reach, if there are any in the picture."""
    ahead = seen[seen[:, 2] > raster.NEAR, :2]
    if not len(ahead):
        return None
    left, top = np.maximum(np.floor(ahead.min(axis=0)).astype(int) - 1, 0)
    right, bottom = np.minimum(np.ceil(ahead.max(axis=0)).astype(int) + 2, [size[1], size[0]])
    if left >= right or top >= bottom:
        return None
    return slice(int(top), int(bottom)), slice(int(left), int(right))


def _shade_floor(out: RenderedFrame, heads: np.ndarray, camera: Camera) -> None:
    """Darken the floor under each foot; soft, so that no pixel is all shadow."""
    for letter in "LR":
        ankle = heads[BONES.index(f"foot.{letter}")].astype(np.float64)
        strength = _DARK * float(np.clip(1 - (ankle[2] - 0.08) / _HIGH_M, 0, 1))
        spot = np.array([ankle[0], ankle[1], 0.0])
        ring = np.linspace(0, 2 * np.pi, 24, endpoint=False)
        rim = spot + 1.6 * _SHADOW_M * np.stack([np.cos(ring), np.sin(ring), 0 * ring], axis=1)
        seen = camera.project_points(rim)
        window = _find_body_window(seen, out.alpha.shape)
        if strength <= 0 or window is None or seen[:, 2].min() < 0.3:
            continue
        rows, columns = window
        far = _project_to_floor(rows, columns, camera) - spot[:2]
        part = strength * np.exp(-2 * (far**2).sum(axis=-1) / _SHADOW_M**2)
        part = np.where(part > 0.01, part, 0.0)
        dark = out.image[window] * (1 - part[..., None])
        out.image[window] = np.rint(dark).astype(np.uint8)
        out.alpha[window] = 1 - (1 - out.alpha[window]) * (1 - part)


def _project_to_floor(rows: slice, columns: slice, camera: Camera) -> np.ndarray:
    """(h, w, 2): where on the floor each pixel of a window lies; far away above the horizon."""
    y, x = np.mgrid[rows, columns] + 0.5
    flat = np.stack([x - camera.width / 2, y - camera.height / 2], axis=-1) / camera.focal_px
    ways = np.concatenate([flat, np.ones((*flat.shape[:2], 1))], axis=-1) @ camera.view_axes
    down = np.minimum(ways[..., 2:], -1e-6)
    return np.asarray(np.asarray(camera.eye)[:2] - ways[..., :2] * (camera.eye[2] / down))


_GREY = 127
_MARGIN = 1.25  # of a crop around a figure's joints
_MIN_CROP_HALF_PX = 16  # half of a crop's side
_SMOOTH = 12  # frames before and after over which a crop moves
_FAR_PX = 9999  # outside of the crop, beyond which lines are not followed
_DEEP_M = 1.0  # before and behind the hips: the range of the depth picture
_FACE = tuple(JOINTS.index(name) for name in ("nose", "left_eye", "right_eye"))
_EARS = tuple(JOINTS.index(name) for name in ("left_ear", "right_ear"))
_LINES = (  # of the pose picture, in the order in which their hues go around the circle
    *(("thorax", f"{side}_shoulder") for side in ("right", "left")),
    *((f"{side}_{a}", f"{side}_{b}") for side in ("right", "left") for a, b in (
        ("shoulder", "elbow"), ("elbow", "wrist"))),
    *(pair for side in ("right", "left") for pair in (
        ("thorax", f"{side}_hip"), (f"{side}_hip", f"{side}_knee"),
        (f"{side}_knee", f"{side}_ankle"))),
    ("thorax", "nose"),
    *(pair for side in ("right", "left") for pair in (
        ("nose", f"{side}_eye"), (f"{side}_eye", f"{side}_ear"))),
)  # fmt: skip
_POINTS = (  # and of its points
    "nose", "thorax", "right_shoulder", "right_elbow", "right_wrist", "left_shoulder",
    "left_elbow", "left_wrist", "right_hip", "right_knee", "right_ankle", "left_hip", "left_knee",
    "left_ankle", "right_eye", "left_eye", "right_ear", "left_ear",
)  # fmt: skip


class RefinedFigures:
    """The figures of a film, refined; what was made waits on disk.

    Args:
        diffusion: the networks.
        figures: everybody in the film.
        camera: of the film.
        light: on the figures.
        rng: of the noise that the diffusion begins with.
    """

    def __init__(
        self,
        diffusion: FigureDiffusion,
        figures: Sequence[StandIn],
        *,
        camera: Camera,
        light: SceneLight,
        rng: np.random.Generator,
    ) -> None:
        self._figures, self._camera, self._light = figures, camera, light
        self._side = diffusion.side
        self._made: list[tuple[np.ndarray, Spool]] = []
        try:
            for place in range(len(figures)):
                self._add_figure(place, diffusion, rng)
        except BaseException:
            self.close()
            raise

    def _add_figure(self, place: int, diffusion: FigureDiffusion, rng: np.random.Generator) -> None:
        one = self._figures[place]
        joints = figure.compute_world_joints(one.person.model, one.person, one.posed)
        seen = self._camera.project_points(joints.astype(np.float64))
        boxes, made = make_tubelet(seen, (self._camera.height, self._camera.width)), Spool()
        self._made.append((boxes, made))
        with Spool(is_packed=True) as crops:
            for row, box in enumerate(boxes):
                crops.add_piece(
                    self._render_guide_pictures(one.start + row, box, seen[row]).tobytes()
                )

            def make_figure_crop(row: int) -> FigureCrop:
                held = np.frombuffer(crops[row], np.uint8).reshape(4, self._side, self._side, 3)
                return FigureCrop(image=held[0], controls=tuple(held[1:]))

            for picture in diffusion.refine_figure(len(boxes), make_figure_crop, rng):
                made.add_piece(picture.tobytes())

    def _render_guide_pictures(
        self, number: int, box: np.ndarray, joints: np.ndarray
    ) -> np.ndarray:
        """(4, S, S, 3) uint8: a figure before grey, its depth, pose and face."""
        size = (self._camera.height, self._camera.width)
        drawn = render_figures(
            self._figures,
            number,
            np.full((*size, 3), _GREY, np.uint8),
            camera=self._camera,
            light=self._light,
        )
        middle = np.median(joints[:, 2])
        near = np.clip(0.5 + 0.5 * (middle - drawn.depth) / _DEEP_M, 0.1, 1.0)
        depth = np.where(np.isfinite(drawn.depth), np.rint(255 * near), 0).astype(np.uint8)
        square = (self._side, self._side)
        to_crop = _to_crop(box, self._side)
        image = cv2.warpAffine(drawn.image, to_crop, square, borderValue=(_GREY,) * 3)
        deep = cv2.warpAffine(depth, to_crop, square)
        at = joints[:, :2] @ to_crop[:, :2].T + to_crop[:, 2] - 0.5 * to_crop[0, 0]
        at = np.concatenate([at, joints[:, 2:]], axis=1)
        return np.stack([image, deep[..., None].repeat(3, 2), *render_guides(at, self._side)])

    def draw_over(self, drawn: RenderedFrame, number: int) -> RenderedFrame:
        """A frame with refined figures; only pixels that are wholly a figure's change."""
        image = drawn.image.copy()
        size = image.shape[1::-1]
        full = np.full((self._side, self._side), 255, np.uint8)
        for place, (one, (boxes, made)) in enumerate(zip(self._figures, self._made, strict=True)):
            if not one.start <= number < one.stop:
                continue
            to_crop = _to_crop(boxes[number - one.start], self._side)
            picture = np.frombuffer(made[number - one.start], np.uint8)
            picture = picture.reshape(self._side, self._side, 3)
            flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
            back = cv2.warpAffine(picture, to_crop, size, flags=flags)
            is_inside = cv2.warpAffine(full, to_crop, size, flags=flags) == 255
            is_own = is_inside & (drawn.alpha >= 1) & (drawn.owner == place)
            image[is_own] = back[is_own]
        return replace(drawn, image=image)

    def close(self) -> None:
        """Forget all of it."""
        for _, made in self._made:
            made.close()


def make_tubelet(seen: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(T, 3): left, top and side of a square around somebody that moves and grows smoothly.

    The square holds all joints that are before the camera, as far as they are in or near the frame.

    Args:
        seen: (T, J, 3) joints: x and y in pixels, depth in metres.
        size: height and width of the frame.
    """
    most = np.array([size[1], size[0]], float)
    is_ahead = seen[..., 2] > raster.NEAR
    points = np.clip(seen[..., :2], -0.5 * most, 1.5 * most)
    points = np.where(is_ahead[..., None], points, most / 2)
    centre = (points.min(axis=1) + points.max(axis=1)) / 2
    centre = _smooth_in_time(centre)
    half = np.maximum(
        _MARGIN * np.abs(points - centre[:, None]).max(axis=(1, 2)), _MIN_CROP_HALF_PX
    )
    half = ndimage.maximum_filter1d(
        half, 2 * _SMOOTH + 1, mode="nearest"
    )  # so that the mean is enough
    half = _smooth_in_time(half)
    return np.column_stack([centre - half[:, None], 2 * half])


def _smooth_in_time(values: np.ndarray) -> np.ndarray:
    """(T, ...): means over the frames before and after."""
    found = ndimage.gaussian_filter1d(values, _SMOOTH / 3, axis=0, radius=_SMOOTH, mode="nearest")
    return np.asarray(found)


def render_guides(joints: np.ndarray, side: int) -> list[np.ndarray]:
    """Two (S, S, 3) uint8: a skeleton in OpenPose's colours, and the points of the face.

    A face that is turned away is not drawn.

    Args:
        joints: (J, 3) of ``JOINTS`` in the crop: x and y in pixels, depth in metres.
        side: of the crop.
    """
    pose, face = np.zeros((2, side, side, 3), np.uint8)
    at = {
        name: (round(x), round(y))
        for name, (x, y, z) in zip(JOINTS, np.clip(joints, -_FAR_PX, _FAR_PX).tolist(), strict=True)
        if z > raster.NEAR
    }
    thick = max(1, side // 128)
    for place, pair in enumerate(_LINES):
        if pair[0] in at and pair[1] in at:
            colour = [round(0.6 * part) for part in _compute_hue(place)]
            cv2.line(pose, at[pair[0]], at[pair[1]], colour, 2 * thick)
    for place, name in enumerate(_POINTS):
        if name in at:
            cv2.circle(pose, at[name], thick, _compute_hue(place), -1)
    if joints[_FACE, 2].mean() < joints[_EARS, 2].mean():
        for place in (*_FACE, *_EARS):
            if JOINTS[place] in at:
                cv2.circle(face, at[JOINTS[place]], thick, (255, 255, 255), -1)
    return [pose, face]


def _compute_hue(place: int) -> tuple[int, int, int]:
    """The colour of OpenPose's line or point of that number: 18 hues around the circle."""
    pixel = np.array([[[place * 10, 255, 255]]], np.uint8)
    red, green, blue = cv2.cvtColor(pixel, cv2.COLOR_HSV2RGB)[0, 0].tolist()
    return red, green, blue


def _to_crop(box: np.ndarray, side: int) -> np.ndarray:
    """(2, 3): from pixels of the frame to those of a crop, both counted from a pixel's middle."""
    left, top, size = box
    scale = side / size
    away = [(0.5 - corner) * scale - 0.5 for corner in (left, top)]
    return np.array([[scale, 0.0, away[0]], [0.0, scale, away[1]]])
