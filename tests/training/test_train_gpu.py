"""Training on a GPU is the same training: noise bit for bit, bounds exactly, weights nearly.

What needs a GPU is skipped without one.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from masquerade.errors import BadInput
from masquerade.networks import mvit_layers
from masquerade.noise import Noise
from masquerade.noise.gpu import fill_by_tensors, sample_gaussian_cells
from masquerade.training import gradients, loop, step
from masquerade.training.loop import Workload
from masquerade.training.methods import DpSgd
from masquerade.training.plan import PoissonSampling, TrainingPlan
from masquerade.training.rows import Rows

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
each_precision = pytest.mark.parametrize("precision", ["float32", "bfloat16"])
METHOD = DpSgd(epsilon=8.0, unit="video")
CLASSES, UNITS = 5, 12


def planned(**fields: Any) -> TrainingPlan:
    known = {"steps": 3, "clip_norm": 1.0, "noise_multiplier": 1.0, "delta": 1e-5}
    return TrainingPlan(sampler=PoissonSampling(units=UNITS, expected=6), **(known | fields))


def sums(device: str = "cpu") -> dict[str, Any]:
    """Sums of weights of awkward sizes, in cells."""
    shapes = {"a": (7, 3), "b": (1,), "c": (), "d": (4097,)}
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randint(-(2**22), 2**22, shape, generator=generator).to(device)
        for name, shape in shapes.items()
    }


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(torch.equal(one[name].cpu(), other[name].cpu()) for name in one)


class Elsewhere(Noise):
    """Draws as a device without Triton does."""

    def sample_gaussian(self, sigma: float, shape: Any, *, grid: float | None = None) -> np.ndarray:
        assert grid is not None
        ratio, count = sigma / grid, int(np.prod(shape))
        cells = sample_gaussian_cells(
            "cpu", ratio, count, self._split_spans(count), fill=fill_by_tensors
        )
        return np.asarray(cells.numpy() * grid).reshape(shape)


def test_an_update_drawn_by_tensor_operations_is_the_processors_bit_for_bit() -> None:
    one, other = Noise(seed=3), Elsewhere(seed=3)
    for _ in range(2):  # the second begins where the first ended
        found = step.add_step_noise(sums(), planned(), one)
        assert equal(found, step.add_step_noise(sums(), planned(), other))
    assert not equal(found, step.add_step_noise(sums(), planned(), one))


@on_gpu
def test_an_update_on_a_gpu_is_the_processors_bit_for_bit() -> None:
    one, other, plan = Noise(seed=3), Noise(seed=3), planned(noise_multiplier=0.7)
    for _ in range(2):
        there = step.add_step_noise(sums("cuda"), plan, one)
        assert {value.device.type for value in there.values()} == {"cuda"}
        assert equal(there, step.add_step_noise(sums(), plan, other))


def test_sums_too_large_to_be_exact_are_refused() -> None:
    found = {"w": torch.ones(4, 2)}
    with pytest.raises(ValueError, match=r"below 2\^53 cells together, got 4 of 1\.0"):
        gradients.sum_clipped_cells(found, torch.ones(4, dtype=bool), clip_norm=1.0, grid=2.0**-51)


def test_bfloat16_is_refused_without_a_gpu() -> None:
    Memory = pytest.importorskip("masquerade.training.learner").MemorySettings
    with pytest.raises(ValueError, match="device=cuda for precision=bfloat16"):
        Memory(precision="bfloat16")
    with pytest.raises(ValueError, match="Expected rows on a GPU for precision=bfloat16"):
        run(*parts(), work=Workload(precision="bfloat16"))
    for made in (Workload, Memory):
        with pytest.raises(ValueError, match="precision 'half'"):
            made(precision="half")  # type: ignore[arg-type]


def parts(device: str = "cpu", seed: int = 1) -> tuple[Any, Any, Any]:
    """A frozen trunk, a tail, and films."""
    torch.manual_seed(seed)
    trunk = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh()).requires_grad_(False)
    films = torch.randn(UNITS, 6, generator=torch.Generator().manual_seed(2))
    return trunk.to(device), torch.nn.Linear(9, CLASSES).to(device), films.to(device)


def run(trunk: Any, tail: Any, films: Any, *, is_cached: bool = False, work: Workload) -> Any:
    rows = Rows(
        private=trunk(films) if is_cached else films,
        public=None,
        targets=torch.arange(UNITS, device=films.device) % CLASSES,
        slots=np.arange(UNITS)[:, None],
        trunk=None if is_cached else trunk,
    )
    noise = Noise(seed=5)
    loop.run_training(
        tail, rows, METHOD, planned(), noise=noise, work=work, progress=lambda *_: None
    )
    return tail.weight.detach().cpu()


def test_a_trunk_that_runs_at_every_step_gives_what_a_kept_one_gives() -> None:
    kept = run(*parts(), is_cached=True, work=Workload(physical=UNITS))

    def off(trunk: Any, tail: Any, films: Any, physical: int = UNITS) -> float:
        return float((run(trunk, tail, films, work=Workload(physical=physical)) - kept).abs().max())

    # The trunk sees drawn films, not all of them in order, and kernels may round by place: weights
    # below 1 differ by a few of float32's steps there, 6e-8 at most. No bits are promised.
    rounding = 1e-6
    assert off(*parts()) <= rounding and off(*parts(), physical=4) <= rounding
    trunk, tail, films = parts()
    trunk[0].bias += 0.01
    assert off(trunk, tail, films) > 10 * rounding, "a trunk that is hardly another one shows"


def test_the_checkpoint_of_another_trunk_is_refused(tmp_path: Path) -> None:
    work = Workload(checkpoint=tmp_path / "c", every=1)
    run(*parts(), work=work)
    trunk, tail, films = parts()
    run(trunk, tail, films, work=work)
    trunk[0].bias += 1
    with pytest.raises(BadInput, match="another run"):
        run(trunk, tail, films, work=work)


@on_gpu
@each_precision
def test_a_run_on_a_gpu_ends_near_the_processors(precision: Any) -> None:
    here = run(*parts(), work=Workload(physical=4))
    there = run(*parts("cuda"), work=Workload(physical=4, precision=precision))
    moved = (here - parts()[1].weight.detach()).norm()
    assert there.dtype == torch.float32
    assert float((there - here).norm()) < (1e-3 if precision == "float32" else 0.03) * moved


@on_gpu
def test_nobody_adds_more_than_the_bound_on_a_gpu() -> None:
    generator, clip_norm, grid = torch.Generator().manual_seed(4), 0.7, 2.0**-30
    values = torch.randn(64, 40, generator=generator) * 10 ** torch.linspace(-20, 30, 64)[:, None]
    values[5, 3], values[9, 0], values[11] = math.nan, math.inf, 3.4e38
    for number, row in enumerate(values.cuda()):
        found = {"a": row[None, :30].reshape(1, 5, 6), "b": row[None, 30:]}
        cells = gradients.sum_clipped_cells(
            found, torch.ones(1, dtype=bool, device="cuda"), clip_norm=clip_norm, grid=grid
        )
        whole = sum(c**2 for value in cells.values() for c in value.flatten().tolist())
        assert Fraction(whole) * Fraction(grid) ** 2 <= Fraction(clip_norm) ** 2
        assert bool(whole) == (number not in (5, 9) and float(row.abs().max()) >= grid)


def tail_of(device: str, part: str) -> tuple[Any, Any]:
    torch.manual_seed(3)
    net = mvit_layers.make_mvit("mvit_small", classes=CLASSES).to(device)
    trunk, tail = mvit_layers.split_mvit(net, part)
    films = torch.randn(8, 3, 16, 64, 64, generator=torch.Generator().manual_seed(6)).to(device)
    with torch.no_grad():
        return tail, trunk(films)[:, None]


def gradients_of(tail: Any, inputs: Any, chosen: list[int], precision: Any) -> dict[str, Any]:
    targets = torch.arange(len(inputs), device=inputs.device)[:, None] % CLASSES
    rows = Rows(private=inputs, public=None, targets=targets, slots=np.zeros((1, 1), int))
    loss = loop._make_loss(tail, METHOD, rows, precision=precision)
    weights = {n: v.detach() for n, v in tail.named_parameters() if v.requires_grad}
    shares = torch.ones(len(chosen), 1, device=inputs.device)
    some = torch.tensor(chosen, device=inputs.device)
    return gradients.per_record(loss, weights, inputs[some], (targets[some], shares), chunk=8)


@on_gpu
@each_precision
@pytest.mark.parametrize("part", ["last_norms", "all"])
def test_gradients_on_a_gpu_are_float32_and_those_of_the_processor(
    precision: Any, part: str
) -> None:
    here = gradients_of(*tail_of("cpu", part), [0, 1, 2], "float32")
    there = gradients_of(*tail_of("cuda", part), [0, 1, 2], precision)
    assert {value.dtype for value in there.values()} == {torch.float32}
    apart = gradients.compute_norms({name: there[name].cpu() - here[name] for name in here})
    most = 0.02 if precision == "float32" else 0.1  # convolutions take TF32 by default
    assert (apart <= most * gradients.compute_norms(here)).all()


@on_gpu
@each_precision
def test_nobodys_gradient_depends_on_place_or_company_on_a_gpu(precision: Any) -> None:
    tail, inputs = tail_of("cuda", "last_norms")
    one, other, moved = (
        gradients_of(tail, inputs, chosen, precision)
        for chosen in ([0, 1, 2, 3], [0, 6, 7, 5], [5, 6, 7, 0])
    )
    assert all(torch.equal(one[name][0], other[name][0]) for name in one), "bit for bit"
    apart = gradients.compute_norms({name: moved[name][3:] - one[name][:1] for name in one})
    most = 1e-3 if precision == "float32" else 0.05  # TF32 and bfloat16 round coarsely
    assert (apart <= most * gradients.compute_norms({name: one[name][:1] for name in one})).all()


@on_gpu
def test_the_fused_trunk_is_near_the_plain_one_and_nobodys_place_matters() -> None:
    torch.manual_seed(3)
    trunk, _ = mvit_layers.split_mvit(
        mvit_layers.make_mvit("mvit_small", classes=CLASSES).cuda(), "last_norms"
    )
    films = torch.randn(8, 3, 16, 64, 64, generator=torch.Generator().manual_seed(6)).cuda()

    def of(chosen: list[int], precision: Any) -> Any:
        with torch.no_grad(), loop.lower_precision("cuda", precision):
            return trunk(films[chosen]).float()

    one, other = of([0, 1, 2, 3], "bfloat16"), of([0, 6, 7, 5], "bfloat16")
    assert torch.equal(one[0], other[0]), "bit for bit"
    wanted, moved = of([0, 1, 2, 3], "float32"), of([5, 6, 7, 0], "bfloat16")
    assert float((one - wanted).norm()) < 0.02 * float(wanted.norm())
    assert float((moved[3] - one[0]).norm()) < 0.02 * float(one[0].norm()), "rounding alone"
