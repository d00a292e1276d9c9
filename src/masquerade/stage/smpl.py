"""SMPL and SMPL-H bodies from a file of the user's, as our model of bodies.

The files are licensed, so none is fetched, and nothing of anybody's code for them is used. What is
read: the mesh, its shapes, its joints, its weights and its pose blend shapes. The turns of joints
that our bones lack (toes, fingers) stay as they are at rest, so they are rigid parts of feet and
hands; all else is the model's own arithmetic [loper2015, Sec. 3].

Convention of the file: metres; x to the person's left, y up, z ahead; a T-pose. Ours: y backward, z
up.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from masquerade.errors import BadInput
from masquerade.stage import bodies, skeleton
from masquerade.stage.bodies import AT_SKIN, BONES, BodyModel, PoseOffsets

_VERTICES, _FACES = 6890, 13776
_NAMES = "v_template", "shapedirs", "posedirs", "J_regressor", "weights", "kintree_table", "f"
_MAX_SUM_ERROR = 0.01  # by which shares may miss a sum of 1
_APART = 1e-3  # metres that parts of a body lie apart at least
_NUM_SHAPES = 10  # that all files have; some have more
_TO_OURS = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
# The joints of the body, each with its parent and the bone of ours that it turns.
_BODY = (
    *((-1, "root"), (0, "upperleg01.L"), (0, "upperleg01.R"), (0, "spine04")),
    *((1, "lowerleg01.L"), (2, "lowerleg01.R"), (3, "spine02"), (4, "foot.L"), (5, "foot.R")),
    *((6, "spine01"), (7, "foot.L"), (8, "foot.R"), (9, "neck01")),
    *((9, "clavicle.L"), (9, "clavicle.R"), (12, "head"), (13, "upperarm01.L")),
    *((14, "upperarm01.R"), (16, "lowerarm01.L"), (17, "lowerarm01.R")),
    *((18, "wrist.L"), (19, "wrist.R")),
)
_WRISTS = 20, 21
_HANDS = {  # what follows them, by the number of all joints
    24: _WRISTS,
    52: tuple(
        wrist if link == 0 else 22 + 15 * side + 3 * finger + link - 1
        for side, wrist in enumerate(_WRISTS)
        for finger in range(5)
        for link in range(3)
    ),
}
_TOES = 10, 11
_NO_JOINT = {"spine05": 3, "spine03": 6}  # bones that begin where the next one does
# Vertices of the face: the order of vertices is the same in all files.
_FACE = {"nose": 332, "left_eye": 2800, "right_eye": 6260, "left_ear": 583, "right_ear": 4071}
_PICKLE_MESSAGE = (
    "a pickled file is not read, as it could run code. If you trust it, read it with pickle "
    "(encoding='latin1') and write v_template, shapedirs, posedirs, J_regressor, "
    "weights, kintree_table and f, as plain dense arrays, with numpy.savez"
)
_DAMAGE_ERRORS = (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)


@cache
def load_smpl(path: Path) -> BodyModel:
    """The bodies in an SMPL or SMPL-H file (.npz), read once.

    Raises:
        BadInput: if the file is missing, damaged or something else, or would have to be unpickled.
    """
    if path.suffix.lower() != ".npz":
        raise BadInput(f"Expected an SMPL or SMPL-H file (.npz), got {path}; {_PICKLE_MESSAGE}.")
    arrays = _read_smpl_arrays(path)
    _check_smpl_arrays(path, arrays)
    return _convert_model(path, arrays)


def _read_smpl_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as stream, np.load(stream) as held:
            missing = [name for name in _NAMES if name not in held]
            found = {name: held[name] for name in _NAMES if name in held}
    except FileNotFoundError as error:
        raise BadInput(
            f"Expected an SMPL or SMPL-H file (.npz), got {path}, where none is; check the name."
        ) from error
    except _DAMAGE_ERRORS as error:
        remedy = _PICKLE_MESSAGE if "pickle" in str(error) else "copy it anew"
        raise BadInput(
            f"Expected an SMPL or SMPL-H file that can be read in {path}, got an error ({error}); "
            f"{remedy}."
        ) from error
    if missing:
        raise BadInput(
            f"Expected an SMPL or SMPL-H file in {path}, got one without {', '.join(missing)}; "
            "give the model's own file."
        )
    return found


def _check_smpl_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Refuse what is no such model."""
    for what, got in _list_mismatches(arrays):
        raise BadInput(
            f"Expected {what} in {path}, got {got}; give an SMPL or SMPL-H file (SMPL-X and others "
            "are not read)."
        )


def _list_mismatches(arrays: dict[str, np.ndarray]) -> Iterator[tuple[str, object]]:
    """What was expected of the arrays, and what is there instead."""
    joints = (arrays["J_regressor"].shape or (0,))[0]
    if joints not in _HANDS:
        yield "J_regressor of 24 or 52 joints", f"shape {arrays['J_regressor'].shape}"
        return
    shapes = {
        "v_template": (_VERTICES, 3),
        "shapedirs": (_VERTICES, 3, max(_NUM_SHAPES, (arrays["shapedirs"].shape or (0,))[-1])),
        "posedirs": (_VERTICES, 3, 9 * (joints - 1)),
        "J_regressor": (joints, _VERTICES),
        "weights": (_VERTICES, joints),
        "kintree_table": (2, joints),
        "f": (_FACES, 3),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            yield f"{name} of shape {shape}", f"shape {arrays[name].shape}"
    for name, values in arrays.items():
        if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
            yield f"finite numbers as {name}", "others"
    if not 0 <= arrays["f"].min() <= arrays["f"].max() < _VERTICES:
        yield f"f from 0 to {_VERTICES - 1}", f"{arrays['f'].min()} to {arrays['f'].max()}"
    parents = [*(parent for parent, _ in _BODY), *_HANDS[joints]]
    if arrays["kintree_table"][0, 1:].tolist() != parents[1:]:
        yield "SMPL's kintree_table", arrays["kintree_table"][0, 1:].tolist()
    for name in ("weights", "J_regressor"):
        sums = arrays[name].sum(axis=1)
        if np.abs(sums - 1).max() > _MAX_SUM_ERROR:
            yield f"rows of {name} that add up to 1", f"{sums.min():.3g} to {sums.max():.3g}"


def _convert_model(path: Path, arrays: dict[str, np.ndarray]) -> BodyModel:
    """The same in our axes and for our bones; a bone takes the weights of what it carries."""
    joints = len(arrays["J_regressor"])
    bone_of = [BONES.index(bone) for _, bone in _BODY]
    for parent in _HANDS[joints]:
        bone_of.append(bone_of[parent])
    template = arrays["v_template"] @ _TO_OURS.T
    shapes = np.einsum("ij,vjk->kvi", _TO_OURS, arrays["shapedirs"][..., :_NUM_SHAPES])
    weights = np.zeros((_VERTICES, len(BONES)))
    np.add.at(weights.T, bone_of, arrays["weights"].T)
    begins = [_NO_JOINT.get(bone) or bone_of.index(place) for place, bone in enumerate(BONES)]
    regressor = arrays["J_regressor"][begins]
    heads = regressor @ template
    try:
        places = _map_to_template(template, heads, weights)
    except ValueError as error:
        raise BadInput(
            f"Expected a body that looks along z in {path}, its vertices in SMPL's order, got "
            f"{error}; give the model's own file."
        ) from error
    return BodyModel(
        template=template.astype(np.float32),
        heads=heads.astype(np.float32),
        shapes=shapes.astype(np.float32),
        head_shapes=(regressor @ shapes).astype(np.float32),
        weights=weights.astype(np.float32),
        faces=arrays["f"].astype(np.int32),
        own_places=places.astype(np.float32),
        bends=_convert_pose_offsets(arrays["posedirs"]),
    )


def _convert_pose_offsets(posedirs: np.ndarray) -> PoseOffsets:
    """The pose blend shapes of the joints that our bones have, in our axes."""
    turned = [joint for joint in range(1, len(_BODY)) if joint not in _TOES]
    by_joint = posedirs.reshape(_VERTICES, 3, -1, 3, 3)[:, :, [joint - 1 for joint in turned]]
    axes = _TO_OURS
    ours = np.einsum("vkjrc,ik,ar,bc->jabvi", by_joint, axes, axes, axes, optimize=True)
    return PoseOffsets(
        directions=ours.reshape(9 * len(turned), -1).astype(np.float32),
        bones=np.array([BONES.index(_BODY[joint][1]) for joint in turned]),
        parents=np.array([BONES.index(_BODY[_BODY[joint][0]][1]) for joint in turned]),
    )


def _map_to_template(points: np.ndarray, heads: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(V, 3): where on the template of our own model each vertex lies.

    Each bone carries what hangs on it to where that bone is there, turned and as long; the face is
    carried by its nose, eyes and ears.
    """
    theirs = bodies.load_body_model().heads.astype(float)
    floor = float(bodies.load_body_model().template[:, 2].min()), float(points[:, 2].min())

    def find_bone_ends(bone: str) -> tuple[np.ndarray, np.ndarray]:
        return theirs[BONES.index(bone)], heads[BONES.index(bone)]

    legs = (
        find_bone_ends(bone)[1][2]
        for bone in ("foot.L", "lowerleg01.L", "upperleg01.L", "neck01", "head")
    )
    if np.min(np.diff(rising := [floor[1], *legs])) < _APART:
        raise ValueError(f"sole, ankle, knee, hip, neck and head at {np.round(rising, 3).tolist()}")
    hips = [
        np.mean(each, axis=0)
        for each in zip(find_bone_ends("upperleg01.L"), find_bone_ends("upperleg01.R"), strict=True)
    ]
    neck, skull = find_bone_ends("neck01"), find_bone_ends("head")
    trunk = (neck[0] - hips[0])[2] / (neck[1] - hips[1])[2]
    long = np.array([trunk, trunk, (skull[0] - neck[0])[2] / (skull[1] - neck[1])[2]])
    carried = {bone: hips[0] + trunk * (points - hips[1]) for bone in BONES}
    carried["neck01"] = neck[0] + long * (points - neck[1])
    carried["head"] = _fit_face(points, neck)
    for side in "LR":
        for chain in (("upperarm01", "lowerarm01", "wrist"), ("upperleg01", "lowerleg01", "foot")):
            first, middle, last = (f"{bone}.{side}" for bone in chain)
            for begin, end in ((first, middle), (middle, last)):
                carried[begin] = _carry_limb(points, find_bone_ends(begin), find_bone_ends(end))
            carried[last] = _carry_limb(
                points, find_bone_ends(middle), find_bone_ends(last)
            )  # a hand goes on as the forearm
        ankle = find_bone_ends(f"foot.{side}")
        high = (ankle[0][2] - floor[0]) / (ankle[1][2] - floor[1])
        carried[f"foot.{side}"] = ankle[0] + high * (points - ankle[1])
    return np.asarray(sum(weights[:, [k]] * carried[bone] for k, bone in enumerate(BONES)))


def _carry_limb(
    points: np.ndarray, begin: tuple[np.ndarray, np.ndarray], end: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Points about a bone, carried to the bone of our own model; each end is theirs and here."""
    there, here = end[0] - begin[0], end[1] - begin[1]
    sizes = np.linalg.norm(there), np.linalg.norm(here)
    turn = skeleton.compute_smallest_turn(here[None] / sizes[1], there[None] / sizes[0])[0]
    return np.asarray(begin[0] + sizes[0] / sizes[1] * (points - begin[1]) @ turn.T)


def _fit_face(points: np.ndarray, neck: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Points of the head, so that nose, eyes, ears and crown lie where they do on our own model.

    Between them, and on beyond, each axis goes on by itself.
    """
    there = {name: np.array(at) for name, at in AT_SKIN.items()}
    here = {name: points[vertex] for name, vertex in _FACE.items()}
    for found in (there, here):
        for part in ("eye", "ear"):
            left, right = found[f"left_{part}"], found[f"right_{part}"]
            found[part] = np.append((left - right)[:1] / 2, (left + right)[1:] / 2)
    neck_z, crown = (each[2] for each in neck), (AT_SKIN["head_top"][2], points[:, 2].max())
    known = []
    for found, low, high in zip((there, here), neck_z, crown, strict=True):
        nose, eye, ear = (found[part] for part in ("nose", "eye", "ear"))
        known.append(
            ([0.0, eye[0], ear[0]], [nose[1], eye[1], ear[1]], [low, nose[2], eye[2], high])
        )
    wanted, own = known
    x = points[:, 0] - here["nose"][0]
    x = np.sign(x) * _interpolate_through(np.abs(x), own[0], wanted[0])
    y, z = (_interpolate_through(points[:, k], own[k], wanted[k]) for k in (1, 2))
    return np.column_stack([x, y, z])


def _interpolate_through(values: np.ndarray, known: list[float], wanted: list[float]) -> np.ndarray:
    """Straight lines from one known value to the next, and on beyond both ends."""
    if np.min(np.diff(known)) < _APART:
        raise ValueError(f"nose, eyes, ears and crown at {np.round(known, 3).tolist()}")
    slopes = np.diff(wanted) / np.diff(known)
    place = np.clip(np.searchsorted(known, values) - 1, 0, len(slopes) - 1)
    return np.asarray(np.take(wanted, place) + slopes[place] * (values - np.take(known, place)))
