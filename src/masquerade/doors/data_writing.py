"""Write the recordings of Stage as files, to be released, masked or attacked like anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from masquerade.collection import Collection, Recording
from masquerade.compute.progress import bars
from masquerade.data.manifest_table import ManifestRow, as_csv
from masquerade.data.stage import Stage
from masquerade.doors import Answer
from masquerade.files import atomic
from masquerade.recordings import Photo, Video
from masquerade.video import write


@dataclass(frozen=True, kw_only=True)
class WriteData:
    """Write recordings of Stage as files: .mp4, .png or .npy, under their names in the data set.

    Beside the folder stands a table of the same name, .csv, of who does what and where, which the
    data set ``manifest`` reads.

    Args:
        out: folder for them; it is made. A file that stands there is left alone.
        exact: keep every value of a video (.mkv); by default it is visually lossless.
    """

    ENTRY: ClassVar[tuple[str, str]] = ("", "data")

    out: Path = Path("out/stage")
    exact: bool = False

    def run(self, entry: Collection[Any]) -> Answer:
        """Draw and write one after the other."""
        if not isinstance(entry, Stage):
            raise ValueError("Expected stage: other data sets are files already.")
        with bars() as progress:
            task = progress.add_task("writing", total=len(entry))
            written = []
            for path in write_stage(entry, self.out, exact=self.exact):
                written.append(path)
                progress.advance(task)
        table = write_table(entry, self.out, written)
        return Answer(
            data={"files": len(entry), "folder": str(self.out), "table": str(table)},
            lines=[
                f"{len(entry)} {entry.kind} of {entry.part_name} in {self.out}.",
                f"Who does what and where: {table}.",
            ],
        )


def write_stage(stage: Stage, out: Path, *, exact: bool = False) -> Iterator[Path]:
    """Write the recordings of a world as files, and give each file's path."""
    for index, labels in enumerate(stage.labels):
        bare = out / labels.name
        suffix = {"videos": ".mkv" if exact else ".mp4", "photos": ".png"}.get(stage.kind, ".npy")
        path = bare.with_name(bare.name + suffix)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_recording(stage[index], path, exact=exact)
        yield path


def write_table(stage: Stage, out: Path, written: Sequence[Path]) -> Path:
    """Write what is known of the files of a world, one row each, and give the table's path."""
    own = [name for name in stage.parts if name != "all"]
    splits = {known.name: name for name in own for known in stage.part(name).labels}
    rows = [
        ManifestRow(
            line=place,
            path=path.relative_to(out.parent).as_posix(),
            activity=known.activity,
            subject=known.subject,
            split=splits.get(known.name),
            place=known.place,
            view=known.view,
        )
        for place, (known, path) in enumerate(zip(stage.labels, written, strict=True), 2)
    ]
    table = out.with_name(f"{out.name}.csv")  # not inside: what is inside gets released
    atomic.write_whole(table, as_csv(rows).encode())
    return table


def write_recording(recording: Recording, path: Path, *, exact: bool = False) -> None:
    """Write one recording under a name that is free: .mp4 or .mkv, .png, or .npy."""
    with atomic.staged(path, replaces=False) as part:
        if isinstance(recording, Video):
            rate = Fraction(recording.rate_hz).limit_denominator(1_001)
            write.write(part.stream, recording.frames, suffix=path.suffix, rate=rate, exact=exact)
        elif isinstance(recording, Photo):
            write.write(part.stream, recording.image[None], suffix=path.suffix, rate=Fraction(1))
        else:
            np.save(part.stream, recording.values)
        part.seal()
        part.name()
