"""Release every recording of a folder, several at a time; one bad file never stops the others."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from masquerade.doors import opaque, outputs
from masquerade.doors.progress import watching
from masquerade.doors.releasing import Options, release_or_recognise
from masquerade.doors.sources import SUFFIXES
from masquerade.doors.workers import Crew
from masquerade.errors import BadInput, exit_code
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise


@dataclass(frozen=True, kw_only=True)
class Job:
    """One file of a folder.

    Args:
        source: the private file.
        target: its output.
        place: in the order of the private names; of use to rehearsals alone.
    """

    source: Path
    target: Path
    place: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a file.

    Args:
        source: the private file.
        target: its output, if it stands.
        already_done: whether it stood there before.
        error: why it failed, if it did.
        exit_code: that this failure asks for.
    """

    source: Path
    target: Path | None = None
    already_done: bool = False
    error: str | None = None
    exit_code: int = 0


@dataclass(frozen=True, kw_only=True)
class Work:
    """How the files of a folder are worked on.

    Args:
        jobs: files at a time; by default as many as there are processors.
        backend: loky (processes of this machine), threading, dask or ray.
        suffix: of all outputs, such as .mkv; by default that of each input.
        keep_names: publish the names of files and folders as they are; they may identify people.
            Otherwise outputs get opaque names, and a private list tells which is which.
        names: where that list stands; by default beside the source folder.
    """

    jobs: int | None = None
    backend: str = "loky"
    suffix: str | None = None
    keep_names: bool = False
    names: Path | None = None

    def list_of(self, source: Path, target: Path) -> Path | None:
        """The private list of names, if there is one."""
        if self.keep_names:
            return None
        return self.names or opaque.list_path(source.resolve(), target.resolve())


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be done with a folder.

    Args:
        jobs: every recording and where its output goes.
        lost: folders that cannot be looked into.
        left_alone: how many files are no recordings.
        names: opaque ones by private path, where names are not kept.
    """

    jobs: list[Job]
    lost: list[Outcome]
    left_alone: int
    names: dict[str, str] = field(default_factory=dict)


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
    source, target = Path(source).resolve(), Path(target).resolve()  # workers may be elsewhere
    ledger = ledger if ledger is None or "://" in ledger else str(Path(ledger).resolve())
    options, work = options or Options(), work or Work()
    planned = _named_plan(source, target, work)
    tidy(target)
    folders = {job.target.parent for job in planned.jobs}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    run, done = secrets.token_hex(6), list(planned.lost)
    crew = Crew(
        work=partial(
            _attempt,
            mechanism=mechanism,
            run=run,
            ledger=ledger,
            seed=rehearsal_seed,
            options=replace(options, is_watched=False),
        ),
        mourn=_killed,
    )
    try:
        with (
            _cleaning(folders, run),
            watching(options.is_watched, what=f"{len(planned.jobs)} files") as watch,
            contextlib.closing(
                crew.run(planned.jobs, jobs=work.jobs, backend=work.backend)
            ) as found,
        ):
            done.extend(watch(found, len(planned.jobs)))
    except KeyboardInterrupt as stop:
        raise type(stop)(_so_far(planned.jobs, target, rehearsal_seed, ledger)) from stop
    return sorted(done, key=lambda outcome: outcome.source)


def _named_plan(source: Path, target: Path, work: Work) -> Plan:
    """A plan whose opaque names are on disk before any output has one."""
    check_folders(source, target)
    book = work.list_of(source, target)
    if book is None:
        return plan(source, target, work)
    opaque.check_place(book, target)
    with atomic.alone(book):
        planned = plan(source, target, work)
        opaque.write(book, planned.names)
    secrets.SystemRandom().shuffle(planned.jobs)
    return planned


def plan(source: Path, target: Path, work: Work) -> Plan:
    """Every file and where its output goes; nothing is written."""
    check_folders(source, target)
    source, target = source.resolve(), target.resolve()
    every, lost = everything(source)
    files = [path for path in every if path.suffix.lower() in SUFFIXES]
    if not files and not lost:
        raise BadInput(f"Expected recordings in {source}; it is empty.")
    known = [str(path.relative_to(source)) for path in files]
    book = work.list_of(source, target)
    names = opaque.names_of(known, book) if book is not None else {}
    jobs = []
    for place, (path, name) in enumerate(zip(files, known, strict=True)):
        stem = names.get(name) or str(Path(name).with_suffix(""))
        end = work.suffix or (path.suffix.lower() if names else path.suffix)
        jobs.append(Job(source=path, target=target / f"{stem}{end}", place=place))
    if len({job.target for job in jobs}) < len(jobs):
        raise ValueError(
            "Expected names that stay apart, got two files of one name and different suffixes; "
            "leave out --suffix or --keep-names."
        )
    _refuse_meeting(source, jobs)
    return Plan(jobs=jobs, lost=lost, left_alone=len(every) - len(files), names=names)


def check_folders(source: Path, target: Path) -> None:
    """Two folders, neither in the other: what is private and what is published stay apart."""
    source, target = source.resolve(), target.resolve()
    if not source.is_dir():
        raise BadInput(f"Expected a folder at {source}; there is none.")
    if target.is_relative_to(source):
        raise ValueError(f"Expected the output outside of {source}, got {target}.")
    if source.is_relative_to(target):
        raise ValueError(
            f"Expected the private folder outside of what is published, got {source} in {target}; "
            "choose an output folder of its own."
        )
    if target.exists() and not target.is_dir():
        raise ValueError(f"Expected a folder for the outputs, got the file {target}.")


def _refuse_meeting(source: Path, jobs: list[Job]) -> None:
    """No output and no receipt may be a private file, by whatever link it is reached."""
    private = {(held.st_dev, held.st_ino) for job in jobs if (held := _stat(job.source))}
    for job in jobs:
        if job.target.parent.resolve().is_relative_to(source):
            raise ValueError(f"Expected the output outside of {source}, got {job.target}.")
        for name in (job.target, outputs.rehearsal_name(job.target)):
            for path in (name, outputs.receipt_path(name)):
                held = _stat(path)
                if held is not None and (held.st_dev, held.st_ino) in private:
                    raise ValueError(
                        f"Expected outputs apart from the private files, got {path}, which is one "
                        "of them; choose another folder."
                    )


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def everything(folder: Path) -> tuple[list[Path], list[Outcome]]:
    """All files of a folder in order of their names, hidden ones aside, and what cannot be seen."""
    files: list[Path] = []
    lost: list[Outcome] = []

    def lose(path: Path, said: str) -> None:
        lost.append(Outcome(source=path, error=said, exit_code=exit_code(BadInput())))

    def miss(error: OSError) -> None:
        said = f"Expected a folder that can be read ({error.strerror}); nothing in it was released."
        lose(Path(str(error.filename)), said)

    for place, folders, names in os.walk(folder, onerror=miss):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in folders:
            if (linked := Path(place, name)).is_symlink():
                lose(linked, "Expected a folder, got a link to one; release it by itself.")
        found = [Path(place, name) for name in names if not name.startswith(".")]
        files += [path for path in found if path.is_file() or path.is_symlink()]
    return sorted(files), lost


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
        said = str(error) or type(error).__name__
        return Outcome(source=task.source, error=said, exit_code=exit_code(error))
    return Outcome(source=task.source, target=done.value, already_done=stood)


def _killed(task: Job) -> Outcome:
    return Outcome(
        source=task.source,
        error="Expected its worker to finish; it was killed, perhaps for memory. Try --jobs 1. "
        "Under a ledger what was reserved for it is spent.",
        exit_code=exit_code(MemoryError()),
    )


def _so_far(jobs: list[Job], target: Path, seed: int | None, ledger: str | None) -> str:
    """What a stop in the middle leaves; counted on disk, where workers may have been quicker."""
    noise = Noise(seed=seed)
    count = sum(outputs.final_name(job.target, noise).exists() for job in jobs)
    spent = " What was reserved for files in work is spent." * (ledger is not None)
    return (
        f"Interrupted; {count} of {len(jobs)} outputs stand in {target}, each with its "
        f"receipt, and nothing else was published.{spent} To go on, give the same command with "
        "--resume."
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
