"""MaskDP's tables: what is said follows from the cells, and every view is the one that is meant."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from conftest import python
from masquerade.collection import Collection, CountLine, DataSource, Labels, Medium
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.recordings import Video
from masquerade.training import method
from masquerade.training import plan as published
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import Rows
from masquerade.training.views import FILL_LEVEL

torch = pytest.importorskip("torch")

from experiments import mask_dp, videos  # noqa: E402
from experiments.claims import Cells, write_sentences  # noqa: E402
from experiments.engine import Journal, Run, write_command  # noqa: E402
from experiments.mask_dp import CLAIMS, EXPERIMENT, MaskDpSettings  # noqa: E402
from experiments.mask_dp import MaskDpCell as Cell  # noqa: E402
from experiments.mask_dp import MaskDpFound as Found  # noqa: E402

PUBLISHED = "MaskDP as published"
ROWS = ("public part only", "DP", "MultiClip", "MaskDP", PUBLISHED, "DP from scratch")


@pytest.fixture(autouse=True, scope="module")
def _quietly() -> Iterator[None]:
    """One thread; what a plan costs is asked for again and again, the paper's not at all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingPlan, "compute_epsilon", cache(TrainingPlan.compute_epsilon))
        patch.setattr(method, "calibrate_plan", cache(method.calibrate_plan))
        patch.setattr(published, "renyi_noise_multiplier", lambda target, **of: 0.9)
        yield
    torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class Noisy(Collection[Video]):
    """Six films of noise to learn from, four to test on."""

    ABOUT: ClassVar[DataSource] = DataSource(
        title="Noisy", kind=Medium.VIDEOS, licence="none", home="", citation=""
    )
    split: Literal["train", "test"] | None = None
    activity: str | None = None

    @property
    def activities(self) -> tuple[str, ...]:
        return ("walk", "run")

    def check(self) -> tuple[CountLine, ...]:
        return ()

    def _find(self) -> list[Labels]:
        return [Labels(name=str(number)) for number in range(6 if self.split == "train" else 4)]

    def _load(self, index: int) -> Video:
        rng = np.random.default_rng((index, len(self)))
        mask = np.zeros((20, 64, 64), bool)
        mask[:, 10:40, 20:40] = True
        frames = rng.integers(0, 256, (20, 64, 64, 3), np.uint8)
        activity = self.activity or self.activities[index % 2]
        return Video(frames=frames, rate_hz=10, activity=activity, person_mask=mask)


SLOTS = np.arange(6).reshape(2, 3)
TINY = MaskDpSettings(quick=True, epochs=1.0, batch=3, mask_batch=3, jobs=1)


def cell(name: str, epsilon: float, *top_1: float, **fields: Any) -> Cell:
    is_free = name.startswith("public") or epsilon == math.inf
    return Cell(
        method=name,
        epsilon=epsilon,
        top_1=top_1,
        per_class={"walk": top_1, "run": top_1},
        proved={} if is_free else {"zero_out": epsilon / 2, "replace_one": epsilon},
        noise_multiplier=1.0,
        steps=9,
        tested=1200,
        **fields,
    )


def found(*cells: Cell, **setting: Any) -> Found:
    keys = {(one.epsilon, one.relation, one.correlation) for one in cells}
    public = [
        cell("public part only", e, 0.5, 0.52, relation=relation, correlation=place)
        for e, relation, place in keys
    ]
    return Found(
        cells=Cells((*cells, *public)),
        settings=MaskDpSettings(seeds=2, **setting).settle(),
        about="nobody",
        units=6,
        tested=1200,
    )


def write_markdown(table: Found) -> str:
    return mask_dp.write_text(table, list(write_sentences(table, CLAIMS)))


def said(table: Found, part: str) -> str:
    (line,) = [one for one in list(write_sentences(table, CLAIMS)) if part in one]
    return line


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ((0.80, 0.82), (0.60, 0.62), "ahead"),
        ((0.60, 0.62), (0.80, 0.82), "behind"),
        ((0.60, 0.70), (0.62, 0.74), "not told apart"),
        ((0.80,), (0.60,), "not known from one run"),
    ],
)
@pytest.mark.parametrize("pair", [("MaskDP", "DP"), ("MultiClip", "DP"), ("DP", "DP from scratch")])
def test_the_sentences_follow_from_the_cells(
    ours: tuple[float, ...], theirs: tuple[float, ...], word: str, pair: tuple[str, str]
) -> None:
    table = found(cell(pair[0], 1.0, *ours), cell(pair[1], 1.0, *theirs))
    line = said(table, f"{pair[0]} against {pair[1]}")
    assert f": {word} at every epsilon. Up to epsilon 1 as a whole: {word}." in line


def test_one_epsilon_behind_is_a_no_for_the_whole() -> None:
    table = found(
        *(cell("MaskDP", e, *top) for e, top in ((0.1, (0.7, 0.7)), (1.0, (0.4, 0.4)))),
        *(cell("DP", e, 0.5, 0.5) for e in (0.1, 1.0)),
    )
    line = said(table, "MaskDP against DP")
    assert "ahead at 0.1, behind at 1. Up to epsilon 1 as a whole: behind." in line
    beyond = found(*table.cells[:3], cell("DP", 1.0, 0.3, 0.3), cell("MaskDP", 5.0, 0.1, 0.1))
    line = said(beyond, "MaskDP against public part only")
    assert "behind at 1 5" in line, "5 is compared, and no part of the whole"
    assert "whole: ahead" in said(beyond, "MaskDP against DP")


def test_worlds_and_relations_are_compared_each_with_itself() -> None:
    cells = [
        cell(name, 1.0, top, top, relation=relation, correlation=place)
        for name, shift in (("MaskDP", 0.2), ("DP", 0.0))
        for relation, place, top in (
            ("replace_one", 0.0, 0.3 - shift),
            ("replace_one", 0.9, 0.5 + shift),
            ("zero_out", 0.0, 0.4),
        )
    ]
    table = found(*cells, correlations=(0.0, 0.9), relations=("replace_one", "zero_out"))
    line = said(table, "MaskDP against DP")
    assert "place 0 replace_one: behind at every epsilon; place 0.9 replace_one: ahead" in line
    assert "place 0 zero_out: not told apart at every epsilon" in line
    text = mask_dp.write_arms(table, "replace_one")
    assert "| MaskDP, place 0.9 | " in text and "70.0 ± 0.0" in text
    assert "place 0.9" not in mask_dp.write_arms(table, "zero_out")
    assert set(mask_dp.draw_plots(table)) == {
        *("mask_dp_places_top_1", "mask_dp_places_top_1_zero_out"),
        *("mask_dp_places_figure_5", "mask_dp_places_figure_5_zero_out"),
    }


def test_epsilons_stand_in_the_heading_and_the_other_relation_below() -> None:
    text = write_markdown(found(cell("MaskDP", 1.0, 0.5, 0.5), cell("DP", 1.0, 0.5, 0.5)))
    assert "### Top-1, epsilon of one recording under replace_one, delta 1e-05" in text
    assert "| epsilon of the sound rows under zero_out |  | 0.5 |" in text
    assert "| MaskDP | private pixels of one recording | 50.0 ± 0.0 |" in text


def test_the_published_form_shows_its_true_epsilon() -> None:
    shared = replace(cell(PUBLISHED, 1.0, 0.5, 0.5), proved={"zero_out": 2.7, "replace_one": 6.2})
    text = write_markdown(found(shared))
    assert f"{PUBLISHED}: epsilon CLAIMED, NOT VALID" in text
    assert f"| true epsilon, exact, of {PUBLISHED} under replace_one |  | 6.2 |" in text
    assert "private tokens alone" in said(found(shared), "Algorithm 2")
    assert "whole recordings in the private" in said(found(shared), "departs")
    assert "private pixels alone" in said(found(shared, view="private"), "departs")
    assert "CLAIMED" not in write_markdown(found(cell("MaskDP", 1.0, 0.5, 0.5)))


def test_the_mean_over_classes_counts_each_class_once() -> None:
    one = replace(cell("DP", 1.0, 0.9, 0.8), per_class={"walk": (1.0, 0.8), "run": (0.2, 0.4)})
    assert one.class_runs.shares == pytest.approx((0.6, 0.6)) and one.runs.shares == (0.9, 0.8)
    assert "60.0 ± 0.0" in mask_dp.write_arms(
        found(one), "replace_one", score=lambda cell: cell.class_runs
    )


@pytest.mark.parametrize(
    ("side", "words"), [("background", "people"), ("person", "background with the outline")]
)
def test_the_text_says_which_side_is_public(side: str, words: str) -> None:
    line = said(found(cell("DP", math.inf, 0.9, 0.9), private=side), "Private:")
    assert f"public: {words}" in line and "51.0 ± 1.4 of 90.0 ± 0.0" in line


def test_a_table_without_the_public_part_is_refused() -> None:
    with pytest.raises(ValueError, match="public part only"):
        Found(
            cells=Cells([cell("DP", 1.0, 0.5)]),
            settings=MaskDpSettings(),
            about="",
            units=1,
            tested=1,
        )
    for plan in (TINY, MaskDpSettings(), MaskDpSettings(private="person")):
        assert plan.columns["public part only"] == plan.columns["DP"]


def test_what_the_paper_leaves_open_is_printed_and_of_ours_on_what_it_was_chosen() -> None:
    paper = found(cell("DP", 1.0, 0.5, 0.5), setting="paper")
    assert (
        set(paper.settings.left_open) <= set(list(write_sentences(paper, CLAIMS)))
        and paper.settings.left_open
    )
    assert mask_dp.write_page(paper).data["left_open"]
    (ours,) = MaskDpSettings().left_open
    assert "world 2000" in ours and "private side and relation" in ours


def test_worlds_are_of_stage_alone() -> None:
    with pytest.raises(ValueError, match="--data stage with --correlations"):
        mask_dp.measure_tables(Run(settings=replace(TINY, correlations=(0.5,)), data=Noisy()))


def test_each_view_is_the_one_that_is_meant() -> None:
    data = Noisy(split="train")
    given = MaskDpSettings(private="person", view="whole", part="all", jobs=1)
    plan = given.settle()  # the trunk gives films
    views = mask_dp.read_views(Run(settings=plan), data, {"MaskDP", "MultiClip", "DP from scratch"})
    whole, many, films = (views[name] for name in ("MaskDP", "MultiClip", "DP from scratch"))
    segments = many.private.unflatten(0, (6, 3))
    assert segments.shape == (6, 3, 3, 16, 64, 64)
    assert torch.equal(films.private, segments[:, 1]) and torch.equal(whole.private, films.private)
    assert not torch.equal(segments[:, 0], segments[:, 2]), "20 frames: segments differ"
    grey = (FILL_LEVEL / 255 - 0.45) / 0.225
    inside, outside = (slice(10, 40), slice(20, 40)), (slice(46, 60), slice(46, 60))
    assert torch.allclose(whole.public[..., *inside], torch.tensor(grey))
    assert torch.equal(whole.public[..., *outside], films.private[..., *outside])
    assert many.num_units == 6 and many.slots[1].tolist() == [3, 4, 5] and many.public is None
    assert many.targets.tolist() == [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3


def test_the_test_split_needs_no_masks_and_rows_share_views() -> None:
    plan = MaskDpSettings().settle()
    shared = {"MaskDP", "MultiClip", PUBLISHED, "DP from scratch"}
    view = mask_dp.choose_view
    assert {view(plan, name) for name in ROWS} == shared
    assert {view(replace(plan, view="private"), name) for name in ROWS} == shared | {"DP"}
    assert {view(plan, name, is_test=True) for name in ROWS} == {
        "DP",
        "DP from scratch",
    }
    assert view(plan, "public weights alone", is_test=True) == "DP"
    norms = replace(plan, part="last_norms")
    assert (
        mask_dp.choose_view(norms, "public weights alone", is_test=True) == "public weights alone"
    )


def test_what_cannot_be_learned_from_is_refused() -> None:
    with pytest.raises(BadInput, match="recordings that can be used"):
        mask_dp.read_views(Run(settings=TINY), Noisy(split="test", activity="fly"), {"DP"})
    with pytest.raises(BadInput, match="at least one recording"):
        videos.join_rows([])


def test_a_model_is_tested_on_the_middle_segment_or_on_the_mean_of_all() -> None:
    private = torch.tensor([[9.0, 0], [0, 1], [9, 0], [1, 0], [1, 0], [0, 9]])
    rows = Rows(private=private, public=None, targets=torch.tensor([0] * 3 + [1] * 3), slots=SLOTS)
    for tested, right in ((1, [False, False]), (3, [True, True])):
        assert videos.find_right(torch.nn.Identity(), rows, tested=tested).tolist() == right


def test_table_and_json_agree(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    plan = replace(TINY, out=tmp_path / "out", page=page)
    answer = EXPERIMENT.run(plan, Noisy())
    data = json.loads((plan.out / "results.json").read_text())
    text = (plan.out / "table.md").read_text()
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    assert {*ROWS[:4], f"{PUBLISHED}: epsilon CLAIMED, NOT VALID"} <= set(lines)
    for one in data["cells"]:
        given = {name: one[name] for name in Cell.__dataclass_fields__}
        given["epsilon"] = math.inf if one["epsilon"] is None else one["epsilon"]
        row = next(line for name, line in lines.items() if name.startswith(one["method"]))
        assert str(Cell(**given).class_runs) in row
        assert one["unit"] in row and len(one["top_1"]) == 2
    assert data["views"] == "real" and data["units"] == 6 and data["tested"] == 4
    assert all(sentence in text for sentence in data["sentences"])
    assert "of one run alone" in data["sentences"][-1] and answer.data["cells"] == data["cells"]
    assert text.rstrip("\n") in page.read_text() and "--quick" in data["origin"]
    assert (tmp_path / "results" / "mask_dp_figure_5.svg").read_text().count('class="bar"') == 6
    assert PUBLISHED in (plan.out / "mask_dp_top_1.svg").read_text()
    assert not (plan.out / "cells.json").exists(), "a finished run is measured anew"


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, trained = replace(TINY, out=tmp_path), []
    real = videos.loop.run_training

    def stopped(*given: Any, **options: Any) -> None:
        trained.append("run")
        if len(trained) == 5:
            raise KeyboardInterrupt
        real(*given, **options)

    monkeypatch.setattr(videos.loop, "run_training", stopped)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(plan, Noisy())
    kept = Journal.open(plan.settle(Noisy()), Noisy())
    assert len(kept.held) == 2 and kept.before > 0, "two cells of two seeds were finished"
    for other in (replace(plan, epochs=2.0), replace(plan, quick=False)):
        assert not Journal.open(other.settle(Noisy()), Noisy()).held
    assert not Journal.open(plan.settle(), Noisy(activity="walk")).held, "other data"
    answer = EXPERIMENT.run(plan, Noisy())
    assert len(trained) == 5 + 2 * (4 * 3 + 1 - 2), "13 cells, the public part once; 2 were known"
    first = next(iter(kept.held.values()))
    assert answer.data["cells"][0]["top_1"] == first[0]["top_1"]
    assert not (tmp_path / "cells.json").exists()


def test_from_scratch_trains_the_whole_network(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = MaskDpSettings(seeds=1, batch=3, epochs=1.0, scratch_epochs=0.5, jobs=1).settle()
    trained: list[int] = []
    real = videos.loop.run_training

    def watched(tail: Any, *rest: Any, **options: Any) -> None:
        trained.append(sum(p.numel() for p in tail.parameters() if p.requires_grad))
        real(tail, *rest, **options)

    monkeypatch.setattr(videos.loop, "run_training", watched)
    wanted = {"DP from scratch": (5.0,), "public part only": (5.0,)}
    found = mask_dp.measure_columns(Run(settings=plan, data=Noisy()), wanted)
    one = found.cells[0]
    assert trained[0] > 900_000 and one.proved["replace_one"] <= 5 and one.steps == 1
    with pytest.raises(ValueError, match="--from-scratch"):
        MaskDpSettings(network="mvit_v2_s", from_scratch=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_before_anything_is_drawn() -> None:
    with pytest.raises(ValueError, match="GPU"):
        mask_dp.measure_tables(Run(settings=replace(TINY, device="cuda"), data=Noisy()))


def test_the_command_is_the_one_that_was_given() -> None:
    plan = MaskDpSettings(private="person", correlations=(0.0, 0.9), out=Path("x"))
    assert write_command(plan, Stage(seed=3)) == (
        "python -m experiments mask_dp --seed 3 --private person --correlations 0.0 0.9"
    )
    sized = videos.size_stage(Stage(videos=36))
    assert (sized.videos, sized.frames, sized.correlation) == (36, 20, 0.5)
    assert "36 videos of 20 frames" in mask_dp.describe_data(sized, MaskDpSettings())
    assert "chance 0, 0.9" in mask_dp.describe_data(sized, MaskDpSettings(correlations=(0.0, 0.9)))


def test_measuring_needs_no_camera_ledger_or_screen() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('av', 'cv2', 'sqlalchemy', 'tyro', 'rich', 'numba'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from experiments import mask_dp\n"
        "print(mask_dp.EXPERIMENT.measure.__name__)\n"
    )
    assert python(code).strip() == "measure_tables"
