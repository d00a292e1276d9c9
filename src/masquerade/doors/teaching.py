"""Teach a student by noisy votes and publish it: the Python side of `masquerade train` for signals.

The order is read, reserve, teach, vote, learn, write, receipt, settle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from masquerade._optional import require
from masquerade._torch import torch
from masquerade.collection import Collection
from masquerade.doors import models
from masquerade.doors.billing import Bill, Cost
from masquerade.doors.lessons import classes_of
from masquerade.doors.owners import owner_of, units_of
from masquerade.doors.signals import check_alike, public_windows, read
from masquerade.doors.splits import public_part_of
from masquerade.errors import BadInput
from masquerade.files import atomic
from masquerade.guarantee import Relation
from masquerade.ledger import Ledger
from masquerade.noise import Noise
from masquerade.receipt import Release
from masquerade.recordings import Signal
from masquerade.train.ensemble import student, teachers
from masquerade.train.ensemble.method import Ensemble
from masquerade.train.ensemble.partition import Partition, Recording, partition

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Taught:
    """A student and what is private about how it came to be.

    Args:
        net: the student.
        reach: teachers that one person's data reaches; public.
        votes: (T, Q) of the teachers. Private.
        labels: (Q,) that the noisy votes gave; published.
        asked: (Q,) which public windows they are of.
        windows: the public windows.
        rate_hz: of all signals.
    """

    net: Any
    reach: int
    votes: np.ndarray
    labels: np.ndarray
    asked: np.ndarray
    windows: np.ndarray
    rate_hz: float


def teach(
    private: Collection[Any],
    public: Collection[Any],
    method: Ensemble,
    *,
    noise: Noise | None = None,
    device: str = "cpu",
    make_teacher: Callable[[int], teachers.Estimator] | None = None,
    progress: Progress = lambda what, done, total: None,
    see: Callable[[Signal], None] = lambda signal: None,
    see_public: Callable[[Signal], None] = lambda signal: None,
    begin: Callable[[Partition, Sequence[Signal]], None] = lambda split, signals: None,
    keep: Callable[[Callable[[], np.ndarray], np.ndarray], np.ndarray] = lambda draw, asked: draw(),
) -> Taught:
    """Teachers learn from private signals, vote on public windows, and a student learns the labels.

    Args:
        private: the recordings to protect.
        public: recordings of other people, whose windows are asked and learned from; of labels
            only whether there is any is looked at.
        method: how.
        noise: of the votes; by default the operating system.
        device: where teachers and student learn.
        make_teacher: a new estimator for a public seed, instead of the method's own kind.
        progress: called with what is done, how far, and of how much.
        see: called with each private recording as it is read.
        see_public: called with each public one.
        begin: called before any teacher learns; what it raises stops the run.
        keep: given what draws the noisy labels, and the windows that they are of; may give those
            that were drawn before.
    """
    noise = noise or Noise()
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a GPU for device=cuda, found none; use device=cpu.")
    classes = len(classes_of(private))
    signals = read(
        private,
        is_private=True,
        progress=lambda done, total: progress("reading", done, total),
        see=see,
    )
    known = read(
        public,
        progress=lambda done, total: progress("reading public", done, total),
        see=see_public,
    )
    check_alike(signals, known)
    split = split_of_signals(private, signals, method)
    windows = public_windows(known, max(method.windows))
    if len(windows) < method.queries:
        raise BadInput(
            f"Expected at least {method.queries} public windows to ask, got {len(windows)}; lower "
            "--queries or give more public signals."
        )
    begin(split, signals)
    rng = np.random.default_rng((method.public_seed, 2))
    asked = np.sort(rng.permutation(len(windows))[: method.queries])
    public_scale = teachers.normalisation([signal.values for signal in known])
    lessons = teachers.lessons_of(
        signals,
        split,
        classes=classes,
        public=public_scale if method.normalise == "public" else None,
    )
    votes = votes_of(
        lessons,
        windows[asked],
        method,
        classes,
        device=device,
        make=make_teacher,
        progress=lambda done, total: progress("teachers", done, total),
    )
    ballot = method.ballot(split.max_teachers_per_subject)
    labels = keep(lambda: ballot.answers(teachers.counts_of(votes, classes), noise), windows[asked])
    progress("votes", len(labels), len(labels))
    given = np.full(len(windows), -1)
    given[asked] = labels
    net = student.learn(
        windows,
        given,
        classes=classes,
        normalisation=public_scale,
        course=replace(course_of(method), device=device),
        progress=lambda done, total: progress("student", done, total),
    )
    return Taught(
        net=net,
        reach=split.max_teachers_per_subject,
        votes=votes,
        labels=labels,
        asked=asked,
        windows=windows,
        rate_hz=known[0].rate_hz,
    )


def teach_file(
    private: Collection[Any],
    public: Collection[Any],
    target: Path,
    method: Ensemble,
    *,
    noise: Noise | None = None,
    ledger: Ledger | None = None,
    device: str = "cpu",
    progress: Progress = lambda what, done, total: None,
) -> Release[Path]:
    """Teach a student, and write it as safetensors with its receipt beside it.

    Under a ledger everyone whose recordings are learned from is charged before the first teacher
    learns; a run that was stopped and is called again is charged once.

    Raises:
        BudgetExceeded: if somebody cannot afford it.
        FileExistsError: if a model stands there.
    """
    noise = noise or Noise()
    target = models.new_target(target, noise)
    with atomic.alone(target):
        models.refuse_standing(target)
        bill = Bill(ledger, target, noise)

        def reserve(split: Partition, signals: Sequence[Signal]) -> None:
            owners = [
                owner_of(signal, index, "subject", private.labels[index].name)
                for index, signal in enumerate(signals)
            ]
            bill.reserve(cost_of(method, split.max_teachers_per_subject), units_of(owners))

        try:
            found = teach(
                private,
                public,
                method,
                noise=noise,
                device=device,
                progress=progress,
                see=bill.see,
                see_public=bill.see_public,
                begin=reserve,
                keep=bill.keep,
            )
        except Exception:
            bill.abandon()
            raise
        except KeyboardInterrupt as stop:
            bill.abandon()
            raise type(stop)(f"Interrupted; no model was written.{bill.owed}") from stop
        said = {
            "network": "lstm",
            "activities": classes_of(private),
            "hidden": method.hidden,
            "channels": found.windows.shape[2],
            "window": found.windows.shape[1],
            "rate_hz": found.rate_hz,
            "learned": public_part_of(private),
        }
        receipt = models.write(
            target,
            models.encoded(found.net, said),
            statement(method, found.reach),
            noise,
            bill=bill,
        )
    return Release(value=target, receipt=receipt)


def course_of(method: Ensemble) -> student.Course:
    """How the student of a method learns."""
    return student.Course(
        hidden=method.hidden,
        epochs=method.student_epochs,
        unlabelled=method.unlabelled,
        confidence=method.confidence,
        seed=method.public_seed,
    )


def preview(private: Collection[Any], method: Ensemble) -> int:
    """Teachers that one person's data reaches; recordings are read for their lengths alone."""
    return split_of_signals(
        private, read(private, is_private=True), method
    ).max_teachers_per_subject


def statement(method: Ensemble, reach: int) -> models.Statement:
    """What the receipt of a student says."""
    return models.Statement(
        method=method.name,
        fields=method.fields(),
        shapes=((method.teachers, reach),),
        guarantee=method.guarantee(reach),
        event=method.event(reach, Relation(method.relation)),
    )


def split_of_signals(
    collection: Collection[Any], signals: Sequence[Signal], method: Ensemble
) -> Partition:
    """Which teacher sees what; decided by public numbers alone."""
    recordings = []
    for labels, signal in zip(collection.labels, signals, strict=True):
        if signal.subject is None:
            raise BadInput(f"Expected to know whose {labels.name} is, got nobody.")
        recordings.append(Recording(length=len(signal.values), subject=signal.subject))
    return partition(recordings, shards=method.shards, windows=method.windows, by=method.by)


def cost_of(method: Ensemble, reach: int) -> Cost:
    """What a person pays: for all the teachers that they reach, whatever unit is promised."""
    ballot = replace(method.ballot(reach), teachers_per_subject=reach)
    relations = (Relation.ZERO_OUT, Relation.REPLACE_ONE)
    return Cost(
        method=method.name,
        fields=method.fields(),
        events={relation: ballot.event(relation) for relation in relations},
    )


def votes_of(
    lessons: list[teachers.Lesson],
    queries: np.ndarray,
    method: Ensemble,
    classes: int,
    *,
    device: str,
    make: Callable[[int], teachers.Estimator] | None = None,
    progress: Callable[[int, int], None],
) -> np.ndarray:
    """(T, Q): what each teacher votes, after it has learned. Private."""
    if make is None and method.teacher == "lstm":
        course = teachers.Course(
            hidden=method.hidden,
            epochs=method.teacher_epochs,
            seed=method.public_seed,
            device=device,
        )
        return teachers.votes_by_lstm(
            lessons, queries, classes=classes, course=course, progress=progress
        )
    kind = make or _estimator(method)
    return teachers.votes_by_estimators(lessons, queries, make=kind, progress=progress)


def _estimator(method: Ensemble) -> Callable[[int], teachers.Estimator]:
    if method.teacher == "forest":
        forests = require("sklearn.ensemble", extra="train")
        return lambda number: forests.RandomForestClassifier(
            n_estimators=50, random_state=method.public_seed + number
        )
    near = require("sklearn.neighbors", extra="train")
    return lambda number: near.KNeighborsClassifier(n_neighbors=1)
