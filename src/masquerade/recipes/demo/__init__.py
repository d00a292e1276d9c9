"""Everything in one command: the papers' claims, releases with receipts, a model, a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from masquerade.doors.answer import Answer
from masquerade.files import atomic
from masquerade.recipes import audits, bench, papers
from masquerade.recipes.demo import clip, sensor_model, steps, video_model
from masquerade.recipes.demo import page as pages
from masquerade.recipes.demo.budget import spend_until_refused
from masquerade.recipes.stage import world


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
        original = steps.of_a_day(rng=np.random.default_rng(self.seed))
        private = steps.write(self.out, original)
        with bench.telling() as told:
            verdicts = papers.judge(told)
            noise = steps.noise_plot(told)
            played = audits.play_all(audits.games(is_long=False), told)
            clips = clip.release_all(self.out, told)
            learned = video_model.learn(told)
            worn = sensor_model.learn(told)
        people = world.pictures()
        for name, text in people.items():
            atomic.write_whole(self.out / f"stage-{name}", text.encode())
        found = pages.Found(
            verdicts=verdicts,
            noise=noise,
            played=played,
            people=people,
            clips=clips,
            learned=learned,
            worn=worn,
            account=spend_until_refused(self.out, high=steps.MOST),
            day=steps.release(private, original),
        )
        report = self.out / "report.html"
        atomic.write_whole(report, pages.html(found).encode())
        return Answer(
            data={"report": str(report), **pages.plain(found)},
            lines=[*pages.lines(found), "", f"The page: {report}"],
        )


EXAMPLE = Demo()
