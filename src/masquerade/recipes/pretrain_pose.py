"""Teach a network where joints are, on photos of what only public people of Stage do.

Photos, like films, are of the public repertoire in worlds that no task is in, taken by cameras that
stand upright; joints are COCO's seventeen. Batch norms learn with the rest and are folded in at the
end, so that what is written has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from masquerade import joints
from masquerade._torch import Tensor, nn, torch
from masquerade.datasets.stage import Stage
from masquerade.io import atomic
from masquerade.networks import picture_crops, simcc, tiny_vit_pose, weight_files
from masquerade.quality.pose import pckh
from masquerade.recipes.pretrain import SEEDS, WORLD, held_out_people, refuse_impossible
from masquerade.result import Answer

if TYPE_CHECKING:
    from masquerade.recipes.pretrain import Pretrain


Progress = Callable[[int, int], None]

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


def answer(plan: Pretrain, progress: Progress) -> Answer:
    """Draw, train, test, write; and what to print."""
    found = pretrain_pose(plan, progress)
    return Answer(
        data=found,
        lines=[
            f"Learned from {found['learned']} public photos of {found['people']} people, "
            f"{plan.epochs} times each; nobody private was read.",
            f"PCKh@0.5 {found['pckh']:.1f} on {found['held_out']} public photos of other people.",
            f"Wrote {plan.out}: {found['parameters']} parameters.",
        ],
    )


def pretrain_pose(plan: Pretrain, progress: Progress) -> dict[str, Any]:
    """Train by a plan and write the weights, in half precision; what was found, by name."""
    refuse_impossible(plan, has_gpu=torch.cuda.is_available())
    torch.manual_seed(0)
    album = gathered_album(_worlds(plan.videos), plan.device, progress, plan.videos)
    is_held = np.isin(album.people, held_out_people(album.people))
    learned, tested = album.chosen(~is_held), album.chosen(is_held)
    net = tiny_vit_pose.JointFinder(plan.taught, len(joints.COCO), is_folded=False).to(plan.device)
    rate = _RATE * (plan.batch / 32) ** 0.5
    teach(net, learned, epochs=plan.epochs, batch=plan.batch, rate=rate, progress=progress)
    net = tiny_vit_pose.folded(net).to(plan.device).eval()
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


def _worlds(photos: int) -> Iterator[tuple[Stage, int]]:
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
    worlds: Iterator[tuple[Stage, int]], device: str, progress: Progress, total: int
) -> Album:
    """Photos of several worlds."""
    held: dict[str, list[Any]] = {
        name: [] for name in ("images", "joints", "boxes", "head_px", "people")
    }
    for stage, count in worlds:
        for photo in stage.photographed(count, device=device):
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
    progress: Progress,
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
    regions = [picture_crops.pose_square(tuple(album.boxes[row])) for row in rows]
    sizes = np.array([[each.width, each.height] for each in regions])
    middles = np.array([[each.left, each.top] for each in regions]) + sizes / 2
    is_flipped = np.zeros(len(rows), bool)
    if rng is not None:
        middles = middles + rng.uniform(-_SHIFTS, _SHIFTS, middles.shape) * sizes
        sizes = sizes * np.exp(rng.uniform(*_LOG_SCALES, (len(rows), 1)))
        is_flipped = rng.random(len(rows)) < 0.5
    placed = (album.joints[rows] - middles[:, None]) / sizes[:, None]  # -0.5 to 0.5
    turned = placed[:, joints.mirrored(names)] * [-1, 1]
    placed = np.where(is_flipped[:, None, None], turned, placed)
    is_known = (np.abs(placed) < 0.5).all(axis=2)
    places = (np.where(is_known[..., None], placed, 0) + 0.5) * [simcc.SIZE_PX[1], simcc.SIZE_PX[0]]
    targets = np.concatenate([places, is_known[..., None]], axis=2).astype(np.float32)
    sign = np.where(is_flipped, -1.0, 1.0)
    crops = _resampled(pictures[torch.from_numpy(rows).to(pictures.device)], middles, sizes, sign)
    return crops, torch.from_numpy(targets).to(pictures.device)


def _resampled(images: Tensor, middles: np.ndarray, sizes: np.ndarray, sign: np.ndarray) -> Tensor:
    """Crops of pictures (N, H, W, 3) around middles (N, 2), bilinearly; mirrored where sign < 0."""
    inputs = picture_crops.normalised(images.permute(0, 3, 1, 2))
    picture = np.array([inputs.shape[3], inputs.shape[2]])
    shift, scale = 2 * middles / picture - 1, sizes / picture
    turn = np.zeros((len(inputs), 2, 3))
    turn[:, 0, 0], turn[:, 1, 1], turn[:, :, 2] = scale[:, 0] * sign, scale[:, 1], shift
    grid = nn.functional.affine_grid(
        torch.from_numpy(turn).float().to(inputs.device),
        [len(inputs), 3, *simcc.SIZE_PX],
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
        regions = [picture_crops.pose_square(tuple(album.boxes[row])) for row in rows]
        shown = [
            picture_crops.crop_pose(album.images[r], g) for r, g in zip(rows, regions, strict=True)
        ]
        crops = picture_crops.as_inputs(np.stack(shown)).to(device)
        said = tiny_vit_pose.answers(net, crops, is_flipped=True, batch=64)
        points = simcc.decoded(said, smoothing=3.0).joints.cpu().numpy()
        found += [region.back(one) for region, one in zip(regions, points, strict=True)]
    return pckh(np.stack(found), album.joints, album.head_px, names=names, share=share).mean
