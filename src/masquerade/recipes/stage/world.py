"""Stage in pictures: the contact sheet, the film, and one video with all that is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from masquerade.collection import Medium
from masquerade.datasets.stage import Stage
from masquerade.io import atomic
from masquerade.io.video import write as writer
from masquerade.progress import waiting
from masquerade.publish import sheets
from masquerade.recordings import Video
from masquerade.report import page
from masquerade.result import Answer

FILM = Stage(height=120, width=160, frames=64, rate_hz=25.0, bystanders=0.0)
_SHEET = Stage(height=96, width=96, split="test")
_PHOTOS = Stage(kind=Medium.PHOTOS, split="test", joints="coco")
_TOGETHER = 2  # someone who jumps


def clip(index: int = 0) -> Video:
    """A short video of somebody who never lived."""
    made = FILM[index]
    if not isinstance(made, Video):
        raise TypeError(f"Expected a video, got {type(made).__name__}.")
    return made


def portrait(subject: int = 1) -> Video:
    """Another one from near by."""
    return FILM.portrait(subject)


def write(path: Path | str, video: Video | None = None) -> Path:
    """Write the clip, or another video, to a file such as ``clip.mp4``; give back its path."""
    video, path = video or clip(), Path(path)
    rate = Fraction(video.rate_hz).limit_denominator(1001)
    with atomic.staged(path) as part:
        writer.write(part.stream, iter(video.frames), suffix=path.suffix, rate=rate)
        part.seal()
        part.name()
    return path


def pictures() -> dict[str, str]:
    """The sheets, as SVG text by file name."""
    chosen = [_SHEET[index] for index in sheets.pick(_SHEET, 12)]
    photos = [_PHOTOS[index] for index in range(16)]
    return {
        "sheet.svg": sheets.video_sheet(chosen),  # type: ignore[arg-type]
        "photos.svg": sheets.photo_sheet(photos, _PHOTOS.joint_names),  # type: ignore[arg-type]
        "together.svg": sheets.together(_SHEET, _TOGETHER),
    }


def sections(drawn: dict[str, str]) -> list[page.Section]:
    """Stage on the page: nobody in it ever lived, so it can be shown to all."""
    words = {
        "together.svg": "One video, its person mask, its joints, and what an accelerometer at the "
        "wrist would have read (m/s2).",
        "sheet.svg": "The activities, done by people of the test split at places drawn by chance.",
    }
    body = page.paragraphs(
        ["Bodies, motion, places and sensors are generated; every label is exact."]
    )
    for name, said in words.items():
        body += page.paragraphs([said]) + page.figure(drawn[name])
    return [
        page.Section(title="Stage: people who never lived", body=body, part=page.PagePart.APPENDIX)
    ]


@dataclass(frozen=True, kw_only=True)
class World:
    """Write the pictures of Stage that stand in the docs.

    Args:
        out: folder for them; it is made.
    """

    out: Path = Path("docs/stage")

    def run(self) -> Answer:
        """Draw and write."""
        self.out.mkdir(parents=True, exist_ok=True)
        with waiting("drawing people", seconds=30):
            files = {name: text.encode() for name, text in pictures().items()}
            shown = [clip(index) for index in sheets.pick(FILM, 12)]
            files["film.mp4"] = sheets.film(shown)
        for name, data in files.items():
            atomic.write_whole(self.out / name, data)
        lines = [f"Wrote {self.out / name}" for name in files]
        return Answer(data={"files": [str(self.out / name) for name in files]}, lines=lines)


EXAMPLE = World()
