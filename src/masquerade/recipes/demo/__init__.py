"""Everything in one command: systems that hide people, attackers against them, one table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from masquerade import catalog
from masquerade.io import atomic
from masquerade.recipes import bench
from masquerade.recipes.demo import (
    avatars,
    budget,
    claims,
    clip,
    places,
    pose,
    sensor_model,
    steps,
    strip,
    video_model,
)
from masquerade.recipes.demo.chapter import SYSTEMS, Chapter, table
from masquerade.recipes.stage import world
from masquerade.report import page
from masquerade.report.page import PagePart
from masquerade.result import Answer

_ON_SCREEN = ("papers", "audits", "account")  # the rest is on the page


@dataclass(frozen=True, kw_only=True)
class Demo:
    """Run the systems small on people who never lived, attack and audit them, write one page.

    Args:
        out: folder for the page and the released files.
        seed: of the generated person; the noise is never seeded.
    """

    out: Path = Path("out")
    seed: int = 7

    def run(self) -> Answer:
        """Print one table, write ``report.html`` with everything else."""
        self.out.mkdir(parents=True, exist_ok=True)
        work: dict[str, Callable[[bench.Told], Chapter]] = {
            "clip": partial(clip.released, self.out),
            "papers": claims.judged,
            "audits": claims.played,
            "noise": steps.noise,
            "steps": lambda _: steps.released(self.out, seed=self.seed),
            "people": lambda _: _people(self.out),
            "places": partial(places.hidden, self.out),
            "avatars": partial(avatars.replaced, self.out),
            "videos": video_model.learned,
            "poses": partial(pose.learned, self.out),
            "sensors": sensor_model.learned,
        }
        if "avatar" not in catalog.names("mechanisms"):
            del work["avatars"]
        timed = {}
        with bench.telling() as told:
            for place, (name, chapter) in enumerate(work.items(), 1):
                called = f"{name} (part {place} of {len(work) + 1})"
                told(called, 0, 1)
                timed[name] = _timed(partial(chapter, _name_part(called, told)))
        timed["account"] = _timed(partial(budget.spent, self.out))  # forks, so without a bar
        return self._told(timed)

    def _told(self, timed: dict[str, tuple[Chapter, float]]) -> Answer:
        """The page and the answer of chapters, each with its seconds."""
        systems = [
            {**asdict(line), "seconds": f"{seconds:.0f}"}
            for chapter, seconds in timed.values()
            for line in chapter.systems
        ]
        rows = [tuple(line.values()) for line in systems]
        title = "People who never lived, hidden in several ways"
        body = page.table(SYSTEMS, rows, says=title)
        one_table = page.Section(title=title, body=body, has_originals=True, part=PagePart.ATTACKS)
        chapters = {name: chapter for name, (chapter, _) in timed.items()}
        sections = [section for chapter in chapters.values() for section in chapter.sections]
        lead = "Everyone dances; nobody is recognised."
        report = self.out / "report.html"
        atomic.write_whole(
            report, page.page("Masquerade", [one_table, *sections], lead=lead).encode()
        )
        strip.write(self.out)
        atomic.write_whole(self.out / "systems.md", bench.table(SYSTEMS, rows).encode())
        data = {
            name: value for chapter in chapters.values() for name, value in chapter.data.items()
        }
        lines = [line for name in _ON_SCREEN for line in chapters[name].lines]
        return Answer(
            data={"report": str(report), "systems": systems, **data},
            lines=[
                *table(title, SYSTEMS, rows).splitlines(),
                *lines,
                f"Pictures and the rest: {report}",
            ],
        )


def _name_part(called: str, told: bench.Told) -> bench.Told:
    return lambda what, done, total: told(f"{called}: {what}", done, total)


def _timed(chapter: Callable[[], Chapter]) -> tuple[Chapter, float]:
    began = time.perf_counter()
    return chapter(), time.perf_counter() - began


def _people(folder: Path) -> Chapter:
    """Stage's pictures, also as files."""
    drawn = world.pictures()
    for name, text in drawn.items():
        atomic.write_whole(folder / f"stage-{name}", text.encode())
    return Chapter(sections=world.sections(drawn))


EXAMPLE = Demo()
