"""How far a mask could come: noise made with an attacker's own gradients.

No release has these: they need the attacker's network, its gallery, and the right answer. They
bound what any map can do for noise of one shape, and what noise of any shape can do.
"""

from __future__ import annotations

import numpy as np

from masquerade._optional import require
from masquerade._torch import Tensor, torch
from masquerade.io import devices
from masquerade.noise import Noise
from masquerade.places import place_maps, place_noise
from masquerade.recipes.place_saliency import where_looked
from masquerade.recipes.place_teachers import Teacher, as_pictures, margins, teachers
from masquerade.recipes.ppedcrf.findings import Oracle
from masquerade.recipes.ppedcrf.measured import PlaceRoom

cv2 = require("cv2", extra="vision")


_STEPS = 20  # along the gradient
_FIRST = 0.25  # of the strength, the first step


def told(room: PlaceRoom, network: str, psnr: float, seeds: int, size: int) -> Oracle:
    """Top-1 of one attacker, of middle frames at so many dB each.

    Args:
        room: films and galleries.
        network: the attacker, and whose gradients are used.
        psnr: dB.
        seeds: runs, where there is chance.
        size: of the gallery.
    """
    where = devices.chosen()
    (teacher,) = teachers((network,), where).values()  # type: ignore[arg-type]
    films = room.scenes.queries
    frames = np.stack([film.frames[len(film.frames) // 2] for film in films])
    behind = np.stack([_behind(film) for film in films])
    gallery = teacher.all_features(room.scenes.gallery[:size])
    maps = _amounts(where_looked(teacher, frames, gallery, np.arange(len(films))), behind)

    def top(pictures: np.ndarray) -> float:
        return float(np.mean([hit[0] for hit in room.hits(network, pictures)[str(size)]]))

    by_map, by_patterns = (
        tuple(top(_noised(frames, maps, psnr, shape, seed)) for seed in range(seeds))
        for shape in ("white", "patterns")
    )
    return Oracle(
        network=network,
        psnr=psnr,
        by_map=by_map,
        by_map_patterns=by_patterns,
        by_steps=(top(_stepped(teacher, frames, behind, gallery, psnr)),),
    )


def _behind(film: object) -> np.ndarray:
    frames, mask = film.frames, film.person_mask  # type: ignore[attr-defined]
    middle = len(frames) // 2
    return np.ones(frames.shape[1:3], bool) if mask is None else ~mask[middle]


def _amounts(logits: np.ndarray, behind: np.ndarray) -> np.ndarray:
    """(N, H, W): what the mechanism makes of logits, 0 on people."""
    found = []
    for each, here in zip(logits, behind, strict=True):
        now = place_maps.Field().refined(2 * each, None)
        amount = cv2.resize(place_maps.control(now, 1.0) * now, here.shape[::-1])
        found.append(np.where(here, amount, 0.0).astype(np.float32))
    return np.stack(found)


def _noised(
    frames: np.ndarray, amounts: np.ndarray, psnr: float, shape: str, seed: int
) -> np.ndarray:
    made = []
    for number, (frame, amount) in enumerate(zip(frames, amounts, strict=True)):
        noise, size = Noise(seed=1_000 * seed + number), amount.shape
        grains: place_noise.Grains = (
            place_noise.Patterned(size, still=0.0, bank=None, noise=noise)
            if shape == "patterns"
            else place_noise.Scattered(size, still=0.0, grain_px=0.0, noise=noise)
        )
        sigma = 255 * 10 ** (-psnr / 20) / float(np.sqrt(np.mean(amount**2)))
        made.append(place_noise.noised(frame, amount, grains.following(None), sigma))
    return np.stack(made)


def _stepped(
    teacher: Teacher, frames: np.ndarray, behind: np.ndarray, gallery: Tensor, psnr: float
) -> np.ndarray:
    """Frames changed along the gradient of the margin, step by step, at so many dB."""
    given = as_pictures(frames, teacher.where)
    here = torch.from_numpy(behind).to(given.device)[:, None].float()
    own = torch.arange(len(frames), device=given.device)
    whole = 255 * 10 ** (-psnr / 20) * float(np.sqrt(given[0].numel()))
    change = torch.zeros_like(given)
    for step in range(_STEPS):
        now = (given + change).requires_grad_(True)
        ahead = margins(teacher.features(now), gallery, own).sum()
        (slope,) = torch.autograd.grad(ahead, now)
        way = _of_length(slope * here, whole * _FIRST * (1 - step / _STEPS))
        change = change - way
        long = change.flatten(1).norm(dim=1).clamp_min(whole)
        change = change * (whole / long).view(-1, 1, 1, 1)
    made = (given + _of_length(change, whole)).round().clamp(0, 255)
    return np.asarray(made.permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy())


def _of_length(values: Tensor, length: float) -> Tensor:
    """Each of (N, ...) at one length."""
    own = values.flatten(1).norm(dim=1).clamp_min(1e-12)
    scaled: Tensor = values * (length / own).view(-1, 1, 1, 1)
    return scaled
