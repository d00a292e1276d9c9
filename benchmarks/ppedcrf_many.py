"""Which noise hides a place, on which map: many places, on a GPU.

Every shape of noise of PPEDCRF on every map of it, at exactly equal PSNR and with equal people,
against networks that patterns and map have met and others. One picture a place is asked for among
all places (public ones of Stage, of a world that nothing was learned on); noise is drawn anew in
every run. Then an attacker who has learned from releases of other places, by a linear discriminant
analysis. Noise is torch's here: this is an experiment, nothing is published. Some minutes on one
H200; on processors ``--places 32 --networks mobilenet_v2``.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import cv2
import numpy as np
import tyro

from masquerade._torch import torch
from masquerade.attacks.rates import Discriminants, bootstrap_figure
from masquerade.networks import place_networks
from masquerade.places import place_maps
from tools import place_training as fooling
from tools import place_worlds
from tools.place_teachers import Teacher, as_pictures, teachers

PSNRS = (36.0, 33.0, 30.0)
SHAPES, MAPS = ("white", "grain", "patterns"), ("even", "evidence", "network")
ROWS = (*((shape, unary) for shape in SHAPES for unary in MAPS), ("white", "global"))
GRAIN_PX = 0.01 * 192
AT_ONCE = 32
MOST_HERE = 32  # places on processors
_ADAPTED = Discriminants(shrunk=0.3, is_scaled=False, is_between=False)


def amounts(frames: np.ndarray, unary: str) -> np.ndarray:
    """(N, 1, H, W): how much each pixel gets, as the mechanism's maps have it for one frame."""
    height, width = frames.shape[1:3]
    found = []
    for frame in frames:
        small = cv2.resize(frame, (width // 3, height // 3), interpolation=cv2.INTER_AREA)
        logits = {
            "even": lambda small: np.zeros(small.shape[:2], np.float32),
            "evidence": lambda small: place_maps.compute_place_logits(small, None),
            "network": place_networks.predict_place_logits,
        }[unary](small)
        now = place_maps.DynamicField().refine_map(logits, None)
        found.append(
            cv2.resize(place_maps.compute_control_penalty(now, 1.0) * now, (width, height))
        )
    return np.stack(found)[:, None]


def fields(shape: str, net: place_networks.PlaceTexture, pictures: torch.Tensor) -> torch.Tensor:
    """Noise (N, 3, H, W)."""
    if shape == "patterns":
        return fooling.draw_textures(net, pictures)
    drawn = torch.randn_like(pictures)
    return drawn if shape == "white" else blurred(drawn)


def blurred(values: torch.Tensor) -> torch.Tensor:
    reach = math.ceil(3 * GRAIN_PX)
    away = torch.arange(-reach, reach + 1, device=values.device).float()
    bell = torch.exp(-0.5 * (away / GRAIN_PX) ** 2).repeat(3, 1)
    pad = torch.nn.functional.pad(values, (reach,) * 4, mode="reflect")
    across = torch.nn.functional.conv2d(pad, bell[:, None, None, :], groups=3)
    return torch.nn.functional.conv2d(across, bell[:, None, :, None], groups=3)


class Exam:
    """Pictures that are asked for, with people, and those that attackers hold."""

    def __init__(self, count: int, where: str, net: place_networks.PlaceTexture) -> None:
        people = place_worlds.public_people(72)
        places = place_worlds.empty_places(count, takes=3, seed=place_worlds.SEEDS[1], device=where)
        self.gallery, self.net = places[:, 0], net
        self.scenes = fooling.PublicScenes.of(places, people, where)
        both, behind = self.scenes.asked(np.arange(count), np.random.default_rng(1))
        self.asked, self.second = both[:count], both[count:]
        self.behind, self.second_behind = behind[:count], behind[count:]
        frames = self.asked.permute(0, 2, 3, 1).to(torch.uint8).cpu().numpy()
        self.maps = {each: torch.from_numpy(amounts(frames, each)) for each in MAPS}

    def released(
        self, pictures: torch.Tensor, behind: torch.Tensor, shape: str, psnr: float
    ) -> torch.Tensor:
        """Pictures with noise where it may be, at so many dB each."""
        made = []
        for some, back in zip(pictures.split(AT_ONCE), behind.split(AT_ONCE), strict=True):
            drawn = fields(shape, self.net, some)
            strength = torch.full((len(some),), psnr, device=some.device)
            made.append(fooling.released(some, drawn, back, strength))
        return torch.cat(made)

    def by_map(self, shape: str, unary: str, psnr: float) -> torch.Tensor:
        """What is asked for, with noise by a map behind people, or on everything."""
        if unary == "global":
            return self.released(self.asked, torch.ones_like(self.behind), shape, psnr)
        weights = self.maps[unary].to(self.behind.device) * self.behind
        return self.released(self.asked, weights, shape, psnr)


def features(teacher: Teacher, pictures: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([teacher.features(some) for some in pictures.split(AT_ONCE)])


def hits(found: torch.Tensor, held: torch.Tensor) -> np.ndarray:
    own = torch.arange(len(found), device=found.device)
    return ((found @ held.T).argmax(dim=1) == own).float().cpu().numpy()


def learned(
    exam: Exam, nets: dict[str, Teacher], shape: str, psnr: float
) -> dict[str, tuple[float, float]]:
    """Top-1 among half of the places: of who compares, and of who has learned from the others."""
    half = len(exam.asked) // 2
    raw = as_pictures(exam.gallery[:half], str(exam.asked.device))  # type: ignore[arg-type]
    ours, held, first, second = (
        exam.released(pictures, behind, shape, psnr)
        for pictures, behind in (
            (exam.asked[:half], exam.behind[:half]),
            (raw, torch.ones_like(exam.behind[:half])),
            (exam.asked[half:], exam.behind[half:]),
            (exam.second[half:], exam.second_behind[half:]),
        )
    )
    found = {}
    for name, teacher in nets.items():
        asked = features(teacher, ours)
        naive = hits(asked, features(teacher, raw)).mean()
        seen = torch.cat([features(teacher, each) for each in (first, second)])
        change = _ADAPTED.learn_metric(seen.cpu().numpy(), np.tile(np.arange(len(first)), 2))
        rows = [change(each.cpu().numpy()) for each in (asked, features(teacher, held))]
        one, other = (
            torch.from_numpy(each / np.linalg.norm(each, axis=1, keepdims=True)) for each in rows
        )
        found[name] = float(naive), float(hits(one, other).mean())
    return found


def ratio(ours: np.ndarray, other: np.ndarray) -> str:
    """Of two rows' shares, with its interval over places."""
    one = bootstrap_figure(
        "ratio",
        lambda rows: float(ours[rows].mean() / max(other[rows].mean(), 1e-9)),
        range(len(ours)),
        of="places",
        seed=0,
    )
    return f"{one.value:.2f} ({one.low:.2f} to {one.high:.2f})"


def main(
    places: int = 512,
    networks: tuple[str, ...] = ("mobilenet_v2", "efficientnet_lite2", "vgg16"),
    met: tuple[str, ...] = ("efficientnet_lite0", "efficientnet_lite1", "alexnet"),
    seeds: int = 3,
    weights: Path = place_networks.TEXTURE_WEIGHTS,
    out: Path | None = None,
) -> None:
    """Measure.

    Args:
        places: to tell apart.
        networks: that were not learned from.
        met: that were.
        seeds: runs.
        weights: of the network that draws patterns.
        out: a JSON file for all numbers.
    """
    where = "cuda" if torch.cuda.is_available() else "cpu"
    if where == "cpu" and places > MOST_HERE:
        print(f"no GPU here; --places {MOST_HERE} takes some minutes of processors")
        return
    exam = Exam(places, where, place_networks.load_texture_net(weights).to(where))
    nets = teachers((*networks, *met), where)  # type: ignore[arg-type]
    held = {name: each.all_features(exam.gallery) for name, each in nets.items()}
    told = {
        f"raw, {name}": float(hits(features(each, exam.asked), held[name]).mean())
        for name, each in nets.items()
    }
    print({name: round(value, 3) for name, value in told.items()}, flush=True)
    for psnr in PSNRS:
        means = {}
        for shape, unary in ROWS:
            who = nets if unary in ("even", "global") else {name: nets[name] for name in networks}
            found: dict[str, list[np.ndarray]] = {name: [] for name in who}
            for seed in range(seeds):
                torch.manual_seed(seed)
                made = exam.by_map(shape, unary, psnr)
                for name, each in who.items():
                    found[name].append(hits(features(each, made), held[name]))
            for name, each in found.items():
                told[f"{psnr:g} dB, {shape}, {unary}, {name}"] = float(np.mean(each))
            runs = np.mean([found[name] for name in networks], axis=0)  # (runs, places)
            means[shape, unary] = runs.mean(axis=0)
            spread = np.std(100 * runs.mean(axis=1), ddof=1) if seeds > 1 else math.nan
            each_ = ", ".join(f"{name} {100 * np.mean(v):.1f}" for name, v in found.items())
            print(
                f"{psnr:g} dB, {shape}, {unary}: {100 * runs.mean():.1f} +- {spread:.1f} ({each_})",
                flush=True,
            )
        ours = means["patterns", "even"]
        for other in (("white", "global"), ("white", "even"), ("patterns", "network")):
            print(f"  patterns, even over {', '.join(other)}: {ratio(ours, means[other])}")
        for shape in ("patterns", "white"):
            torch.manual_seed(9)
            for name, (naive, taught) in learned(exam, nets, shape, psnr).items():
                told[f"{psnr:g} dB, {shape}, naive, {name}"] = naive
                told[f"{psnr:g} dB, {shape}, learned, {name}"] = taught
                print(
                    f"{psnr:g} dB, {shape}, {name}: {100 * naive:.1f} of {places // 2} places, "
                    f"{100 * taught:.1f} by who has learned",
                    flush=True,
                )
        if out is not None:
            out.write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    tyro.cli(main)
