"""Was this recording, or this person, learned from? Loss, LiRA and RMIA against a model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from masquerade import _check
from masquerade.attacks.attack import ModelAttack, ModelCase, Told
from masquerade.attacks.membership_scores import (
    RATES,
    Attacker,
    Guessed,
    Said,
    Shadows,
    by_loss,
    halves,
    lira,
    lira_offline,
    rmia,
    trained,
)
from masquerade.io.workers import count_jobs
from masquerade.scores import Attacked, Success


class Tried(NamedTuple):
    """One attacker's guesses: of the published model or way of training, and of what bounds it."""

    attacker: str
    published: Guessed
    ceiling: Guessed
    floor: Guessed


@dataclass(frozen=True, kw_only=True)
class Membership(ModelAttack):
    """Tell units that a model learned from, by models that are trained like it on other halves.

    The loss alone is the weakest attacker. LiRA [carlini2022] asks how usual the model's confidence
    is for models with this very unit, and without it; offline, without it alone. RMIA
    [zarifzadeh2024] compares the unit with others, each measured by what is usual for it.

    Args:
        shadows: models that the attacker trains, an even number.
        few: units of the ceiling's small world, in which models are overfitted; half are in each.
        gamma: of RMIA: how far a unit must stand out over another. At 2, as it is printed, a model
            that leaks little gives all units the same score.
        jobs: processes; 0 for one a core.
    """

    shadows: int = 32
    few: int = 64
    gamma: float = 1.0
    jobs: int = 0

    def __post_init__(self) -> None:
        _check.count(shadows=self.shadows, few=self.few)
        _check.positive(gamma=self.gamma)
        halves(4, self.shadows, rng=np.random.default_rng(0))  # says so if it is odd
        if self.few < 4:
            raise ValueError(f"Expected few to be 4 or more, got few={self.few}.")

    @property
    def attackers(self) -> dict[str, Attacker]:
        """By what each knows."""
        return {
            "LiRA, with and without": lira,
            "LiRA, without alone": lira_offline,
            "RMIA": partial(rmia, gamma=self.gamma),
            "loss": lambda attacked, shadows, members: by_loss(attacked),
        }

    def run(self, case: ModelCase, *, told: Told) -> tuple[Attacked, ...]:
        """The hits of each attacker beside what the guarantee allows."""
        return tuple(self.concluded(case, one) for one in self.tried(case, told=told))

    @property
    def processes(self) -> int:
        """How many work at once."""
        return count_jobs(self.jobs)

    def halves(self, case: ModelCase) -> np.ndarray:
        """(M, U) bool: which units each shadow model learns from."""
        return halves(case.units, self.shadows, rng=np.random.default_rng((case.seed, 0)))

    def leaky(self, case: ModelCase, *, told: Told) -> Shadows:
        """Models of the ceiling: overfitted, each to half of the same few units."""
        rng = np.random.default_rng((case.seed, 1))
        few = rng.permutation(case.units)[: self.few]
        inside = np.zeros((self.shadows, case.units), bool)
        inside[:, few] = halves(len(few), self.shadows, rng=rng)
        return trained(case, case.overfit, inside, jobs=self.processes, told=told)

    def tried(
        self, case: ModelCase, *, told: Told, leaky: Shadows | None = None
    ) -> tuple[Tried, ...]:
        """Every attacker's guesses; the ceiling's models are trained unless they are given."""
        shadows = trained(case, case.learn, self.halves(case), jobs=self.processes, told=told)
        leaky = leaky or self.leaky(case, told=told)
        few = np.flatnonzero(leaky.members.any(axis=0))
        coins = np.random.default_rng((case.seed, 2)).random(shadows.members.size) < 0.5
        found = []
        for name, score in self.attackers.items():
            each = Guessed.of(shadows.in_turn(score), shadows.members)
            found.append(
                Tried(
                    attacker=name,
                    published=_published(case, shadows, score) or each,
                    ceiling=_among(leaky, score, few),
                    floor=each.only(~each.truth, coins),
                )
            )
        return tuple(found)

    def concluded(self, case: ModelCase, tried: Tried) -> Attacked:
        """In figures, with what they mean."""
        published, ceiling, floor = (
            guessed.figures(of=case.of, seed=case.seed)
            for guessed in (tried.published, tried.ceiling, tried.floor)
        )
        return Attacked(
            attack="membership",
            attacker=f"{tried.attacker}; {self.shadows} shadow models, half of {case.units} "
            f"{case.of} in each",
            published=published,
            ceiling=ceiling,
            floor=floor,
            notes=(*_beside(case, published), *_resolved(tried.published), *_BOUNDS),
        )


_BOUNDS = (
    "The ceiling is a model that was trained on few of them without noise and for long, the floor "
    "models that never saw those they were asked for.",
)


def _published(case: ModelCase, shadows: Shadows, score: Attacker) -> Guessed | None:
    """Guesses of the one published model, if there is one."""
    if case.outputs is None or case.members is None:
        return None
    said = Said.of(case.outputs, case.targets, case.whose)
    return Guessed.of(shadows.against(said, score), case.members[None])


def _among(shadows: Shadows, score: Attacker, few: np.ndarray) -> Guessed:
    """Guesses of some units alone; the others were in no model."""
    said = Said(sure=shadows.said.sure[:, few], chance=shadows.said.chance[:, few])
    small = Shadows(said=said, members=shadows.members[:, few])
    return Guessed.of(small.in_turn(score), small.members)


def _beside(case: ModelCase, figures: tuple[Success, ...]) -> tuple[str, ...]:
    """What the guarantee allows beside what was measured."""
    if case.allowed is None:
        return ("No guarantee: nothing bounds how often an attacker is right.",)
    said = []
    for rate, figure in zip(RATES, figures, strict=False):
        most = min(1.0, case.allowed(rate))
        word = "more than" if figure.low > most else "within what"
        said.append(
            f"At {rate:.1%} false alarms {figure.value:.2%} are found ({figure.low:.2%} to "
            f"{figure.high:.2%}), {word} the guarantee allows: {most:.2%}."
        )
    return tuple(said)


def _resolved(guessed: Guessed) -> tuple[str, ...]:
    outside = len(guessed.truth) - int(guessed.truth.sum())
    return tuple(
        f"Only {outside} guesses are of units that were not learned from: at {rate:.1%} false "
        "alarms none may be wrong."
        for rate in RATES
        if outside * rate < 1
    )
