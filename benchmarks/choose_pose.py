"""Choose how each method of `recipe pose` learns, on a world that is never tested.

    python benchmarks/choose_pose.py
    python benchmarks/choose_pose.py --device cuda --workers 6 --taught 3456 --photos 10368

Tries learning rates, lambda, whether it fades, sizes of psi's blocks, k and the order of projecting
at epsilon 0.8 and clip norm 1, one run a seed; prints each as it comes, and at the end the best of
each method as flags of the recipe. What is measured is kept in the file --out: a second call goes
on where a stopped one was, and after --seconds no further setting is begun.
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

from masquerade.data.stage import Stage
from masquerade.recipes.pose import PoseTables
from masquerade.recipes.pose.classroom import AskedPose
from masquerade.recipes.pose.crew import Lesson, trained
from masquerade.recipes.pose.photos import kept_albums, sized
from masquerade.recipes.pose.rows import (
    ALONE,
    BOTH,
    DP,
    FEATURE,
    FEATURES_ONLY,
    FREE,
    NO_PRIVACY,
    PROJECTED,
)

WORLD = 2_000
EPSILON = 0.8
RATES = {
    NO_PRIVACY: ("clean_learning_rate", (1e-3, 2e-3)),
    FEATURES_ONLY: ("clean_learning_rate", (3e-4, 1e-3)),
    DP: ("learning_rate", (1e-4, 3e-4, 1e-3)),
    PROJECTED: ("subspace_learning_rate", (3e-4, 1e-3, 2e-3)),
    FEATURE: ("feature_learning_rate", (1e-4, 3e-4, 1e-3)),
    BOTH: ("both_learning_rate", (3e-4, 1e-3, 2e-3)),
}
BLOCKS = (4, 6, 8, 12)
LAMBDAS = ((1.0, "none"), (0.3, "none"), (0.1, "none"), (1.0, "cosine"), (0.3, "cosine"))


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
        seeds: runs of each setting.
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
    seeds: int = 2
    seconds: float = math.inf
    quick: bool = False


def main() -> None:
    given, begun = tyro.cli(Choosing), time.monotonic()
    world = sized(Stage(seed=WORLD, photo_roll_deg=40.0, photos=given.photos))
    held = kept_albums(
        given.out.parent,
        world,
        most=given.taught,
        tested=given.tested,
        public=100,
        device=given.device,
    )
    print(f"{len(held.private)} photos drawn after {time.monotonic() - begun:.0f} s", flush=True)
    known = json.loads(given.out.read_text()) if given.out.is_file() else {}
    settings = {_said(name, fields): fields for name, fields in tried(given)}
    wanted = {_said(name, fields): _lesson(given, name, fields) for name, fields in tried(given)}
    missing = {said: lesson for said, lesson in wanted.items() if said not in known}
    names = {_name(lesson): said for said, lesson in missing.items()}
    jobs = len(os.sched_getaffinity(0))
    crew = trained(held, list(missing.values()), workers=given.workers, jobs=jobs)
    for lesson, cell in crew:
        said = names[_name(lesson)]
        known[said] = {"pckh": cell.pckh, "method": cell.method, "fields": settings[said]}
        print(f"{100 * cell.runs.mean:.1f}  {said}, {time.monotonic() - begun:.0f} s", flush=True)
        given.out.write_text(json.dumps(known))
        if time.monotonic() - begun > given.seconds:
            crew.close()
            break
    chosen(given, known)


def tried(given: Choosing) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every setting; what decides most comes first."""
    if given.quick:
        yield ALONE, {}
        yield PROJECTED, {"subspace_learning_rate": 1e-3}
        yield BOTH, {"both_learning_rate": 1e-3, "block": 8, "weight": 0.3, "fade": "cosine"}
        return
    yield ALONE, {}
    for name in (PROJECTED, NO_PRIVACY, DP):
        field, rates = RATES[name]
        yield from ((name, {field: rate}) for rate in rates)
    for block in BLOCKS:
        yield FEATURES_ONLY, {"clean_learning_rate": 1e-3, "block": block}
        for weight, fade in LAMBDAS:
            fields = {"both_learning_rate": 1e-3, "block": block}
            yield BOTH, fields | {"weight": weight, "fade": fade}
    yield PROJECTED, {"subspace_learning_rate": 1e-3, "order": "clip_first"}
    yield PROJECTED, {"subspace_learning_rate": 1e-3, "directions": 30}
    for rate, block in itertools.product(RATES[FEATURE][1], (4, 6, 8)):
        fields = {"feature_learning_rate": rate, "block": block}
        yield from ((FEATURE, fields | {"weight": weight}) for weight in (1.0, 10.0))
    for rate, block in itertools.product((3e-4, 2e-3), (6, 8)):
        fields = {"both_learning_rate": rate, "block": block, "weight": 0.3, "fade": "cosine"}
        yield BOTH, fields
    yield FEATURES_ONLY, {"clean_learning_rate": 3e-4, "block": 8}


def _lesson(given: Choosing, name: str, fields: dict[str, Any]) -> Lesson:
    plan = PoseTables(
        device=given.device, batch=given.batch, epochs=given.epochs, seeds=given.seeds, **fields
    ).settled()
    is_free = name in FREE
    one = AskedPose(
        method=name,
        strategy=given.strategy,
        epsilon=math.inf if is_free else EPSILON,
        clip_norm=0.0 if is_free else 1.0,
    )
    return plan, one


def _said(name: str, fields: dict[str, Any]) -> str:
    return ", ".join([name, *(f"{key} {value}" for key, value in fields.items())])


def _name(lesson: Lesson) -> str:
    return repr(lesson)


def chosen(given: Choosing, known: dict[str, Any]) -> None:
    """Print the best of each method, and write flags for the recipe.

    Of psi's blocks those are taken with which feature-projective is furthest ahead of whichever is
    nearer: public features alone with the same blocks, or projected.
    """
    best = {name: _best(known, name) for name in (*RATES, ALONE)}
    for name, one in best.items():
        print(f"best of {name}: {_worded(one)}")
    alone = best[PROJECTED]["pckh"]
    rows = []
    for block in BLOCKS:
        both, features = (_best(known, name, block=block) for name in (BOTH, FEATURES_ONLY))
        if both["said"] and features["said"]:
            ahead = both["pckh"] - max(features["pckh"], alone)
            rows.append((ahead, both, features))
            print(
                f"block {block}: {_worded(both)}; {_worded(features)}; ahead by {100 * ahead:.1f}"
            )
    if not rows:
        return
    _, both, features = max(rows, key=lambda row: row[0])
    fields = {**best[DP]["fields"], **best[PROJECTED]["fields"], **both["fields"]}
    fields["clean_learning_rate"] = best[NO_PRIVACY]["fields"].get("clean_learning_rate", 1e-3)
    feature = _best(known, FEATURE, block=both["fields"]["block"])["fields"]
    for name in ("weight", "fade"):
        if name in feature:
            fields[f"feature_{name}"] = feature[name]
    fields["feature_learning_rate"] = feature.get("feature_learning_rate", 3e-4)
    flags = " ".join(f"--{key.replace('_', '-')} {value}" for key, value in fields.items())
    given.out.with_suffix(".flags").write_text(flags + "\n")
    print(flags)


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
