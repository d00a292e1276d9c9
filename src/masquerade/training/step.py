"""The one equation: a public mean and a private sum with noise become one gradient.

Work that is done many times on a GPU, recorded once: replaying it waits for no host.

A network is hundreds of short kernels, and launching one takes longer than many of them run. What
is replayed are the kernels of a plain call. Nothing that is drawn may be among them: a replay would
draw the same again.

The clipped sum over a private batch, a piece at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from masquerade._optional import torch
from masquerade.io.devices import GraphRecorder
from masquerade.noise import Noise
from masquerade.training import gradients
from masquerade.training.gradients import Tensors
from masquerade.training.plan import TrainingPlan
from masquerade.training.rows import Rows, pick_rows, take_rows
from masquerade.training.subspace import Subspace

Kind: TypeAlias = "tuple[tuple[torch.Size, torch.dtype], ...]"


class _RecordedGraph(NamedTuple):
    replay: Callable[[], None]
    held: tuple[
        torch.Tensor, ...
    ]  # what it was recorded with; the next call's numbers are copied there


class ReplayedFunction:
    """A function of tensors that keeps nothing of them and writes to tensors that stay.

    On a processor, and where recording fails, it is called plainly. On a GPU the first call of each
    shape is plain, so that libraries set themselves up; the second is recorded. Records share their
    memory: one is replayed at a time.

    Args:
        work: called with tensors on one device.
        is_on: whether anything is recorded.
    """

    def __init__(self, work: Callable[..., None], *, is_on: bool = True) -> None:
        self._work, self._is_on = work, is_on
        self._records: dict[Kind, _RecordedGraph | None] = {}
        self._recorder: GraphRecorder | None = None

    def __call__(self, *given: torch.Tensor) -> None:
        """Do the work."""
        kind = tuple((one.shape, one.dtype) for one in given)
        if not self._is_on or given[0].device.type != "cuda" or kind not in self._records:
            self._records.setdefault(kind, None)
            self._work(*given)
            return
        record = self._records[kind] or self._record_graph(given)
        if record is None:
            self._work(*given)
            return
        self._records[kind] = record
        for held, one in zip(record.held, given, strict=True):
            held.copy_(one)
        record.replay()

    @property
    def num_shapes(self) -> int:
        """Shapes that were recorded."""
        return sum(record is not None for record in self._records.values())

    def _record_graph(self, given: tuple[torch.Tensor, ...]) -> _RecordedGraph | None:
        """Record without doing; None, and never again, where something cannot be recorded."""
        held = tuple(one.clone() for one in given)
        self._recorder = self._recorder or GraphRecorder(given[0].device)
        try:
            replay, _ = self._recorder.record_graph(lambda: self._work(*held))
        except RuntimeError:  # it waits for the device, say; then every call is plain
            self._is_on = False
            return None
        return _RecordedGraph(replay, held)


ALONG = "along"  # the name of a sum along the directions of a subspace
_SHORT_RATIO = 4  # a short piece is so many times smaller


def split_sizes(count: int, physical: int) -> list[int]:
    """How many are in each piece of a batch: ``physical``, then short ones for those who are left.

    Two shapes alone, so that they can be recorded; the last piece is filled up with nobody.

    Example:
        >>> split_sizes(37, 16)
        [16, 16, 4, 4]
    """
    short = -(-physical // _SHORT_RATIO)
    whole, left = divmod(count, physical)
    few = -(-left // short)
    rest = [physical] if few * short >= physical else [short] * few
    return [physical] * whole + rest


class PrivateSum:
    """Sums of clipped gradients, of batch after batch of the same rows.

    Kernels may round by shape and place, which the draw decides and nobody's data: whoever is
    replaced or zeroed out, all others keep theirs. That no kernel rounds one record by another's
    numbers is assumed.

    Args:
        loss: of one unit.
        weights: that are trained; changed in place from step to step.
        rows: of the units.
        plan: how contributions are clipped.
        physical: units whose gradients are computed at once.
        see: makes of inputs (B, k, ...) what the trained part is given.
        within: the subspace along which contributions are measured before they are clipped: a sum
            is then of numbers along its directions, under one name. None for all weights.
    """

    def __init__(
        self,
        loss: gradients.Loss,
        weights: Mapping[str, torch.Tensor],
        rows: Rows,
        plan: TrainingPlan,
        *,
        physical: int,
        see: Callable[[torch.Tensor], torch.Tensor],
        within: Subspace | None = None,
    ) -> None:
        self._loss, self._rows, self._plan = loss, rows, plan
        self._physical, self._see, self._within = physical, see, within
        self._weights = {name: value.detach() for name, value in weights.items()}
        shapes = {name: value.shape for name, value in weights.items()}
        if within is not None:
            shapes = {ALONG: torch.Size([within.directions])}
        device = next(iter(weights.values())).device
        self._total = {
            name: torch.zeros(shape, dtype=torch.int64, device=device)
            for name, shape in shapes.items()
        }
        # A public part runs plainly, and needs the memory that records would keep for themselves.
        self._add = ReplayedFunction(self._add_piece, is_on=rows.public is None)

    def sum_cells(self, units: np.ndarray) -> Tensors:
        """The sum over a batch, in cells of the plan's grid."""
        for total in self._total.values():
            total.zero_()
        pieces = split_sizes(len(units), self._physical)
        everyone = np.full(sum(pieces), -1)
        everyone[: len(units)] = units
        picks, start = pick_rows(self._rows, everyone), 0
        for size in pieces:
            piece = picks.slice_units(start, size)
            self._add(*take_rows(self._rows, piece), piece.shares, piece.present)
            start += size
        return {name: total.clone() for name, total in self._total.items()}

    def _add_piece(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        shares: torch.Tensor,
        present: torch.Tensor,
    ) -> None:
        """Add what some units contribute."""
        lesson = self._see(inputs), (targets, shares)
        found = gradients.per_record(self._loss, self._weights, *lesson, chunk=len(inputs))
        if self._within is not None:
            found = {ALONG: self._within.measure_along(found)}
        scale = {"clip_norm": self._plan.clip_norm, "grid": self._plan.grid}
        for name, value in gradients.sum_clipped_cells(found, present, **scale).items():
            self._total[name] += value


NamedTensors: TypeAlias = "dict[str, torch.Tensor]"
Projection: TypeAlias = Callable[[NamedTensors], NamedTensors]


def add_step_noise(
    cells: NamedTensors,
    plan: TrainingPlan,
    noise: Noise,
    *,
    among: int | None = None,
    project: Projection | None = None,
) -> NamedTensors:
    """(1/b) Proj[sum + N(0, (z C)^2)] as float32.

    Args:
        cells: the sum of clipped contributions, in cells of the plan's grid.
        plan: how much noise.
        noise: where it comes from.
        among: b; the expected size of a batch if None. The size of a secret batch is secret too.
        project: what is done to the noisy sum; after the noise anything is allowed.
    """
    if not cells:
        raise ValueError("Expected sums to add noise to, got none.")
    total = torch.cat([held.reshape(-1) for held in cells.values()])
    if plan.noise_multiplier > 0:
        total += _sample_noise(plan, noise, total)
    flat = (total.double() * (plan.grid / (among or plan.sampler.expected))).float()
    parts = flat.split([held.numel() for held in cells.values()])
    found = {
        name: part.reshape(held.shape)
        for (name, held), part in zip(cells.items(), parts, strict=True)
    }
    return found if project is None else project(found)


def _sample_noise(plan: TrainingPlan, noise: Noise, like: torch.Tensor) -> torch.Tensor:
    """Noise for all weights at once, in cells, where they lie: the same numbers on any device."""
    if like.device.type == "cuda":
        return noise.sample_gaussian_on(str(like.device), plan.sigma, len(like), grid=plan.grid)
    drawn = noise.sample_gaussian(plan.sigma, len(like), grid=plan.grid) / plan.grid
    return torch.from_numpy(np.rint(drawn).astype(np.int64))


def combine_gradients(
    private: NamedTensors | None, public: NamedTensors | None, *, weight: float
) -> NamedTensors:
    """lambda times the public part plus the private part; either may be missing."""
    if private is None and public is None:
        raise ValueError("Expected a private or a public part, got neither.")
    if public is None:
        return dict(private or {})
    if private is None:
        return {name: weight * gradient for name, gradient in public.items()}
    return {name: weight * public[name] + gradient for name, gradient in private.items()}
