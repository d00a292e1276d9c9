"""Publish a recording, or a folder of them: video, picture, array or table, with receipts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from tyro.conf import Positional

from masquerade import _check, _json
from masquerade._printed import counted
from masquerade.doors import expecting, folder, outputs, planning, preview, sources
from masquerade.doors.answer import Answer
from masquerade.doors.planning import Job, Outcome, Plan, Work
from masquerade.doors.releasing import Options, release_or_recognise
from masquerade.doors.sources import Limits, Saving, Source
from masquerade.errors import exit_code, message
from masquerade.files import atomic
from masquerade.ledger import Content, Ledger
from masquerade.mechanism import Mechanism
from masquerade.noise import Noise
from masquerade.receipt import Receipt
from masquerade.wording import explain

_AFFORDED = "The ledger can afford it."


@dataclass(frozen=True, kw_only=True)
class ReleaseFile:
    """Publish a file or a folder with a privacy guarantee and a receipt for each file.

    Args:
        source: the private file or folder (.mp4 .mov .mkv .webm .avi .png .jpg .npy
            .npz .csv; also read, but never written: .gif .webp .ts .mts .flv .mpg .3gp).
        target: where the publishable file or folder goes; receipts stand beside the files.
        heading: the .csv begins with names of columns; they are published as they are.
        exact: write every released value as it is; by default video is visually lossless.
        keep_audio: copy the sound of a video along; it is not protected, and the receipt says so.
        resume: keep an output of the same mechanism that stands there; nothing is spent.
        overwrite: replace an output that stands there; this spends again.
        yes: write a video or picture even where plain grey or noise is to be expected.
        dry_run: print guarantee, expected error and time, and write nothing.
        person_height: pixels; with dry_run, how many sites a person of that height covers.
        ledger: charge this ledger (a path, or postgresql://...) before anything is released.
        device: cpu or cuda.
        jobs: files of a folder at a time; by default one for each processor.
        backend: where the files of a folder are worked on: loky, threading, dask or ray.
        suffix: of all outputs of a folder; by default that of each input, where it can be written.
        keep_names: publish the names of a folder's files as they are; otherwise outputs get opaque
            names, and a private list beside the source folder tells which is which.
        names: where that private list stands.
        rehearsal_seed: reproducible noise that protects nothing; the output's name says so.
        max_pixels: of a frame; larger ones are refused by their header, before anything is spent.
        max_bytes: of an array file's numbers when it is unpacked; more is refused likewise.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("mechanism", "release")

    source: Positional[Path]
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
    max_pixels: int = Limits.max_pixels
    max_bytes: int = Limits.max_bytes

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

    def run(self, mechanism: Mechanism) -> Answer:
        """Release, or say what a release would promise."""
        outputs.check_link(self.target)
        if self.source.is_dir():
            return self._preview_folder(mechanism) if self.dry_run else self._folder(mechanism)
        if self.keep_names or self.names or self.suffix or self.jobs:
            raise ValueError(
                "Expected --keep-names, --names, --suffix and --jobs with a folder, got a file; "
                "name the output."
            )
        if self.dry_run:
            return self._preview_file(mechanism)
        return self._file(mechanism)

    def _options(self) -> Options:
        standing = outputs.IfStanding.RESUME if self.resume else outputs.IfStanding.REFUSE
        return Options(
            heading=self.heading,
            saving=Saving(exact=self.exact, keep_sound=self.keep_audio),
            if_standing=outputs.IfStanding.OVERWRITE if self.overwrite else standing,
            device=self.device,
            limits=Limits(max_pixels=self.max_pixels, max_bytes=self.max_bytes),
            accept_grey=self.yes,
        )

    def _ledger(self) -> Ledger | None:
        return None if self.ledger is None else Ledger(self.ledger)

    def _file(self, mechanism: Mechanism) -> Answer:
        swept = atomic.sweep(self.target.parent)
        done, stood = release_or_recognise(
            self.source,
            self.target,
            mechanism,
            noise=Noise(seed=self.rehearsal_seed),
            ledger=self._ledger(),
            options=self._options(),
        )
        said = f"{done.value} stood there already with this receipt; nothing was spent." * stood
        sight = expecting.expected(mechanism, self.source, done.receipt.shapes)
        first, *others = explain(done.receipt.guarantee)
        return Answer(
            data={
                "output": str(done.value),
                "receipt": str(outputs.receipt_path(done.value)),
                "already_done": stood,
                "expect": sight,
                "guarantee": _json.encode(done.receipt.guarantee),
            },
            lines=[
                *_swept(swept),
                said or f"Wrote {done.value} and its receipt.",
                first,
                *expecting.said(sight),
                *others,
            ],
        )

    def _work(self) -> Work:
        return Work(
            jobs=self.jobs,
            backend=self.backend,
            suffix=self.suffix,
            keep_names=self.keep_names,
            names=self.names,
        )

    def _folder(self, mechanism: Mechanism) -> Answer:
        planning.check_folders(self.source, self.target)
        swept = folder.tidy(self.target)
        done, planned = folder.release_planned(
            self.source,
            self.target,
            mechanism,
            ledger=self.ledger,
            rehearsal_seed=self.rehearsal_seed,
            options=self._options(),
            work=self._work(),
        )
        failed = [outcome for outcome in done if outcome.error is not None]
        stood = sum(outcome.already_done for outcome in done)
        names = self._work().list_of(self.source, self.target)
        lines = _swept(swept)
        wrote = counted(len(done) - len(failed) - stood, "file")
        lines.append(f"Wrote {wrote} to {self.target}.")
        lines += [f"{stood} stood there already, for which nothing was spent."] * bool(stood)
        lines.append(_about_names(names))
        lines += _left_alone(planned)
        lines += [f"FAILED {outcome.source}: {outcome.error}" for outcome in failed]
        receipts = {outcome.source: _receipt(outcome.target) for outcome in done if outcome.target}
        sights = {
            source: expecting.expected(mechanism, source, receipt.shapes)
            for source, receipt in receipts.items()
        }
        lines += expecting.tally(sights.values())
        for source, receipt in list(receipts.items())[:1]:
            lines += [f"Each by itself, here {source.name}:", *explain(receipt.guarantee)]
        return Answer(
            data={
                "files": [
                    _outcome(outcome) | {"expect": sights.get(outcome.source)} for outcome in done
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

    def _probed(
        self, mechanism: Mechanism, source: Path, target: Path, ledger: Ledger | None
    ) -> tuple[Source, bool]:
        """What is there, and whether its output stands already; refuses what a run would."""
        options = self._options()
        if ledger is not None and self.rehearsal_seed is not None:
            raise ValueError("Expected live noise under a ledger, got a rehearsal; leave out one.")
        target = outputs.final_name(target, Noise(seed=self.rehearsal_seed))
        if target.parent.is_dir() or not self.source.is_dir():  # else a folder's run makes it
            outputs.check_room(source, target)
        found = sources.find(source, heading=self.heading, limits=options.limits)
        found.check(mechanism, target, options.saving)
        stands = target.exists() and not self.overwrite
        if stands:
            outputs.standing(
                target, mechanism, found, ledger, saving=options.saving, is_trusted=self.resume
            )
        return found, stands

    def _preview(self, mechanism: Mechanism, source: Path, found: Source) -> Answer:
        return preview.preview(
            source,
            found.shapes,
            mechanism,
            noise=Noise(seed=self.rehearsal_seed),
            options=self._options(),
            person_height=self.person_height,
        )

    def _preview_file(self, mechanism: Mechanism) -> Answer:
        ledger = self._ledger()
        found, stands = self._probed(mechanism, self.source, self.target, ledger)
        lines = ["Nothing was written."]
        if stands:
            lines.append("Its output stands there already; nothing would be spent.")
        elif ledger is not None:
            ledger.quote(found.content, mechanism, with_sound=self.keep_audio)
            lines.append(_AFFORDED)
        answer = self._preview(mechanism, self.source, found)
        return replace(answer, lines=lines + answer.lines)

    def _preview_folder(self, mechanism: Mechanism) -> Answer:
        folder.check_names(self.source, self.target, self._work(), self._options())
        planned = planning.plan(self.source, self.target, self._work())
        previews, failed, is_afforded = self._previews(mechanism, planned.jobs)
        failed = [*planned.lost, *failed]
        total = sum(answer.data["expected_seconds"] for answer in previews.values())
        lines = [f"{counted(len(planned.jobs), 'file')}; nothing was written."]
        lines += _left_alone(planned)
        lines += [_AFFORDED] * is_afforded
        lines += expecting.tally(answer.data["expect"] for answer in previews.values())
        lines += [_about_names(None)] * self.keep_names
        lines += [f"WOULD FAIL {outcome.source}: {outcome.error}" for outcome in failed]
        if previews:
            first = next(iter(previews))
            lines += [
                f"Expected time: about {total:.0f} s of one process.",
                f"For the first, {first.name}:",
                *previews[first].lines,
            ]
        data = [{"source": str(path)} | answer.data for path, answer in previews.items()]
        return Answer(
            data={
                "files": data + [_outcome(outcome) for outcome in failed],
                "failed": len(failed),
                "expected_seconds": total,
            },
            lines=lines,
            exit_code=max((outcome.exit_code for outcome in failed), default=0),
        )

    def _previews(
        self, mechanism: Mechanism, jobs: list[Job]
    ) -> tuple[dict[Path, Answer], list[Outcome], bool]:
        """Of each file that would do, why each other would not, and whether a ledger agrees."""
        ledger = self._ledger()
        previews: dict[Path, Answer] = {}
        asked: dict[Path, Content] = {}
        failed = []
        for job in jobs:
            try:
                found, stands = self._probed(mechanism, job.source, job.target, ledger)
                charged = {} if ledger is None or stands else {job.source: found.content}
                previews[job.source] = self._preview(mechanism, job.source, found)
                asked |= charged
            except (ValueError, OSError, RuntimeError) as error:
                failed.append(_failed(job.source, error))
        refusals = self._refusals(asked, mechanism, ledger)
        for source, refusal in refusals:
            previews.pop(source)
            failed.append(_failed(source, refusal))
        return previews, failed, bool(asked) and not refusals

    def _refusals(
        self, asked: dict[Path, Content], mechanism: Mechanism, ledger: Ledger | None
    ) -> list[tuple[Path, Exception]]:
        """The files that the ledger would refuse, one after another in this order, and why."""
        if ledger is None or not asked:
            return []
        said = ledger.quote_all(asked.values(), mechanism, with_sound=self.keep_audio)
        pairs = zip(asked, said, strict=True)
        return [(source, error) for source, error in pairs if error is not None]


def _receipt(target: Path) -> Receipt:
    return Receipt.from_json(outputs.receipt_path(target).read_text(encoding="utf-8"))


def _failed(source: Path, error: Exception) -> Outcome:
    return Outcome(source=source, error=message(error), exit_code=exit_code(error))


def _left_alone(planned: Plan) -> list[str]:
    said = {
        "of no kind that is read": planned.left_alone,
        "hidden, or in a hidden folder": planned.hidden,
    }
    return [f"Left alone: {counted(n, 'file')} {what}." for what, n in said.items() if n]


def _swept(count: int) -> list[str]:
    return [f"Removed {counted(count, 'unfinished file')} of a run that was stopped."] * bool(count)


def _about_names(names: Path | None) -> str:
    if names is None:
        return "Names are published as they are and may identify people."
    return f"Names are opaque; which is which stands in {names}, which is private."


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "source": str(outcome.source),
        "output": None if outcome.target is None else str(outcome.target),
        "already_done": outcome.already_done,
        "error": outcome.error,
        "exit_code": outcome.exit_code,
    }


COMMAND = ReleaseFile
