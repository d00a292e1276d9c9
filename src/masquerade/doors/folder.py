"""Release every recording of a folder, several at a time; one bad file never stops the others."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from masquerade import ledger as ledgers
from masquerade._printed import counted
from masquerade.compute.crew import Crew
from masquerade.compute.progress import bars
from masquerade.doors.folder_plan import FolderPlan, Job, Outcome, Work, check_folders, plan
from masquerade.doors.publish import IfStanding, final_name, stamp
from masquerade.doors.recording import Options, release_swept
from masquerade.errors import exit_code, message
from masquerade.files import atomic, opaque
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise, folder_seed


def release_folder(
    source: Path | str,
    target: Path | str,
    mechanism: Mechanism,
    *,
    noise: Noise | None = None,
    ledger: ledgers.Ledger | None = None,
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
        noise: by default every file draws its own from the operating system; a rehearsal's seed
            gives each file one of its own.
        ledger: every file is charged by itself.
        options: as for one file.
        work: how many at a time, where, and under which names.

    Returns:
        What became of each file, in the order of their names; none is left out.
    """
    options, work = options or Options(), work or Work()
    planned = named_plan(Path(source), Path(target), work, options)
    tidy(planned.target)
    return release_planned(
        planned, mechanism, noise=noise, ledger=ledger, options=options, work=work
    )


def release_planned(
    planned: FolderPlan,
    mechanism: Mechanism,
    *,
    noise: Noise | None,
    ledger: ledgers.Ledger | None,
    options: Options,
    work: Work,
) -> list[Outcome]:
    """Release the files of a plan; see `release_folder`."""
    noise, run = noise or Noise(), secrets.token_hex(6)
    folders = {job.target.parent for job in planned.jobs}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    one = _Attempt(
        mechanism=mechanism,
        run=run,
        ledger=None if ledger is None else ledger.address,
        seed=noise.seed,
        options=replace(options, is_watched=False),
    )
    progress = _Progress.of(planned.jobs, noise, options)
    done, crew = list(planned.lost), Crew(work=one, mourn=_killed)
    at_work = crew.run(planned.jobs, jobs=work.jobs, backend=work.backend)
    many, bar = len(planned.jobs), bars(is_shown=options.is_watched)
    try:
        with _cleaning(folders, run), bar, contextlib.closing(at_work):
            task = bar.add_task(counted(many, "file"), total=many)
            for outcome in at_work:
                done.append(outcome)
                bar.advance(task)
    except KeyboardInterrupt as stop:
        raise type(stop)(progress.said(planned.target, ledger)) from stop
    return sorted(done, key=lambda outcome: outcome.source)


def check_names(source: Path, target: Path, work: Work, options: Options) -> Path | None:
    """Where the private list stands; refuses folders that do not stand apart, and a lost list."""
    check_folders(source, target, work.only)
    book = work.list_of(source, target)
    if book is not None:
        if work.names is None or options.if_standing is IfStanding.RESUME:
            opaque.refuse_lost(book, target.resolve())
        opaque.check_place(book, target.resolve())
    return book


def named_plan(source: Path, target: Path, work: Work, options: Options) -> FolderPlan:
    """A plan whose opaque names are on disk before any output has one."""
    book = check_names(source, target, work, options)
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


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """Releases one file, in whatever process; what goes wrong with it is its own."""

    mechanism: Mechanism
    run: str
    ledger: str | None
    seed: int | None
    options: Options

    def __call__(self, job: Job) -> Outcome:
        seed = None if self.seed is None else folder_seed(self.seed, job.place)
        try:
            with atomic.named(self.run):
                done = release_swept(
                    job.source,
                    job.target,
                    self.mechanism,
                    noise=Noise(seed=seed),
                    ledger=None if self.ledger is None else ledgers.Ledger(self.ledger),
                    options=self.options,
                )
        except Exception as error:
            return failed(job.source, error)
        return Outcome(
            source=job.source,
            target=done.value,
            already_done=done.stood,
            receipt=done.receipt,
            signed_by=done.signed_by,
            signing_notes=done.signing_notes,
        )


def failed(source: Path, error: Exception) -> Outcome:
    """What becomes of a file that cannot be released."""
    return Outcome(source=source, error=message(error), exit_code=exit_code(error))


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
    def of(cls, jobs: list[Job], noise: Noise, options: Options) -> _Progress:
        replaces = options.if_standing is IfStanding.OVERWRITE
        paths = [final_name(job.target, noise) for job in jobs]
        stamps = {path: stamp(path) if replaces else None for path in paths}
        return cls(outputs=stamps, replaces=replaces)

    def said(self, target: Path, ledger: ledgers.Ledger | None) -> str:
        """What a stop leaves; counted on disk, where workers may have been quicker."""
        count = sum(stamp(path) not in (None, old) for path, old in self.outputs.items())
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
