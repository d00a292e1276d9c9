"""Everything in one command: the papers' claims, releases with receipts, a model, a page."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from masquerade.account import epsilon
from masquerade.account.calibrate import sampled_gaussian
from masquerade.account.verdict import Verdict
from masquerade.compute.progress import bars, teller
from masquerade.doors import Answer
from masquerade.doors.publish import IfStanding
from masquerade.doors.recording import Options, make_mechanism, release_file
from masquerade.files import atomic
from masquerade.guarantee import Relation
from masquerade.receipt import Receipt, receipt_path
from masquerade.recipes import audits, films, learners, mask_dp_text, papers, wearers, world
from masquerade.recipes.budget import spend_until_refused
from masquerade.report import page, plot
from masquerade.wording import explain

MINUTES = 1440  # one day of a wearable, a number a minute
MOST_STEPS = 200.0  # a minute; public: nobody's pace is read from the data
AVERAGED = 61  # minutes; averaging what was released is free
SAMPLING_PROB, STEPS, DELTA = 0.01, 1000, 1e-5
MULTIPLIERS = np.geomspace(0.6, 20, 9)


def steps_of_a_day(*, rng: np.random.Generator) -> np.ndarray:
    """Steps a minute of a person who never lived: two walks, errands, a night's sleep."""
    minute = np.arange(MINUTES)
    pace = 8.0 * ((minute > 420) & (minute < 1380))
    for start, length, speed in ((455, 70, 105), (770, 45, 80), (1030, 110, 120)):
        pace = pace + speed * ((minute >= start) & (minute < start + length))
    drawn = rng.gamma(4.0, np.maximum(pace, 1e-6) / 4.0)
    return np.asarray(np.round(drawn).clip(0, MOST_STEPS))


def noise_plot(progress: Progress) -> str:
    """Epsilon against the noise multiplier, for the relations."""
    curves = [
        ("zero_out", Relation.ZERO_OUT, False),
        ("add_remove", Relation.ADD_REMOVE, False),
        ("replace_one", Relation.REPLACE_ONE, False),
        ("revealed, zero_out", Relation.ZERO_OUT, True),
        ("revealed, replace_one", Relation.REPLACE_ONE, True),
    ]
    task = progress.add_task("epsilon against noise", total=len(curves) * len(MULTIPLIERS))
    lines = []
    for name, relation, is_revealed in curves:
        found = []
        for z in MULTIPLIERS.tolist():
            event = sampled_gaussian(
                z, sampling_prob=SAMPLING_PROB, steps=STEPS, is_revealed=is_revealed
            )
            found.append(epsilon(event, delta=DELTA, relation=relation))
            progress.advance(task)
        lines.append(plot.Line(name=name, x=MULTIPLIERS, y=np.array(found)))
    axes = plot.Axes(
        title=f"Poisson sampling, q = {SAMPLING_PROB:g}, {STEPS} steps, delta = {DELTA:g}",
        x_label="noise multiplier",
        y_label="epsilon",
        is_log=True,
    )
    return plot.svg(lines, axes)


def signal_plot(original: np.ndarray, released: np.ndarray) -> str:
    """The day before and after, and after averaging what was released."""
    hours = np.arange(MINUTES) / 60
    window = np.ones(AVERAGED) / AVERAGED
    lines = [
        plot.Line(name="released", x=hours, y=released, is_faint=True),
        plot.Line(name="original", x=hours, y=original, is_faint=True),
        plot.Line(name="released, averaged", x=hours, y=np.convolve(released, window, "same")),
        plot.Line(name="original, averaged", x=hours, y=np.convolve(original, window, "same")),
    ]
    axes = plot.Axes(title="Steps of one day", x_label="hour", y_label="steps a minute")
    return plot.svg(lines, axes)


def sections(
    verdicts: list[Verdict],
    pictures: tuple[str, str],
    receipt: Receipt,
    story: list[str],
    evidence: list[tuple[str, ...]],
    videos: list[page.Section],
) -> list[page.Section]:
    """The page's parts, in reading order."""
    arithmetic = "".join(
        f"<h3>{verdict.paper}</h3>\n"
        + page.paragraphs([verdict.title + ".", verdict.reason])
        + page.listing(verdict.arithmetic)
        for verdict in verdicts
    )
    return [
        page.Section(
            title="Five papers: claimed, and true",
            body=page.table(papers.HEADING, [papers.row(verdict) for verdict in verdicts]),
        ),
        page.Section(title="The arithmetic behind each row", body=arithmetic),
        page.Section(
            title="Claim and evidence",
            body=page.paragraphs(
                ["Each claim is played against its worst case; an audit can refute, never prove."]
            )
            + page.table(audits.HEADING, evidence),
        ),
        page.Section(
            title="Epsilon against noise",
            body=page.figure(pictures[0])
            + page.paragraphs(["zero_out and add_remove coincide here."]),
        ),
        page.Section(
            title="A released signal",
            body=page.paragraphs(["Generated data, so the original can be shown beside it."])
            + page.figure(pictures[1]),
            has_originals=True,
        ),
        page.receipt_section("Its receipt, in plain words", receipt),
        *videos,
        page.Section(title="An account that cannot be overdrawn", body=page.listing(story)),
    ]


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
        private, target = self.out / "steps.private.csv", self.out / "steps.csv"
        original = steps_of_a_day(rng=np.random.default_rng(self.seed))
        text = "steps\n" + "".join(f"{value:g}\n" for value in original)
        atomic.write_whole(private, text.encode())
        mechanism = make_mechanism(
            "gaussian_noise", epsilon=8.0, delta=1e-5, unit="frame", low=0.0, high=MOST_STEPS
        )
        with bars() as progress:
            task = progress.add_task("judging the papers", total=len(papers.PAPERS))
            verdicts = papers.judge(lambda _: progress.advance(task))
            noise_svg = noise_plot(progress)
            chosen = audits.games(is_long=False)
            task = progress.add_task("audits", total=len(chosen))
            played = audits.play_all(chosen, lambda _: progress.advance(task))
            task = progress.add_task("releasing a video", total=len(films.ways()))
            clip = films.release_all(self.out, lambda _: progress.advance(task))
            learned = learners.learn(teller(progress))
            worn = wearers.learn(teller(progress))
        people = _people(self.out)
        evidence = [audits.row(name, *pair) for name, pair in played.items()]
        story = spend_until_refused(self.out, high=MOST_STEPS)
        again = Options(heading=True, if_standing=IfStanding.OVERWRITE)
        done = release_file(private, target, mechanism, options=again)
        released = np.loadtxt(target, skiprows=1)
        signal_svg = signal_plot(original, released)
        report = self.out / "report.html"
        written = page.page(
            "Masquerade",
            sections(
                verdicts,
                (noise_svg, signal_svg),
                done.receipt,
                story,
                evidence,
                [*people, *films.sections(*clip), learners.section(learned), wearers.section(worn)],
            ),
            lead="Everyone dances; nobody is recognised.",
        )
        atomic.write_whole(report, written.encode())
        return Answer(
            data={
                "report": str(report),
                "released": str(target),
                "papers": {verdict.paper: verdict.valid for verdict in verdicts},
                "videos": {shown.name: str(shown.path) for shown in clip[2]},
                "audits": {name: pair[1].epsilon_at_least for name, pair in played.items()},
                "training": learners.plain(learned),
                "wearers": wearers.plain(worn),
            },
            lines=[
                _table("Five papers: claimed, and true", papers.HEADING, map(papers.row, verdicts)),
                _table("Claim and evidence", audits.HEADING, evidence),
                _table("A released video", films.HEADING, map(films.row, clip[2])),
                clip[0],
                "",
                _table("A model, trained privately", learners.HEADING, learners.rows(learned)),
                *mask_dp_text.sentences(learned.found),
                "",
                _table("Worn sensors: teachers who vote", wearers.HEADING, wearers.rows(worn)),
                *wearers.sentences(worn),
                "",
                f"Released {target}, one day of steps, one number a minute. Its receipt "
                f"({receipt_path(target).name}) says:",
                *(f"  {line}" for line in explain(done.receipt.guarantee)),
                "",
                *story,
                "",
                f"The page: {report}",
            ],
        )


def _people(folder: Path) -> list[page.Section]:
    """Stage's pictures, also as files."""
    drawn = world.pictures()
    for name, text in drawn.items():
        atomic.write_whole(folder / f"stage-{name}", text.encode())
    return world.sections(drawn)


def _table(title: str, heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    stream = io.StringIO()
    shown = Table(*heading, title=title, show_lines=True)
    for row in rows:
        shown.add_row(*row)
    Console(file=stream, width=132).print(shown)
    return stream.getvalue()


EXAMPLE = Demo()
