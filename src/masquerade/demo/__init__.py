"""Everything in one command: systems that hide people, attackers against them, one table."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from masquerade import catalog, progress
from masquerade.demo import claims, films, pose, sensors, steps, video_model
from masquerade.demo.steps import SYSTEM_HEADING, Chapter, Progress, draw_table, write_table
from masquerade.io import atomic
from masquerade.report import page
from masquerade.report.page import PagePart
from masquerade.result import CommandResult

_SCREEN_CHAPTERS = ("papers", "audits", "account")  # the rest is on the page


def run_demo(out: Path, *, seed: int) -> CommandResult:
    """Run every chapter, write ``report.html`` and the released files; one table is printed.

    Args:
        out: folder for the page and the released files.
        seed: of the generated person; the noise is never seeded.
    """
    out.mkdir(parents=True, exist_ok=True)
    work: dict[str, Callable[[Progress], Chapter]] = {
        "clip": partial(films.make_clip_chapter, out),
        "papers": claims.make_paper_chapter,
        "audits": claims.make_audit_chapter,
        "noise": claims.make_noise_chapter,
        "steps": lambda _: steps.make_steps_chapter(out, seed=seed),
        "people": lambda _: films.make_stage_chapter(out),
        "places": partial(films.make_place_chapter, out),
        "avatars": partial(films.make_avatar_chapter, out),
        "videos": video_model.make_chapter,
        "poses": partial(pose.make_chapter, out),
        "sensors": sensors.make_chapter,
    }
    if "avatar" not in catalog.list_entries("mechanisms"):
        del work["avatars"]
    timed = {}
    with progress.show_steps() as shown:
        for place, (name, make) in enumerate(work.items(), 1):
            called = f"{name} (part {place} of {len(work) + 1})"
            shown(called, 0, 1)
            timed[name] = _time_chapter(partial(make, _name_part(called, shown)))
    # it forks, so without a bar
    timed["account"] = _time_chapter(partial(steps.make_budget_chapter, out))
    return _write_page(out, timed)


def _name_part(called: str, shown: Progress) -> Progress:
    return lambda what, done, total: shown(f"{called}: {what}", done, total)


def _time_chapter(make: Callable[[], Chapter]) -> tuple[Chapter, float]:
    began = time.perf_counter()
    return make(), time.perf_counter() - began


def _write_page(out: Path, timed: dict[str, tuple[Chapter, float]]) -> CommandResult:
    """The page and the answer of chapters, each with its seconds."""
    systems = [
        {**asdict(line), "seconds": f"{seconds:.0f}"}
        for chapter, seconds in timed.values()
        for line in chapter.systems
    ]
    rows = [tuple(line.values()) for line in systems]
    title = "People who never lived, hidden in several ways"
    body = page.format_table(SYSTEM_HEADING, rows, says=title)
    one_table = page.Section(title=title, body=body, has_originals=True, part=PagePart.ATTACKS)
    chapters = {name: chapter for name, (chapter, _) in timed.items()}
    sections = [section for chapter in chapters.values() for section in chapter.sections]
    lead, report = "Everyone dances; nobody is recognised.", out / "report.html"
    whole = page.render_page("Masquerade", [one_table, *sections], lead=lead)
    atomic.write_whole(report, whole.encode())
    films.write_strip(out)
    atomic.write_whole(out / "systems.md", write_table(SYSTEM_HEADING, rows).encode())
    data = {name: value for chapter in chapters.values() for name, value in chapter.data.items()}
    lines = [line for name in _SCREEN_CHAPTERS for line in chapters[name].lines]
    return CommandResult(
        data={"report": str(report), "systems": systems, **data},
        lines=[
            *draw_table(title, SYSTEM_HEADING, rows).splitlines(),
            *lines,
            f"Pictures and the rest: {report}",
        ],
    )
