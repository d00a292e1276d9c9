"""The docs page on audits: every claim that can be played, beside what was measured."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from masquerade._formatting import shown, shown_below
from masquerade.audits.confident_votes import ConfidentVotes
from masquerade.audits.game import Claim, Game, MechanismGame
from masquerade.audits.gnmax_votes import GnmaxVotes
from masquerade.audits.gumbel_votes import GumbelVotes
from masquerade.audits.mask_dp_batches import MaskDpBatches
from masquerade.audits.tempdiff_votes import TempdiffVotes
from masquerade.audits.video_dprp_value import VideoDprpValue
from masquerade.io import atomic
from masquerade.publish.audits import audit_game
from masquerade.publish.recording import make_mechanism
from masquerade.recipes import bench
from masquerade.result import Answer
from masquerade.scores import Evidence

SECTION = "## Training, with canaries"  # which benchmarks/audit_one_run.py writes
HEADING = (
    *("game", "claim", "evidence: at least", "so many show at most", "trials a world"),
    *("verdict", "assumes"),
)


def _noise(epsilon: float, trials: int) -> Game:
    mechanism = make_mechanism(
        "gaussian_noise", epsilon=epsilon, delta=1e-5, unit="frame", low=0.0, high=1.0
    )
    return MechanismGame(mechanism=mechanism, trials=trials)


def _video(name: str, trials: int, **fields: Any) -> Game:
    mechanism = make_mechanism(name, epsilon=8.0, delta=1e-4, **fields)
    return MechanismGame(mechanism=mechanism, trials=trials)


def _published_frames() -> Game:
    """The paper's setting in small: one frame changes, and only released 8-bit frames are seen."""
    mechanism = make_mechanism(
        "video_dprp", form="as_published", epsilon=8.0, delta=1e-4, unit="frame", columns=48
    )
    return MechanismGame(mechanism=mechanism, trials=60_000, shape=(1, 16, 16, 3), sees="video")


def games(*, is_long: bool) -> dict[str, Game]:
    """The games by name; the long ones see more of small epsilons."""
    short: dict[str, Game] = {
        "gaussian_noise, epsilon 8": _noise(8.0, 4_000),
        "gnmax_votes": GnmaxVotes(),
        "gumbel_votes": GumbelVotes(),
        "confident_votes": ConfidentVotes(trials=4_000),
        "video_dprp_value, published": VideoDprpValue(),
        "video_dprp_value, sound": VideoDprpValue(form="sound"),
        "mask_dp_batches, published": MaskDpBatches(),
        "mask_dp_batches, revealed": MaskDpBatches(form="revealed"),
        "mask_dp_batches, sound": MaskDpBatches(form="sound"),
        "tempdiff_votes, published": TempdiffVotes(),
        "tempdiff_votes, sound": TempdiffVotes(form="sound"),
    }
    if not is_long:
        return short
    one_step = MaskDpBatches(noise_multiplier=0.7, steps=1, trials=2_000_000)
    return short | {
        "gaussian_noise, epsilon 8": _noise(8.0, 10_000),
        "gaussian_noise, epsilon 2": _noise(2.0, 30_000),
        "gaussian_noise, epsilon 1": _noise(1.0, 120_000),
        "gnmax_votes, epsilon 2": GnmaxVotes(noise_std=27.1, trials=30_000),
        "confident_votes": ConfidentVotes(trials=30_000),
        "mask_dp_batches, published, one step": one_step,
        "mask_dp_batches, published, 300 steps": MaskDpBatches(steps=300, trials=30_000),
        "mask_dp_batches, published": MaskDpBatches(trials=100_000),
        "mask_dp_batches, sound": MaskDpBatches(form="sound", noise_multiplier=1.0, trials=60_000),
        "tempdiff_votes, sound, gamma .01": TempdiffVotes(form="sound", gamma=0.01, trials=20_000),
        "cosine_gaussian, 4 sites": _video("cosine_gaussian", 8_000, unit="pixels", pixels=4),
        "cosine_gaussian, frame": _video("cosine_gaussian", 8_000, unit="frame"),
        "pooled_gaussian, 4 sites": _video("pooled_gaussian", 8_000, unit="pixels", pixels=4),
        "public_mask_gaussian, 4 sites": _video(
            "public_mask_gaussian", 8_000, unit="pixels", pixels=4
        ),
        "video_dprp, orthonormal, frame": _video("video_dprp", 8_000, unit="frame", columns=16),
        "video_dprp, gaussian, frame": _video(
            "video_dprp", 8_000, unit="frame", columns=16, form="gaussian"
        ),
        "video_dprp, truncated, frame": _video(
            "video_dprp", 8_000, unit="frame", columns=16, form="truncated"
        ),
        "video_dprp, as published, frames seen": _published_frames(),
    }


def play_all(
    chosen: dict[str, Game], told: bench.Told = bench.quiet, *, confidence: float = 0.95
) -> dict[str, tuple[Claim, Evidence]]:
    """Claim and evidence of each game."""
    found = {}
    for name, game in chosen.items():
        found[name] = game.claim(), audit_game(game, confidence=confidence)
        told("audits", len(found), len(chosen))
    return found


def row(name: str, claim: Claim, evidence: Evidence) -> tuple[str, ...]:
    """One line of the table."""
    verdict = evidence.verdict(claim.epsilon).partition(":")[0].partition(".")[0]
    claimed = f"({shown(claim.epsilon)}, {shown(claim.delta)}) for one {claim.unit}: {claim.source}"
    measured = shown_below(evidence.epsilon_at_least, 4)
    most = "-" if evidence.most is None else shown_below(evidence.most, 4)
    return name, claimed, measured, most, str(evidence.trials), verdict, evidence.assumes


def markdown(found: dict[str, tuple[Claim, Evidence]]) -> str:
    """The docs page."""
    table = bench.table(HEADING, [row(name, *pair) for name, pair in found.items()])
    return (
        "# Audits: claim and evidence\n\n"
        "Written by `make audit` (`masquerade recipe audits --long`), at confidence 95 %. An audit "
        "plays the strongest attack that is known against the worst case and turns its successes "
        "into a lower bound on epsilon. It can refute a claim; it can never prove one. So many "
        "trials show no more than stands beside them, even if each is decided rightly; a larger "
        "claim they could not refute.\n\n"
        f"{table}\n"
    )


def kept(page: Path) -> str:
    """The section of a page that stands already and is written by another."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    _, heading, rest = text.partition(SECTION)
    return f"\n{heading}{rest}" if heading else ""


@dataclass(frozen=True, kw_only=True)
class Audits:
    """Play every game and write the docs page.

    Args:
        out: where the page goes.
        long: also the games that take minutes.
    """

    out: Path = Path("docs/audits.md")
    long: bool = False

    def run(self) -> Answer:
        """Play and write."""
        chosen = games(is_long=self.long)
        with bench.telling() as told:
            found = play_all(chosen, told)
        atomic.write_whole(self.out, (markdown(found) + kept(self.out)).encode())
        data = {name: dataclasses.asdict(pair[1]) for name, pair in found.items()}
        return Answer(data={"page": str(self.out), "evidence": data}, lines=[f"Wrote {self.out}."])


EXAMPLE = Audits()
