"""Everything in one command: the papers' claims, releases with receipts, a model, a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from masquerade.doors import Answer
from masquerade.files import atomic
from masquerade.recipes import bench
from masquerade.recipes.demo import budget, claims, clip, sensor_model, steps, video_model
from masquerade.recipes.demo.chapter import Chapter
from masquerade.recipes.stage import world
from masquerade.report import page

_ON_SCREEN = ("papers", "audits", "clip", "videos", "sensors", "steps", "account")


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Judge the papers, release a signal and a video, train a model, and write a page of it all.

    Args:
        out: folder for the page and the released files.
        seed: of the generated person; the noise is never seeded.
    """

    out: Path = Path("out")
    seed: int = 7

    def run(self) -> Answer:
        """Print the table and the receipt in words, write ``report.html``."""
        self.out.mkdir(parents=True, exist_ok=True)
        with bench.telling() as told:
            chapters: dict[str, Chapter] = {
                "papers": claims.judged(told),
                "audits": claims.played(told),
                "noise": steps.noise(told),
                "steps": steps.released(self.out, seed=self.seed),
                "people": _people(self.out),
                "clip": clip.released(self.out, told),
                "videos": video_model.learned(told),
                "sensors": sensor_model.learned(told),
            }
        chapters["account"] = budget.spent(self.out)  # forks, so without a bar
        report = self.out / "report.html"
        sections = [section for chapter in chapters.values() for section in chapter.sections]
        written = page.page("Masquerade", sections, lead="Everyone dances; nobody is recognised.")
        atomic.write_whole(report, written.encode())
        data = {
            name: value for chapter in chapters.values() for name, value in chapter.data.items()
        }
        lines = [line for name in _ON_SCREEN for line in chapters[name].lines]
        return Answer(data={"report": str(report), **data}, lines=[*lines, f"The page: {report}"])


def _people(folder: Path) -> Chapter:
    """Stage's pictures, also as files."""
    drawn = world.pictures()
    for name, text in drawn.items():
        atomic.write_whole(folder / f"stage-{name}", text.encode())
    return Chapter(sections=world.sections(drawn))


EXAMPLE = Demo()
