"""Publish a recording, or a folder of them: video, picture, array or table, with receipts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from masquerade import _check, _json, progress
from masquerade import ledger as ledgers
from masquerade._formatting import format_count
from masquerade.cli.flags import Positional
from masquerade.io import atomic
from masquerade.io.video import is_video
from masquerade.mechanism import Mechanism
from masquerade.mechanisms import expected_view
from masquerade.noise import Noise
from masquerade.publish import folder
from masquerade.publish.estimates import DryRun
from masquerade.publish.folder import FolderSettings, describe_names, find_common_folder
from masquerade.publish.recording import FileSettings, release_file
from masquerade.publish.sources import OutputSettings, ReadLimits
from masquerade.publish.spine import IfExists, check_link
from masquerade.receipt import Receipt, Release, receipt_path
from masquerade.result import CommandResult
from masquerade.wording import count_people, explain


@dataclass(frozen=True, kw_only=True)
class ReleaseFile:
    """Publish files or folders with a privacy guarantee and a receipt for each file.

    Example:
        masquerade release ward.mp4 public.mp4 --mechanism cosine_gaussian
            --unit frame --epsilon 4 --delta 1e-6

    Args:
        source: the private file, or several, or a folder (.mp4 .mov .mkv .webm .avi .png .jpg .npy
            .npz .csv; also read, but never written: .gif .webp .ts .mts .flv .mpg .3gp).
        target: where the publishable file goes, or the folder of several; receipts stand beside
            the files.
        heading: the .csv begins with names of columns; they are published as they are.
        exact: write every released value as it is; by default video is visually lossless.
        keep_audio: copy the sound of a video along; it is not protected, and the receipt says so.
        resume: keep an output of the same mechanism that stands there; nothing is spent.
        overwrite: replace an output that stands there; this spends again.
        yes: write even what is plain grey or noise alone, and that in which a heuristic found
            nobody to hide or to replace.
        dry_run: print guarantee, expected error, time and size, and write nothing; of a video only
            the header is read, unless a ledger is asked.
        person_height: pixels; with dry_run, how many sites a person of that height covers.
        ledger: charge this ledger (a path, or postgresql://...) before anything is released.
        device: cpu or cuda.
        jobs: files of a folder at a time; by default one for each processor.
        backend: where the files of a folder are worked on: loky, threading, dask or ray. Where a
            worker of dask or ray dies, files in work may be lost, or charged twice; only loky
            names them.
        suffix: of all outputs of a folder; by default that of each input, where it can be written.
        keep_names: publish the names of a folder's files as they are; otherwise outputs get opaque
            names, and a private list beside the source folder tells which is which.
        names: where that private list stands.
        rehearsal_seed: reproducible noise that protects nothing; the output's name says so.
        max_pixels: of a frame; larger ones are refused by their header, before anything is spent.
        max_bytes: of an array file's numbers when it is unpacked; more is refused likewise.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("mechanism", "mechanisms")

    source: Positional[tuple[Path, ...]]
    target: Positional[Path]
    heading: bool = False
    exact: bool = False
    keep_audio: bool = False
    resume: bool = False
    overwrite: bool = False
    yes: bool = False
    dry_run: bool = False
    person_height: int | None = None
    ledger: str | None = None
    device: str = "cpu"
    jobs: int | None = None
    backend: Literal["loky", "threading", "dask", "ray"] = "loky"
    suffix: str | None = None
    keep_names: bool = False
    names: Path | None = None
    rehearsal_seed: int | None = None
    max_pixels: int = ReadLimits.max_pixels
    max_bytes: int = ReadLimits.max_bytes

    def __post_init__(self) -> None:
        if self.resume and self.overwrite:
            raise ValueError("Expected one of --resume and --overwrite, got both.")
        if self.person_height is not None:
            _check.count(person_height=self.person_height)
        if self.jobs is not None:
            _check.count(jobs=self.jobs)
        if self.keep_names and self.names is not None:
            raise ValueError("Expected one of --keep-names and --names, got both.")
        if self.suffix is not None and not self.suffix.startswith("."):
            raise ValueError(f"Expected a suffix with its dot, got suffix={self.suffix!r}.")

    def run(self, mechanism: Mechanism) -> CommandResult:
        """Release, or say what a release would promise."""
        check_link(self.target)
        if len(self.source) > 1:
            source, only = find_common_folder(self.source)
            return self._release_several(
                mechanism, source, replace(self._make_folder_settings(), only=only)
            )
        (source,) = self.source
        if source.is_dir():
            return self._release_several(mechanism, source, self._make_folder_settings())
        if self.keep_names or self.names or self.suffix or self.jobs:
            raise ValueError(
                "Expected --keep-names, --names, --suffix and --jobs with several files, got one; "
                "name the output."
            )
        if self.dry_run:
            return self._make_dry_run(mechanism).preview_file(source, self.target)
        swept = atomic.remove_dead_files(self.target.parent)
        with progress.collect_owner_notes() as heard:
            done = release_file(source, self.target, mechanism, **self._make_arguments())
        return _add_owner_notes(self._format_release(done, swept), heard)

    def _make_arguments(self) -> dict[str, Any]:
        """What every release here is made with."""
        return {
            "noise": Noise(seed=self.rehearsal_seed),
            "ledger": None if self.ledger is None else ledgers.Ledger(self.ledger),
            "options": self._make_settings(),
        }

    def _make_settings(self) -> FileSettings:
        standing = IfExists.RESUME if self.resume else IfExists.REFUSE
        return FileSettings(
            heading=self.heading,
            saving=OutputSettings(exact=self.exact, keep_sound=self.keep_audio),
            if_standing=IfExists.OVERWRITE if self.overwrite else standing,
            device=self.device,
            limits=ReadLimits(max_pixels=self.max_pixels, max_bytes=self.max_bytes),
            accept_grey=self.yes,
            accept_unhidden=self.yes,
        )

    def _make_folder_settings(self) -> FolderSettings:
        return FolderSettings(
            jobs=self.jobs,
            backend=self.backend,
            suffix=self.suffix,
            keep_names=self.keep_names,
            names=self.names,
        )

    def _make_dry_run(self, mechanism: Mechanism) -> DryRun:
        return DryRun(
            mechanism=mechanism, person_height=self.person_height, **self._make_arguments()
        )

    def _format_release(self, done: Release[Path], swept: int) -> CommandResult:
        said = f"{done.value} stood there already with this receipt; nothing was spent."
        assert done.plan is not None  # whatever was published has one
        is_film = is_video(self.source[0])
        sight = expected_view.predict_view(done.plan, done.receipt.shapes, is_video=is_film)
        first, *others = explain(done.receipt.guarantee)
        return CommandResult(
            data={
                "output": str(done.value),
                "receipt": str(receipt_path(done.value)),
                "already_done": done.stood,
                "signed_by": done.signed_by,
                "signing_notes": list(done.signing_notes),
                "expect": sight,
                "counted": done.receipt.counted,
                "guarantee": _json.encode_noun(done.receipt.guarantee),
            },
            lines=[
                *_describe_counts(done.receipt),
                *_describe_swept(swept),
                said if done.stood else f"Wrote {done.value} and its receipt.",
                *done.signing_notes,
                first,
                *expected_view.describe_view(sight),
                *others,
            ],
        )

    def _release_several(
        self, mechanism: Mechanism, source: Path, work: FolderSettings
    ) -> CommandResult:
        if self.dry_run:
            return self._make_dry_run(mechanism).preview_folder(source, self.target, work)
        planned = folder.make_named_plan(source, self.target, work, self._make_settings())
        swept = folder.sweep_folder(self.target)
        done = folder.release_planned(planned, mechanism, work=work, **self._make_arguments())
        failed = [outcome for outcome in done if outcome.error is not None]
        stood = sum(outcome.already_done for outcome in done)
        names = work.find_name_list(source, self.target)
        lines = _describe_swept(swept)
        wrote = format_count(len(done) - len(failed) - stood, "file")
        lines.append(f"Wrote {wrote} to {self.target}.")
        lines += [f"{stood} stood there already, for which nothing was spent."] * bool(stood)
        lines += sorted({note for each in done for note in each.signing_notes})
        lines.append(describe_names(names))
        lines += planned.omission_notes
        lines += [f"FAILED {outcome.source}: {outcome.error}" for outcome in failed]
        receipts = {outcome.source: outcome.receipt for outcome in done if outcome.receipt}
        plan_of = cache(mechanism.plan)  # many files have one shape
        sights = {
            file: expected_view.predict_view(
                plan_of(receipt.shapes), receipt.shapes, is_video=is_video(file)
            )
            for file, receipt in receipts.items()
        }
        lines += expected_view.summarise_views(sights.values())
        lines += [
            f"{file}: {said}"
            for file, receipt in receipts.items()
            for said in _describe_counts(receipt)
        ]
        for file, receipt in list(receipts.items())[:1]:
            lines += [f"Each by itself, here {file.name}:", *explain(receipt.guarantee)]
        return CommandResult(
            data={
                "files": [
                    outcome.json_fields
                    | {"expect": sights.get(outcome.source)}
                    | {"counted": outcome.receipt.counted if outcome.receipt else {}}
                    for outcome in done
                ],
                "failed": len(failed),
                "already_done": stood,
                "left_alone": planned.left_alone,
                "hidden": planned.hidden,
                "names": None if names is None else str(names),
            },
            lines=lines,
            exit_code=max((outcome.exit_code for outcome in failed), default=0),
        )


def _describe_counts(receipt: Receipt) -> list[str]:
    return count_people(receipt.counted, receipt.shapes[0][0])


def _add_owner_notes(answer: CommandResult, heard: list[str]) -> CommandResult:
    """The same with what is for the owner alone."""
    if not heard:
        return answer
    lines = [f"PRIVATE, for you alone: {said}" for said in heard]
    return replace(answer, data={**answer.data, "PRIVATE": heard}, lines=[*answer.lines, *lines])


def _describe_swept(count: int) -> list[str]:
    return [f"Removed {format_count(count, 'unfinished file')} of a run that was stopped."] * bool(
        count
    )


COMMAND = ReleaseFile
