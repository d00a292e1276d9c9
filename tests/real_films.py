"""Small data sets in their publishers' layouts, cut out of a real film, and their masks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import video_files as maker
from masquerade.errors import BadInput
from masquerade.io import downloads
from masquerade.io.video import read

HEIGHT, WIDTH, FRAMES = 96, 112, 8
UCF, NTU, TOYOTA = "UCF-101", "nturgb+d_rgb", "mp4"
NAMES: Mapping[str, tuple[str, ...]] = {
    "ucf101": tuple(
        f"{kind}/v_{kind}_g0{group}_c01.avi"
        for group in (1, 2, 3)
        for kind in ("Archery", "Diving")
    ),
    "ntu_rgbd": tuple(
        f"S001C001P00{who}R001A00{what}_rgb.avi" for who in (1, 2, 3) for what in (1, 2)
    ),
    "toyota_smarthome": tuple(
        f"{what}_p{who}_r00_v01_c01.mp4" for who in ("03", "04", "02") for what in ("Walk", "Leave")
    ),
}
FOLDERS = {"ucf101": UCF, "ntu_rgbd": NTU, "toyota_smarthome": TOYOTA}


@cache
def walker() -> np.ndarray:
    """(T, H, W, 3): a stretch of a real film in which somebody walks."""
    try:
        path = downloads.fetch_asset("sports2d_demo")
    except (OSError, BadInput) as error:
        pytest.skip(f"sports2d_demo cannot be had: {error}")
    return read.read_segment(path, 70, 70 + FRAMES + 6)


def clip(number: int) -> np.ndarray:
    """A short clip; each number gives another one."""
    film = walker()[number : number + FRAMES, 500:980, 900 + 20 * number : 1460 + 20 * number]
    return np.ascontiguousarray(film[:, ::5, ::5])


def person(number: int) -> np.ndarray:
    """(T, H, W): roughly where the walker is in that clip."""
    mask = np.zeros((FRAMES, HEIGHT, WIDTH), bool)
    mask[:, 4:88, 40 - 4 * number : 90 - 4 * number] = True
    return mask


def put(root: Path, data: str, *, frames: int = FRAMES) -> Path:
    """A data set below a folder: half as many clips to test as to train."""
    for number, name in enumerate(NAMES[data]):
        path = root / FOLDERS[data] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = "mpeg4.avi" if path.suffix == ".avi" else "h264.mp4"
        maker.make(path, clip(number)[:frames], maker.KINDS[kind])
    if data == "ucf101":
        lists = root / "ucfTrainTestlist"
        lists.mkdir()
        (lists / "classInd.txt").write_text("1 Archery\n2 Diving\n")
        train, test = NAMES[data][:4], NAMES[data][4:]
        rows = [f"{name} {1 + name.startswith('Diving')}\n" for name in train]
        (lists / "trainlist01.txt").write_text("".join(rows))
        (lists / "testlist01.txt").write_text("".join(f"{name}\n" for name in test))
    return root


def put_masks(folder: Path, data: str, form: str) -> Path:
    """Their masks as pictures, arrays or videos."""
    for number, name in enumerate(NAMES[data]):
        place, mask = folder / Path(name).with_suffix(""), person(number)
        place.parent.mkdir(parents=True, exist_ok=True)
        values = 255 * np.repeat(mask[..., None], 3, axis=3).astype(np.uint8)
        if form == "arrays":
            np.savez_compressed(f"{place}.masks.npz", person=np.packbits(mask, axis=2))
        elif form == "videos":
            maker.make(Path(f"{place}.mkv"), values, maker.KINDS["h264.mkv"])
        else:
            place.mkdir()
            for at, value in enumerate(values):
                kind = maker.Kind(suffix=".png", codec="png", pixel_format="rgb24")
                maker.make(place / f"{at:04}.png", value[None], kind)
    return folder
