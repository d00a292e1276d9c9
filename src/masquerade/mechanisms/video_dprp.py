"""Video-DPRP: a random projection of every frame with Gaussian noise [nken2025]."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from masquerade import _check
from masquerade._formatting import round_up_significant
from masquerade.accounting import published, sensitivity
from masquerade.accounting.power import compute_event_power
from masquerade.events import ComposedDpEvent, DpEvent, NonPrivateDpEvent, RevealedSampledDpEvent
from masquerade.guarantee import Accountant, Guarantee, Unit, UnitName
from masquerade.io.devices import Array, batch_frames, concat, fetch_array, send_array
from masquerade.mechanism import Plan, Shape, Shapes, as_video
from masquerade.mechanisms import expected_view as sight
from masquerade.mechanisms import random_projection
from masquerade.mechanisms.gaussian_video import Chunk, GaussianVideo, even_chunks, gather_frames
from masquerade.mechanisms.random_projection import (
    GaussianProjection,
    OrthonormalProjection,
    Projection,
)
from masquerade.noise import Noise, Scale, compute_rounded_bound, find_grid, find_scale
from masquerade.tradeoff import gaussian_epsilon, gaussian_mu

_PAPER_COLUMNS = 32 * 32 * 3
_ROWS_PER_PRODUCT = 256  # rows that are projected together, so that R is drawn seldom
_LISTED_UNITS = (
    Unit(name=UnitName.VALUE),
    Unit(name=UnitName.PIXELS, sites=16),
    Unit(name=UnitName.TUBE, sites=16),
    Unit(name=UnitName.FRAME),
    Unit(name=UnitName.VIDEO),
)


@dataclass(frozen=True, kw_only=True)
class VideoDprp(GaussianVideo):
    """Project every frame to k numbers at random, add noise, and project back.

    A random subspace keeps k/d of a picture's energy, about one part in 75 at the paper's size,
    so the result is mostly grey whatever epsilon is. `cosine_gaussian` gives far more at the same
    guarantee; this is here because the paper is.

    Guarantee:
        unit: as chosen: value, pixels, tube, frame, video, record or subject.
        relation: replace_one.
        bound: the video's own distance, times one (orthonormal, truncated) or a
            bound on how much a fresh Gaussian R stretches it, whose failure counts towards delta
            (gaussian, as_published); analytic Gaussian [balle2018, Thm 8]. The published noise is
            far too
            small: as_published states the epsilon that it really has, covariance included.
        numerics: exact products with R on a grid, or float64 with twice the error bound added;
            exact grid Gaussian, ChaCha20.

    Args:
        epsilon: target of the guarantee; for as_published, the paper's claim.
        delta: target of the guarantee.
        unit: what one change may touch: value, pixels, tube, frame, video, record, subject.
        pixels: m, for the units pixels and tube.
        form: orthonormal, gaussian, truncated (an ablation) or as_published (not valid).
        columns: k; by default a 75th of the numbers of a frame, 3072 at 320 x 240, and no more
            than that for as_published.
        split: b, the projection's share of the budget (as_published, truncated).
        rank: directions of the covariance that are kept; by default a quarter of k (truncated) or
            all (as_published), with which it cancels.
        radius: norm that projected frames are clipped to (truncated); by default 64 sqrt(k).
    """

    DRAWS: ClassVar[bool] = True

    form: Literal["orthonormal", "gaussian", "truncated", "as_published"] = "orthonormal"
    columns: int | None = None
    split: float = 0.8
    rank: int | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _check.delta(split=self.split)
        for name, size in (("columns", self.columns), ("rank", self.rank)):
            if size is not None:
                _check.count(**{name: size})
        if self.radius is not None:
            _check.positive(radius=self.radius)
            _check.at_most(1e12, radius=self.radius)

    @property
    def _has_covariance(self) -> bool:
        return self.form in ("truncated", "as_published")

    @property
    def output_description(self) -> str:
        """What leaves the house."""
        extra = " and their covariance" if self._has_covariance else ""
        return f"random projections of the frames{extra} with noise, the projection, and frames"

    def count_columns(self, shape: Shape) -> int:
        """Columns of R."""
        numbers = math.prod(shape[1:])
        most = _PAPER_COLUMNS if self.form == "as_published" else numbers
        wanted = self.columns or min(max(1, numbers // 75), most)
        if wanted >= numbers:
            raise ValueError(
                f"Expected fewer columns than numbers in a frame, got columns={wanted} for "
                f"{numbers}; a projection must lose something."
            )
        if self._has_covariance and self.rank is not None and self.rank >= wanted:
            remedy = {
                "truncated": "and its budget is wasted; use form=orthonormal",
                "as_published": "as it does without a rank; leave it out",
            }[self.form]
            raise ValueError(
                f"Expected a rank below {wanted}, got rank={self.rank}: with all directions the "
                f"covariance cancels {remedy}."
            )
        return wanted

    def list_chunks(self, shape: Shape) -> list[Chunk]:
        """Rows are independent; a covariance is of the whole video."""
        if self._has_covariance:
            return [Chunk(0, shape[0], shape)]
        return even_chunks(shape, _ROWS_PER_PRODUCT)

    def compute_distance_bound(self, shape: Shape, unit: Unit) -> float:
        """The video's own distance, stretched by what R can do to it."""
        apart = sensitivity.array_sensitivity(unit, shape) * (1 + 1e-12)
        frames = random_projection.rows_touched(shape, unit)[0]
        if self.form == "as_published":
            squares = random_projection.compute_unclipped_bound(
                shape, frames, apart, self._compute_stretch_bound(shape)
            )
            return math.hypot(
                apart * self._compute_stretch_bound(shape),
                self._compute_printed_weight(shape) * squares,
            )
        if self.form == "gaussian":
            return apart * self._compute_stretch_bound(shape)
        error = self._choose_projection(0, shape).error_bound() * math.sqrt(
            frames * self.count_columns(shape)
        )
        if self.form == "truncated":
            return math.hypot(*self._weight_distances(shape, unit, error))
        return apart + 4 * error

    def _weight_distances(self, shape: Shape, unit: Unit, error: float) -> tuple[float, float]:
        """Distances of rows and covariance, weighted so that b and 1 - b of mu^2 go to each."""
        radius, frames = self._compute_radius(shape), random_projection.rows_touched(shape, unit)[0]
        error += random_projection.clip_error(frames, self.count_columns(shape), radius)
        rows, squares = random_projection.compute_distance_bounds(shape, unit, radius)
        squares += 4 * random_projection.error_bound(shape, self.count_columns(shape), radius)
        squares += 8 * radius * math.sqrt(frames) * error
        weights = self._compute_weights(shape)
        return weights[0] * (rows + 4 * error), weights[1] * squares

    def _compute_weights(self, shape: Shape) -> tuple[float, float]:
        rows, squares = random_projection.compute_distance_bounds(
            shape, self.privacy_unit, self._compute_radius(shape)
        )
        return math.sqrt(self.split) / rows, math.sqrt(1 - self.split) / squares

    def _compute_printed_weight(self, shape: Shape) -> float:
        """Of a covariance that gets the paper's second noise from the first one's draws."""
        paper = self._build_paper_claim(shape)
        return paper.sigma_1() / paper.sigma_2()

    def coordinates(self, shape: Shape, unit: Unit) -> int:
        """The k numbers of each frame touched, and the covariance."""
        k = self.count_columns(shape)
        extra = {"truncated": k * (k + 1) // 2, "as_published": k * k}.get(self.form, 0)
        return random_projection.rows_touched(shape, unit)[0] * k + extra

    @lru_cache(maxsize=64)  # noqa: B019
    def compute_scale(self, shape: Shape) -> Scale:
        """The noise that the target asks for; for as_published, what the paper prints."""
        unit = self.privacy_unit
        half, coordinates = (
            self.compute_distance_bound(shape, unit) / 2,
            self.coordinates(shape, unit),
        )
        if self.form == "as_published":
            sigma = self._build_paper_claim(shape).sigma_1()
            grid = find_grid(sigma)
            bound = compute_rounded_bound(half, grid, coordinates)
            return Scale(sigma=sigma, grid=grid, sensitivity=bound)
        mu = gaussian_mu(self.epsilon, self.delta - sum(self._list_tail_probs())) / 2
        return find_scale(half, mu=mu, coordinates=coordinates)

    def _build_paper_claim(self, shape: Shape) -> published.VideoDprpClaim:
        return published.VideoDprpClaim(
            epsilon=self.epsilon,
            delta=self.delta,
            columns=self.count_columns(shape),
            split=self.split,
            height=shape[1],
            width=shape[2],
        )

    def _list_tail_probs(self) -> tuple[float, ...]:
        """How likely a fresh R stretches more than is counted, ideally and by rounding.

        Where the covariance is used, of three things: what changed, the sum of both worlds, all.
        """
        times = {"gaussian": 1, "as_published": 3}.get(self.form, 0)
        return (self.delta / 10, self.delta / 100) * times

    def _compute_stretch_bound(self, shape: Shape) -> float:
        tail, rounding = self._list_tail_probs()[:2]
        k = self.count_columns(shape)
        return sensitivity.grid_projection_factor(k, tail=tail, rounding_tail=rounding)

    def _make_event(self, shape: Shape, unit: Unit) -> DpEvent:
        gaussian = super()._make_event(shape, unit)
        failing = [
            RevealedSampledDpEvent(tail, NonPrivateDpEvent()) for tail in self._list_tail_probs()
        ]
        return ComposedDpEvent([gaussian, *failing]) if failing else gaussian

    def plan(self, shape: Shape | Shapes) -> Plan:
        """The target; for as_published, the paper's claim and what really holds."""
        plan, video = super().plan(shape), as_video(shape)
        if not self._list_tail_probs():
            return plan
        made = dataclasses.replace(plan.guarantee, accountant=Accountant.GAUSSIAN_RANDOM_PROJECTION)
        if self.form == "gaussian":
            least = made.epsilon or 0.0
            power = compute_event_power(
                plan.event, relation=made.relation, epsilon=least, delta=self.delta
            )
            made = dataclasses.replace(made, power=power)
        else:
            made = self._as_published(made, video)
        return dataclasses.replace(plan, guarantee=made)

    def _as_published(self, made: Guarantee, video: Shape) -> Guarantee:
        paper = self._build_paper_claim(video)
        whole, alone = (
            "; ".join(
                f"one {unit}: {round_up_significant(found(video, unit), 4):.4g}"
                for unit in _LISTED_UNITS
            )
            for found in (self._compute_joint_epsilon, self._epsilon_alone)
        )
        return dataclasses.replace(
            made,
            epsilon=self._compute_joint_epsilon(video, self.privacy_unit),
            published_claim=(
                f"CLAIMED, NOT VALID: epsilon {self.epsilon:g} and delta {self.delta:g} for one "
                f"frame, with noise of {paper.sigma_1():.4f} on the projection, calibrated to "
                "255/sqrt(k) where one frame moves it by 255 sqrt(d), and of "
                f"{paper.sigma_2():.4f} on its covariance, which one frame moves by 255^2 d or so"
            ),
            caveats=(
                *made.caveats,
                f"Epsilon that is proved for the noise as published, at delta {self.delta:g}: "
                f"{whole}.",
                f"Of the noisy projection alone, without the covariance: {alone}.",
                self._describe_covariance(video),
                "What hides a person here is the projection, which loses most of the picture.",
            ),
        )

    def _describe_covariance(self, shape: Shape) -> str:
        if self.rank is None:
            return (
                "The covariance gets the paper's second noise and is decomposed, as published; all "
                "its directions together cancel, but for rounding."
            )
        return (
            f"Of the covariance's {self.count_columns(shape)} directions "
            f"{self._count_directions(shape)} are kept, which "
            "the paper does not do: with all of them it cancels."
        )

    def _compute_joint_epsilon(self, shape: Shape, unit: Unit) -> float:
        """What is proved for both published noises together."""
        apart = 2 * self.compute_blank_distance(shape, unit)
        return gaussian_epsilon(
            apart / self.compute_scale(shape).sigma, self.delta - sum(self._list_tail_probs())
        )

    def _epsilon_alone(self, shape: Shape, unit: Unit) -> float:
        """What is proved for the projection's noise: exactly, where one frame is touched."""
        tail, rounding = self._list_tail_probs()[:2]
        frames = random_projection.rows_touched(shape, unit)[0]
        own = sensitivity.array_sensitivity(unit, shape) * (1 + 1e-12)
        scale, half = self.compute_scale(shape), own * self._compute_stretch_bound(shape) / 2
        apart = 2 * compute_rounded_bound(half, scale.grid, frames * self.count_columns(shape))
        bound = gaussian_epsilon(apart / scale.sigma, self.delta - tail - rounding)
        if frames > 1:
            return bound
        on_grid = apart - 2 * half  # is not stretched by R
        return min(bound, _true_epsilon(self._build_paper_claim(shape), own + on_grid, rounding))

    def predict_quality(self, shape: Shape) -> tuple[float, float]:
        """Noise on each projected number, and what is left: hardly more than columns allow."""
        kept, sigma = (
            self.count_columns(shape) / math.prod(shape[1:]),
            self.compute_scale(shape).sigma,
        )
        shown = sigma / self._compute_weights(shape)[0] if self.form == "truncated" else sigma
        stretch = 1.0 if self.form in ("orthonormal", "truncated") else kept  # of R, squared
        return sigma, sight.compute_raw_share(shown**2 * stretch, projected=kept)

    def is_appearance_released(
        self, frames: Sequence[np.ndarray], shape: Shape, public_seeds: tuple[int, ...]
    ) -> bool | None:
        """Whether frames lie in the directions that a public R keeps."""
        if self._list_tail_probs() or len(public_seeds) != 1:
            return None
        return self._choose_projection(public_seeds[0], shape).is_appearance_kept(
            frames, middle=self._find_middle()
        )

    def _choose_projection(self, seed: int, shape: Shape) -> Projection:
        kind = GaussianProjection if self._list_tail_probs() else OrthonormalProjection
        return random_projection.make_projection(kind, seed, shape[1:], self.count_columns(shape))

    def _compute_radius(self, shape: Shape) -> float:
        return self.radius or 64 * math.sqrt(self.count_columns(shape))

    def _find_middle(self) -> float:
        return 0.0 if self.form == "as_published" else 127.5

    def measure_chunk(self, frames: Iterator[Array], chunk: Chunk) -> Array:
        """The projected rows of a chunk, flat; for truncated, the covariance behind them."""
        size = self._choose_batch_rows(chunk)
        return self._build_vector(
            (
                gather_frames(list(itertools.islice(frames, size)), chunk, start=start, count=size)
                for start in range(0, chunk.length, size)
            ),
            chunk,
        )

    def measure_together(self, frames: Array, chunk: Chunk) -> Array:
        """The same of frames that are on the device already."""
        size = self._choose_batch_rows(chunk)
        return self._build_vector(
            (frames[start : start + size] for start in range(0, chunk.length, size)), chunk
        )

    def _choose_batch_rows(self, chunk: Chunk) -> int:
        """Frames that are projected at once."""
        return _ROWS_PER_PRODUCT if self._list_tail_probs() else batch_frames(*chunk.size[1:])

    def _build_vector(self, batches: Iterator[Array], chunk: Chunk) -> Array:
        drawn, middle = self._choose_projection(chunk.seed, chunk.shape), self._find_middle()
        projected = concat([drawn.forward(batch, middle=middle) for batch in batches])
        if not self._has_covariance:
            return projected.reshape(-1)
        if self.form == "as_published":
            plain = fetch_array(projected)
            squares = (plain.T @ plain) * self._compute_printed_weight(chunk.shape)
            return np.concatenate([plain.reshape(-1), squares.reshape(-1)])
        kept = random_projection.clip_rows(
            fetch_array(projected), self._compute_radius(chunk.shape)
        )
        weights = self._compute_weights(chunk.shape)
        squares = random_projection.pack_triangle(kept.T @ kept)
        return np.concatenate([kept.reshape(-1) * weights[0], squares * weights[1]])

    def rebuild_frames(
        self, measured: Array, chunk: Chunk, sigma: float, noise: Noise
    ) -> Iterator[Array]:
        """The pseudoinverse, by way of the covariance's directions where it is used."""
        drawn = self._choose_projection(chunk.seed, chunk.shape)
        if self._has_covariance:
            measured = self._restrict_directions(measured, chunk, drawn)
        rows = send_array(measured).reshape(chunk.length, self.count_columns(chunk.shape))
        size = self._choose_batch_rows(chunk)
        for start in range(0, chunk.length, size):
            yield drawn.expand_rows(rows[start : start + size], middle=self._find_middle())

    def worst_case(self, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        """One unit black or white; in grey videos where black ones would be clipped to the same."""
        black, white = super().worst_case(shape)
        if self._list_tail_probs():
            return black, white
        grey = np.where(black == white, 127, 0).astype(np.uint8)
        return black + grey, white + grey

    def worlds_given(
        self, worlds: tuple[np.ndarray, np.ndarray], chunks: list[Chunk]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The unit in black and white along R, where the bound holds for every R.

        sign(R R^T u) is stretched by no less than u = 1 is, as |u R|^2 is convex.
        """
        if self._list_tail_probs():
            return worlds
        drawn = self._choose_projection(chunks[0].seed, chunks[0].shape)
        is_seen = fetch_array(drawn.backward(drawn.forward(worlds[1], middle=127.5))) > 0
        is_turned = (worlds[0] != worlds[1]) & ~is_seen
        black, white = (np.where(is_turned, 255 - world, world) for world in worlds)
        return black, white

    def _count_directions(self, shape: Shape) -> int:
        """Directions of the covariance; it has no more than frames."""
        k = self.count_columns(shape)
        if self.form == "as_published" and self.rank is None:
            return k
        return min(self.rank or max(1, k // 4), shape[0])

    def _restrict_directions(
        self, measured: np.ndarray, chunk: Chunk, drawn: Projection
    ) -> np.ndarray:
        """The noisy rows, by way of the directions that are kept."""
        k, kept = self.count_columns(chunk.shape), self._count_directions(chunk.shape)
        rows, squares = np.split(measured, [chunk.length * k])
        if self.form == "as_published":
            noisy = squares.reshape(k, k) / self._compute_printed_weight(chunk.shape)
            found = random_projection.right_directions(noisy, kept)
            return drawn.restrict_rows(rows.reshape(-1, k), found)
        weights = self._compute_weights(chunk.shape)
        noisy = random_projection.unpack_triangle(squares / weights[1], k)
        top = np.linalg.eigh(noisy)[1][:, -kept:]
        return drawn.restrict_rows(rows.reshape(-1, k) / weights[0], top)


@lru_cache(maxsize=64)
def _true_epsilon(paper: published.VideoDprpClaim, distance: float, rounding_tail: float) -> float:
    return paper.true_epsilon(distance, rounding_tail=rounding_tail)
