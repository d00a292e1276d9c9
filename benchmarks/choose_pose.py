"""Choose how each method of the pose tables learns, on a world that is never tested.

    PYTHONPATH=. python benchmarks/choose_pose.py
    PYTHONPATH=. python benchmarks/choose_pose.py --device cuda --workers 6 --photos 10368

Tries learning rates, lambda, whether it fades, sizes of psi's blocks, k and the order of projecting
at epsilon 0.8 and clip norm 1, one run a seed; prints each as it comes, and at the end the best of
each method as flags of the experiment. What is measured is kept in the file --out: a second call
goes on where a stopped one was, and after --seconds no further setting is begun.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tyro

from experiments.photos import keep_albums, size_stage
from experiments.pose import (
    ALONE,
    BOTH,
    DP,
    FEATURE,
    FEATURES_ONLY,
    FREE,
    NO_PRIVACY,
    PHOTOS_ONLY,
    PROJECTED,
    PlannedCell,
    PoseSettings,
    WantedPose,
    train_cells,
)
from masquerade.datasets.stage import Stage

WORLD = 2_000
EPSILON = 0.8
RATES = {
    DP: ("learning_rate", (3e-3, 1e-2, 1e-3, 3e-4)),
    PROJECTED: ("subspace_learning_rate", (5e-4, 2.5e-4, 1e-3, 1.25e-4)),
    FEATURE: ("feature_learning_rate", (1e-3, 3e-3)),
    NO_PRIVACY: ("clean_learning_rate", (1e-3, 2e-3)),
    PHOTOS_ONLY: ("photos_learning_rate", (1e-3, 2e-3)),
}
BOTH_RATES, LAMBDAS = (1e-3, 5e-4, 2e-3), ((0.3, "none"), (0.1, "none"), (1.0, "cosine"))
BLOCKS = (6, 8, 4, 12)


@dataclass(frozen=True, kw_only=True)
class Choosing:
    """What is tried, and on how much.

    Args:
        out: file of what was measured.
        device: where it is trained.
        workers: processes that train side by side.
        strategy: what is trained.
        photos: of the world, a third of them private and a sixth for tests.
        taught: private ones that are used.
        tested: photos to test on.
        batch: photos in a batch.
        epochs: of every run.
        blocks: sides of psi's blocks; with the first of them rates are tried.
        methods: rows that are tried; all if none is named.
        seeds: runs of each setting.
        physical: photos whose gradients are computed at once.
        seconds: after which no further setting is begun.
        quick: few settings, to see that all of it runs.
    """

    out: Path = Path("out/choose_pose.json")
    device: Literal["cpu", "cuda"] = "cpu"
    workers: int = 1
    strategy: Literal["last_stage", "all", "head"] = "last_stage"
    photos: int = 5_184
    taught: int = 1_728
    tested: int = 600
    batch: int = 256
    epochs: float = 10.0
    blocks: tuple[int, ...] = BLOCKS
    methods: tuple[str, ...] = ()
    seeds: int = 1
    physical: int | None = None
    seconds: float = math.inf
    quick: bool = False


def main() -> None:
    given, begun = tyro.cli(Choosing), time.monotonic()
    world = size_stage(Stage(seed=WORLD, photo_roll_deg=40.0, photos=given.photos))
    albums = keep_albums(
        given.out.parent,
        world,
        most=given.taught,
        tested=given.tested,
        public=100,
        device=given.device,
    )
    print(f"{len(albums.private)} photos drawn after {time.monotonic() - begun:.0f} s", flush=True)
    known = json.loads(given.out.read_text()) if given.out.is_file() else {}
    every = [(name, one) for name, one in tried(given) if name in (given.methods or (name,))]
    settings = {_said(name, fields): fields for name, fields in every}
    wanted = {_said(name, fields): _lesson(given, name, fields) for name, fields in every}
    missing = {said: cell_plan for said, cell_plan in wanted.items() if said not in known}
    jobs = len(os.sched_getaffinity(0))
    cells = train_cells(albums, list(missing.values()), workers=given.workers, jobs=jobs)
    for said, cell in zip(missing, cells, strict=False):
        known[said] = {"pckh": cell.pckh, "method": cell.method, "fields": settings[said]}
        print(f"{100 * cell.runs.mean:.1f}  {said}, {time.monotonic() - begun:.0f} s", flush=True)
        given.out.write_text(json.dumps(known))
        write_flags(given, known)
        if time.monotonic() - begun > given.seconds:
            cells.close()
            break
    chosen(given, known)


def tried(given: Choosing) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every setting; what decides most comes first."""
    yield ALONE, {}
    yield PROJECTED, {"subspace_learning_rate": 1e-3}
    if given.quick:
        yield FEATURES_ONLY, {"psi_learning_rate": 1e-3, "block": 8}
        yield BOTH, {"both_learning_rate": 1e-3, "block": 8, "weight": 0.3, "fade": "cosine"}
        return
    for rate, (weight, fade) in itertools.product(BOTH_RATES, LAMBDAS[:2]):
        fields = {"both_learning_rate": rate, "block": given.blocks[0]}
        yield BOTH, fields | {"weight": weight, "fade": fade}
    for name, (field, rates) in RATES.items():
        if name != FEATURE:
            yield from ((name, {field: rate}) for rate in rates)
    for rate, weight in itertools.product(RATES[FEATURE][1], (1.0, 0.3)):
        fields = {
            "feature_learning_rate": rate,
            "block": given.blocks[0],
            "weight": weight,
            "fade": "none",
        }
        yield FEATURE, fields
    for rate in (1e-3, 3e-4, 2e-3):
        yield FEATURES_ONLY, {"psi_learning_rate": rate, "block": given.blocks[0]}
    both = {"both_learning_rate": 1e-3, "block": given.blocks[0], "weight": 0.3, "fade": "none"}
    for other in ({"order": "clip_first"}, {"directions": 30}):
        yield from ((PROJECTED, {"subspace_learning_rate": rate} | other) for rate in (5e-4, 1e-3))
        yield BOTH, both | other
    for block, (weight, fade) in itertools.product(given.blocks[1:], LAMBDAS):
        fields = {"both_learning_rate": 1e-3, "block": block}
        yield BOTH, fields | {"weight": weight, "fade": fade}
    for block in given.blocks[1:]:
        yield FEATURES_ONLY, {"psi_learning_rate": 1e-3, "block": block}


def _lesson(given: Choosing, name: str, fields: dict[str, Any]) -> PlannedCell:
    names = ("device", "batch", "epochs", "seeds", "physical")
    plan = PoseSettings(**{name: getattr(given, name) for name in names}, **fields).settle()
    is_free = name in FREE
    one = WantedPose(
        method=name,
        strategy=given.strategy,
        epsilon=math.inf if is_free else EPSILON,
        clip_norm=0.0 if is_free else 1.0,
    )
    return plan, one


def _said(name: str, fields: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key} {value}" for key, value in fields.items())])


def chosen(given: Choosing, known: dict[str, Any]) -> None:
    """Print the best of each method, and the flags."""
    for name in (ALONE, *RATES, FEATURES_ONLY, BOTH):
        print(f"best of {name}: {_worded(_best(known, name))}")
    for ahead, both, features in _by_block(known):
        print(f"ahead by {100 * ahead:.1f}: {_worded(both)}; {_worded(features)}")
    write_flags(given, known)
    if given.out.with_suffix(".flags").is_file():
        print(given.out.with_suffix(".flags").read_text())


def write_flags(given: Choosing, known: dict[str, Any]) -> None:
    """The experiment's flags as far as they are known.

    Of psi's blocks those are taken with which feature-projective is furthest ahead of whichever is
    nearer: public features alone with the same blocks, or projected.
    """
    rows = _by_block(known)
    if not rows:
        return
    both = max(rows, key=lambda row: row[0])[1]["fields"]
    fields: dict[str, Any] = {}
    for name in (DP, PROJECTED, NO_PRIVACY, PHOTOS_ONLY):
        fields |= _best(known, name)["fields"]
    block = both["block"]
    fields |= _best(known, FEATURES_ONLY, block=block)["fields"] | both
    feature = dict(_best(known, FEATURE, block=block)["fields"])
    feature.pop("block", None)
    for name in ("weight", "fade"):
        if name in feature:
            feature[f"feature_{name}"] = feature.pop(name)
    flags = (f"--{key.replace('_', '-')} {value}" for key, value in (fields | feature).items())
    given.out.with_suffix(".flags").write_text(" ".join(flags) + "\n")


def _by_block(known: dict[str, Any]) -> list[tuple[float, dict[str, Any], dict[str, Any]]]:
    """For each size of blocks: how far feature-projective is ahead, it, and public features."""
    found = []
    for block in BLOCKS:
        both, features = (_best(known, name, block=block) for name in (BOTH, FEATURES_ONLY))
        if both["said"] and features["said"]:
            rival = max(features["pckh"], _best(known, PROJECTED)["pckh"])
            found.append((both["pckh"] - rival, both, features))
    return found


def _best(known: dict[str, Any], method: str, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"pckh": 0.0, "said": "", "fields": {}}
    for said, cell in known.items():
        is_asked = all(cell["fields"].get(key) == value for key, value in fields.items())
        mean = sum(cell["pckh"]) / len(cell["pckh"])
        if cell["method"] == method and is_asked and mean > found["pckh"]:
            found = {"pckh": mean, "said": said, "fields": cell["fields"]}
    return found


def _worded(one: dict[str, Any]) -> str:
    return f"{100 * one['pckh']:.1f}, {one['said']}"


if __name__ == "__main__":
    main()
