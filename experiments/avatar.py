"""Avatars: what is learned from films whose people were replaced, beside real ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments import mask_dp, videos
from experiments.avatar_films import AvatarFilms, Shown, Summary, size_stage
from experiments.claims import Claim, Runs, Word, compare_runs, write_sentences
from experiments.engine import Experiment, Run, Settings, check_settings, run_parallel
from experiments.pages import Page, make_bars, write_list, write_table
from masquerade import _check, _json
from masquerade._torch import torch
from masquerade.datasets.stage import Stage
from masquerade.errors import BadInput
from masquerade.report import plots
from masquerade.training.method import make_training_plan
from masquerade.training.rows import Rows

NAMES: Mapping[Shown, str] = {
    "real": "original films",
    "isolated": "figures alone, on grey",
    "emptied": "places alone, without people",
    "avatars": "avatars in their places",
}
HIDDEN: Mapping[Shown, str] = {
    "real": "nothing",
    "isolated": "people and places",
    "emptied": "people",
    "avatars": "people",
}
REFINED = "avatars, refined"
WHY_NOT = "not measured: refinement needs networks that do not come along"
AIM = 0.05  # of right answers, by which avatars may be behind original films


@dataclass(frozen=True, kw_only=True)
class AvatarSettings(Settings):
    """Learn activities without noise from films and from what avatars leave of them.

    Films of Stage are released by avatar, which takes some two seconds a film on one core, and kept
    in the cache, 3 MB each; a run that is stopped goes on where it was. Rows: original films,
    figures alone, places alone, and avatars in their places [schneider2024, Table 3]; each is
    tested on films in the same way and on original ones. With --quick 108 films, 36 of them to
    test on, and two runs of each row.
    """

    out: Path = Path("out/avatar")  # folder for the results; it is made
    network: Literal["mvit_small", "mvit_v1_b", "mvit_v2_s"] = "mvit_small"  # which one
    weights: Path | None = None  # public weights for it
    part: Literal["head", "last_norms", "norms", "all"] = "head"  # what is trained of it
    epochs: float = 20.0  # of every run
    batch: int = 128  # films in a batch, on average
    learning_rate: float = 1.0  # at its highest
    seeds: int | None = None  # runs of each row
    device: Literal["cpu", "cuda"] = "cpu"  # where it is trained; films are released on processors

    def __post_init__(self) -> None:
        check_settings(self, count=("batch", "seeds"), positive=("epochs", "learning_rate"))
        _check.not_negative(jobs=self.jobs)

    @property
    def repeats(self) -> int:
        """Of each row."""
        return self.seeds or (2 if self.quick else 5)

    @property
    def learning(self) -> mask_dp.MaskDpSettings:
        """How every row learns: as the row DP of MaskDP's tables, where there is no noise."""
        same = ("network", "weights", "part", "epochs", "batch", "device", "jobs")
        return mask_dp.MaskDpSettings(
            clean_learning_rate=self.learning_rate,
            **{name: getattr(self, name) for name in same},
        ).settle()


@dataclass(frozen=True, kw_only=True)
class AvatarRow:
    """Networks that learned from films in one way."""

    shown: Shown  # the way
    own: tuple[float, ...]  # share of right answers on test films in the same way, one number a run
    real: tuple[float, ...]  # the same on real test films
    own_each: tuple[float, ...]  # share of runs that are right, one number a test film
    real_each: tuple[float, ...]  # the same on real test films

    @property
    def own_runs(self) -> Runs:
        """On films in the same way."""
        return Runs(self.own, tested=len(self.own_each))

    @property
    def real_runs(self) -> Runs:
        """On original films."""
        return Runs(self.real, tested=len(self.real_each))

    def to_json(self) -> dict[str, Any]:
        """As JSON, without single films."""
        held = {
            name: value for name, value in _json.encode_noun(self).items() if "_each" not in name
        }
        errors = {"own_error": self.own_runs.error, "real_error": self.real_runs.error}
        known = {name: None if math.isnan(error) else error for name, error in errors.items()}
        return held | {"tested": len(self.own_each)} | known


@dataclass(frozen=True, kw_only=True)
class Gap:
    """By how much original films are ahead of a row, tested in its own way or on original ones."""

    mean: float  # share of right answers
    # its standard error, over runs and films that both were tested on; NaN from one run
    error: float
    word: Word  # whether the row is ahead

    @property
    def says(self) -> str:
        """Whether the aim is met; only what is beyond twice the standard error counts."""
        if math.isnan(self.error):
            return "not known from one run"
        if self.mean + 2 * self.error < AIM:
            return "met"
        return "missed" if self.mean - 2 * self.error > AIM else "not shown"


@dataclass(frozen=True, kw_only=True)
class AvatarFound:
    """All rows and what they were measured on."""

    rows: tuple[AvatarRow, ...]  # in order
    settings: AvatarSettings  # that they share
    about: str  # the films, in words
    units: int  # that were learned from
    summary: Summary  # how they were released

    def row(self, shown: Shown) -> AvatarRow:
        """That one."""
        return next(row for row in self.rows if row.shown == shown)

    @property
    def tested(self) -> int:
        """Films that were tested on."""
        return len(self.rows[0].own_each)

    def gap(self, shown: Shown, *, asked_real: bool) -> Gap:
        """Original films against a row; both were tested on the same recordings."""
        real, row = self.row("real"), self.row(shown)
        theirs = (row.real, row.real_each) if asked_real else (row.own, row.own_each)
        one, other = Runs(real.own, self.tested), Runs(theirs[0], self.tested)
        each = np.array(real.own_each) - theirs[1]
        chance = float(each.std() / math.sqrt(self.tested))
        spreads = (runs.spread / math.sqrt(len(runs.shares)) for runs in (one, other))
        return Gap(
            mean=one.mean - other.mean,
            error=math.hypot(*spreads, chance),
            word=compare_runs(other, one, chance=chance),
        )


# --- what is measured


def measure_rows(run: Run) -> AvatarFound:
    """Every row, unless the journal has it; films are released once."""
    plan, data = run.settings, run.data
    if plan.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
    if not isinstance(data, Stage):
        raise BadInput(
            f"Expected --data stage, got {data.ABOUT.title}: films that are released here are "
            "kept, which is for films of nobody alone."
        )
    films = AvatarFilms.of(size_stage(data, is_quick=plan.quick))
    films.make(jobs=plan.jobs, progress=run.progress)
    training, tested = films.used
    summary = run.journal.measure_once(
        "films",
        lambda: Summary.of(part.film(n) for part in films.used for n in range(len(part))),
    )
    if run.find_missing(NAMES):
        tests = {shown: read_films(run, tested, shown) for shown in NAMES}
        for shown in NAMES:
            run.journal.measure_once(shown, partial(measure_row, run, training, shown, tests))
    return AvatarFound(
        rows=tuple(_json.decode_noun(AvatarRow, run.journal.held[shown]) for shown in NAMES),
        settings=plan,
        about=mask_dp.describe_data(films.stage, plan.learning),
        units=len(training),
        summary=_json.decode_noun(Summary, summary),
    )


def read_films(run: Run, films: AvatarFilms, shown: Shown) -> Rows:
    """Films in one way, as the row DP of MaskDP's tables sees them."""
    own = Run(settings=run.settings.learning, progress=run.progress)
    return mask_dp.read_views(own, films.as_shown(shown), {mask_dp.DP})[mask_dp.DP]


def measure_row(
    run: Run, training: AvatarFilms, shown: Shown, tests: Mapping[Shown, Rows]
) -> AvatarRow:
    """Learn from films in one way, several times; test on films in that way and on real ones."""
    plan, rows = run.settings, read_films(run, training, shown)
    both, classes = [tests[shown], tests["real"]], len(training.activities)
    jobs = 1 if plan.device == "cuda" else plan.jobs or plan.repeats
    calls = (partial(find_hits, plan.learning, rows, both, classes, s) for s in range(plan.repeats))
    hits = np.empty((2, plan.repeats, both[0].num_units), bool)
    for seed, found in enumerate(run_parallel(calls, jobs=jobs)):
        hits[:, seed] = found
        run.progress(f"learning from {NAMES[shown]}", seed + 1, plan.repeats)
    own, real = ((tuple(of.mean(axis=1).tolist()), tuple(of.mean(axis=0).tolist())) for of in hits)
    return AvatarRow(shown=shown, own=own[0], own_each=own[1], real=real[0], real_each=real[1])


def find_hits(
    plan: mask_dp.MaskDpSettings, rows: Rows, tests: list[Rows], classes: int, seed: int
) -> list[np.ndarray]:
    """Which test films one network names rightly."""
    method = plan.build_method(mask_dp.DP, public_seed=seed)
    net = plan.build_network().make(classes, seed=seed).to(plan.device)
    steps = make_training_plan(method, rows.num_units)
    tail = videos.train_tail(net, rows, method, steps, physical=mask_dp.PHYSICAL)
    return [videos.find_right(tail, test) for test in tests]


# --- what is said, and the page

HEADING = ("learned from", "who is hidden", "tested on the same", "tested on original films")


def format_points(gap: Gap) -> str:
    """With the standard error where there is one."""
    error = "" if math.isnan(gap.error) else f" (standard error {100 * gap.error:.1f})"
    return f"{100 * gap.mean:.1f} points{error}"


def write_aim(found: AvatarFound) -> list[str]:
    """Whether avatars are as near to original films as they should be, tested in both ways."""
    said = []
    for is_real, where in ((False, "on avatars"), (True, "on original films")):
        gap = found.gap("avatars", asked_real=is_real)
        said.append(
            f"Learned from avatars and tested {where}: {format_points(gap)} behind original films. "
            f"Aim: within {100 * AIM:.0f} points: {gap.says}."
        )
    return said


def write_behind(found: AvatarFound) -> list[str]:
    """How far figures and places alone are behind."""
    shown: tuple[Shown, ...] = ("isolated", "emptied")
    gaps = {NAMES[one].capitalize(): found.gap(one, asked_real=False) for one in shown}
    return [
        f"{name}, tested on the same: {format_points(gap)} behind original films: {gap.word}."
        for name, gap in gaps.items()
    ]


CLAIMS = (
    write_aim,
    write_behind,
    Claim(
        text="Of {h.films} released films {h.without} show no figure, and {h.undrawn} of "
        "{h.frames} frames with people. {outside:.2f} % of people's pixels lie "
        "outside of q; {visible:.2f} % are seen as they were, in {h.shown_films} "
        "films more than one in a hundred; {h.blurred} frames were blurred. "
        "{certain:.1f} % of all pixels are drawn for certain.",
        values={
            "h": lambda found: found.summary,
            "outside": lambda found: 100 * found.summary.outside,
            "visible": lambda found: 100 * found.summary.visible,
            "certain": lambda found: 100 * found.summary.certain,
        },
    ),
    Claim(
        text="Learned from {f.units} films: {f.about}; {s.network}, part "
        "{s.part}, {s.epochs:g} epochs. Tested on {f.tested} films of other "
        "people, in per cent. ± is the standard deviation over n = {s.repeats} runs; in "
        "brackets the standard error, over runs and tested films."
    ),
    "Figures alone are what is drawn for certain (eroded r), on grey: what MaskDP takes as "
    "public. Nothing here has an epsilon.",
)


def format_runs(runs: Runs) -> str:
    """With the standard error in brackets."""
    return str(runs) if math.isnan(runs.error) else f"{runs} ({100 * runs.error:.1f})"


def write_page(found: AvatarFound) -> Page:
    """What was found, for machines and for people; of a path only that there is one."""
    plan, sentences = found.settings, list(write_sentences(found, CLAIMS))
    rows = [
        (NAMES[r.shown], HIDDEN[r.shown], format_runs(r.own_runs), format_runs(r.real_runs))
        for r in found.rows
    ]
    table = write_table(HEADING, [*rows, (REFINED, "people", WHY_NOT, "-")])
    parts = ["### Top-1 without noise", table, "### What it shows", write_list(sentences)]
    same = ("network", "part", "epochs", "batch", "learning_rate", "device")
    own = {"weights": plan.weights and "PATH", "seeds": plan.repeats}
    axes = plots.PlotAxes(
        title="Learned from films of a kind", x_label="", y_label="per cent right"
    )
    series = [
        make_bars("tested on the same", [row.own for row in found.rows]),
        make_bars("tested on original films", [row.real for row in found.rows]),
    ]
    names = [NAMES[row.shown] for row in found.rows]
    return Page(
        title="Learning from avatars",
        text="\n\n".join(parts) + "\n",
        data={
            "setting": {name: getattr(plan, name) for name in same} | own,
            "about": found.about,
            "units": found.units,
            "tested": found.tested,
            "rows": [row.to_json() for row in found.rows],
            "missing": {REFINED: WHY_NOT},
            "gaps": [gap_to_json(found, shown, real) for shown in NAMES for real in (False, True)],
            "films": _json.encode_noun(found.summary),
            "sentences": sentences,
        },
        plots={"avatar_top_1": plots.draw_bars(series, names, axes, limits=(0.0, 100.0))},
    )


def gap_to_json(found: AvatarFound, shown: Shown, is_real: bool) -> dict[str, Any]:
    """A gap, for machines."""
    gap = found.gap(shown, asked_real=is_real)
    error = None if math.isnan(gap.error) else gap.error
    numbers = {"mean": gap.mean, "error": error, "word": gap.word, "aim": gap.says}
    return {"shown": shown, "tested_on_real": is_real, **numbers}


EXPERIMENT = Experiment(settings=AvatarSettings, measure=measure_rows, write_page=write_page)
