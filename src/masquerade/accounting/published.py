"""What the five papers print, and what holds: one file a paper, defaults as in the paper.

Feature-Projective DP: private pose estimation with public features [sivangi2025].

MaskDP: noise on the gradient of the private tokens only [schneider2024].

PPEDCRF: noise on the background regions that give a place away [ma2026].

TEMPDIFF: teacher ensembles for wearable activity recognition [roy2023].

Video-DPRP: a random projection of a video plus noise [nken2025].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from masquerade import _check
from masquerade._formatting import (
    format_rounded_down,
    format_rounded_up,
    round_up_decimals,
    round_up_significant,
)
from masquerade._optional import optimize, stats
from masquerade.accounting import sensitivity, votes
from masquerade.accounting.compose import find_gaussian_sigma
from masquerade.accounting.verdict import PublishedClaim, PublishedRun, Verdict
from masquerade.catalog import CatalogEntry
from masquerade.guarantee import Unit, UnitName
from masquerade.tradeoff import gaussian_delta, gaussian_epsilon


@dataclass(frozen=True, kw_only=True)
class FeatureProjectiveClaim(PublishedRun):
    """Feature-projective DP on MPII; delta, batch and epochs are our assumption.

    Args:
        epsilon: claimed relative to the public features of one person crop.
        delta: assumed.
        records: person crops in the training set.
        batch: expected batch size, assumed.
        epochs: passes over the data, assumed.
    """

    epsilon: float = 0.8
    delta: float = 1e-5
    records: int = 22246
    batch: int = 64
    epochs: int = 20

    def judge_claim(self) -> Verdict:
        """Judge the claim: text and figure disagree on how batches are drawn."""
        zero, replaced = self.true_epsilons(is_revealed=False)
        shared_zero, shared_replaced = self.true_epsilons(is_revealed=True)
        return Verdict(
            paper="feature_projective",
            title="Differentially private 2D human pose estimation",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="record (a person crop, relative to its public features)",
            valid=None,
            why=(
                "delta, batch size and epochs are not printed, the algorithm draws two batches "
                "where the figure draws one, and a blur is injective, so that without "
                "quantisation no two crops share their features and the claim protects nothing."
            ),
            true_epsilon={"record/zero_out": zero, "record/replace_one": replaced},
            ships=(
                "projected, feature_dp and feature_projective: two batches drawn apart, psi in "
                "whole numbers, public photos that are nobody's private ones, and the epsilon of "
                "both relations; one batch as_published, with the epsilon of that."
            ),
            arithmetic=(
                f"assumed: {self.describe_run()}; a Renyi accountant prints {self.epsilon:g} at z "
                "= "
                f"{self.noise_multiplier:.4f}",
                "neighbours share psi(x) and replace x: the distance is 2C (replace_one)",
                f"two batches (the algorithm): {zero} (zero_out), {replaced} (replace_one)",
                f"one batch (the figure): {shared_zero} (zero_out), {shared_replaced} "
                "(replace_one)",
            ),
            figures={
                "noise_multiplier": self.noise_multiplier,
                "same_batch_zero_out": shared_zero,
                "same_batch_replace_one": shared_replaced,
            },
        )


@dataclass(frozen=True, kw_only=True)
class MaskDpClaim(PublishedRun):
    """MaskDP on UCF101: one shared Poisson batch for public and private gradients.

    Args:
        epsilon: claimed for the private tokens of one video.
        delta: claimed with it.
        records: N, videos in the training set.
        batch: B, expected batch size.
        epochs: passes over the data.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    records: int = 9537
    batch: int = 128
    epochs: int = 300

    def judge_claim(self) -> Verdict:
        """Judge the claim: the public gradient shows who is in the batch."""
        zero, replaced = self.true_epsilons(is_revealed=True)
        apart_zero, apart_replaced = self.true_epsilons(is_revealed=False)
        return Verdict(
            paper="mask_dp",
            title="Activity recognition on avatar-anonymized datasets with masked DP",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="record (its private tokens)",
            valid=replaced <= self.epsilon,
            why=(
                "One batch serves both gradients, so the un-noised public gradient shows who is "
                "in it and nothing is amplified; replacing tokens also moves a clipped gradient "
                "by 2C, not C."
            ),
            true_epsilon={"record/zero_out": zero, "record/replace_one": replaced},
            ships=(
                "independent batches for the public and the private gradient, accounted for "
                "zero_out and replace_one; Algorithm 2 as printed, with its shared batch, only "
                "with the revealed epsilon."
            ),
            arithmetic=(
                self.describe_run(),
                f"Theorem 1 (Renyi, amplified by sampling, sensitivity C) prints {self.epsilon:g} "
                f"at z = {self.noise_multiplier:.5f}",
                "with the batch revealed: delta(eps) = sum_K Bin(K; T, q) "
                "delta_gauss(eps, sqrt(K) D/z), D = 1 (zero_out) or 2 (replace_one)",
                f"shared batch: {zero} (zero_out), {replaced} (replace_one)",
                f"same z, independent batches: {apart_zero} (zero_out), {apart_replaced} "
                "(replace_one)",
            ),
            figures={
                "noise_multiplier": self.noise_multiplier,
                "independent_zero_out": apart_zero,
                "independent_replace_one": apart_replaced,
            },
        )


@dataclass(frozen=True, kw_only=True)
class PpedcrfClaim(PublishedClaim):
    """PPEDCRF's anchor point.

    Args:
        noise_std: sigma_0, on the scale 0..255.
        delta: claimed with it.
        printed: epsilon as printed for that point.
    """

    noise_std: float = 8.0
    delta: float = 1e-5
    printed: float = 0.59

    def __post_init__(self) -> None:
        _check.positive(noise_std=self.noise_std, printed=self.printed)
        _check.delta(delta=self.delta)

    def judge_claim(self) -> Verdict:
        """Judge the claim: no finite epsilon, and the wrong units even for one value."""
        factor = math.sqrt(2 * math.log(1.25 / self.delta))
        value = gaussian_epsilon(255 / self.noise_std, self.delta)
        pixel = gaussian_epsilon(255 * math.sqrt(3) / self.noise_std, self.delta)
        half = gaussian_epsilon(2 * 255 / self.noise_std, self.delta)
        return Verdict(
            paper="ppedcrf",
            title="PPEDCRF: CRF-guided selective perturbation for location privacy",
            claimed=self.printed,
            claimed_delta=self.delta,
            claimed_unit="value (an anchor; the paper claims no guarantee for the output)",
            valid=False,
            why=(
                "The noise's size follows a mask computed from the private frame and vanishes "
                "where the mask does, so no epsilon is finite; the anchor also mixes noise on "
                "0..255 with a sensitivity of 1."
            ),
            true_epsilon={"value": None, "pixels(1)": None, "frame": None},
            ships=(
                "`ppedcrf`, a heuristic without an epsilon, in a form that selects and in the "
                "published one; `public_mask_gaussian` for what can be proved of noise in places."
            ),
            arithmetic=(
                f"sqrt(2 ln(1.25/delta)) = {factor:.4f}; the paper prints 4.73",
                f"with a sensitivity of 1 that gives {factor / self.noise_std:.4f} at sigma_0 = "
                f"{self.noise_std:g}; the paper prints {self.printed:g}",
                f"one channel value spans 255: even uniform noise of sigma {self.noise_std:g} has "
                f"epsilon {format_rounded_up(value, 5)}, one RGB pixel "
                f"{format_rounded_up(pixel, 5)}",
                "the noise that is added has about half that sigma: epsilon "
                f"{format_rounded_up(half, 5)} for one value",
                "N(x, s^2) against N(x, s'^2) with s a function of the frame: the privacy loss "
                "is unbounded, and where s = 0 the pixel is released as it is",
            ),
            figures={
                "uniform_noise_value": round_up_significant(value, 5),
                "uniform_noise_pixel": round_up_significant(pixel, 5),
                "half_noise_value": round_up_significant(half, 5),
            },
        )


@dataclass(frozen=True, kw_only=True)
class TempdiffClaim(PublishedClaim):
    """TEMPDIFF on WISDM.

    Args:
        printed: epsilon as printed.
        delta: claimed with it.
        gamma: inverse scale of the Laplace noise, an operating point of the paper.
        queries: labels released.
        teachers: in the ensemble.
        shards_per_subject: teachers that one person's data reaches; contiguous time splits spread
            a subject over at least teachers/subjects of them.
        moments: orders that the paper's accountant tried.
    """

    printed: float = 1.4
    delta: float = 1e-5
    gamma: float = 0.3
    queries: int = 1000
    teachers: int = 50
    shards_per_subject: int = 2
    moments: int = 8

    def __post_init__(self) -> None:
        _check.positive(printed=self.printed, gamma=self.gamma)
        _check.delta(delta=self.delta)
        _check.count(queries=self.queries, teachers=self.teachers, moments=self.moments)
        _check.count(shards_per_subject=self.shards_per_subject)

    def judge_claim(self) -> Verdict:
        """Judge the claim: a data-dependent figure at the floor of its accountant."""
        bounds = votes.lnmax_bounds(self.gamma, queries=self.queries, delta=self.delta)
        subject = votes.lnmax_bounds(
            self.gamma,
            queries=self.queries,
            delta=self.delta,
            shards_per_subject=self.shards_per_subject,
        )
        shard = round_up_significant(min(bounds.values()), 5)
        at_least, subject_at_least = (
            votes.lnmax_at_least(
                self.gamma,
                queries=self.queries,
                teachers=self.teachers,
                delta=self.delta,
                shards_per_subject=shards,
            )
            for shards in (1, self.shards_per_subject)
        )
        floor = math.log(1 / self.delta) / self.moments
        fixed = votes.moments_epsilon_at(
            2 * self.gamma, self.queries, delta=self.delta, most=self.moments
        )
        return Verdict(
            paper="tempdiff",
            title="Temporal differential privacy for human activity recognition",
            claimed=self.printed,
            claimed_delta=self.delta,
            claimed_unit="shard",
            valid=_judge_printed(self.printed, at_most=shard, at_least=at_least),
            why=(
                "The number depends on how the teachers voted, so it is private itself and no "
                f"guarantee; an accountant with {self.moments} moments cannot print less than "
                f"{floor:.4f}, however little is spent."
            ),
            true_epsilon={
                "shard": shard,
                "subject": round_up_significant(min(subject.values()), 5),
            },
            bound="between two bounds",
            ships=(
                "votes under Gaussian noise (`--aggregator gnmax`), shards of whole people "
                "(`--by subject`), and a data-independent epsilon with all of a subject's teachers "
                "moving together; the published form (`--by time --aggregator lnmax --gamma`) with "
                "that epsilon, and never the printed one."
            ),
            arithmetic=(
                f"gamma = {self.gamma:g}, {self.queries} queries, delta = {self.delta:g}; one "
                "changed vote costs 2 gamma a query",
                *(
                    f"{name}, an upper bound: {format_rounded_up(value, 5)}"
                    for name, value in bounds.items()
                ),
                f"the paper's own data-independent formula with orders up to {self.moments}: "
                f"{format_rounded_up(fixed, 5)}",
                f"at least {format_rounded_down(at_least, 5)} is lost at the worst margin of "
                f"{self.teachers} teachers (exact composition of the argmax)",
                f"ln(1/delta)/{self.moments} = {floor:.4f}: what that accountant prints when the "
                "votes cost nothing",
                f"a subject spread over {self.shards_per_subject} teachers: epsilon at least "
                f"{format_rounded_down(subject_at_least, 5)} and at most "
                f"{format_rounded_up(min(subject.values()), 5)}",
            ),
            figures={
                "shard_at_least": -round_up_decimals(-at_least),
                "subject_at_least": -round_up_decimals(-subject_at_least),
                "accountant_floor": round(floor, 4),
            },
        )


def _judge_printed(printed: float, *, at_most: float, at_least: float) -> bool | None:
    """Valid if the upper bound proves it, not if the lower bound refutes it, else unknown."""
    if at_most <= printed:
        return True
    return False if at_least > printed else None


@dataclass(frozen=True, kw_only=True)
class VideoDprpClaim(PublishedClaim):
    """Video-DPRP with a split of the budget between the projection and its covariance.

    Args:
        epsilon: claimed for one frame.
        delta: claimed for one frame.
        columns: k, of the projection.
        split: b, share of the budget for the projection.
        height: of a frame.
        width: of a frame.
    """

    epsilon: float = 8.0
    delta: float = 1e-4
    columns: int = 3072
    split: float = 0.8
    height: int = 240
    width: int = 320

    def __post_init__(self) -> None:
        _check.positive(epsilon=self.epsilon)
        _check.delta(delta=self.delta, split=self.split)
        _check.count(columns=self.columns, height=self.height, width=self.width)
        for share in (self.split, 1 - self.split):
            if not self.delta * share < 0.5:
                raise ValueError(f"Expected shares of delta below 1/2, got delta={self.delta}.")

    def sigma_1(self) -> float:
        """Noise on the projected video, as printed [nken2025, Thm 3]."""
        # k columns, (e, d) the projection's share, s = 1/sqrt k, theta = 255/sqrt k
        k, e, d = self.columns, self.epsilon * self.split, self.delta * self.split
        s, theta = 1 / math.sqrt(k), 255 / math.sqrt(k)
        norm = s * math.sqrt(k + 2 * math.sqrt(k * math.log(2 / d)) + 2 * math.log(2 / d))
        return theta * norm * math.sqrt(2 * (math.log(1 / (2 * d)) + e)) / e

    def sigma_2(self) -> float:
        """Noise on the covariance, as printed, log(1.25)/delta and all [nken2025, Thm 4]."""
        e, d = self.epsilon * (1 - self.split), self.delta * (1 - self.split)
        return 255 / math.sqrt(self.columns) * math.sqrt(math.sqrt(2 * math.log(1.25) / d) / e)

    def true_epsilon(self, distance: float, *, rounding_tail: float | None = None) -> float:
        """Epsilon of the noisy projection for frames ``distance`` apart, R fresh and public.

        The projection stretches the distance by c with c^2 k ~ chi^2_k, so delta is the mean of
        the Gaussian's delta over c. The covariance Q is not included, which can only add to it: the
        release as published, which computes Q, states a larger one.

        With ``rounding_tail`` it is that of an R rounded to a grid of 2^-14, which stretches a
        little more; that much of delta goes to it.
        """
        k, mu = self.columns, distance / self.sigma_1()
        more = (
            0.0
            if rounding_tail is None
            else sensitivity.grid_stretch(k, rounding_tail=rounding_tail)
        )
        delta = self.delta - (rounding_tail or 0.0)
        low, high = (float(stats.chi.ppf(1e-18, k)), float(stats.chi.isf(1e-18, k)))
        stretch = np.linspace(low, high, 200_001)
        weight = stats.chi.pdf(stretch, k)
        weight /= weight.sum()

        def excess_tail(epsilon: float) -> float:
            stretched = mu * (stretch / math.sqrt(k) + more)
            return float(weight @ gaussian_delta(epsilon, stretched)) - delta

        if excess_tail(0.0) <= 0:
            return 0.0
        top = mu * mu * (high / math.sqrt(k) + more) ** 2 + 20 * mu
        return float(optimize.brentq(excess_tail, 0.0, top, rtol=1e-10)) * (1 + 1e-6)

    def judge_claim(self) -> Verdict:
        """Judge the claim: the noise is tens of thousands of times too small."""
        frame = (1, self.height, self.width, 3)
        units = (
            Unit(name=UnitName.VALUE),
            Unit(name=UnitName.PIXELS, sites=16),
            Unit(name=UnitName.FRAME),
        )
        distances = {str(unit): sensitivity.array_sensitivity(unit, frame) for unit in units}
        true = {
            name: round_up_significant(self.true_epsilon(d), 4) for name, d in distances.items()
        }
        whole, theta = distances["frame"], 255 / math.sqrt(self.columns)
        sound = find_gaussian_sigma(self.epsilon, delta=self.delta, sensitivity=whole)
        dims = self.height * self.width * 3
        return Verdict(
            paper="video_dprp",
            title="Video-DPRP: differentially private random projection of a video",
            claimed=self.epsilon,
            claimed_delta=self.delta,
            claimed_unit="frame",
            valid=true["frame"] <= self.epsilon,
            why=(
                "The noise is calibrated to 255/sqrt(k), but changing one frame moves the "
                "projected video by about 255 sqrt(d)."
            ),
            true_epsilon=dict(true),
            bound="exact for the noisy projection alone, to which the covariance can only add",
            ships=(
                "video_dprp with noise for the true sensitivity of the unit you choose, by an "
                "orthonormal projection or a Gaussian one whose stretch is counted; "
                "cosine_gaussian, which shows more at the same epsilon."
            ),
            arithmetic=(
                f"theta = 255/sqrt(k) = 255/sqrt({self.columns}) = {theta:.4f} is used as the "
                "sensitivity of one frame",
                f"the sensitivity of one frame is 255 sqrt(d) = 255 sqrt({dims}) = {whole:.0f}, "
                f"{whole / theta:.0f} times as much",
                f"sigma_1 = {self.sigma_1():.4f} as printed; {sound:.0f} would be needed for one "
                f"frame at ({self.epsilon:g}, {self.delta:g}) with an orthonormal projection",
                f"sigma_2 = {self.sigma_2():.4f} as printed: log(1.25)/delta stands where "
                "log(1.25/delta) was meant, and the covariance is quadratic in the video",
                *(
                    f"one {name}: mu is about {d:.1f}/{self.sigma_1():.4f} = "
                    f"{d / self.sigma_1():.1f}, epsilon {true[name]:.4g} at delta {self.delta:g}"
                    for name, d in distances.items()
                ),
            ),
            figures={
                "sigma_1": round_up_decimals(self.sigma_1()),
                "sigma_2": round_up_decimals(self.sigma_2()),
                "sound_sigma_frame": round_up_significant(sound),
            },
        )


ENTRIES = {
    "feature_projective": CatalogEntry(
        "accounting.published:FeatureProjectiveClaim",
        "Feature-Projective DP: private pose estimation with public features [sivangi2025].",
    ),
    "mask_dp": CatalogEntry(
        "accounting.published:MaskDpClaim",
        "MaskDP: noise on the gradient of the private tokens only [schneider2024].",
    ),
    "ppedcrf": CatalogEntry(
        "accounting.published:PpedcrfClaim",
        "PPEDCRF: noise on the background regions that give a place away [ma2026].",
    ),
    "tempdiff": CatalogEntry(
        "accounting.published:TempdiffClaim",
        "TEMPDIFF: teacher ensembles for wearable activity recognition [roy2023].",
    ),
    "video_dprp": CatalogEntry(
        "accounting.published:VideoDprpClaim",
        "Video-DPRP: a random projection of a video plus noise [nken2025].",
    ),
}
