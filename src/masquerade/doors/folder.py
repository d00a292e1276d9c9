"""Release every recording of a folder, several at a time; one bad file never stops the others."""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import joblib

from masquerade._optional import require
from masquerade.doors import outputs
from masquerade.doors.progress import watching
from masquerade.doors.releasing import Options, release_file
from masquerade.doors.sources import SUFFIXES
from masquerade.errors import BadInput, exit_code
from masquerade.files import atomic
from masquerade.ledger import Ledger
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise
from masquerade.video import written_suffix


@dataclass(frozen=True, kw_only=True)
class Job:
    """One file of a folder.

    Args:
        source: the private file.
        target: its output.
    """

    source: Path
    target: Path


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
        backend: of joblib: loky (processes of this machine), threading, dask or ray.
        suffix: of all outputs, such as .mkv; by default that of each input, or
            .mp4 or .png where that cannot be written.
        rename: whether outputs get opaque names; a private list beside the folder tells which is
            which.
    """

    jobs: int | None = None
    backend: str = "loky"
    suffix: str | None = None
    rename: bool = False


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
    """Release all files of a folder into another, in the same tree; each has its receipt.

    Args:
        source: a folder; files of no kind that we know are left alone.
        target: made if it is not there.
        mechanism: what to do with each file.
        ledger: a path or an address; every file is charged by itself.
        rehearsal_seed: reproducible noise that protects nothing.
        options: as for one file.
        work: how many at a time, and where.

    Returns:
        What became of each file, in the order of their names; none is left out.
    """
    source, target = Path(source).resolve(), Path(target).resolve()  # workers may be elsewhere
    ledger = ledger if ledger is None or "://" in ledger else str(Path(ledger).resolve())
    options, work = options or Options(), work or Work()
    tasks = plan(source, target, work)
    for folder in {task.target.parent for task in tasks}:
        folder.mkdir(parents=True, exist_ok=True)
    one, run = replace(options, is_watched=False), secrets.token_hex(6)
    calls = (
        joblib.delayed(_attempt)(
            task, mechanism, run, ledger=ledger, seed=_seed(rehearsal_seed, place), options=one
        )
        for place, task in enumerate(tasks)
    )
    with _cleaning({task.target.parent for task in tasks}, run), _backend(work):
        parallel = joblib.Parallel(
            n_jobs=min(work.jobs or joblib.cpu_count(), len(tasks)),
            return_as="generator_unordered" if work.backend in ("loky", "threading") else "list",
        )
        with watching(options.is_watched, what=f"{len(tasks)} files") as watch:
            done = list(watch(iter(parallel(calls)), len(tasks)))
    return sorted(done, key=lambda outcome: outcome.source)


def plan(source: Path, target: Path, work: Work) -> list[Job]:
    """Every file and where its output goes."""
    if not source.is_dir():
        raise BadInput(f"Expected a folder at {source}; there is none.")
    inside = target.resolve()
    if inside == source.resolve() or inside.is_relative_to(source.resolve()):
        raise ValueError(f"Expected the output outside of {source}, got {target}.")
    files = [path for path in everything(source) if path.suffix.lower() in SUFFIXES]
    if not files:
        raise BadInput(f"Expected recordings in {source}; it is empty.")
    if target.exists() and not target.is_dir():
        raise ValueError(f"Expected a folder for the outputs, got the file {target}.")
    names = _opaque_names(files, source, target) if work.rename else {}
    found = []
    for path in files:
        place = Path(names.get(path, str(path.relative_to(source).with_suffix(""))))
        out = target / place.with_name(place.name + (work.suffix or written_suffix(path.suffix)))
        found.append(Job(source=path, target=out))
    twins = {task.target for task in found}
    if len(twins) < len(found):
        raise ValueError(
            "Expected names that stay apart, got two files of one name and different suffixes; "
            "leave out --suffix, or use --rename."
        )
    return found


def everything(folder: Path) -> list[Path]:
    """All files of a folder in order of their names, hidden ones aside."""
    return sorted(
        path
        for path in folder.rglob("*")
        if (path.is_file() or path.is_symlink())
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _opaque_names(files: list[Path], source: Path, target: Path) -> dict[Path, str]:
    """Random names, the same in a second run: a private list beside the folder keeps them."""
    book = target.resolve().with_name(f"{target.resolve().name}.names.private.json")
    kept = _known_names(book) if book.is_file() else {}
    known = {path: str(path.relative_to(source)) for path in files}
    for name in known.values():
        kept.setdefault(name, secrets.token_hex(8))
    atomic.write_whole(book, (json.dumps(kept, indent=2) + "\n").encode(), is_private=True)
    return {path: kept[name] for path, name in known.items()}


def _known_names(book: Path) -> dict[str, str]:
    try:
        kept = json.loads(book.read_text())
        if all(re.fullmatch("[0-9a-f]{16}", name) for name in kept.values()):
            return dict(kept)
    except (ValueError, AttributeError, TypeError):
        pass
    raise BadInput(f"Expected a list of opaque names at {book}; move it away if it is not ours.")


def _seed(rehearsal_seed: int | None, place: int) -> int | None:
    return None if rehearsal_seed is None else rehearsal_seed * 1_000_003 + place


def _attempt(
    task: Job,
    mechanism: Mechanism,
    run: str,
    *,
    ledger: str | None,
    seed: int | None,
    options: Options,
) -> Outcome:
    """Release one file; whatever goes wrong with it is its own."""
    noise = Noise(seed=seed)
    stood = outputs.final_name(task.target, noise).exists()
    stood = stood and options.if_standing is not outputs.IfStanding.OVERWRITE
    try:
        with atomic.named(run):
            done = release_file(
                task.source,
                task.target,
                mechanism,
                noise=noise,
                ledger=None if ledger is None else Ledger(ledger),
                options=options,
            )
    except Exception as error:
        said = str(error) or type(error).__name__
        return Outcome(source=task.source, error=said, exit_code=exit_code(error))
    return Outcome(source=task.source, target=done.value, already_done=stood)


@contextlib.contextmanager
def _backend(work: Work) -> Iterator[None]:
    """joblib's backend; those of a cluster register themselves first."""
    if work.backend == "dask":
        require("dask.distributed", extra="dask").Client()
    elif work.backend == "ray":
        require("ray.util.joblib", extra="ray").register_ray()
    with joblib.parallel_config(backend=work.backend):
        yield


@contextlib.contextmanager
def _cleaning(folders: set[Path], run: str) -> Iterator[None]:
    """Remove what workers that were stopped in the middle have left."""
    try:
        yield
    finally:
        for folder in folders:
            for part in folder.glob(f".masquerade-{run}-*.part"):
                part.unlink(missing_ok=True)
