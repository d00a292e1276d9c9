"""The recipe of private poses runs on a tiny world, and says what its cells say."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from experiments import photos, pose
from experiments.claims import Cells
from experiments.engine import Journal, Run
from experiments.pose import (
    BOTH,
    DP,
    EXPERIMENT,
    FEATURES_ONLY,
    PoseCell,
    PoseFound,
    PoseSettings,
    WantedPose,
    encode_shares,
    write_page,
)
from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.recordings import Photo
from masquerade.scores import MeasuredRate
from masquerade.training.methods import FeatureProjective

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

from few_photos import FewPhotos  # noqa: E402

TINY = {"strategies": ("head",), "seeds": 1, "taught": 4, "tested": 3, "batch": 2, "epochs": 1.0}
GUIDED = {"public_records": 3, "directions": 2, "jobs": 1}


@pytest.fixture(autouse=True, scope="module")
def _world(world_cache: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASQUERADE_CACHE", str(world_cache))
        yield


def cell(method: str, mean: float, *, epsilon: float = math.inf, **fields: Any) -> PoseCell:
    proved = {} if epsilon == math.inf else {"zero_out": epsilon / 2, "replace_one": epsilon}
    known: dict[str, Any] = {
        "strategy": "last_stage",
        "clip_norm": 0.0 if epsilon == math.inf else 1.0,
        "relation": "replace_one",
        "pckh": tuple(mean + step for step in (-0.002, 0.0, 0.002)),
        "fine": (0.1, 0.1, 0.1),
        "tested": 3000,
    }
    return PoseCell(method=method, epsilon=epsilon, proved=proved, **(known | fields))


def found_of(*cells: PoseCell, **fields: Any) -> PoseFound:
    plan = PoseSettings(epsilons=(0.8,), clip_norms=(0.1, 1.0), **fields.pop("plan", {})).settle()
    return PoseFound(
        cells=Cells(cells), settings=plan, about="made up", taught=10, tested=3000, **fields
    )


def test_a_tiny_world_gives_every_row_and_a_page(tmp_path: Path) -> None:
    plan = PoseSettings(quick=True, out=tmp_path / "out", page=tmp_path / "p.md", **TINY, **GUIDED)
    answer = EXPERIMENT.run(plan, Stage(photos=36, subjects=6, places=4))
    text = (tmp_path / "p.md").read_text()
    for row in (
        "no privacy",
        "public weights alone",
        "public photos only",
        FEATURES_ONLY,
        DP,
        BOTH,
    ):
        assert f"| {row} |" in text
    cells = answer.data["cells"]
    assert len(cells) == 4 + 4 and all(len(one["pckh"]) == 1 for one in cells)
    private = [one for one in cells if one["epsilon"] is not None]
    for one in private:
        assert one["proved"]["replace_one"] <= 0.8 and one["noise_multiplier"] > 0
    assert json.loads((tmp_path / "out" / "results.json").read_text())["tested"] == 3
    assert (tmp_path / "p" / "pose_head_replace_one_0_1.svg").is_file()


def test_every_cell_of_the_papers_grid_is_asked_for() -> None:
    plan = PoseSettings(relations=("replace_one", "zero_out")).settle()
    asked = list(pose.list_wanted(plan))
    private = [one for one in asked if one.epsilon < math.inf]
    assert len(private) == 4 * 4 * 3 * 3 * 2 and len({one.name for one in asked}) == len(asked)
    assert {one.clip_norm for one in private} == {0.01, 0.1, 1.0}


def test_the_papers_setting_is_its_codes() -> None:
    plan = PoseSettings(setting="paper")
    one = WantedPose(method=BOTH, strategy="last_stage", epsilon=0.2, clip_norm=0.01)
    method = plan.build_method(one)
    assert isinstance(method, FeatureProjective)
    assert (method.optimiser, method.learning_rate, method.epochs) == ("adamw", 1e-3, 25.0)
    assert (method.batch, method.schedule, method.delta) == (32, "step", 1 / 22_000)
    assert (method.psi, method.order, method.refresh) == ("blur", "clip_first", 50)
    assert method.weight == 1.0 and any("0.1" in said for said in plan.left_open)


def test_what_is_said_follows_from_the_cells() -> None:
    ours = cell(BOTH, 0.80, epsilon=0.8)
    worse = cell(BOTH, 0.70, epsilon=0.8, clip_norm=0.1)
    rows = [cell(DP, 0.6, epsilon=0.8), cell(FEATURES_ONLY, 0.801), cell("no privacy", 0.9)]
    found = found_of(ours, worse, *rows)
    (said,) = write_page(found).data["sentences"]
    assert "ahead (+20.0 points, n = 3 runs) DP-SGD" in said
    assert "not told apart (-0.1 points, n = 3 runs) public features only" in said
    assert "behind (-10.0 points, n = 3 runs) no privacy" in said
    text = write_page(found).text
    assert "80.0 ± 0.2 (C 1)" in text and "70.0" not in text
    assert "epsilon of the same runs under zero_out |  | 0.4" in text


def test_photos_that_scatter_less_than_coins_tell_more() -> None:
    coins, photos = cell(BOTH, 0.64, tested=864), cell(BOTH, 0.64, tested=864, photo_error=0.009)
    assert photos.runs.error < coins.runs.error
    assert math.isclose(photos.runs.error**2, 0.002**2 / 3 + 0.009**2, rel_tol=1e-6)


def test_rows_are_compared_photo_by_photo_where_both_kept_them() -> None:
    rng = np.random.default_rng(0)
    photos = rng.uniform(0, 1, 900)
    better = np.clip(photos + 0.01, 0, 1)
    kept = {"tested": 900, "photo_error": 0.01}
    ours = cell(BOTH, 0.51, photos=encode_shares(better), **kept)
    theirs = cell(FEATURES_ONLY, 0.50, photos=encode_shares(photos), **kept)
    assert ours.compare_to(theirs) == "ahead" and theirs.compare_to(ours) == "behind"
    assert (
        cell(BOTH, 0.51, **kept).compare_to(cell(FEATURES_ONLY, 0.50, **kept)) == "not told apart"
    )
    shuffled = cell(FEATURES_ONLY, 0.50, photos=encode_shares(rng.permutation(photos)), **kept)
    assert ours.compare_to(shuffled) == "not told apart"


def test_a_stopped_run_gives_a_page_of_what_it_kept(tmp_path: Path) -> None:
    plan = PoseSettings(out=tmp_path, device="cuda", epsilons=(0.8,), clip_norms=(1.0,)).settle()
    journal = Journal.open(replace(plan, device="cpu"), Stage())
    journal = replace(journal, run=Journal.open(plan, Stage()).run, machine="a far machine")
    kept = cell(BOTH, 0.8, epsilon=0.8, strategy="last_stage", taught=7)
    one = WantedPose(method=BOTH, strategy="last_stage", epsilon=0.8, clip_norm=1.0)
    journal.note_result(one.name, kept)
    page = tmp_path / "p.md"
    answer = EXPERIMENT.run(replace(plan, kept_only=True, page=page), Stage())
    assert "a far machine" in page.read_text() and "80.0" in page.read_text()
    assert [found["method"] for found in answer.data["cells"]] == [BOTH]
    assert (tmp_path / "cells.json").is_file()  # it may still go on
    with pytest.raises(BadInput, match="run it first"):
        EXPERIMENT.run(replace(plan, kept_only=True, seeds=7), Stage())


@pytest.mark.slow
def test_two_workers_train_what_one_does(tmp_path: Path) -> None:
    fields = TINY | GUIDED | {"methods": ("projected",), "epochs": 1.0}
    plan = PoseSettings(quick=True, out=tmp_path, workers=2, **fields)
    answer = EXPERIMENT.run(plan, Stage(photos=36, subjects=6, places=4))
    names = [one["method"] for one in answer.data["cells"]]
    assert len(names) == 5 and names[-1] == "projected"
    assert not list(tmp_path.glob("albums-*")) and not (tmp_path / "cells.json").exists()


def test_the_frontier_has_a_table_and_a_plot() -> None:
    coarse = Cells(
        cell(method, mean, epsilon=epsilon, psi=f"blocks of {block}")
        for block, mean in ((8, 0.8), (32, 0.6))
        for method, epsilon in ((FEATURES_ONLY, math.inf), (BOTH, 0.8))
    )
    found = found_of(cell(BOTH, 0.8, epsilon=0.8), coarse=coarse, plan={"blocks": (8, 32)})
    assert "blocks of 32 | public features only | - | 60.0" in write_page(found).text
    assert write_page(found).plots["pose_coarse"].count("<polyline") == 2
    seen = {"measure": "rank-1", "low": 0.2, "high": 0.95, "count": 28, "of": "people"}
    said = {"": 0.9, "blocks of 8": 0.5, "blocks of 32": 0.3}
    named = {psi: MeasuredRate(value=v, chance=1 / 28, **seen) for psi, v in said.items()}
    known = replace(found, named=named)
    assert "blocks of 32 | public features only | - | 60.0 ± 0.2 | 30 (20 to 95)" in (
        write_page(known).text
    )
    assert "by whole photos 90" in write_page(known).text
    assert write_page(known).plots["pose_coarse"].count("<circle") >= 4


def test_impossible_plans_are_refused() -> None:
    for fields, rule in (
        ({"epsilons": (0.0,)}, "epsilons"),
        ({"clip_norms": ()}, "clip_norms"),
        ({"weight": -1.0}, "weight"),
        ({"both_learning_rate": 0.0}, "both_learning_rate"),
        ({"seeds": 0}, "seeds"),
        ({"delta": 2.0}, "delta"),
    ):
        with pytest.raises(ValueError, match=rule):
            PoseSettings(**fields)


@dataclass(frozen=True, kw_only=True)
class TwoParts(FewPhotos):
    split: Literal["train", "test"] | None = None
    lacks: tuple[str, ...] = ()

    def _load(self, index: int) -> Photo:
        return replace(super()._load(index), **dict.fromkeys(self.lacks))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FewPhotos(), "got no parts of Few photos"),
        (
            TwoParts(lacks=("head_px",)),
            "size of the head.* got none among the first 8 of Few photos",
        ),
        (TwoParts(lacks=("joints", "visible")), "with joints .* got none among the first 8"),
        (TwoParts(), "first 8 people.*got 8 people in all; lower --public-records"),
    ],
)
def test_photos_that_cannot_be_learned_from_and_measured_are_refused(
    data: FewPhotos, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        photos.read_albums(data, most=None, tested=None, public=8)


def test_a_world_too_small_for_its_parts_is_refused() -> None:
    with pytest.raises(BadInput, match=r"photos in the part train of Stage.*give more photos"):
        photos.read_albums(
            Stage(photos=3).select_kind(Medium.PHOTOS), most=None, tested=None, public=1
        )


def test_people_without_names_are_not_named(tmp_path: Path) -> None:
    plan = PoseSettings(quick=True, out=tmp_path, blocks=(8,), **TINY, **GUIDED)
    with pytest.raises(BadInput, match="--no-named"):
        pose.measure_poses(Run(settings=plan.settle(), data=TwoParts(lacks=("subject",))))


@pytest.mark.slow
def test_it_measures_without_screens_ledgers_and_films() -> None:
    code = (
        "import sys\n"
        "for name in ('av', 'sqlalchemy', 'rich', 'tyro', 'cv2'): sys.modules[name] = None\n"
        "from experiments import pose\n"
        "print(pose.EXPERIMENT.measure.__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "measure_poses", done.stderr[-500:]


def test_public_pictures_are_the_same_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from masquerade.training.views import Psi

    monkeypatch.setattr(photos, "_TOGETHER", 2)
    crops = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), np.uint8)
    psi = Psi(block=8)
    assert np.array_equal(photos.make_public(crops, psi), psi(crops))


def test_the_journal_is_of_the_plan(tmp_path: Path) -> None:
    plan = PoseSettings(out=tmp_path).settle()
    assert Journal.open(plan, Stage()).run != Journal.open(plan, Stage(seed=3)).run
