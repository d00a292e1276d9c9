"""Teach a network from what only public people of Stage do, without privacy.

The worlds are those of seeds 1000 to 1999, in which no task is: tasks are in worlds below 1000, and
what is tried out before is in worlds from 2000 on. Photos are taken by cameras that stand upright;
joints are COCO's seventeen. Batch norms learn with the rest and are folded in at the end, so that
what is written has none.

    python tools/pretrain.py --task pose --out tiny_vit_small.safetensors --device cuda
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # run from a checkout
from experiments.engine import show_progress
from masquerade import _check, joints
from masquerade._torch import Tensor, nn, torch
from masquerade.datasets.stage import Stage
from masquerade.io import atomic
from masquerade.networks import (
    mvit_layers,
    picture_crops,
    tiny_vit_pose,
    weight_files,
    without_privacy,
)
from masquerade.networks.picture_crops import SIZE_PX
from masquerade.quality.pose import compute_pckh
from masquerade.result import CommandResult
from tools import run_tool

Tick = Callable[[int, int], None]

_PX, _FRAMES = 64, 16
NetworkName = Literal[
    "mvit_small",
    "mvit_v1_b",
    "mvit_v2_s",
    "tiny_vit_small",
    "tiny_vit_5m",
    "tiny_vit_11m",
    "tiny_vit_21m",
]
_FOR_FILMS = ("mvit_small", "mvit_v1_b", "mvit_v2_s")
_FOR_POSE = ("tiny_vit_small", "tiny_vit_5m", "tiny_vit_11m", "tiny_vit_21m")
SEEDS = range(1_000, 2_000)  # of the worlds; no task has one of these
WORLD = 2_592  # films of one
_LEAST = 48  # two people at least, all activities
_MOST = WORLD * len(SEEDS)


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Train a network without privacy on what only public people do, and write its weights.

    The films are of Stage's public repertoire, which has none of the daily activities, in worlds
    that no task is in; nobody private is read, nor even drawn. A tenth of the people is held out
    to see what was learned.

    Args:
        task: what is learned: activity, from films, or pose, COCO's joints from photos.
        network: which one; mvit_small, or tiny_vit_small for pose, if not given. The published
            ones are far too large for two cores.
        out: where the weights go, as safetensors.
        epochs: passes over the films; mvit_small takes 45 seconds for 1,000 films on one core, so
            what is given here takes about half an hour.
        device: where films are drawn and the network is trained.
        videos: films or photos, those held out among them; every 2,592 are of another world.
        batch: films or photos in a step.
    """

    task: Literal["activity", "pose"] = "activity"
    network: NetworkName | None = None
    out: Path = Path("weights.safetensors")
    epochs: int = 40
    device: Literal["cpu", "cuda"] = "cpu"
    videos: int = WORLD // 2
    batch: int = 32

    def __post_init__(self) -> None:
        _check.count(epochs=self.epochs, batch=self.batch)
        if self.network is not None and (self.network in _FOR_POSE) != (self.task == "pose"):
            there = _FOR_POSE if self.task == "pose" else _FOR_FILMS
            raise ValueError(
                _check.describe_unknown(f"network for {self.task}", self.network, there)
            )
        if not _LEAST <= self.videos <= _MOST:
            raise ValueError(f"Expected videos from {_LEAST} to {_MOST}, got videos={self.videos}.")

    @property
    def taught(self) -> str:
        """The network that is meant."""
        usual = "tiny_vit_small" if self.task == "pose" else "mvit_small"
        return self.network or usual

    def run(self) -> CommandResult:
        """Draw, train, test, write."""
        with show_progress() as progress:
            if self.task == "pose":
                return _answer_pose(self, pretrain_pose(self, partial(progress, self.taught)))
            found = pretrain(self, partial(progress, self.taught))
        return CommandResult(
            data=found,
            lines=[
                f"Learned from {found['learned']} public films of {found['people']} people, "
                f"{self.epochs} times each; nobody private was read.",
                f"Top-1 {found['top_1']:.3f} on {found['held_out']} public films of other people; "
                f"chance is {found['chance']:.3f}.",
                f"Wrote {self.out}: {found['parameters']} parameters.",
            ],
        )


def pretrain(plan: Pretrain, progress: Tick = lambda done, total: None) -> dict[str, Any]:
    """Train by a plan and write the weights; what was found, by name.

    Needs torch, torchvision and safetensors beside numpy, scipy and joblib, and nothing else.
    """
    refuse_impossible(plan, has_gpu=torch.cuda.is_available())
    torch.manual_seed(0)
    classes = len(Stage(repertoire="public").activities)
    net = mvit_layers.make_mvit(plan.taught, classes=classes)
    films, targets, people = _films(plan.videos, plan.device, progress)
    is_held = np.isin(people, held_out_people(people))
    entrance = net.to(plan.device).register_forward_pre_hook(
        lambda _, given: (mvit_layers.fit_films(given[0] / 2 + 0.5, plan.taught),)  # from -1 to 1
    )
    without_privacy.train_plainly(
        net,
        films[~is_held],
        targets[~is_held],
        course=without_privacy.TrainingCourse(**_course(plan)),
        progress=progress,
    )
    out = without_privacy.predict_outputs(net, films[is_held])
    entrance.remove()
    mvit_layers.save_weights(net, plan.out)
    return {
        "network": plan.taught,
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "learned": int((~is_held).sum()),
        "people": len(set(people[~is_held].tolist())),
        "held_out": int(is_held.sum()),
        "top_1": without_privacy.compute_top_1(out, targets[is_held]),
        "chance": 1 / classes,
        "weights": str(plan.out),
    }


def _course(plan: Pretrain) -> dict[str, Any]:
    """Larger steps where more films are in one."""
    return {
        "epochs": plan.epochs,
        "batch": plan.batch,
        "rate": 3e-4 * (plan.batch / 32) ** 0.5,
        "flips": True,
        "shifts": 4,
    }


def refuse_impossible(plan: Pretrain, *, has_gpu: bool) -> None:
    """Raise before anything is drawn."""
    if plan.device == "cuda" and not has_gpu:
        raise ValueError("Expected a GPU for device=cuda, found none; take device=cpu.")
    if not plan.out.parent.is_dir():
        raise ValueError(f"Expected the folder {plan.out.parent} to exist; make it first.")


def held_out_people(people: np.ndarray) -> np.ndarray:
    """A tenth of the people, one at least."""
    everyone = np.unique(people)
    chosen = everyone[9::10]
    return chosen if len(chosen) else everyone[-1:]


def _list_film_worlds(videos: int) -> Iterator[tuple[Stage, int]]:
    """Worlds that no task is in, and how many films of each."""
    for number, seed in enumerate(SEEDS[: -(-videos // WORLD)]):
        stage = Stage(
            split="public",
            repertoire="public",
            seed=seed,
            frames=_FRAMES,
            height=_PX,
            width=_PX,
            subjects=84,
            videos=WORLD,
        )
        yield stage, min(WORLD, videos - number * WORLD)


def _films(videos: int, device: str, progress: Tick) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Films (N, 3, T, H, W) uint8, what is done in each, and by whom."""
    films = np.empty((videos, 3, _FRAMES, _PX, _PX), np.uint8)
    targets, people = np.empty(videos, np.int64), np.empty(videos, "U16")
    done = 0
    for stage, count in _list_film_worlds(videos):
        for video in stage.make_videos(count, device=device):
            films[done] = np.moveaxis(video.frames, -1, 0)  # (3, T, H, W)
            targets[done] = stage.activities.index(str(video.activity))
            people[done] = f"{stage.seed}/{video.subject}"
            done += 1
            progress(done, videos)
    return films, targets, people


# --- poses

PHOTO_PX = 128
_RATE = 1e-3  # for 32 photos in a step
_LOG_SCALES, _SHIFTS = (-0.22, 0.22), 0.06  # of a crop, when it is jittered


@dataclass(frozen=True, kw_only=True, eq=False)
class Album:
    """Photos of people, held in memory; all of one size.

    Args:
        images: (N, H, W, 3) uint8.
        joints: (N, J, 2) in pixels.
        boxes: (N, 4) x, y, width and height.
        head_px: (N,).
        people: (N,) who it is.
    """

    images: np.ndarray
    joints: np.ndarray
    boxes: np.ndarray
    head_px: np.ndarray
    people: np.ndarray

    def __len__(self) -> int:
        return len(self.images)

    def chosen(self, rows: np.ndarray) -> Album:
        """Some of them."""
        return Album(**{name: value[rows] for name, value in vars(self).items()})


def _answer_pose(plan: Pretrain, found: Mapping[str, Any]) -> CommandResult:
    return CommandResult(
        data=dict(found),
        lines=[
            f"Learned from {found['learned']} public photos of {found['people']} people, "
            f"{plan.epochs} times each; nobody private was read.",
            f"PCKh@0.5 {found['pckh']:.1f} on {found['held_out']} public photos of other people.",
            f"Wrote {plan.out}: {found['parameters']} parameters.",
        ],
    )


def pretrain_pose(plan: Pretrain, progress: Tick) -> dict[str, Any]:
    """Train by a plan and write the weights, in half precision; what was found, by name."""
    refuse_impossible(plan, has_gpu=torch.cuda.is_available())
    torch.manual_seed(0)
    album = gathered_album(_list_photo_worlds(plan.videos), plan.device, progress, plan.videos)
    is_held = np.isin(album.people, held_out_people(album.people))
    learned, tested = album.chosen(~is_held), album.chosen(is_held)
    net = tiny_vit_pose.JointFinder(plan.taught, len(joints.COCO), is_folded=False).to(plan.device)
    rate = _RATE * (plan.batch / 32) ** 0.5
    teach(net, learned, epochs=plan.epochs, batch=plan.batch, rate=rate, progress=progress)
    net = tiny_vit_pose.fold_joint_finder(net).to(plan.device).eval()
    save(net, plan)
    return {
        "network": plan.taught,
        "parameters": sum(weight.numel() for weight in net.parameters()),
        "learned": len(learned),
        "people": len(set(learned.people.tolist())),
        "held_out": len(tested),
        "pckh": tested_pckh(net, tested, joints.COCO),
        "weights": str(plan.out),
    }


def save(net: tiny_vit_pose.JointFinder, plan: Pretrain) -> None:
    """Write the weights in half precision."""
    tensors = {key: value.half().cpu().contiguous() for key, value in net.state_dict().items()}
    data = weight_files.files.save(tensors, metadata={"name": net.name})
    atomic.write_whole(plan.out, data)


def _list_photo_worlds(photos: int) -> Iterator[tuple[Stage, int]]:
    """Worlds that no task is in, and how many photos of each."""
    for number, seed in enumerate(SEEDS[: -(-photos // WORLD)]):
        stage = Stage(
            kind="photos",  # type: ignore[arg-type]
            split="public",
            repertoire="public",
            seed=seed,
            subjects=84,
            photos=WORLD,
            photo_px=PHOTO_PX,
        )
        yield stage, min(WORLD, photos - number * WORLD)


def gathered_album(
    worlds: Iterator[tuple[Stage, int]], device: str, progress: Tick, total: int
) -> Album:
    """Photos of several worlds."""
    held: dict[str, list[Any]] = {
        name: [] for name in ("images", "joints", "boxes", "head_px", "people")
    }
    for stage, count in worlds:
        for photo in stage.make_photos(count, device=device):
            held["images"].append(photo.image)
            held["joints"].append(photo.joints)
            held["boxes"].append(photo.box)
            held["head_px"].append(photo.head_px)
            held["people"].append(f"{stage.seed}/{photo.subject}")
            progress(len(held["images"]), total)
    return Album(**{name: np.asarray(values) for name, values in held.items()})


def teach(
    net: Any,
    album: Album,
    *,
    epochs: int,
    batch: int,
    rate: float,
    progress: Tick,
    names: tuple[str, ...] = joints.COCO,
) -> None:
    """Train in place, without privacy; crops are moved, resized and mirrored at random."""
    device = next(net.parameters()).device
    trained = [held for held in net.parameters() if held.requires_grad]
    steps = -(-len(album) // batch) * epochs
    best = torch.optim.AdamW(trained, lr=rate, weight_decay=0.01)
    rates = torch.optim.lr_scheduler.OneCycleLR(best, rate, total_steps=steps)
    rng, done = np.random.default_rng(0), 0
    pictures = torch.from_numpy(album.images).to(device)
    net.train()
    for _ in range(epochs):
        order = rng.permutation(len(album))
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            crops, targets = lesson(album, pictures, rows, names, rng=rng)
            best.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                said = net(crops)
            net.losses(said.float(), targets).mean().backward()
            nn.utils.clip_grad_norm_(trained, 5.0)
            best.step()
            rates.step()
            done += 1
            progress(done, steps)
    net.eval()


def lesson(
    album: Album,
    pictures: Tensor,
    rows: np.ndarray,
    names: tuple[str, ...],
    *,
    rng: np.random.Generator | None = None,
) -> tuple[Tensor, Tensor]:
    """Crops (N, 3, 256, 192) and targets (N, J, 3) of some photos; jittered if there is chance."""
    regions = [picture_crops.find_pose_square(tuple(album.boxes[row])) for row in rows]
    sizes = np.array([[each.width, each.height] for each in regions])
    middles = np.array([[each.left, each.top] for each in regions]) + sizes / 2
    is_flipped = np.zeros(len(rows), bool)
    if rng is not None:
        middles = middles + rng.uniform(-_SHIFTS, _SHIFTS, middles.shape) * sizes
        sizes = sizes * np.exp(rng.uniform(*_LOG_SCALES, (len(rows), 1)))
        is_flipped = rng.random(len(rows)) < 0.5
    placed = (album.joints[rows] - middles[:, None]) / sizes[:, None]  # -0.5 to 0.5
    turned = placed[:, joints.find_mirror_order(names)] * [-1, 1]
    placed = np.where(is_flipped[:, None, None], turned, placed)
    is_known = (np.abs(placed) < 0.5).all(axis=2)
    places = (np.where(is_known[..., None], placed, 0) + 0.5) * [SIZE_PX[1], SIZE_PX[0]]
    targets = np.concatenate([places, is_known[..., None]], axis=2).astype(np.float32)
    sign = np.where(is_flipped, -1.0, 1.0)
    crops = _resampled(pictures[torch.from_numpy(rows).to(pictures.device)], middles, sizes, sign)
    return crops, torch.from_numpy(targets).to(pictures.device)


def _resampled(images: Tensor, middles: np.ndarray, sizes: np.ndarray, sign: np.ndarray) -> Tensor:
    """Crops of pictures (N, H, W, 3) around middles (N, 2), bilinearly; mirrored where sign < 0."""
    inputs = picture_crops.normalise_crops(images.permute(0, 3, 1, 2))
    picture = np.array([inputs.shape[3], inputs.shape[2]])
    shift, scale = 2 * middles / picture - 1, sizes / picture
    turn = np.zeros((len(inputs), 2, 3))
    turn[:, 0, 0], turn[:, 1, 1], turn[:, :, 2] = scale[:, 0] * sign, scale[:, 1], shift
    grid = nn.functional.affine_grid(
        torch.from_numpy(turn).float().to(inputs.device),
        [len(inputs), 3, *SIZE_PX],
        align_corners=False,
    )
    return nn.functional.grid_sample(inputs, grid, align_corners=False)


def tested_pckh(
    net: nn.Module, album: Album, names: tuple[str, ...], *, share: float = 0.5
) -> float:
    """PCKh on photos, with the flip test."""
    device = next(net.parameters()).device
    found = []
    for start in range(0, len(album), 64):
        rows = np.arange(start, min(start + 64, len(album)))
        regions = [picture_crops.find_pose_square(tuple(album.boxes[row])) for row in rows]
        shown = [
            picture_crops.crop_pose(album.images[r], g) for r, g in zip(rows, regions, strict=True)
        ]
        crops = picture_crops.make_crop_inputs(np.stack(shown)).to(device)
        said = tiny_vit_pose.predict_joint_logits(net, crops, is_flipped=True, batch=64)
        points = tiny_vit_pose.decode_joints(said, smoothing=3.0).joints.cpu().numpy()
        found += [region.map_back(one) for region, one in zip(regions, points, strict=True)]
    return compute_pckh(np.stack(found), album.joints, album.head_px, names=names, share=share).mean


if __name__ == "__main__":
    run_tool(Pretrain)
