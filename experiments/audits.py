"""The docs page on audits: every claim that can be played, beside what was measured."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.engine import Task, show_progress
from experiments.pages import write_table
from masquerade.audits.game import Game, MechanismGame
from masquerade.audits.paper_games import MaskDpBatches
from masquerade.audits.vote_games import ConfidentVotes, GnmaxVotes, TempdiffVotes
from masquerade.io import atomic
from masquerade.publish.audits import (
    AUDIT_COLUMNS,
    Played,
    list_audit_rows,
    make_noise_game,
    make_short_games,
    play_games,
)
from masquerade.publish.recording import make_mechanism
from masquerade.result import CommandResult

SECTION = "## Training, with canaries"  # which benchmarks/audit_one_run.py writes
_SITES = {"unit": "pixels", "pixels": 4}
_FRAME = {"unit": "frame", "columns": 16}


def make_video_game(name: str, **fields: Any) -> Game:
    """A mechanism's own worst case."""
    mechanism = make_mechanism(name, epsilon=8.0, delta=1e-4, **fields)
    return MechanismGame(mechanism=mechanism, trials=8_000)


def make_published_game() -> Game:
    """The paper's setting in small: one frame changes, and only released 8-bit frames are seen."""
    mechanism = make_mechanism(
        "video_dprp", form="as_published", epsilon=8.0, delta=1e-4, unit="frame", columns=48
    )
    return MechanismGame(mechanism=mechanism, trials=60_000, shape=(1, 16, 16, 3), sees="video")


def make_long_games() -> dict[str, Game]:
    """The short ones and more, which see more of small epsilons."""
    one_step = MaskDpBatches(noise_multiplier=0.7, steps=1, trials=2_000_000)
    return make_short_games() | {
        "gaussian_noise, epsilon 8": make_noise_game(8.0, 10_000),
        "gaussian_noise, epsilon 2": make_noise_game(2.0, 30_000),
        "gaussian_noise, epsilon 1": make_noise_game(1.0, 120_000),
        "gnmax_votes, epsilon 2": GnmaxVotes(noise_std=27.1, trials=30_000),
        "confident_votes": ConfidentVotes(trials=30_000),
        "mask_dp_batches, published, one step": one_step,
        "mask_dp_batches, published, 300 steps": MaskDpBatches(steps=300, trials=30_000),
        "mask_dp_batches, published": MaskDpBatches(trials=100_000),
        "mask_dp_batches, sound": MaskDpBatches(form="sound", noise_multiplier=1.0, trials=60_000),
        "tempdiff_votes, sound, gamma .01": TempdiffVotes(form="sound", gamma=0.01, trials=20_000),
        "cosine_gaussian, 4 sites": make_video_game("cosine_gaussian", **_SITES),
        "cosine_gaussian, frame": make_video_game("cosine_gaussian", unit="frame"),
        "pooled_gaussian, 4 sites": make_video_game("pooled_gaussian", **_SITES),
        "public_mask_gaussian, 4 sites": make_video_game("public_mask_gaussian", **_SITES),
        "video_dprp, orthonormal, frame": make_video_game("video_dprp", **_FRAME),
        "video_dprp, gaussian, frame": make_video_game("video_dprp", **_FRAME, form="gaussian"),
        "video_dprp, truncated, frame": make_video_game("video_dprp", **_FRAME, form="truncated"),
        "video_dprp, as published, frames seen": make_published_game(),
    }


def write_page(played: Played) -> str:
    """The docs page."""
    return (
        "# Audits: claim and evidence\n\n"
        "Written by `make audit` (`python -m experiments audits --long`), at confidence 95 %. An "
        "audit plays the strongest attack that is known against the worst case and turns its "
        "successes into a lower bound on epsilon. It can refute a claim; it can never prove one. "
        "So many trials show no more than stands beside them, even if each is decided rightly; a "
        "larger claim they could not refute.\n\n"
        f"{write_table(AUDIT_COLUMNS, list_audit_rows(played))}\n"
    )


def read_section(page: Path) -> str:
    """The section of a page that stands already and is written by another."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    _, heading, rest = text.partition(SECTION)
    return f"\n{heading}{rest}" if heading else ""


@dataclass(frozen=True, kw_only=True)
class AuditsSettings:
    """Play every game and write the docs page."""

    out: Path = Path("docs/audits.md")  # where the page goes
    long: bool = False  # also the games that take minutes

    def run(self) -> CommandResult:
        """Play and write."""
        chosen = make_long_games() if self.long else make_short_games()
        with show_progress() as progress:
            played = play_games(chosen, progress)
        page = write_page(played) + read_section(self.out)
        atomic.write_whole(self.out, page.encode())
        data = {name: dataclasses.asdict(evidence) for name, (_, evidence) in played.items()}
        return CommandResult(
            data={"page": str(self.out), "evidence": data}, lines=[f"Wrote {self.out}."]
        )


EXPERIMENT = Task(settings=AuditsSettings)
