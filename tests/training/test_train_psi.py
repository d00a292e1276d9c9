"""Psi hides by rounding alone: a float blur gives a face back, blocks in few bits do not."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from masquerade.training.views import KERNEL_PX, Psi, PublicPictures

SIDE = 64
CEILING_DB = 21.0  # of what the best linear attack makes of means of 8 x 8 pixels in 4 bits


def face() -> np.ndarray:
    """(H, W) 0 to 255: a made-up face, soft shapes under a texture that falls off as 1/f."""
    rng, at = np.random.default_rng(7), np.linspace(-1, 1, SIDE)
    y, x = np.meshgrid(at, at, indexing="ij")
    found = 60.0 + 110 * (np.hypot(x / 0.62, y / 0.85) < 1)
    for eye in (-0.27, 0.27):
        found -= 90 * (np.hypot((x - eye) / 0.13, (y + 0.2) / 0.07) < 1)
    found -= 70 * (np.hypot(x / 0.28, (y - 0.42) / 0.06) < 1)
    found -= 25 * (np.hypot(x / 0.08, (y - 0.1) / 0.16) < 1)
    found += 12 * np.fft.ifft2(np.fft.fft2(rng.normal(size=(SIDE, SIDE))) * amplitude()).real
    return np.clip(found, 0, 255)


def amplitude() -> np.ndarray:
    """Of pictures in general, at each frequency: one over it, of standard deviation 1."""
    at = np.fft.fftfreq(SIDE)
    found = 1 / np.maximum(np.hypot(at[:, None], at), 1 / SIDE)
    found[0, 0] = 0
    return found / np.sqrt(np.mean(found**2))


def psnr(one: np.ndarray, other: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((one - other) ** 2)))


def bell(sigma: float) -> np.ndarray:
    """The transfer function of a blur that goes round the edges."""
    at = np.arange(SIDE) - SIDE * (np.arange(SIDE) > SIDE // 2)
    line = np.exp(-0.5 * (at / sigma) ** 2)
    return np.fft.fft2(np.outer(line, line) / line.sum() ** 2).real


def deblurred(seen: np.ndarray, sigma: float, error: float) -> np.ndarray:
    """What a Wiener filter that knows blur, rounding and how pictures are makes of it."""
    transfer, power = bell(sigma), (50 * amplitude()) ** 2
    gain = transfer * power / (transfer**2 * power + error**2)
    middle = seen.mean()
    return middle + np.fft.ifft2(np.fft.fft2(seen - middle) * gain).real


def enlarged(levels: np.ndarray, psi: Psi) -> np.ndarray:
    """The best linear guess of a picture, given means of its blocks, by how pictures are."""
    covariance = np.fft.ifft2((50 * amplitude()) ** 2).real
    means = np.zeros((levels.size, SIDE, SIDE))
    for place in range(levels.size):
        row, column = np.array(np.unravel_index(place, levels.shape)) * psi.block
        means[place, row : row + psi.block, column : column + psi.block] = psi.block**-2.0
    spread = np.fft.ifft2(np.fft.fft2(means) * np.fft.fft2(covariance)).real  # (L, H, W)
    both = spread.reshape(len(means), -1) @ means.reshape(len(means), -1).T
    step = 256 / 2**psi.bits
    values = (levels.ravel() + 0.5) * step
    both += np.eye(len(both)) * step**2 / 12
    share = np.linalg.solve(both, values - values.mean())
    return values.mean() + np.tensordot(share, spread, 1)


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_a_float_blur_gives_the_face_back(sigma: float) -> None:
    truth = face()
    exact = np.fft.ifft2(np.fft.fft2(truth) * bell(sigma)).real
    gained = {
        kind: psnr(deblurred(seen, sigma, error), truth) - psnr(exact, truth)
        for kind, seen, error in (
            ("float64", exact, 1e-12),
            ("float32", exact.astype(np.float32), 4e-6),
            ("uint8", np.rint(exact), 12**-0.5),
        )
    }
    assert gained["float64"] > (100 if sigma == 1.0 else 12)
    assert gained["float64"] > gained["float32"] + 3 > gained["uint8"] + 6
    assert gained["uint8"] < 8, "what rounding lost stays lost"


@pytest.mark.parametrize(("block", "ceiling"), [(8, CEILING_DB), (16, 18.5)])
def test_means_of_blocks_in_few_bits_cannot_be_sharpened(block: int, ceiling: float) -> None:
    truth, psi = face(), Psi(block=block, bits=4)
    picture = np.repeat(np.rint(truth).astype(np.uint8)[..., None], 3, axis=2)
    levels = psi.compute_levels(picture)[..., 0]
    sharpened = psnr(np.clip(enlarged(levels, psi), 0, 255), truth)
    plain = psnr(psi(picture)[..., 0].astype(float), truth)
    assert sharpened < ceiling and plain < ceiling
    assert sharpened < plain + 2, "sharpening finds next to nothing"


def test_the_attack_is_a_good_one() -> None:
    """Against blocks of 4 x 4 it beats the plain picture: what it lacks above is not skill."""
    truth = face()
    picture = np.repeat(np.rint(truth).astype(np.uint8)[..., None], 3, axis=2)
    psi = Psi(block=4, bits=8)
    attacked = psnr(enlarged(psi.compute_levels(picture)[..., 0], psi), truth)
    assert attacked > psnr(psi(picture)[..., 0].astype(float), truth)
    assert attacked > CEILING_DB + 2


@pytest.mark.parametrize("psi", [Psi(block=8, bits=3), Psi(kind="blur")])
def test_psi_is_whole_numbers_of_one_picture_alone(psi: Psi) -> None:
    rng = np.random.default_rng(0)
    films = rng.integers(0, 256, (2, 3, 21, 34, 3), np.uint8)
    before = films.copy()
    found = psi(films)
    assert found.dtype == np.uint8 == psi.compute_levels(films).dtype and found.shape == films.shape
    assert np.array_equal(films, before)
    assert np.array_equal(found[1, 2], psi(films[1, 2]))
    with pytest.raises(TypeError, match="uint8"):
        psi(films.astype(np.float32))


def test_pictures_that_differ_within_blocks_have_one_psi() -> None:
    psi, rng = Psi(block=8, bits=4), np.random.default_rng(1)
    one = rng.integers(0, 256, (16, 16, 3), np.uint8)
    other = one.reshape(2, 8, 2, 8, 3)[:, ::-1, :, ::-1].reshape(16, 16, 3)
    assert not np.array_equal(one, other)
    assert np.array_equal(psi(one), psi(other))
    assert not np.array_equal(Psi(kind="blur")(one), Psi(kind="blur")(other))


def test_pictures_of_any_size_and_edges_are_pooled() -> None:
    psi = Psi(block=16, bits=8)
    for size in ((1, 1), (16, 17), (5, 40)):
        grey = np.full((*size, 3), 200, np.uint8)
        assert psi(grey).shape == grey.shape
        assert np.abs(psi(grey).astype(int) - 200).max() <= 1
    assert psi.compute_levels(np.zeros((33, 16, 3), np.uint8)).shape == (3, 1, 3)


def test_what_hides_nothing_is_refused_and_a_blur_is_warned_of() -> None:
    for fields, rule in (({"block": 1, "bits": 8}, "hides"), ({"bits": 9}, "1 to 8")):
        with pytest.raises(ValueError, match=rule):
            Psi(**fields)
    assert "sharpened" in Psi(kind="blur").warning and not Psi().warning
    assert "the picture itself" in Psi(block=1, bits=7).warning
    assert f"{KERNEL_PX} x {KERNEL_PX}" in Psi(kind="blur").rule_description
    rules = (Psi(), Psi(bits=3), Psi(block=8), Psi(kind="blur"))
    marks = {psi.hash_rule(is_photo=is_photo) for psi in rules for is_photo in (False, True)}
    assert len(marks) == 8


def test_what_is_public_can_be_looked_at_and_has_a_fingerprint() -> None:
    psi, seen = Psi(block=4, bits=2), PublicPictures()
    digest = hashlib.sha256()
    for shade in (0, 128, 255):
        picture = np.full((8, 8, 3), shade, np.uint8)
        levels = psi.compute_levels(picture)
        assert np.array_equal(seen.add_pictures(psi, picture), psi(picture))
        digest.update(repr(levels.shape).encode() + levels.tobytes())
    assert seen.sha256 == digest.hexdigest()
    assert seen.sheet.shape == (16, 16, 3)
    assert [int(seen.sheet[place].mean()) for place in ((0, 0), (0, 8), (8, 0))] == [32, 160, 224]
