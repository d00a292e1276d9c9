"""The demo's worn sensors: teachers vote, a student learns, and what that costs one person."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from masquerade._formatting import format_rounded_down, format_rounded_up
from masquerade._torch import torch
from masquerade.audits.vote_games import GnmaxVotes
from masquerade.datasets.stage import Stage
from masquerade.datasets.watch import Watch
from masquerade.demo.steps import AUDIT_CONFIDENCE, Chapter, DemoSystem, Progress, hide_progress
from masquerade.networks.network import compute_channel_scales
from masquerade.noise import Noise
from masquerade.publish.audits import audit_game
from masquerade.publish.collections import select_signals
from masquerade.report import page
from masquerade.report.page import PagePart
from masquerade.training import student, teach, teachers, votes
from masquerade.training.methods import Tempdiff
from masquerade.training.worn import cut_labelled_windows, public_windows, read_signals

HEADING = (
    *("worn sensors", "private people", "teachers", "they agree", "labels by", "labels true"),
    *("student's top-1", "epsilon, one teacher's data", "epsilon, one person"),
    "the papers' kind of figure",
)
EPSILON, GAMMA = 2.0, 0.1
STAGE = Stage(seed=1, wearers=300)  # a third of them private
PEOPLE = Tempdiff(
    epsilon=EPSILON,
    unit="subject",
    shards=50,
    windows=(96, 128),
    queries=50,
    teacher="forest",
    hidden=32,
)
REAL = replace(PEOPLE, unit="shard", shards=10, windows=(100, 150), by="record", queries=50)


@dataclass(frozen=True, kw_only=True)
class Labelling:
    """One way to label, and its student.

    Args:
        data: whose signals.
        people: who are private.
        teachers: there are.
        agreement: of the teachers; a private statistic, of people who never lived or are public.
        labels: how they were made.
        right: share of them that are true.
        top_1: of the student.
        teacher_epsilon: for the data behind one teacher; None without noise.
        person_epsilon: for one person.
        figure: what the papers' analysis prints for these votes; None where it has none.
    """

    data: str
    people: int
    teachers: int
    agreement: float
    labels: str
    right: float
    top_1: float
    teacher_epsilon: float | None
    person_epsilon: float | None
    figure: float | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _EnsembleVotes:
    """An ensemble's votes on public windows, and what its students learn from and are tested on.

    Args:
        method: of the ensemble.
        people: who are private.
        reach: teachers that one person's data reaches.
        votes: (T, Q).
        queries: (Q, L, C).
        truth: (Q,).
        windows: (N, L, C) public ones, beside the queries.
        normalisation: public.
        tested: (E, L, C) of people whom nobody saw, and the class of each.
        classes: there are.
    """

    method: Tempdiff
    people: int
    reach: int
    votes: np.ndarray
    queries: np.ndarray
    truth: np.ndarray
    windows: np.ndarray
    normalisation: tuple[np.ndarray, np.ndarray]
    tested: tuple[np.ndarray, np.ndarray]
    classes: int

    @property
    def vote_counts(self) -> np.ndarray:
        """(Q, K) votes."""
        return teachers.counts_of(self.votes, self.classes)

    def test_student(self, labels: np.ndarray) -> float:
        """Top-1 of a student of these labels and of the other public windows; -1 is no answer."""
        exam, truth = self.tested
        if not (labels >= 0).any():
            return float((truth == 0).mean())  # nothing was answered: it says the first class
        torch.set_num_threads(1)
        net = student.learn_student(
            np.concatenate([self.queries, self.windows]),
            np.concatenate([labels, np.full(len(self.windows), -1)]),
            replace(self.method, public_seed=0),
            classes=self.classes,
            normalisation=self.normalisation,
        )
        return float((student.predict_probabilities(net, exam).argmax(axis=1) == truth).mean())


def _collect_votes(parts: dict[str, Any], method: Tempdiff) -> _EnsembleVotes:
    """Train the teachers, and ask them about public windows that one activity fills."""
    private, public, tested = (read_signals(parts[name]) for name in ("train", "public", "test"))
    classes, window = len(parts["train"].activities), max(method.windows)
    split = teach.partition_of(parts["train"], private, method)
    cut = partial(cut_labelled_windows, classes=classes, overlap=method.overlap)
    found, truth = cut(public, window)
    order = np.random.default_rng((method.public_seed, 2)).permutation(len(found))[: method.queries]
    school = teach.EnsembleRun(
        method=replace(method, normalise="public"),
        signals=private,
        known=public,
        units=(),
        partition=split,
        windows=found[order],
        asked=np.arange(len(order)),
        classes=classes,
        device="cpu",
        tell=hide_progress,
    )
    return _EnsembleVotes(
        method=method,
        people=len({signal.subject for signal in private}),
        reach=split.max_teachers_per_subject,
        votes=school.collect_votes(),
        queries=found[order],
        truth=truth[order],
        windows=public_windows(public, window, overlap=method.overlap),
        normalisation=compute_channel_scales([signal.values for signal in public]),
        tested=cut(tested, window),
        classes=classes,
    )


def make_chapter(progress: Progress = hide_progress) -> Chapter:
    """Teach on Stage and on a real watch, with our votes, with the papers', and with the truth."""
    stage = select_signals(STAGE)
    stage["train"].make_recordings(progress=partial(progress, "wearers"))  # type: ignore[attr-defined]
    watch = select_signals(Watch(), public="8,9", test="10")
    pairs = [("Stage", stage, PEOPLE), ("a real watch", watch, REAL)]
    found: list[Labelling] = []
    for name, parts, method in pairs:
        held = _collect_votes(parts, method)
        as_published = votes.Ballot(aggregator="lnmax", queries=method.queries, scale=1 / GAMMA)
        for ballot in (method.make_ballot(held.reach), as_published, None):
            found.append(_label_windows(name, held, ballot))
            progress("teaching", len(found), 3 * len(pairs))
    title, lines, said = "Worn sensors: teachers who vote", list_rows(found), write_sentences(found)
    body = page.format_table(HEADING, lines) + page.format_listing(said)
    return Chapter(
        sections=[page.Section(title=title, body=body, has_originals=True, part=PagePart.ATTACKS)],
        systems=[_describe_system(found)],
        data={"wearers": [asdict(line) for line in found]},
    )


def _describe_system(found: list[Labelling]) -> DemoSystem:
    """TEMPDIFF on Stage; an attacker who sees every noisy count looks for one person's votes."""
    ours, _, truth = found[:3]
    ballot = PEOPLE.make_ballot(1)
    game = GnmaxVotes(
        noise_std=ballot.scale, queries=ballot.queries, delta=PEOPLE.delta, trials=20_000
    )
    evidence = audit_game(game, confidence=AUDIT_CONFIDENCE)
    return DemoSystem(
        name="TEMPDIFF: a model of worn sensors",
        protects="everything that one person wore",
        epsilon=f"{_format_epsilon(ours.person_epsilon)}, delta {PEOPLE.delta:g}",
        good_for=f"names {100 * ours.top_1:.0f} % of activities right; with true labels "
        f"{100 * truth.top_1:.0f}",
        attack="one person's votes: certain without noise, then epsilon at least "
        f"{format_rounded_down(evidence.epsilon_at_least, 2)} shown of "
        f"{_format_epsilon(ours.person_epsilon)}",
    )


def _label_windows(name: str, held: _EnsembleVotes, ballot: votes.Ballot | None) -> Labelling:
    """One kind of labels and its student; without a ballot they are true."""
    labels, delta = held.truth, held.method.delta
    teacher = person = figure = None
    if ballot is not None:
        labels = ballot.sample_answers(held.vote_counts, Noise())
        teacher, person = (
            replace(ballot, teachers_per_subject=reach).compute_epsilon(delta)
            for reach in (1, held.reach)
        )
        if ballot.aggregator == "lnmax":
            one = replace(ballot, teachers_per_subject=1)
            figure = votes.data_dependent_epsilon(held.vote_counts, one, delta=delta).value
    said = "the truth" if ballot is None else ballot.aggregator
    return Labelling(
        data=name,
        people=held.people,
        teachers=len(held.votes),
        agreement=teachers.private_statistics(held.votes, held.classes).agreement,
        labels=f"{said}, gamma {GAMMA:g}, as published" if figure is not None else said,
        right=float((labels == held.truth).mean()),
        top_1=held.test_student(labels),
        teacher_epsilon=teacher,
        person_epsilon=person,
        figure=figure,
    )


def list_rows(found: list[Labelling]) -> list[tuple[str, ...]]:
    """Lines of the table."""
    return [
        (
            line.data,
            str(line.people),
            str(line.teachers),
            f"{100 * line.agreement:.0f} %",
            line.labels,
            f"{100 * line.right:.0f} %",
            f"{100 * line.top_1:.1f}",
            _format_epsilon(line.teacher_epsilon),
            _format_epsilon(line.person_epsilon),
            "-" if line.figure is None else f"{line.figure:.3g} (ESTIMATE, NO GUARANTEE)",
        )
        for line in found
    ]


def _format_epsilon(epsilon: float | None) -> str:
    return "-" if epsilon is None else format_rounded_up(epsilon, 4)


def write_sentences(found: list[Labelling]) -> list[str]:
    """What a reader should take away."""
    ours, _, truth = found[:3]
    watch = found[3]
    return [
        f"With {ours.people} people, each behind a teacher of their own, a student at epsilon "
        f"{_format_epsilon(ours.person_epsilon)} for a person is right {100 * ours.top_1:.1f} per "
        "cent of "
        f"the time; one of the true labels of the same windows {100 * truth.top_1:.1f}.",
        f"With {watch.people} people there are too few votes: noise that gives epsilon "
        f"{_format_epsilon(watch.teacher_epsilon)} for the data behind one teacher gives "
        f"{_format_epsilon(watch.person_epsilon)} for a person, whose recordings reach many of "
        "them.",
    ]
