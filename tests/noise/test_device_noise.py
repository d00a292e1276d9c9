"""Noise on a torch device: the processor's, bit for bit, by an inverse whose error is proved."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev

from conftest import python
from masquerade.errors import MissingExtra
from masquerade.noise import Noise, cells, find_grid
from masquerade.noise import gpu as device_noise
from masquerade.noise import source as noise_module
from masquerade.noise.cells import HALF_NORMAL, decide_cell, make_keystream

CPU = torch.device("cpu")
MP = mpmath.MPContext()
MP.prec = 160
RATIO = 1.37 * 2**20  # cells a scale, as `find_grid` makes it


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Tensors this small only lose by sharing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def by_tensors(noise: Noise, ratio: float, count: int) -> np.ndarray:
    """What a GPU without Triton does, here."""
    spans, fill = noise._split_spans(count), device_noise.fill_by_tensors
    return np.asarray(device_noise.sample_gaussian_cells("cpu", ratio, count, spans, fill=fill))


def undecided(ratio: float, count: int, *, seed: int) -> int:
    [span] = Noise(seed=seed)._split_spans(count)
    part = torch.empty(count, dtype=torch.int64)
    device_noise.fill_by_tensors(part, ratio, span)
    return int((part == device_noise.UNDECIDED_CELL).sum())


def words(key: bytes, lane: bytes, block: int, blocks: int) -> bytes:
    state = device_noise.start_state(key, lane, block, CPU)
    return device_noise.make_stream_words(state, blocks).numpy().tobytes()


def test_the_tensors_keystream_is_the_one_of_rfc_8439() -> None:
    # RFC 8439, section 2.3.2: key 00..1f, nonce 000000090000004a00000000, block counter 1
    lane = bytes.fromhex("000000090000004a00000000")
    assert words(bytes(range(32)), lane, 1, 1).hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


@pytest.mark.parametrize("block", [0, 1, 77, 2**31 - 3, 2**31, 2**32 - 20])
def test_the_tensors_keystream_is_the_processors(block: int) -> None:
    rng = np.random.default_rng(block)
    for _ in range(5):
        key, lane = rng.bytes(32), rng.bytes(12)
        expected = make_keystream(key, lane=lane, block=block, num_bytes=64 * 20)
        assert words(key, lane, block, 20) == expected
        assert words(key, lane, block, 20) != words(key, lane, block ^ 1, 20)


def test_a_block_number_past_32_bits_is_carried_into_the_next_word() -> None:
    key, lane = bytes(range(32)), b"\xff\x01" + bytes(10)
    following = (int.from_bytes(lane, "little") + 1).to_bytes(12, "little")
    assert words(key, lane, 2**32 - 2, 5) == make_keystream(
        key, lane=lane, block=2**32 - 2, num_bytes=128
    ) + make_keystream(key, lane=following, block=0, num_bytes=192)


GRIDS = [(1.0, None), (3.0, None), (138.484, None), (1e-6, None), (7e11, None)]
GRIDS += [(1.0, 8.0), (0.3, 0.125), (5.5, 1.0), (1.7, 2.0**-24), (1.9, 2.0**-29)]


@pytest.mark.parametrize(("sigma", "grid"), GRIDS)
def test_tensors_draw_the_processors_noise_bit_for_bit(sigma: float, grid: float | None) -> None:
    step, count = grid or find_grid(sigma), 100_003
    cells = by_tensors(Noise(seed=1), sigma / step, count)
    assert np.array_equal(cells * step, Noise(seed=1).sample_gaussian(sigma, count, grid=grid))


@pytest.mark.slow
def test_tensors_draw_the_processors_noise_bit_for_bit_millions_of_times() -> None:
    for seed, ratio in enumerate([RATIO, 2.0**20, 2.0**21 - 1, 2.0**29.9, 1000.0]):
        cells = by_tensors(Noise(seed=seed), ratio, 2_000_000)
        assert np.array_equal(cells, Noise(seed=seed).sample_gaussian(ratio, 2_000_000, grid=1.0))


@pytest.mark.parametrize("shape", [(), 0, 1, 7, 8, 9, (3, 0, 2), (5, 7, 11), 40_001])
def test_every_shape_is_drawn_alike(shape: int | tuple[int, ...]) -> None:
    cells = Noise(seed=2).sample_gaussian_on("cpu", 2.5, shape)
    values = Noise(seed=2).sample_gaussian(2.5, shape)
    assert cells.dtype == torch.int64 and tuple(cells.shape) == values.shape
    assert np.array_equal(cells.numpy() * find_grid(2.5), values)
    assert np.array_equal(
        by_tensors(Noise(seed=2), 2.5 / find_grid(2.5), values.size), cells.flatten()
    )


@pytest.mark.parametrize("size", [8, 1000, 2**15])
def test_borders_of_pieces_and_spans_do_not_show(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Noise(seed=3).sample_gaussian(RATIO, 70_001, grid=1.0)
    monkeypatch.setattr(device_noise, "_CELLS_PER_PIECE", size)
    monkeypatch.setattr(device_noise, "MAX_SPAN", 2**15)
    count = 70_001 if size > 8 else 301
    assert np.array_equal(by_tensors(Noise(seed=3), RATIO, count), whole[:count])


def test_a_key_is_replaced_at_the_same_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_module, "_BLOCKS_PER_KEY", 2 * 4096 + 5)
    first, second, third = (Noise(seed=4) for _ in range(3))
    for noise in (first, second, third):
        noise.draw_words(1)
    expected = first.sample_gaussian(RATIO, 200_001, grid=1.0)
    assert first._generation > 2
    assert np.array_equal(by_tensors(second, RATIO, 200_001), expected)
    assert np.array_equal(third.sample_gaussian_on("cpu", RATIO, 200_001, grid=1.0), expected)
    assert first._used == second._used == third._used


def test_draws_here_and_there_share_a_stream_and_never_repeat() -> None:
    mixed, plain = Noise(seed=5), Noise(seed=5)
    taken = []
    for count in (3, 8, 1000, 41):
        assert np.array_equal(mixed.draw_words(count), plain.draw_words(count))
        [span] = mixed._split_spans(count)
        taken.append(plain.draw_words(count))
        lane = device_noise.start_state(span.key, bytes(12), span.block, CPU)
        made = device_noise.make_stream_words(lane, -(-count // 8))[:count].numpy().view(np.uint64)
        assert np.array_equal(made, taken[-1])
        taken.append(mixed.draw_words(5))
        assert np.array_equal(taken[-1], plain.draw_words(5))
        mixed.sample_gaussian_on("cpu", 1.0, count), plain.sample_gaussian(1.0, count)
    everything = np.concatenate(taken)
    assert len(set(everything.tolist())) == len(everything)


def test_undecided_numbers_are_decided_by_the_exact_routine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = Noise(seed=6).sample_gaussian(RATIO, 1500, grid=1.0)
    assert undecided(RATIO, 1500, seed=6) == 0
    monkeypatch.setattr(device_noise, "_PER_POSITION", 2.0**-23)  # refine one number in six
    assert undecided(RATIO, 1500, seed=6) > 100
    assert np.array_equal(by_tensors(Noise(seed=6), RATIO, 1500), expected)


def test_the_share_left_undecided_is_the_one_stated() -> None:
    ratio, count = 2.0**29.9, 1 << 19
    found = sum(undecided(ratio, count, seed=seed) for seed in range(6))
    assert 5 <= found <= 50  # ratio 2^-48 of them: 20


def test_a_wrong_error_bound_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Noise(seed=7).sample_gaussian(RATIO, 2000, grid=1.0)
    columns = device_noise.load_columns_on(CPU) * (1 + 1e-8)
    monkeypatch.setattr(device_noise, "load_columns_on", lambda device: columns)
    monkeypatch.setattr(device_noise, "_PER_POSITION", 0.0)
    assert not np.array_equal(by_tensors(Noise(seed=7), RATIO, 2000), expected)
    monkeypatch.setattr(device_noise, "_PER_POSITION", 1.1e-8)  # the right bound for it
    assert np.array_equal(by_tensors(Noise(seed=7), RATIO, 2000), expected)


def test_what_tensors_decide_near_a_border_mpmath_decides_too() -> None:
    rng, js = np.random.default_rng(8), [0, 1, 2, 3, 2**53 - 1, 2**53 - 2, 2**52, 2**52 - 1]
    for cell in [0, 1, 2, *rng.integers(3, int(4 * RATIO), 150).tolist()]:
        j = int(MP.floor(MP.ldexp(MP.erfc((cell + 0.5) / MP.mpf(RATIO) / MP.sqrt(2)), 53)))
        js += [j + step for step in (-64, -9, -4, -2, -1, 0, 1, 2, 4, 9, 64) if j + step < 2**53]
    given = torch.from_numpy(np.array([j << 11 for j in js], dtype=np.uint64).view(np.int64))
    cells = device_noise.decide_cells(given, RATIO, device_noise.load_columns_on(CPU)).tolist()
    decided = [(j, c) for j, c in zip(js, cells, strict=True) if c != device_noise.UNDECIDED_CELL]
    assert 0.1 < len(decided) / len(js) < 0.9
    assert all(decide_cell(HALF_NORMAL, RATIO, j, 53) == cell for j, cell in decided)


def exact_magnitude(tail: Any, near: Any) -> Any:
    """By Newton's steps in mpmath, each of which squares the error."""
    x = MP.mpf(near)
    for _ in range(2):
        density = MP.sqrt(2 / MP.pi) * MP.exp(-x * x / 2)
        step = (MP.erfc(x / MP.sqrt(2)) - tail) / density
        x += step + x * step**2 / 2
    return x


def proved_error(row: np.ndarray, middle: float, half: float) -> tuple[Any, Any]:
    """Truncation plus rounding over a row, in units of u, and the row's least magnitude."""
    unit, c = MP.ldexp(1, -53), [MP.mpf(value) for value in row.tolist()]
    tail, h = MP.mpf(middle), MP.mpf(half)
    at_middle = exact_magnitude(tail, c[0])
    taylor = [at_middle, *(derivative(k, at_middle, h) for k in range(1, 12))]
    off = [(c[k] if k < 8 else 0) - taylor[k] * (-1) ** k for k in range(12)]
    cut = sum(abs(sum(TO_CHEBYSHEV[i][k] * off[k] for k in range(12))) for i in range(12))
    remainder = derivative(12, exact_magnitude(tail - h, c[0] - c[1]), h)
    horner = sum(abs(c[k]) * (2 * k + 1) * unit / (1 - (2 * k + 1) * unit) for k in range(8))
    least = exact_magnitude(tail + h, c[0] + c[1]) if tail + h < 1 else MP.mpf(0)
    return (cut + remainder + horner) / unit, least


def derivative(k: int, m: Any, half: Any) -> Any:
    """|k-th derivative| half^k / k!, which grows with m."""
    g = 1 / (MP.sqrt(2 / MP.pi) * MP.exp(-m * m / 2))
    return MP.polyval(NUMERATORS[k], m) * (g * half) ** k / math.factorial(k)


NUMERATORS = {k: q.coef.astype(int).tolist()[::-1] for k, q in cells.derive_numerators().items()}
TO_CHEBYSHEV = [  # exact: whole numbers over powers of two
    [MP.mpf(value) for value in row]
    for row in np.array(
        [np.pad(chebyshev.poly2cheb(np.eye(12)[k][: k + 1]), (0, 11 - k)) for k in range(12)]
    ).T.tolist()
]


def is_within_its_bound(row: np.ndarray, middle: float, half: float) -> bool:
    error, least = proved_error(row, middle, half)
    return bool(error <= cells.ERROR_PER_MAGNITUDE * least + cells.ERROR_AT_ZERO)


def test_every_row_of_the_table_is_within_the_error_that_is_claimed() -> None:
    rows = zip(cells.fit_quantile_table(), *cells.list_row_middles(), strict=False)
    assert (
        len(cells.fit_quantile_table()) == 53 * 32 + 1 and not cells.fit_quantile_table()[-1].any()
    )
    assert all(is_within_its_bound(row, middle, half) for row, middle, half in rows)


@pytest.mark.parametrize("row", [0, 500, 1600, 1695])
def test_a_row_that_is_off_by_a_few_bits_is_noticed(row: int) -> None:
    middle, half = (values[row] for values in cells.list_row_middles())
    right = cells.fit_quantile_table()[row]
    assert is_within_its_bound(right, middle, half)
    assert not is_within_its_bound(right * (1 + 2.0**-46), middle, half)


def test_magnitudes_are_within_the_bound_wherever_they_are_tried() -> None:
    rng = np.random.default_rng(9)
    starts = [(32 + i) << e for e in (0, 7, 20, 33, 46, 47) for i in range(32)]
    wholes = [1, 2, 3, 2**53 - 1, *rng.integers(1, 2**53, 300).tolist(), *starts]
    wholes += [start - 1 for start in starts]
    found = device_noise.magnitude(
        torch.tensor(wholes, dtype=torch.float64), device_noise.load_columns_on(CPU)
    )
    for whole, value in zip(wholes, found.tolist(), strict=True):
        true = exact_magnitude(MP.ldexp(whole, -53), value)
        bound = cells.ERROR_PER_MAGNITUDE * true + cells.ERROR_AT_ZERO
        assert abs(value - true) <= bound * MP.ldexp(1, -53)


def test_the_margin_holds_every_rounding_after_the_inverse() -> None:
    per_position, always, slope = device_noise.compute_margins(RATIO)
    unit = Fraction(1, 2**53)
    inverse, after = Fraction(cells.ERROR_PER_MAGNITUDE), 2  # the product and the sum
    assert Fraction(per_position) >= (inverse + after) * unit * (1 + 8 * unit)
    assert Fraction(always) >= unit * (Fraction(cells.ERROR_AT_ZERO) * Fraction(RATIO) + 3)
    assert slope >= RATIO * math.sqrt(2 * math.pi) / 2 * (1 + 1e-3)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    noise = Noise(seed=1)
    with pytest.raises(MissingExtra, match=r"masquerade\[train\]"):
        noise.sample_gaussian_on("cpu", 1.0, 3)
    assert noise._used == 0


def test_importing_noise_does_not_import_torch() -> None:
    loaded = python("import sys, masquerade.noise; print(' '.join(sys.modules))").split()
    assert "masquerade.noise.gpu" in loaded and not {"torch", "triton"} & set(loaded)


@pytest.mark.parametrize("device", ["mps", "gpu", ""])
def test_an_unknown_device_is_refused(device: str) -> None:
    with pytest.raises(ValueError, match="cpu or cuda"):
        Noise().sample_gaussian_on(device, 1.0, 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_missing_gpu_is_named() -> None:
    with pytest.raises(ValueError, match="a GPU that torch can use"):
        Noise().sample_gaussian_on("cuda", 1.0, 3)


def test_wrong_scales_and_grids_are_refused_as_for_the_processor() -> None:
    draws: list[Callable[..., object]] = [Noise().sample_gaussian, lambda *a, **k: on_cpu(*a, **k)]
    for draw in draws:
        for sigma, grid in ((-1.0, None), (float("nan"), None), (1.0, 0.3), (1.0, 2.0**-31)):
            with pytest.raises(ValueError, match="scale"):
                draw(sigma, 3, grid=grid)


def on_cpu(sigma: float, shape: int, *, grid: float | None) -> object:
    return Noise().sample_gaussian_on("cpu", sigma, shape, grid=grid)


KERNEL = """
import contextlib, torch
from masquerade.noise import gpu as d, kernel as t
from masquerade.noise import Noise
torch.cuda.device = lambda device: contextlib.nullcontext()
ratio = 1.37 * 2**20
spans = Noise(seed=1)._spans(3_003)
cells = d.sample_gaussian_cells("cpu", ratio, 3_003, spans, fill=d.fill_by_kernel)
print((cells.numpy() == Noise(seed=1).gaussian(ratio, 3_003, grid=1.0)).all())
"""


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_the_kernel_draws_the_processors_noise_in_tritons_interpreter() -> None:
    run = subprocess.run(
        [sys.executable, "-c", KERNEL],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.split() == ["True"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_gpu_draws_the_processors_noise_bit_for_bit() -> None:
    for sigma, grid in GRIDS:
        step = grid or find_grid(sigma)
        cells = Noise(seed=1).sample_gaussian_on("cuda", sigma, 1_000_003, grid=grid).cpu().numpy()
        assert np.array_equal(
            cells * step, Noise(seed=1).sample_gaussian(sigma, 1_000_003, grid=grid)
        )
