"""Measure TEMPDIFF's figures: an ensemble is taught once a teaching, its votes counted often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from masquerade.noise import Noise
from masquerade.recipes import bench
from masquerade.recipes.tempdiff import cells, members
from masquerade.recipes.tempdiff import exam as exams
from masquerade.recipes.tempdiff.exam import Claimed, Exam, Taught
from masquerade.recipes.tempdiff.parts import SignalParts
from masquerade.recipes.tempdiff.rows import Examined, Facts, Marks, Pupils
from masquerade.training import teachers
from masquerade.training.dp_sgd import DpSgd

if TYPE_CHECKING:
    from masquerade.recipes.tempdiff import TempdiffPlan


_ASKED = 2  # times as many queries as are answered, for confident
_WINDOWS = 8  # of one person in a step of DP-SGD, spread over their recordings
Ensembles = Mapping[tuple[str, str, int], Taught]


def measure(
    plan: TempdiffPlan,
    world: SignalParts,
    *,
    journal: bench.Journal,
    told: bench.Told = bench.quiet,
) -> Examined:
    """All ensembles, labels and students, but for those that the journal has."""
    asked = [*cells.published(plan), *cells.compared(plan)]
    asked += cells.shipped(plan, world.people) if plan.epsilons else []
    held = [
        _taught(plan, world.dealt(seed), seed, asked, journal, told) for seed in range(plan.seeds)
    ]
    exam = Exam.of(world, plan.method("tempdiff", plan.sizes[-1], plan.by))
    _teach_students(plan, world, held, asked, exam, journal, told)
    return Examined(
        ensembles={name: _facts([each[name] for each in held]) for name in held[0]},
        scores={cell: _scores(cell, held, journal) for cell in asked},
        tested=len(exam.truth),
        people=world.people,
        queries=plan.queries,
        person_queries=plan.person_queries,
        labelled=plan.labelled,
        delta=plan.delta,
        seeds=plan.seeds,
        notes=plan.notes,
        members=members.measured(plan, world.dealt(0), held[0], exam, journal=journal, told=told)
        if plan.membership
        else (),
    )


def _taught(
    plan: TempdiffPlan,
    world: SignalParts,
    seed: int,
    asked: Iterable[Pupils],
    journal: bench.Journal,
    told: bench.Told,
) -> dict[tuple[str, str, int], Taught]:
    """Every ensemble of one teaching: people are dealt anew, teachers and queries drawn anew."""
    wanted = dict.fromkeys((cell.who, cell.by, cell.teachers) for cell in asked if cell.teachers)
    found = {}
    for who, by, size in wanted:
        method = plan.method(who, size, by, seed=seed)
        count = _ASKED * method.queries if by == "subject" else max(plan.queries)
        found[who, by, size] = exams.taught(
            world,
            method,
            queries=count,
            overlap=plan.overlap,
            device=plan.device,
            journal=journal,
        )
        told(f"teaching {seed + 1}", len(found), len(wanted))
    return found


def _facts(held: list[Taught]) -> Facts:
    private = [teachers.private_statistics(one.votes, one.classes) for one in held]
    return Facts(
        reach=tuple(one.reach for one in held),
        teacher=tuple(one.teacher_accuracy for one in held),
        agreement=tuple(one.agreement for one in private),
        failed=tuple(one.failed for one in private),
    )


def _name(cell: Pupils, seed: int) -> str:
    return f"{cell.name}, teaching {seed}"


def _teach_students(
    plan: TempdiffPlan,
    world: SignalParts,
    held: list[dict[tuple[str, str, int], Taught]],
    asked: list[Pupils],
    exam: Exam,
    journal: bench.Journal,
    told: bench.Told,
) -> None:
    """Students of noisy labels, and all that they are compared with, into the journal."""
    calls, waiting = [], []
    for seed, ensembles in enumerate(held):
        for cell in asked:
            if _name(cell, seed) not in journal.held:
                work, right = call(plan, cell, world, ensembles, exam, seed)
                calls.append(work)
                waiting.append((_name(cell, seed), right))
    total = len(held) * len(asked)
    shares = bench.together(calls, jobs=plan.num_processes)
    for place, ((name, right), share) in enumerate(zip(waiting, shares, strict=True), 1):
        journal.note(name, {"right": right, "top_1": share})
        told("students", total - len(waiting) + place, total)


def call(
    plan: TempdiffPlan, cell: Pupils, world: SignalParts, held: Ensembles, exam: Exam, seed: int
) -> tuple[Any, float | None]:
    """Work to be done, and the share of its labels that are true where it has some."""
    if cell.who == "dp_sgd":
        given = exam, world.private, world.public, dp_sgd(cell, world, seed)
        return joblib.delayed(exams.private_accuracy)(*given, device=plan.device), None
    learn = {"seed": seed, "is_alone": cell.is_alone}
    if cell.who == "no privacy":
        return joblib.delayed(exams.open_accuracy)(exam, world, **learn), None
    if cell.who.endswith("few labels"):
        window, overlap = exam.tested.shape[1], plan.overlap
        few = world.few(window, plan.labelled, seed=seed, overlap=overlap)
        if cell.who == "few labels":
            return joblib.delayed(exams.student_accuracy)(exam, *few, **learn), None
        return joblib.delayed(exams.nearest_accuracy)(exam, *few), None
    one, labels = answered(cell, held)
    is_known = labels >= 0
    right = float((labels == one.truth)[is_known].mean()) if is_known.any() else None
    return joblib.delayed(exams.student_accuracy)(exam, one.queries, labels, **learn), right


def answered(cell: Pupils, held: Ensembles) -> tuple[Taught, np.ndarray]:
    """The queries of a cell, and the labels that its student is given."""
    if cell.who == "true labels":
        one = next(each for each in held.values() if len(each.truth) >= cell.queries)
        some = one.first(cell.queries)
        return some, some.truth
    one = held[cell.who, cell.by, cell.teachers]
    if cell.gamma is not None:
        some = one.first(cell.queries)
        ballot = exams.published(one, cell.gamma, cell.queries)
        return some, ballot.answers(some.counts, Noise())
    if cell.epsilon is None:
        raise ValueError(f"Expected labels of {cell.who} with a gamma or an epsilon, got neither.")
    labels = exams.labels_of(one, cell.aggregator, cell.epsilon)
    return one.first(len(labels)), labels


def _scores(
    cell: Pupils, held: list[dict[tuple[str, str, int], Taught]], journal: bench.Journal
) -> Marks:
    found = [journal.held[_name(cell, seed)] for seed in range(len(held))]
    return Marks(
        right=tuple(one["right"] for one in found if one["right"] is not None),
        top_1=tuple(one["top_1"] for one in found),
        claims=tuple(
            _claimed(each[cell.who, cell.by, cell.teachers], cell, seed, journal)
            for seed, each in enumerate(held)
        )
        if cell.gamma is not None
        else (),
    )


def _claimed(one: Taught, cell: Pupils, seed: int, journal: bench.Journal) -> Claimed:
    gamma = cell.gamma or 0.0
    known = journal.measured(
        f"cost of {_name(cell, seed)}", lambda: asdict(exams.claimed(one, gamma, cell.queries))
    )
    return Claimed(**known)


def dp_sgd(cell: Pupils, world: SignalParts, seed: int) -> DpSgd:
    """DP-SGD on the signals themselves, which hears all recordings of a person."""
    epsilon = float(cell.epsilon or 0.0)
    recordings = max(Counter(signal.subject for signal in world.signals).values())
    return DpSgd(
        epsilon=epsilon,
        unit="subject",
        relation="replace_one",
        part="all",
        segments=-(-_WINDOWS // recordings),
        recordings=recordings,
        batch=max(1, world.people // 3),
        epochs=40.0,
        clip_norm=0.5,
        learning_rate=0.03 * epsilon,  # the best of 0.01, 0.03 and 0.1 on another world
        public_seed=seed,
    )
