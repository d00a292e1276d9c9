"""Measure TEMPDIFF's figures: each ensemble is taught once, its votes are counted many times."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import joblib

from masquerade.recipes import bench
from masquerade.recipes.tempdiff import exam as exams
from masquerade.recipes.tempdiff.exam import Exam, SignalParts, Taught
from masquerade.recipes.tempdiff.rows import GAMMAS, Examined, Students, cases
from masquerade.train.dp_sgd import DpSgd
from masquerade.train.ensemble import teachers
from masquerade.train.pate import Pate
from masquerade.train.tempdiff import Tempdiff

if TYPE_CHECKING:
    from masquerade.recipes.tempdiff import TempdiffTables

_ASKED = 2  # times as many queries as are answered, for confident


def measure(
    plan: TempdiffTables,
    world: SignalParts,
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> Examined:
    """All ensembles, labels and students, but for those that the journal has."""
    sizes = plan.chosen(world.people)
    held: dict[tuple[str, int], Taught] = {}
    pairs = [(kind, size) for kind in (Tempdiff, Pate) for size in sizes]
    for kind, size in pairs:
        method = plan.method(size, kind)
        queries = _ASKED * plan.queries
        held[method.name, size] = exams.taught(
            world, method, queries=queries, device=plan.device, journal=journal
        )
        told("ensembles", len(held), len(pairs))
    return Examined(
        ensembles={
            key: (
                one.reach,
                one.teacher_accuracy,
                teachers.private_statistics(one.votes, world.classes),
            )
            for key, one in held.items()
        },
        noise={
            key: tuple(exams.noisy_accuracy(one, g) for g in GAMMAS) for key, one in held.items()
        },
        gammas=GAMMAS,
        scores=_students(plan, world, held, journal, told),
        estimates={g: exams.claimed(held["tempdiff", sizes[-1]], g) for g in GAMMAS},
        queries=plan.queries,
        people=world.people,
        unit=plan.unit,
    )


def _students(
    plan: TempdiffTables,
    world: SignalParts,
    held: dict[tuple[str, int], Taught],
    journal: bench.Journal,
    told: bench.Told,
) -> tuple[Students, ...]:
    """Students of noisy labels, and all that they are compared with."""
    sizes = plan.chosen(world.people)
    best = held["tempdiff", sizes[-1]]
    exam = Exam.of(world, best.method)
    asked = cases(sizes, unit=plan.unit, is_quick=plan.quick)
    names = {
        case: [f"{case.name}, epsilon {case.epsilon}, student {seed}" for seed in plan.students]
        for case in asked
    }
    calls, waiting = [], []
    for case in asked:
        for seed, name in enumerate(names[case]):
            if name not in journal.held:
                one = held.get((case.who, case.teachers), best)
                work, right = call(plan, case, world, one, exam, seed)
                calls.append(work)
                waiting.append((name, right))
    total = sum(map(len, names.values()))
    shares = bench.together(calls, jobs=plan.num_processes)
    for place, ((name, right), share) in enumerate(zip(waiting, shares, strict=True), 1):
        journal.note(name, {"right": right, "top_1": share})
        told("students", total - len(waiting) + place, total)
    found = {case: [journal.held[name] for name in names[case]] for case in asked}
    return tuple(
        replace(
            case,
            right=tuple(one["right"] for one in some if one["right"] is not None),
            top_1=tuple(one["top_1"] for one in some),
        )
        for case, some in found.items()
    )


def call(
    plan: TempdiffTables, case: Students, world: SignalParts, one: Taught, exam: Exam, seed: int
) -> tuple[Any, float | None]:
    """Work to be done, and the share of its labels that are true where it has some."""
    some = one.first(plan.queries)
    if case.who == "dp_sgd":
        given = exam, world.private, world.public, _dp_sgd(case, world, seed)
        return joblib.delayed(exams.private_accuracy)(*given, device=plan.device), None
    if case.who == "no privacy":
        return joblib.delayed(exams.open_accuracy)(exam, world, seed=seed), None
    if case.epsilon is not None:
        labels = exams.labels_of(one, case.aggregator, case.epsilon)
    else:
        labels = some.counts.argmax(axis=1) if case.who == "tempdiff" else some.truth
    answered = labels >= 0
    asked = one.first(len(labels))
    right = float((labels == asked.truth)[answered].mean()) if answered.any() else None
    work = joblib.delayed(exams.student_accuracy)(
        exam, asked.queries, labels, seed=seed, is_alone=case.who.endswith("alone")
    )
    return work, right


def _dp_sgd(case: Students, world: SignalParts, seed: int) -> DpSgd:
    """DP-SGD on the signals themselves, which hears all recordings of a person."""
    epsilon = float(case.epsilon or 0.0)
    recordings = max(Counter(signal.subject for signal in world.signals).values())
    return DpSgd(
        epsilon=epsilon,
        unit="subject",
        relation="replace_one",
        part="all",
        segments=-(-exams.WINDOWS // recordings),
        recordings=recordings,
        batch=max(1, world.people // 3),
        epochs=40.0,
        clip_norm=0.5,
        learning_rate=0.03 * epsilon,  # the best of a few tried here
        public_seed=seed,
    )
