"""Write docs/results.md, the short page, from the long pages that the experiments write.

Nothing is typed: a table, a plot and the sentences of each paper's section are taken over as they
stand. Run it after an experiment has written its section; a test fails where it was forgotten.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
_ORIGINS = ("`masquerade ", "`python -m experiments ")  # how the line begins that made a section
_LEAD = """# The papers' experiments

One table and one plot for each paper; [all tables, plots and sentences](#all-of-it) stand on
pages of their own. Accuracy is Top-1 in per cent on people whom nobody saw in training. An
epsilon is that of one run alone, with its unit; a table as a whole costs more. Ahead and behind
mean by more than twice the standard error of the difference; the rest is not told apart. All of
it is on [Stage](stage.md), whose people never lived; with `--setting paper`, `--data` and
`--root` the same commands make the tables on the papers' own data. [In ten sentences: what
holds](what-holds.md).
"""
_ALL = """## All of it

Each section of these pages was written by the command that it names (`--page`), with its
machine, date and time. Every number and sentence there is computed, but for what is said to be
written by hand.

- [TEMPDIFF](results/tempdiff.md): forests and LSTMs, as published and by whole people,
  membership.
- [MaskDP](results/mask_dp.md): background or people private, both relations, more and less of
  the activity in the place, five times the recordings, membership.
- [Avatars](results/avatars.md): what is learned from films with avatars, and MaskDP on them.
- [Private poses](results/pose.md): seven rows over epsilon, rates that were tried, and what an
  attacker reads from psi.
- [Video-DPRP](results/video_dprp.md): the five tables, what attackers tell of people, and where
  faces are large.
"""


@dataclass(frozen=True, kw_only=True)
class Excerpt:
    """What the short page takes of a long one.

    Args:
        title: on the short page.
        page: the long one's name.
        section: the start of its heading there.
        table: the start of the heading above the table.
        plot: the picture's name.
        sentences: how those that are taken begin.
    """

    title: str
    page: str
    section: str
    table: str
    plot: str
    sentences: tuple[str, ...]


EXCERPTS = (
    Excerpt(
        title="Video-DPRP: epsilon 2, 5 and 8 under replace_one, for what the second column names",
        page="video_dprp",
        section="Video-DPRP: releases",
        table="Table 2",
        plot="video_dprp_2",
        sentences=(
            "Learning from raw recordings",
            "That `video_dprp, sound form",
            "As published, from epsilon 2",
        ),
    ),
    Excerpt(
        title="MaskDP: epsilon for the private pixels of one recording, or the whole of it",
        page="mask_dp",
        section="MaskDP, background private",
        table="Top-1, epsilon of one recording",
        plot="mask_dp_top_1",
        sentences=(
            "MaskDP against public part only",
            "MaskDP against DP",
            "DP against public weights alone",
            "Equal numbers",
        ),
    ),
    Excerpt(
        title="Private poses: PCKh@0.5, epsilon for one person in one photo",
        page="pose",
        section="Last stage: poses, tiny_vit_small",
        table="Trained: last stage",
        plot="pose_last_stage",
        sentences=(
            "last stage, all norms and head, epsilon 0.2",
            "last stage, all norms and head, epsilon 0.8",
            "Rates, lambda, the size of blocks",
        ),
    ),
    Excerpt(
        title="TEMPDIFF: epsilon for one person",
        page="tempdiff",
        section="TEMPDIFF with forests",
        table="Shards of whole people",
        plot="tempdiff_stage_forest_person",
        sentences=(
            "TEMPDIFF against PATE",
            "What the paper would print",
            "Votes against public data alone",
            "Votes against DP-SGD",
        ),
    ),
)


def short() -> str:
    """The whole short page, from the long ones as they are."""
    return "\n".join([_LEAD, *map(_taken, EXCERPTS), _ALL])


def _taken(one: Excerpt) -> str:
    page = (DOCS / "results" / f"{one.page}.md").read_text(encoding="utf-8")
    section = _part(page, "## ", one.section)
    origin = next(line for line in section.splitlines() if line.startswith(_ORIGINS))
    under = _part(section, "### ", one.table)
    table = [line for line in under.splitlines() if line.startswith("|")]
    points = [line for line in section.splitlines() if line.startswith("- ")]
    said = [
        next(line for line in points if line.startswith(f"- {begin}")) for begin in one.sentences
    ]
    picture = f"![{one.title}](results/{one.plot}.svg)"
    return "\n".join([f"## {one.title}", "", origin, "", *table, "", picture, "", *said, ""])


def _part(text: str, mark: str, begin: str) -> str:
    """From a heading that begins so to the next one of its rank."""
    found = re.split(rf"^{mark}", text, flags=re.MULTILINE)
    return next(part for part in found if part.startswith(begin))


if __name__ == "__main__":
    (DOCS / "results.md").write_text(short(), encoding="utf-8")
    print(f"{DOCS.name}/results.md: {len(short().splitlines())} lines")
