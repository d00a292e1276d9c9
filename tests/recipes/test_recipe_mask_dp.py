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
from masquerade.account.renyi import renyi_noise_multiplier
from masquerade.collection import About, Collection, Count, Labels, Medium
from masquerade.data.stage import Stage
from masquerade.errors import BadInput
from masquerade.recordings import Video

torch = pytest.importorskip("torch")

from masquerade.recipes import bench, mask_dp, seen  # noqa: E402
from masquerade.recipes.mask_dp import MaskDpTables, run  # noqa: E402
from masquerade.recipes.mask_dp import page as pages  # noqa: E402
from masquerade.recipes.mask_dp.rows import ROWS as LEARNED  # noqa: E402
from masquerade.recipes.mask_dp.rows import Cell, Found  # noqa: E402
from masquerade.train import mask_dp as published  # noqa: E402
from masquerade.train import method  # noqa: E402
from masquerade.train.plan import Plan  # noqa: E402
from masquerade.train.rows import Rows  # noqa: E402
from masquerade.train.views import FILL  # noqa: E402

ROWS = ("DP", "MultiClip", "MaskDP", "MaskDP, shared batch", "public part only", "DP from scratch")


@pytest.fixture(autouse=True, scope="module")
def _quietly() -> Iterator[None]:
    """One thread; what a plan costs is asked for again and again, the paper's not at all."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "epsilon", cache(Plan.epsilon))
        patch.setattr(method, "calibrated", cache(method.calibrated))
        patch.setattr(published, "renyi_noise_multiplier", lambda target, **of: 0.9)
        yield
    torch.set_num_threads(before)


@dataclass(frozen=True, kw_only=True)
class Noisy(Collection[Video]):
    """Six films of noise to learn from, four to test on."""

    ABOUT: ClassVar[About] = About(
        title="Noisy", kind=Medium.VIDEOS, licence="none", home="", citation=""
    )
    split: Literal["train", "test"] | None = None
    activity: str | None = None

    @property
    def activities(self) -> tuple[str, ...]:
        return ("walk", "run")

    def check(self) -> tuple[Count, ...]:
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
TINY = MaskDpTables(quick=True, epochs=1.0, batch=3, from_scratch=False)


def cell(name: str, epsilon: float, *top_1: float) -> Cell:
    proved = {"zero_out": epsilon / 2, "replace_one": epsilon} if epsilon < math.inf else {}
    return Cell(
        method=name,
        unit=LEARNED[name].unit,
        epsilon=epsilon,
        top_1=top_1,
        per_class={"walk": top_1, "run": top_1},
        proved={} if name == "public part only" else proved,
        noise_multiplier=1.0,
        steps=9,
    )


def found(*cells: Cell, **setting: Any) -> Found:
    public = [cell("public part only", e, 0.5, 0.52) for e in {one.epsilon for one in cells}]
    return Found(
        cells=(*cells, *public),
        plan=MaskDpTables(seeds=2, **setting),
        about="nobody",
        units=6,
        tested=4,
    )


def said(table: Found, part: str) -> str:
    (line,) = [one for one in pages.sentences(table) if part in one]
    return line


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ((0.80, 0.82), (0.60, 0.62), "Yes"),
        ((0.60, 0.62), (0.80, 0.82), "No"),
        ((0.60, 0.70), (0.62, 0.74), "Within the spread"),
        ((0.80,), (0.60,), "Not known from one seed"),
    ],
)
@pytest.mark.parametrize(
    ("pair", "question"),
    [
        (("MaskDP", "DP"), "ahead of DP at equal epsilon"),
        (("MultiClip", "DP"), "Is MultiClip ahead"),
        (("DP", "DP from scratch"), "ahead of training from scratch"),
    ],
)
def test_the_sentences_follow_from_the_cells(
    ours: tuple[float, ...],
    theirs: tuple[float, ...],
    answer: str,
    pair: tuple[str, str],
    question: str,
) -> None:
    table = found(cell(pair[0], 1.0, *ours), cell(pair[1], 1.0, *theirs))
    line = said(table, question)
    assert f"? {answer}; epsilon 1: {bench.percent(ours)} against" in line
    assert bench.percent(theirs) in line


def test_one_epsilon_behind_is_a_no_for_every_epsilon() -> None:
    table = found(
        *(cell("MaskDP", e, *top) for e, top in ((0.1, (0.7, 0.7)), (1.0, (0.4, 0.4)))),
        *(cell("DP", e, 0.5, 0.5) for e in (0.1, 1.0)),
    )
    line = said(table, "ahead of DP at equal epsilon")
    assert "? No; epsilon 0.1: 70.0 ± 0.0 against 50.0 ± 0.0, ahead; epsilon 1" in line
    beyond = found(*table.cells[:3], cell("DP", 1.0, 0.3, 0.3), cell("MaskDP", 5.0, 0.1, 0.1))
    assert "? Yes" in said(beyond, "ahead of DP at equal epsilon"), "5 is not asked about"
    assert "epsilon 5: 10.0" in said(beyond, "ahead of its public part")


def test_equal_epsilons_are_named_under_both_relations() -> None:
    pair = cell("MaskDP", 1.0, 0.5, 0.5), cell("DP", 1.0, 0.5, 0.5)
    assert "compared at zero_out 0.5, replace_one 1." in said(found(*pair), "were compared")
    other = replace(pair[1], proved={"zero_out": 1.0, "replace_one": 2.1})
    line = said(found(pair[0], other), "were compared")
    assert "MaskDP zero_out 0.5, replace_one 1, DP zero_out 1, replace_one 2.1" in line


def test_the_published_form_shows_its_true_epsilon() -> None:
    shared = replace(
        cell("MaskDP, shared batch", 1.0, 0.5, 0.5), proved={"zero_out": 2.7, "replace_one": 6.2}
    )
    table = found(shared)
    assert "(CLAIMED, NOT VALID: 1; true: zero_out 2.7, replace_one 6.2)" in pages.table(table)
    assert "claims 1, costs zero_out 2.7, replace_one 6.2" in said(table, "as published")
    assert "CLAIMED" not in pages.table(found(cell("MaskDP", 1.0, 0.5, 0.5)))


@pytest.mark.parametrize(
    ("side", "words"), [("background", "people"), ("person", "background with the outline")]
)
def test_the_text_says_which_side_is_public(side: str, words: str) -> None:
    full = cell("DP", math.inf, 0.9, 0.9)
    line = said(found(full, private=side), "Private:")
    assert f"public: {words}" in line and "50.0" in line and "not mostly" in line
    near = replace(full, top_1=(0.55, 0.55))
    assert "is mostly in what is public" in said(found(near, private=side), "Private:")


def test_the_private_side_reaches_every_method_that_has_one() -> None:
    for name in ("MaskDP", "MaskDP, shared batch", "public part only"):
        made = MaskDpTables(private="person", batch=9).method(name, 1.0)
        assert made.private == "person" and made.public_batch == 9  # type: ignore[attr-defined]
        assert MaskDpTables().method(name, 1.0).private == "background"  # type: ignore[attr-defined]


def test_a_table_without_the_public_part_is_refused() -> None:
    with pytest.raises(ValueError, match="public part only"):
        Found(cells=(cell("DP", 1.0, 0.5),), plan=MaskDpTables(), about="", units=1, tested=1)
    for plan in (TINY, MaskDpTables(), MaskDpTables(private="person")):
        assert plan.wanted["public part only"] == plan.wanted["DP"]


def test_quick_has_every_kind_of_row() -> None:
    quick = MaskDpTables(quick=True)
    assert tuple(quick.wanted) == ROWS and quick.wanted["DP from scratch"] == (1.0,)
    assert MaskDpTables().wanted == dict.fromkeys(ROWS, mask_dp.EPSILONS)
    assert quick.shortened.part == "head" and quick.shortened.scratch_epochs == 2


def test_rows_are_compared_at_equal_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(published, "renyi_noise_multiplier", renyi_noise_multiplier)
    plans = {name: MaskDpTables(epochs=2.0).method(name, 1.0).plan(864) for name in ROWS}
    same = {plans[name].noise_multiplier for name in ("DP", "MultiClip", "MaskDP")}
    assert len(same) == 1
    assert plans["MaskDP, shared batch"].noise_multiplier < min(same)
    assert plans["public part only"].noise_multiplier == 0
    assert plans["DP from scratch"].steps > plans["DP"].steps


def test_each_view_is_the_one_that_is_meant() -> None:
    data = Noisy(split="train")
    plan = MaskDpTables(private="person", part="all")  # its trunk gives the films themselves
    views = run.read(plan, data, {"MaskDP", "MultiClip", "DP from scratch"})
    whole, many, films = (views[name] for name in ("MaskDP", "MultiClip", "DP from scratch"))
    segments = many.private.unflatten(0, (6, 3))
    assert segments.shape == (6, 3, 3, 16, 64, 64)
    assert torch.equal(films.private, segments[:, 1]) and torch.equal(whole.private, films.private)
    assert not torch.equal(segments[:, 0], segments[:, 2]), "20 frames: segments differ"
    grey = (FILL / 255 - 0.45) / 0.225
    inside, outside = (slice(10, 40), slice(20, 40)), (slice(46, 60), slice(46, 60))
    assert torch.allclose(whole.public[..., *inside], torch.tensor(grey))
    assert torch.equal(whole.public[..., *outside], films.private[..., *outside])
    assert many.units == 6 and many.slots[1].tolist() == [3, 4, 5] and many.public is None
    assert many.targets.tolist() == [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3 + [0] * 3 + [1] * 3


def test_the_test_split_needs_no_masks_and_rows_share_views() -> None:
    assert {run.view(name) for name in ROWS} == {"MaskDP", "MultiClip", "DP from scratch"}
    assert {run.view(name, is_test=True) for name in ROWS} == {"DP", "DP from scratch"}


def test_what_cannot_be_learned_from_is_refused() -> None:
    with pytest.raises(BadInput, match="recordings that can be used"):
        run.read(TINY, Noisy(split="test", activity="fly"), {"DP"})
    with pytest.raises(BadInput, match="at least one recording"):
        seen.joined([])


def test_a_model_is_tested_on_the_middle_segment_or_on_the_mean_of_all() -> None:
    private = torch.tensor([[9.0, 0], [0, 1], [9, 0], [1, 0], [1, 0], [0, 9]])
    rows = Rows(private=private, public=None, targets=torch.tensor([0] * 3 + [1] * 3), slots=SLOTS)
    for tested, right in ((1, [False, False]), (3, [True, True])):
        assert seen.is_right(torch.nn.Identity(), rows, tested=tested).tolist() == right


def test_table_and_json_agree(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    plan = replace(TINY, out=tmp_path / "out", page=page)
    answer = plan.run(Noisy())
    data = json.loads((plan.out / "results.json").read_text())
    text = (plan.out / "table.md").read_text()
    lines = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if "|" in line}
    assert set(ROWS[:-1]) <= set(lines)
    for one in data["cells"]:
        given = {name: one[name] for name in Cell.__dataclass_fields__}
        given["epsilon"] = math.inf if one["epsilon"] is None else one["epsilon"]
        assert pages.shown(Cell(**given)) in lines[one["method"]]
        assert one["unit"] in lines[one["method"]] and len(one["top_1"]) == 2
    assert data["views"] == "real" and data["units"] == 6 and data["tested"] == 4
    assert all(sentence in text for sentence in data["sentences"])
    assert "of one run alone" in data["sentences"][-1] and answer.data["cells"] == data["cells"]
    assert text.rstrip("\n") in page.read_text() and "--quick" in data["origin"]
    assert (tmp_path / "results" / "mask_dp_figure_5.svg").read_text().count('class="bar"') == 6
    assert "MaskDP, shared batch" in (plan.out / "mask_dp_top_1.svg").read_text()
    assert not (plan.out / "cells.json").exists(), "a finished run is measured anew"


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, trained = replace(TINY, out=tmp_path), []
    real = seen.loop.run

    def stopped(*given: Any, **options: Any) -> None:
        trained.append("run")
        if len(trained) == 5:
            raise KeyboardInterrupt
        real(*given, **options)

    monkeypatch.setattr(seen.loop, "run", stopped)
    with pytest.raises(KeyboardInterrupt):
        plan.run(Noisy())
    kept = bench.Journal.of(plan, Noisy())
    assert len(kept.held) == 2 and kept.before > 0, "two cells of two seeds were finished"
    for other in (replace(plan, epochs=2.0), replace(plan, quick=False)):
        assert not bench.Journal.of(other, Noisy()).held
    assert not bench.Journal.of(plan, Noisy(activity="walk")).held, "other data"
    answer = plan.run(Noisy())
    assert len(trained) == 5 + 2 * (4 * 3 + 1 - 2), "13 cells, the public part once; 2 were known"
    first = next(iter(kept.held.values()))
    assert answer.data["cells"][0]["top_1"] == first["top_1"]
    assert not (tmp_path / "cells.json").exists()


def test_from_scratch_trains_the_whole_network(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = MaskDpTables(seeds=1, batch=3, epochs=1.0, scratch_epochs=0.5)
    trained: list[int] = []
    real = seen.loop.run

    def watched(tail: Any, *rest: Any, **options: Any) -> None:
        trained.append(sum(p.numel() for p in tail.parameters() if p.requires_grad))
        real(tail, *rest, **options)

    monkeypatch.setattr(seen.loop, "run", watched)
    wanted = {"DP from scratch": (5.0,), "public part only": (5.0,)}
    found = run.measure(plan, wanted, Noisy(), journal=bench.Journal())
    one = found.cells[0]
    assert trained[0] > 900_000 and one.proved["replace_one"] <= 5 and one.steps == 1
    with pytest.raises(ValueError, match="--no-from-scratch"):
        MaskDpTables(network="mvit_v2_s")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_said_before_anything_is_drawn() -> None:
    with pytest.raises(ValueError, match="GPU"):
        replace(TINY, device="cuda").measure(Noisy(), journal=bench.Journal())


def test_the_command_is_the_one_that_was_given() -> None:
    plan = MaskDpTables(private="person", from_scratch=False, out=Path("x"))
    assert bench.command(plan, Stage(correlation=0.9)) == (
        "masquerade recipe mask_dp --correlation 0.9 --private person --no-from-scratch"
    )
    sized = seen.sized(Stage(videos=36))
    assert (sized.videos, sized.frames, sized.correlation) == (36, 20, 0.5)
    assert "36 videos of 20 frames" in run._about(sized)


def test_measuring_needs_no_camera_ledger_or_screen() -> None:
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('av', 'cv2', 'sqlalchemy', 'tyro', 'rich', 'numba'):\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from masquerade.recipes import mask_dp\n"
        "print(mask_dp.EXAMPLE.measure.__name__)\n"
    )
    assert python(code).strip() == "measure"
