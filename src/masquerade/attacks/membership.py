"""Was this recording, or this person, learned from? Loss, LiRA and RMIA against a model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from masquerade import _check
from masquerade.attacks.attack import ModelAttack, ModelCase, ProgressCallback
from masquerade.attacks.membership_scores import (
    FALSE_ALARM_RATES,
    Attacker,
    MemberGuesses,
    ShadowModels,
    UnitConfidences,
    sample_halves,
    score_by_lira,
    score_by_lira_offline,
    score_by_loss,
    score_by_rmia,
    train_shadows,
)
from masquerade.io.workers import count_jobs
from masquerade.scores import AttackResult, MeasuredRate


class AttackerGuesses(NamedTuple):
    """One attacker's guesses: of the published model or way of training, and of what bounds it."""

    attacker: str
    published: MemberGuesses
    ceiling: MemberGuesses
    floor: MemberGuesses


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
        sample_halves(4, self.shadows, rng=np.random.default_rng(0))  # says so if it is odd
        if self.few < 4:
            raise ValueError(f"Expected few to be 4 or more, got few={self.few}.")

    @property
    def attackers_by_name(self) -> dict[str, Attacker]:
        """By what each knows."""
        return {
            "LiRA, with and without": score_by_lira,
            "LiRA, without alone": score_by_lira_offline,
            "RMIA": partial(score_by_rmia, gamma=self.gamma),
            "loss": lambda attacked, shadows, members: score_by_loss(attacked),
        }

    def run(self, case: ModelCase, *, told: ProgressCallback) -> tuple[AttackResult, ...]:
        """The hits of each attacker beside what the guarantee allows."""
        return tuple(
            self.summarise_guesses(case, one) for one in self.guess_members(case, told=told)
        )

    @property
    def num_processes(self) -> int:
        """How many work at once."""
        return count_jobs(self.jobs)

    def sample_shadow_halves(self, case: ModelCase) -> np.ndarray:
        """(M, U) bool: which units each shadow model learns from."""
        return sample_halves(
            case.num_units, self.shadows, rng=np.random.default_rng((case.seed, 0))
        )

    def train_leaky_models(self, case: ModelCase, *, told: ProgressCallback) -> ShadowModels:
        """Models of the ceiling: overfitted, each to half of the same few units."""
        rng = np.random.default_rng((case.seed, 1))
        few = rng.permutation(case.num_units)[: self.few]
        inside = np.zeros((self.shadows, case.num_units), bool)
        inside[:, few] = sample_halves(len(few), self.shadows, rng=rng)
        return train_shadows(case, case.overfit, inside, jobs=self.num_processes, told=told)

    def guess_members(
        self, case: ModelCase, *, told: ProgressCallback, leaky: ShadowModels | None = None
    ) -> tuple[AttackerGuesses, ...]:
        """Every attacker's guesses; the ceiling's models are trained unless they are given."""
        shadows = train_shadows(
            case, case.learn, self.sample_shadow_halves(case), jobs=self.num_processes, told=told
        )
        leaky = leaky or self.train_leaky_models(case, told=told)
        few = np.flatnonzero(leaky.members.any(axis=0))
        coins = np.random.default_rng((case.seed, 2)).random(shadows.members.size) < 0.5
        found = []
        for name, score in self.attackers_by_name.items():
            each = MemberGuesses.from_scores(shadows.score_in_turn(score), shadows.members)
            found.append(
                AttackerGuesses(
                    attacker=name,
                    published=_guess_published(case, shadows, score) or each,
                    ceiling=_guess_among(leaky, score, few),
                    floor=each.select_guesses(~each.truth, coins),
                )
            )
        return tuple(found)

    def summarise_guesses(self, case: ModelCase, tried: AttackerGuesses) -> AttackResult:
        """In figures, with what they mean."""
        published, ceiling, floor = (
            guessed.compute_figures(of=case.of, seed=case.seed)
            for guessed in (tried.published, tried.ceiling, tried.floor)
        )
        return AttackResult(
            attack="membership",
            attacker=f"{tried.attacker}; {self.shadows} shadow models, half of {case.num_units} "
            f"{case.of} in each",
            published=published,
            ceiling=ceiling,
            floor=floor,
            notes=(
                *_describe_allowance(case, published),
                *_describe_resolution(tried.published),
                *_BOUND_NOTES,
            ),
        )


_BOUND_NOTES = (
    "The ceiling is a model that was trained on few of them without noise and for long, the floor "
    "models that never saw those they were asked for.",
)


def _guess_published(
    case: ModelCase, shadows: ShadowModels, score: Attacker
) -> MemberGuesses | None:
    """Guesses of the one published model, if there is one."""
    if case.outputs is None or case.members is None:
        return None
    said = UnitConfidences.from_outputs(case.outputs, case.targets, case.whose)
    return MemberGuesses.from_scores(shadows.score_outputs(said, score), case.members[None])


def _guess_among(shadows: ShadowModels, score: Attacker, few: np.ndarray) -> MemberGuesses:
    """Guesses of some units alone; the others were in no model."""
    said = UnitConfidences(sure=shadows.said.sure[:, few], chance=shadows.said.chance[:, few])
    small = ShadowModels(said=said, members=shadows.members[:, few])
    return MemberGuesses.from_scores(small.score_in_turn(score), small.members)


def _describe_allowance(case: ModelCase, figures: tuple[MeasuredRate, ...]) -> tuple[str, ...]:
    """What the guarantee allows beside what was measured."""
    if case.allowed is None:
        return ("No guarantee: nothing bounds how often an attacker is right.",)
    said = []
    for rate, figure in zip(FALSE_ALARM_RATES, figures, strict=False):
        most = min(1.0, case.allowed(rate))
        word = "more than" if figure.low > most else "within what"
        said.append(
            f"At {rate:.1%} false alarms {figure.value:.2%} are found ({figure.low:.2%} to "
            f"{figure.high:.2%}), {word} the guarantee allows: {most:.2%}."
        )
    return tuple(said)


def _describe_resolution(guessed: MemberGuesses) -> tuple[str, ...]:
    outside = len(guessed.truth) - int(guessed.truth.sum())
    return tuple(
        f"Only {outside} guesses are of units that were not learned from: at {rate:.1%} false "
        "alarms none may be wrong."
        for rate in FALSE_ALARM_RATES
        if outside * rate < 1
    )
