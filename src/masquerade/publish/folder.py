"""Release every recording of a folder, several at a time; one bad file never stops the others.

What is to be done with a folder: its recordings, where each output goes, and what may not be.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from masquerade import ledger as ledgers
from masquerade._formatting import format_count
from masquerade.errors import BadInput, exit_code, format_error
from masquerade.io import atomic, opaque_names
from masquerade.io.video import choose_suffix
from masquerade.io.workers import LostWorker, TaskOutcome, WorkerPool
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise, make_file_seed
from masquerade.publish import spine
from masquerade.publish.recording import FileSettings, release_swept
from masquerade.publish.sources import SUFFIXES
from masquerade.publish.spine import IfExists, final_name, identify_file
from masquerade.receipt import Receipt, receipt_path


@dataclass(frozen=True, kw_only=True)
class FileJob:
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
class FileOutcome:
    """What became of a file.

    Args:
        source: the private file.
        target: its output, if it stands.
        already_done: whether it stood there before.
        error: why it failed, if it did.
        exit_code: that this failure asks for.
        receipt: of the output, as it stands beside it.
        signed_by: SHA-256 of the key that has signed it.
        signing_notes: what its owner has to know of that.
    """

    source: Path
    target: Path | None = None
    already_done: bool = False
    error: str | None = None
    exit_code: int = 0
    receipt: Receipt | None = None
    signed_by: str | None = None
    signing_notes: tuple[str, ...] = ()

    @property
    def json_fields(self) -> dict[str, Any]:
        """The same for machines."""
        return {
            "source": str(self.source),
            "output": None if self.target is None else str(self.target),
            "already_done": self.already_done,
            "signed_by": self.signed_by,
            "signing_notes": list(self.signing_notes),
            "error": self.error,
            "exit_code": self.exit_code,
        }


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """How the files of a folder are worked on.

    Args:
        jobs: files at a time; by default as many as there are processors.
        backend: loky (processes of this machine), threading, dask or ray.
        suffix: of all outputs, such as .mkv; by default that of each input, or .mp4 or .png where
            that cannot be written.
        keep_names: publish the names of files and folders as they are; they may identify people.
            Otherwise outputs get opaque names, and a private list tells which is which.
        names: where that list stands; by default beside the source folder.
        only: these files of the folder alone; the list then stands among them.
    """

    jobs: int | None = None
    backend: str = "loky"
    suffix: str | None = None
    keep_names: bool = False
    names: Path | None = None
    only: tuple[Path, ...] = ()

    def find_name_list(self, source: Path, target: Path) -> Path | None:
        """The private list of names, if there is one."""
        if self.keep_names:
            return None
        place = source.resolve() / "files" if self.only else source.resolve()
        return self.names or opaque_names.list_path(place, target.resolve())


@dataclass(frozen=True, kw_only=True)
class FolderPlan:
    """What is to be done with a folder.

    Args:
        target: the folder of outputs.
        jobs: every recording and where its output goes.
        lost: folders that cannot be looked into.
        left_alone: how many files are no recordings.
        hidden: how many recordings are, or stand in a folder that is; they are left alone, too.
        names: opaque ones by private path, where names are not kept.
    """

    target: Path
    jobs: list[FileJob]
    lost: list[FileOutcome]
    left_alone: int
    hidden: int
    names: dict[str, str] = field(default_factory=dict)

    @property
    def omission_notes(self) -> list[str]:
        """What is not released, in words."""
        said = {
            "of no kind that is read": self.left_alone,
            "hidden, or in a hidden folder": self.hidden,
        }
        return [f"Left alone: {format_count(n, 'file')} {what}." for what, n in said.items() if n]


def plan_folder(source: Path, target: Path, work: FolderSettings) -> FolderPlan:
    """Every file and where its output goes; nothing is written."""
    source, target = source.resolve(), target.resolve()
    every, lost, hidden = (list(work.only), [], 0) if work.only else _list_everything(source)
    files = [path for path in every if _is_recording(path)]
    if not files and not lost:
        raise BadInput(f"Expected recordings in {source}; {_describe_contents(len(every), hidden)}")
    known = [str(path.relative_to(source)) for path in files]
    book = work.find_name_list(source, target)
    names = opaque_names.choose_opaque_names(known, book) if book is not None else {}
    jobs = []
    for place, (path, name) in enumerate(zip(files, known, strict=True)):
        stem = names.get(name) or str(Path(name).with_suffix(""))
        end = work.suffix or choose_suffix(path.suffix)
        end = end.lower() if names else end
        jobs.append(FileJob(source=path, target=target / f"{stem}{end}", place=place))
    if len({job.target for job in jobs}) < len(jobs):
        raise ValueError(
            "Expected names that stay apart, got two files of one name and different suffixes; "
            "leave out --suffix or --keep-names."
        )
    _refuse_meeting(None if work.only else source, jobs)
    left = len(every) - len(files)
    return FolderPlan(
        target=target, jobs=jobs, lost=lost, left_alone=left, hidden=hidden, names=names
    )


def find_common_folder(several: Sequence[Path]) -> tuple[Path, tuple[Path, ...]]:
    """The folder that holds several files and folders, and every file that they are.

    Raises:
        BadInput: if one is no recording, or a folder among them cannot be looked into.
    """
    found: list[Path] = []
    others = hidden = 0
    for path in several:
        place = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
        every, lost, unseen = _list_everything(place) if path.is_dir() else ([place], [], 0)
        others, hidden = others + len(every), hidden + unseen
        if lost:
            raise BadInput(f"{lost[0].source}: {lost[0].error}")
        if not path.is_dir() and not _is_recording(place):
            raise BadInput(
                f"Expected a recording, got {path}. These are read: {' '.join(SUFFIXES)}."
            )
        found += [one for one in every if _is_recording(one)]
    if not found:
        raise BadInput(f"Expected recordings in {several[0]}; {_describe_contents(others, hidden)}")
    return Path(os.path.commonpath([one.parent for one in found])), tuple(sorted(set(found)))


def check_folders(source: Path, target: Path, only: Sequence[Path] = ()) -> None:
    """Two folders, neither in the other: what is private and what is published stay apart."""
    source, target = source.resolve(), target.resolve()
    if not source.is_dir():
        raise BadInput(f"Expected a folder at {source}; there is none.")
    if target.is_relative_to(source) and not only:
        raise ValueError(f"Expected the output outside of {source}, got {target}.")
    for private in only or [source]:
        if private.is_relative_to(target):
            raise ValueError(
                f"Expected what is private outside of what is published, got {private} in "
                f"{target}; choose an output folder of its own."
            )
    if target.exists() and not target.is_dir():
        raise ValueError(f"Expected a folder for the outputs, got the file {target}.")
    if not target.exists() and target.suffix.lower() in SUFFIXES:
        raise ValueError(
            f"Expected a folder for the outputs of {_describe_source(source, only)}, got "
            f"{target.name}, "
            f"the name of a file; say {target.stem} instead."
        )


def _describe_source(source: Path, only: Sequence[Path]) -> str:
    return format_count(len(only), "file") if only else f"the folder {source.name}"


def describe_names(names: Path | None) -> str:
    """What the names of outputs tell, and where the private list of them stands."""
    if names is None:
        return "Names are published as they are and may identify people."
    return f"Names are opaque; which is which stands in {names}, which is private."


def _refuse_meeting(source: Path | None, jobs: list[FileJob]) -> None:
    """No output and no receipt may be a private file, by whatever link it is reached."""
    private = {spine.identify_file(job.source) for job in jobs} - {None}
    for job in jobs:
        if source is not None and job.target.parent.resolve().is_relative_to(source):
            raise ValueError(f"Expected the output outside of {source}, got {job.target}.")
        for name in (job.target, spine.rehearsal_name(job.target)):
            for path in (name, receipt_path(name)):
                if spine.identify_file(path) in private:
                    raise ValueError(
                        f"Expected outputs apart from the private files, got {path}, which is one "
                        "of them; choose another folder."
                    )


def _is_recording(path: Path) -> bool:
    """By its name; a link to nowhere is a bad one, and a pipe or a device is none."""
    return path.suffix.lower() in SUFFIXES and (path.is_file() or path.is_symlink())


def _describe_contents(others: int, hidden: int) -> str:
    if not others and not hidden:
        return "it is empty."
    return (
        f"there is none among its {format_count(others + hidden, 'file')}. These are read, unless "
        "they "
        f"are hidden: {' '.join(SUFFIXES)}."
    )


def _list_everything(folder: Path) -> tuple[list[Path], list[FileOutcome], int]:
    """All files in order of their names, what cannot be seen, and how many recordings are hidden.

    Hidden is what has a name that begins with a dot, or stands in such a folder.
    """
    hidden = 0
    files: list[Path] = []
    lost: list[FileOutcome] = []

    def note_lost(path: Path, reason: str) -> None:
        lost.append(FileOutcome(source=path, error=reason, exit_code=exit_code(BadInput())))

    def is_hidden(path: Path) -> bool:
        return any(part.startswith(".") for part in path.relative_to(folder).parts)

    def note_unreadable(error: OSError) -> None:
        if is_hidden(Path(str(error.filename))):
            return
        said = f"Expected a folder that can be read ({error.strerror}); nothing in it was released."
        note_lost(Path(str(error.filename)), said)

    for place, folders, names in os.walk(folder, onerror=note_unreadable):
        for name in folders:
            if (linked := Path(place, name)).is_symlink() and not is_hidden(linked):
                note_lost(linked, "Expected a folder, got a link to one; release it by itself.")
        found = [Path(place, name) for name in names]
        hidden += sum(is_hidden(path) and _is_recording(path) for path in found)
        files += [path for path in found if not is_hidden(path)]
    return sorted(files), lost, hidden


def release_folder(
    source: Path | str,
    target: Path | str,
    mechanism: Mechanism,
    *,
    noise: Noise | None = None,
    ledger: ledgers.Ledger | None = None,
    options: FileSettings | None = None,
    work: FolderSettings | None = None,
) -> list[FileOutcome]:
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
    options, work = options or FileSettings(), work or FolderSettings()
    planned = make_named_plan(Path(source), Path(target), work, options)
    sweep_folder(planned.target)
    return release_planned(
        planned, mechanism, noise=noise, ledger=ledger, options=options, work=work
    )


def release_planned(
    planned: FolderPlan,
    mechanism: Mechanism,
    *,
    noise: Noise | None,
    ledger: ledgers.Ledger | None,
    options: FileSettings,
    work: FolderSettings,
) -> list[FileOutcome]:
    """Release the files of a plan; see `release_folder`."""
    noise, run = noise or Noise(), secrets.token_hex(6)
    folders = {job.target.parent for job in planned.jobs}
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    one = _ReleaseTask(
        mechanism=mechanism,
        run=run,
        ledger=None if ledger is None else ledger.address,
        seed=noise.seed,
        options=replace(options, is_watched=False),
    )
    progress = _RunOutputs.from_jobs(planned.jobs, noise, options)
    title = format_count(len(planned.jobs), "file") if options.is_watched else ""
    pool = WorkerPool(jobs=work.jobs or 0, backend=work.backend, title=title)
    requests = [_ReleaseRequest.from_job(job, noise) for job in planned.jobs]
    at_work = pool.run_tasks(one, requests, describe=lambda request: str(request.job.source))
    done = list(planned.lost)
    try:
        with _clean_folders(folders, run), contextlib.closing(at_work):
            done += map(_make_outcome, at_work)
    except KeyboardInterrupt as stop:
        raise type(stop)(progress.describe_interruption(planned.target, ledger)) from stop
    return sorted(done, key=lambda outcome: outcome.source)


def check_names(
    source: Path, target: Path, work: FolderSettings, options: FileSettings
) -> Path | None:
    """Where the private list stands; refuses folders that do not stand apart, and a lost list."""
    check_folders(source, target, work.only)
    book = work.find_name_list(source, target)
    if book is not None:
        if work.names is None or options.if_standing is IfExists.RESUME:
            opaque_names.refuse_lost(book, target.resolve())
        opaque_names.check_place(book, target.resolve())
    return book


def make_named_plan(
    source: Path, target: Path, work: FolderSettings, options: FileSettings
) -> FolderPlan:
    """A plan whose opaque names are on disk before any output has one."""
    book = check_names(source, target, work, options)
    if book is None:
        return plan_folder(source, target, work)
    atomic.remove_dead_files(book.parent)
    with atomic.lock_target(book):
        planned = plan_folder(source, target, work)
        opaque_names.write_name_list(book, planned.names)
    secrets.SystemRandom().shuffle(planned.jobs)
    return planned


def sweep_folder(target: Path) -> int:
    """Remove what killed runs have left in a folder of outputs; give how many files."""
    return sum(atomic.remove_dead_files(Path(place)) for place, _, _ in os.walk(target))


@dataclass(frozen=True, kw_only=True)
class _ReleaseRequest:
    """A file to be released once, however often it is tried.

    Args:
        job: the file and its output.
        name: random; what is reserved for it is known by it.
        before: which output stood there when the run began.
    """

    job: FileJob
    name: str
    before: tuple[int, int] | None

    @classmethod
    def from_job(cls, job: FileJob, noise: Noise) -> _ReleaseRequest:
        standing = identify_file(final_name(job.target, noise))
        return cls(job=job, name=secrets.token_hex(16), before=standing)


@dataclass(frozen=True, kw_only=True)
class _ReleaseTask:
    """Releases one file, in whatever process; what goes wrong with it is its own."""

    mechanism: Mechanism
    run: str
    ledger: str | None
    seed: int | None
    options: FileSettings

    def __call__(self, request: _ReleaseRequest) -> FileOutcome:
        job, options = request.job, self.options
        noise = Noise(seed=None if self.seed is None else make_file_seed(self.seed, job.place))
        is_ours = identify_file(final_name(job.target, noise)) not in (None, request.before)
        if is_ours:  # a worker was killed when all was done
            options = replace(options, if_standing=IfExists.RESUME)
        ledger = None if self.ledger is None else ledgers.Ledger(self.ledger, request=request.name)
        try:
            with atomic.name_run(self.run):
                done = release_swept(
                    job.source,
                    job.target,
                    self.mechanism,
                    noise=noise,
                    ledger=ledger,
                    options=options,
                )
        except Exception as error:
            return make_failure(job.source, error)
        return FileOutcome(
            source=job.source,
            target=done.value,
            already_done=done.stood and not is_ours,
            receipt=done.receipt,
            signed_by=done.signed_by,
            signing_notes=done.signing_notes,
        )


def make_failure(source: Path, error: Exception) -> FileOutcome:
    """What becomes of a file that cannot be released."""
    return FileOutcome(source=source, error=format_error(error), exit_code=exit_code(error))


def _make_outcome(found: TaskOutcome[_ReleaseRequest, FileOutcome]) -> FileOutcome:
    if isinstance(found.error, LostWorker):
        found.error.add_note("Under a ledger what was reserved for it is spent.")
    if found.error is not None:
        return make_failure(found.task.job.source, found.error)
    return found.get_value()


@dataclass(frozen=True, kw_only=True)
class _RunOutputs:
    """The outputs of a run, and what stood in their place before if they replace it."""

    outputs: dict[Path, tuple[int, int] | None]
    replaces: bool

    @classmethod
    def from_jobs(cls, jobs: list[FileJob], noise: Noise, options: FileSettings) -> _RunOutputs:
        replaces = options.if_standing is IfExists.OVERWRITE
        paths = [final_name(job.target, noise) for job in jobs]
        stamps = {path: identify_file(path) if replaces else None for path in paths}
        return cls(outputs=stamps, replaces=replaces)

    def describe_interruption(self, target: Path, ledger: ledgers.Ledger | None) -> str:
        """What a stop leaves; counted on disk, where workers may have been quicker."""
        count = sum(identify_file(path) not in (None, old) for path, old in self.outputs.items())
        every = format_count(len(self.outputs), "new output" if self.replaces else "output")
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
def _clean_folders(folders: set[Path], run: str) -> Iterator[None]:
    """Remove what workers that were stopped in the middle have left."""
    try:
        yield
    except BaseException:
        for folder in folders:
            atomic.remove_run_files(folder, run)
        raise
    finally:
        for folder in folders:
            atomic.remove_dead_files(folder)
