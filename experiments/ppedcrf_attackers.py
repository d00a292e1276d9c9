"""Who looks at what PPEDCRF's tables release: attackers, naive and learned, and useful networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from experiments import videos
from experiments.engine import run_parallel, split_data
from experiments.ppedcrf_films import Scenes, Taken, Variant, release_films, release_some
from masquerade._optional import require_extra
from masquerade._torch import Tensor, torch
from masquerade.attacks.place_matching import PlaceGallery, among_first
from masquerade.attacks.rates import Discriminants
from masquerade.datasets.stage import Stage
from masquerade.errors import MissingExtra
from masquerade.io import devices
from masquerade.networks.network import find_network_class
from masquerade.noise import Noise
from masquerade.places import place_maps, place_noise
from masquerade.recordings import Video
from masquerade.vision import embedding_cache
from masquerade.vision.place_features import PlaceFeatures
from tools.place_teachers import Teacher, as_pictures, margins, teachers, where_looked

cv2 = require_extra("cv2", extra="vision")

FIRST = (1, 5, 10)  # places that the attacker may name
Hits = dict[str, tuple[tuple[float, ...], ...]]  # by size of gallery
Released = tuple[np.ndarray, np.ndarray, np.ndarray]
_ADAPTED = Discriminants(shrunk=0.3, is_scaled=False, is_between=False)

# --- where a film was taken


@dataclass(frozen=True, kw_only=True)
class PlaceCell:
    """One row of a table, in one run."""

    name: str  # of the variant
    sigma: float | None  # its strength; None where there is no noise
    seed: int  # of the run
    psnr: float  # of the middle frames, mean, in dB
    ssim: float  # of the films
    flicker: float  # mean absolute change from frame to frame
    stability: float  # spread of how much frames were changed
    # by network and size of gallery, for each film whether its place is among the first 1, 5, 10
    hits: Mapping[str, Mapping[str, tuple[tuple[float, ...], ...]]]

    def top(self, network: str, gallery: int, first: int = 1) -> float:
        """The share of films whose place is among the first."""
        rows = self.hits[network][str(gallery)]
        return float(np.mean([row[FIRST.index(first)] for row in rows]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Attackers:
    """What attackers hold."""

    scenes: Scenes  # films and gallery
    networks: Mapping[str, PlaceFeatures]  # one attacker each
    sizes: tuple[int, ...]  # of galleries

    @cached_property
    def _held(self) -> dict[str, np.ndarray]:
        """Of the gallery, remembered picture by picture."""
        return {
            name: np.concatenate(
                [
                    embedding_cache.read_or_embed(
                        one[None], fingerprint=eye.fingerprint, make=eye.embed
                    )
                    for one in self.scenes.gallery
                ]
            )
            for name, eye in self.networks.items()
        }

    def embed(self, network: str, pictures: np.ndarray) -> np.ndarray:
        """(N, D) of unit length."""
        return self.networks[network].embed(pictures)

    def find_hits(self, network: str, pictures: np.ndarray) -> Hits:
        """For one picture a film, by size of gallery, whether the place is among the first."""
        return self._rank_places(self.embed(network, pictures), self._held[network])

    def _rank_places(self, asked: np.ndarray, held: np.ndarray) -> Hits:
        found = {}
        for size in self.sizes:
            places = np.arange(size)
            gallery = PlaceGallery(features=held[:size], owner=places)
            scores = gallery.score_places(asked, places)
            own = np.arange(len(asked))
            columns = [among_first(scores, own, count=count).tolist() for count in FIRST]
            found[str(size)] = tuple(zip(*columns, strict=True))
        return found

    def attack_raw(self) -> dict[str, Hits]:
        """Films as they are."""
        films = self.scenes.queries
        pictures = np.stack([film.frames[len(film.frames) // 2] for film in films])
        return {name: self.find_hits(name, pictures) for name in self.networks}

    def attack_taken(
        self, variant: Variant, seed: int, made: Taken, networks: Sequence[str]
    ) -> PlaceCell:
        """What was released, attacked by some networks, or by all."""
        return PlaceCell(
            name=variant.name,
            sigma=variant.sigma,
            seed=seed,
            **made.quality,
            hits={name: self.find_hits(name, made.pictures) for name in networks or self.networks},
        )

    def adapt(self, network: str, shown: np.ndarray, released: Released) -> dict[str, float]:
        """Top-1 by gallery of who has released pictures of other places, and learned from them.

        Args:
            network: who looks.
            shown: (N, H, W, 3), one a film.
            released: the gallery and the other places, released by the attacker in the same way.
        """
        held, first, second = (self.embed(network, pictures) for pictures in released)
        seen, whose = np.concatenate([first, second]), np.tile(np.arange(len(first)), 2)
        change = _ADAPTED.learn_metric(seen, whose)
        few = replace(self, sizes=self._few)
        asked, known = (_scale_rows(change(each)) for each in (self.embed(network, shown), held))
        rows = few._rank_places(asked, known)
        return {size: float(np.mean([hit[0] for hit in hits])) for size, hits in rows.items()}

    @property
    def lesson(self) -> Released:
        """The gallery, and two pictures of each of other places, before they are released."""
        others = self.scenes.others
        return self.scenes.gallery[: max(self._few)], others[:, 0], others[:, 1]

    @property
    def _few(self) -> tuple[int, ...]:
        """Galleries that the attacker releases; larger ones only take time."""
        return tuple(size for size in self.sizes if size <= 48) or self.sizes[:1]


def _scale_rows(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(length, 1e-12))


# --- how far a mask could come: noise made with an attacker's own gradients
#
# No release has these: they need the attacker's network, its gallery, and the right answer. They
# bound what any map can do for noise of one shape, and what noise of any shape can do.

_STEPS = 20  # along the gradient
_PACE = 0.25  # of the strength, the first step


@dataclass(frozen=True, kw_only=True)
class Oracle:
    """Noise made with an attacker's own gradients: a bound on what maps and shapes can do."""

    network: str  # whose gradients, and who looks
    psnr: float  # dB
    by_map: tuple[float, ...]  # Top-1, white noise where this network looks; one a run
    by_map_patterns: tuple[float, ...]  # the same with patterns
    by_steps: tuple[float, ...]  # shades changed along the gradient itself


def measure_oracle(
    attackers: Attackers, network: str, psnr: float, seeds: int, size: int
) -> Oracle:
    """Top-1 of one attacker, of middle frames at so many dB each.

    Args:
        attackers: films and galleries.
        network: the attacker, and whose gradients are used.
        psnr: dB.
        seeds: runs, where there is chance.
        size: of the gallery.
    """
    (teacher,) = teachers((network,), devices.device_name()).values()  # type: ignore[arg-type]
    films = attackers.scenes.queries
    frames = np.stack([film.frames[len(film.frames) // 2] for film in films])
    behind = np.stack([_find_background(film) for film in films])
    gallery = teacher.all_features(attackers.scenes.gallery[:size])
    logits = where_looked(teacher, frames, gallery, np.arange(len(films)))
    maps = np.stack([_map_amount(each, here) for each, here in zip(logits, behind, strict=True)])

    def find_top(pictures: np.ndarray) -> float:
        hits = attackers.find_hits(network, pictures)[str(size)]
        return float(np.mean([hit[0] for hit in hits]))

    by_map, by_patterns = (
        tuple(find_top(_add_noise(frames, maps, psnr, shape, seed)) for seed in range(seeds))
        for shape in ("white", "patterns")
    )
    return Oracle(
        network=network,
        psnr=psnr,
        by_map=by_map,
        by_map_patterns=by_patterns,
        by_steps=(find_top(_follow_gradient(teacher, frames, behind, gallery, psnr)),),
    )


def _find_background(film: Video) -> np.ndarray:
    """(H, W) bool, of the middle frame."""
    frames, mask = film.frames, film.person_mask
    return np.ones(frames.shape[1:3], bool) if mask is None else ~mask[len(frames) // 2]


def _map_amount(logits: np.ndarray, here: np.ndarray) -> np.ndarray:
    """(H, W): what the mechanism makes of logits, 0 on people."""
    now = place_maps.DynamicField().refine_map(2 * logits, None)
    amount = cv2.resize(place_maps.compute_control_penalty(now, 1.0) * now, here.shape[::-1])
    return np.where(here, amount, 0.0).astype(np.float32)


def _add_noise(
    frames: np.ndarray, amounts: np.ndarray, psnr: float, shape: str, seed: int
) -> np.ndarray:
    made = []
    for number, (frame, amount) in enumerate(zip(frames, amounts, strict=True)):
        noise, size = Noise(seed=1_000 * seed + number), amount.shape
        grains: place_noise.FilmNoise = (
            place_noise.PatternedNoise(size, still=0.0, bank=None, noise=noise)
            if shape == "patterns"
            else place_noise.ScatteredNoise(size, still=0.0, grain_px=0.0, noise=noise)
        )
        sigma = 255 * 10 ** (-psnr / 20) / float(np.sqrt(np.mean(amount**2)))
        made.append(
            place_noise.add_place_noise(frame, amount, grains.next_frame_noise(None), sigma)
        )
    return np.stack(made)


def _follow_gradient(
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
        change = change - _scale_to(slope * here, whole * _PACE * (1 - step / _STEPS))
        long = change.flatten(1).norm(dim=1).clamp_min(whole)
        change = change * (whole / long).view(-1, 1, 1, 1)
    made = (given + _scale_to(change, whole)).round().clamp(0, 255)
    return np.asarray(made.permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy())


def _scale_to(values: Tensor, length: float) -> Tensor:
    """Each of (N, ...) at one length."""
    own = values.flatten(1).norm(dim=1).clamp_min(1e-12)
    scaled: Tensor = values * (length / own).view(-1, 1, 1, 1)
    return scaled


# --- what is left to use: joints, and the names of activities


def measure_moves(films: Sequence[Video], variant: Variant) -> float | None:
    """By how much a public pose network's joints move: the mean over films and joints.

    In pixels of the middle frame; None without the network. Films in which it finds nobody before
    are left out; nobody after counts as the frame's height.
    """
    try:
        from masquerade.vision.poses import PoseLandmarks

        seer = PoseLandmarks()
        seer.load_networks()
    except (ImportError, MissingExtra):
        return None
    found = []
    for film, shown in zip(films, release_films(films, variant, 0), strict=True):
        middle = len(shown) // 2
        before, after = (seer.find_poses(frames[middle]) for frames in (film.frames, shown))
        if not before:
            continue
        if not after:
            found.append(float(shown.shape[1]))
            continue
        away = before[0].joints[:, :2] - after[0].joints[:, :2]
        found.append(float(np.linalg.norm(away, axis=1).mean()))
    return float(np.mean(found)) if found else None


_AT_ONCE = 24  # recordings that a process releases
_EACH = 3  # videos of which one is tested


@dataclass(frozen=True, kw_only=True)
class Activities:
    """How often a frozen public network names what people do."""

    before: tuple[float, ...]  # of raw recordings, 1 where it is right, one a recording
    after: dict[str, tuple[float, ...]]  # of released ones, by variant
    psnr: float  # dB at which they were released
    learned: int  # recordings that the classes' means are of
    # of released ones, where the means are of released ones too, by variant
    anew: dict[str, tuple[float, ...]] = field(default_factory=dict)

    def find_loss(self, after: Sequence[float]) -> tuple[float, float]:
        """Points lost, and the standard error of that, over recordings."""
        lost = 100 * (np.array(self.before) - np.array(after))
        return float(lost.mean()), float(lost.std(ddof=1) / np.sqrt(len(lost)))


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownFilms:
    """Released recordings as `videos.compute_features` takes them."""

    activities: tuple[str, ...]
    films: Sequence[Video]

    def __getitem__(self, number: int) -> Video:
        return self.films[number]


def name_activities(plan: Any, rows: Sequence[Variant], psnr: float) -> Activities:
    """By the nearest mean of raw training recordings, before and after; and of released ones.

    Who has nothing but the publication learns from released recordings.

    Args:
        plan: how many, on what device, by how many processes.
        rows: variants at their strengths.
        psnr: dB that they leave in the films of the other tables.
    """
    train, test = split_data(Stage(videos=_EACH * plan.acted))
    network = find_network_class("mvit_small")()
    compute = partial(videos.compute_features, network, device=plan.device)
    learned, tested = (min(len(part), plan.acted) for part in (train, test))
    known = compute(train, range(learned))
    before = _find_right(known, compute(test, range(tested)))
    after, anew = {}, {}
    for row in rows:
        asked, shown = (
            compute(_release_part(plan, part, count, row), range(count))
            for part, count in ((test, tested), (train, learned))
        )
        after[row.name] = _find_right(known, asked)
        anew[row.name] = _find_right(shown, asked)
    return Activities(before=before, after=after, psnr=psnr, learned=learned, anew=anew)


def _release_part(plan: Any, part: Any, count: int, row: Variant) -> Any:
    """The first recordings of a part, released."""
    ends = [(start, min(start + _AT_ONCE, count)) for start in range(0, count, _AT_ONCE)]
    calls = (partial(release_some, part, range(*end), row) for end in ends)
    films = [film for some in run_parallel(calls, jobs=plan.jobs) for film in some]
    return ShownFilms(activities=part.activities, films=films)


def _find_right(known: videos.Features, asked: videos.Features) -> tuple[float, ...]:
    """1 for each recording that is named as it should be."""
    every = range(len(known.targets))
    return tuple(
        videos.match_nearest(known, [every], videos.Features(values=v, targets=t)).mean
        for v, t in zip(asked.values[:, None], asked.targets[:, None], strict=True)
    )
