"""Release every recording of a folder, several at a time; one bad file never stops the others."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from masquerade._printed import counted
from masquerade.doors import opaque, outputs
from masquerade.doors.planning import Job, Outcome, Plan, Work, check_folders, plan
from masquerade.doors.progress import watching
from masquerade.doors.releasing import Options, release_or_recognise
from masquerade.doors.workers import Crew
from masquerade.errors import exit_code, message
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise


def release_folder(
    source: Path | str,
    target: Path | str,
    mechanism: Mechanism,
    *,
    ledger: str | None = None,
    rehearsal_seed: int | None = None,
    options: Options | None = None,
    work: Work | None = None,
) -> list[Outcome]:
    """Release all files of a folder into another, each with its receipt.

    Outputs get opaque names, and files are worked on in a random order, so that neither names nor
    times nor a ledger's numbers tell which is which; a private list beside ``source`` does.

    Args:
        source: a folder; files of no kind that we know are left alone.
        target: made if it is not there.
        mechanism: what to do with each file.
        ledger: a path or an address; every file is charged by itself.
        rehearsal_seed: reproducible noise that protects nothing.
        options: as for one file.
        work: how many at a time, where, and under which names.

    Returns:
        What became of each file, in the order of their names; none is left out.
    """
    return release_planned(
        source,
        target,
        mechanism,
        ledger=ledger,
        rehearsal_seed=rehearsal_seed,
        options=options,
        work=work,
    )[0]


def release_planned(
    source: Path | str,
    target: Path | str,
    mechanism: Mechanism,
    *,
    ledger: str | None = None,
    rehearsal_seed: int | None = None,
    options: Options | None = None,
    work: Work | None = None,
) -> tuple[list[Outcome], Plan]:
    """As `release_folder`, and what was planned."""
    source, target = Path(source).resolve(), Path(target).resolve()  # workers may be elsewhere
    ledger = ledger if ledger is None or "://" in ledger else str(Path(ledger).resolve())
    options, work = options or Options(), work or Work()
    check_names(source, target, work, options)
    planned = _named_plan(source, target, work)
    tidy(target)
    folders = {job.target.parent for job in planned.jobs}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    run = secrets.token_hex(6)
    one = partial(
        _attempt,
        mechanism=mechanism,
        run=run,
        ledger=ledger,
        seed=rehearsal_seed,
        options=replace(options, is_watched=False),
    )
    progress = _Progress.of(planned.jobs, rehearsal_seed, options)
    done, crew = list(planned.lost), Crew(work=one, mourn=_killed)
    at_work = crew.run(planned.jobs, jobs=work.jobs, backend=work.backend)
    bar = watching(options.is_watched, what=counted(len(planned.jobs), "file"))
    try:
        with _cleaning(folders, run), bar as watch, contextlib.closing(at_work):
            done.extend(watch(at_work, len(planned.jobs)))
    except KeyboardInterrupt as stop:
        raise type(stop)(progress.said(target, ledger)) from stop
    return sorted(done, key=lambda outcome: outcome.source), planned


def check_names(source: Path, target: Path, work: Work, options: Options) -> None:
    """Refuse folders that do not stand apart, and a private list that cannot stand or is lost."""
    check_folders(source, target)
    book = work.list_of(source, target)
    if book is None:
        return
    if work.names is None or options.if_standing is outputs.IfStanding.RESUME:
        opaque.refuse_lost(book, target.resolve())
    opaque.check_place(book, target.resolve())


def _named_plan(source: Path, target: Path, work: Work) -> Plan:
    """A plan whose opaque names are on disk before any output has one."""
    book = work.list_of(source, target)
    if book is None:
        return plan(source, target, work)
    atomic.sweep(book.parent)
    with atomic.alone(book):
        planned = plan(source, target, work)
        opaque.write(book, planned.names)
    secrets.SystemRandom().shuffle(planned.jobs)
    return planned


def tidy(target: Path) -> int:
    """Remove what killed runs have left in a folder of outputs; give how many files."""
    return sum(atomic.sweep(Path(place)) for place, _, _ in os.walk(target))


def _attempt(
    task: Job,
    *,
    mechanism: Mechanism,
    run: str,
    ledger: str | None,
    seed: int | None,
    options: Options,
) -> Outcome:
    """Release one file; whatever goes wrong with it is its own."""
    try:
        with atomic.named(run):
            done, stood = release_or_recognise(
                task.source,
                task.target,
                mechanism,
                noise=Noise(seed=None if seed is None else seed * 1_000_003 + task.place),
                ledger=None if ledger is None else Ledger(ledger),
                options=options,
            )
    except Exception as error:
        return Outcome(source=task.source, error=message(error), exit_code=exit_code(error))
    return Outcome(source=task.source, target=done.value, already_done=stood)


def _killed(task: Job) -> Outcome:
    return Outcome(
        source=task.source,
        error="Expected its worker to finish; it was killed, perhaps for memory. Try --jobs 1. "
        "Under a ledger what was reserved for it is spent.",
        exit_code=exit_code(MemoryError()),
    )


@dataclass(frozen=True, kw_only=True)
class _Progress:
    """The outputs of a run, and what stood in their place before if they replace it."""

    outputs: dict[Path, tuple[int, int] | None]
    replaces: bool

    @classmethod
    def of(cls, jobs: list[Job], seed: int | None, options: Options) -> _Progress:
        replaces = options.if_standing is outputs.IfStanding.OVERWRITE
        paths = [outputs.final_name(job.target, Noise(seed=seed)) for job in jobs]
        stamps = {path: outputs.stamp(path) if replaces else None for path in paths}
        return cls(outputs=stamps, replaces=replaces)

    def said(self, target: Path, ledger: str | None) -> str:
        """What a stop leaves; counted on disk, where workers may have been quicker."""
        count = sum(outputs.stamp(path) not in (None, old) for path, old in self.outputs.items())
        every = counted(len(self.outputs), "new output" if self.replaces else "output")
        spent = " What was reserved for files in work is spent." * (ledger is not None)
        advice = (
            "The same command would release, and spend on, all of them again."
            if self.replaces
            else "To go on, give the same command with --resume."
        )
        return (
            f"Interrupted; {count} of {every} stand in {target}, each with its "
            f"receipt, and nothing else was published.{spent} {advice}"
        )


@contextlib.contextmanager
def _cleaning(folders: set[Path], run: str) -> Iterator[None]:
    """Remove what workers that were stopped in the middle have left."""
    try:
        yield
    except BaseException:
        for folder in folders:
            atomic.abandon(folder, run)
        raise
    finally:
        for folder in folders:
            atomic.sweep(folder)
