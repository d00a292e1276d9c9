"""Masks of a folder: every form gives the same mask, doubt falls on the private side, faults are
named."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import video_files as maker
from masquerade.datasets.mask_files import MaskFiles, MaskForm, Side
from masquerade.errors import BadInput

T, H, W = 4, 30, 44
SHAPE = (T, H, W, 3)
NAME = "Archery/v_Archery_g01_c01.avi"
STEM = NAME.removesuffix(".avi")
TRUE = np.zeros((T, H, W), bool)
for _t in range(T):
    TRUE[_t, 6:24, 8 + 2 * _t : 24 + 2 * _t] = True


def picture(path: Path, values: np.ndarray, pixel_format: str = "gray") -> Path:
    """A PNG of (H, W) grey values in some pixel format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = values.astype(np.uint8)
    frame = av.VideoFrame.from_ndarray(values, format="gray")
    if pixel_format == "monob":
        rows = np.packbits(values > 0, axis=1)
        frame = maker.planes("monob", *values.shape, rows)
    elif pixel_format == "pal8":
        frame = palette(values)
    elif pixel_format == "rgb24":
        frame = av.VideoFrame.from_ndarray(np.repeat(values[..., None], 3, 2), format="rgb24")
    kind = maker.Kind(suffix=".png", codec="png", pixel_format=pixel_format)
    return maker.make_raw(path, [frame], kind)


def palette(values: np.ndarray) -> av.VideoFrame:
    """Background black, people dark red, as one known data set has them."""
    colours = np.zeros((256, 4), np.uint8)
    colours[:, 3], colours[1] = 255, (0, 0, 128, 255)  # blue, green, red, alpha
    frame = av.VideoFrame(values.shape[1], values.shape[0], "pal8")
    lines = np.zeros((values.shape[0], frame.planes[0].line_size), np.uint8)
    lines[:, : values.shape[1]] = values > 0
    frame.planes[0].update(lines.tobytes())
    frame.planes[1].update(colours.tobytes())
    return frame


def pictures(folder: Path, masks: np.ndarray = TRUE, pixel_format: str = "gray") -> None:
    for number, mask in enumerate(masks):
        picture(folder / STEM / f"mask_{number + 8}.png", 255 * mask, pixel_format)


def npz(folder: Path, suffix: str = ".npz", **arrays: Any) -> Path:
    path = folder / f"{STEM}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)
    return path


def film(folder: Path, masks: np.ndarray = TRUE, kind: str = "ffv1.mkv") -> Path:
    path = folder / f"{STEM}{maker.KINDS[kind].suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    values = 255 * np.repeat(masks[..., None], 3, axis=3).astype(np.uint8)
    return maker.make(path, values, maker.KINDS[kind])


def found(folder: Path, private: Side = "person", shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    return MaskFiles(folder=folder, private=private).read_mask(NAME, shape).person


def refused(folder: Path, match: str, name: str = NAME) -> None:
    with pytest.raises(BadInput, match=match) as caught:
        MaskFiles(folder=folder, private="person").read_mask(name, SHAPE)
    assert caught.value.is_public, "what is wrong with a mask may be said"


@pytest.mark.parametrize("private", ["person", "background"])
@pytest.mark.parametrize("pixel_format", ["gray", "rgb24", "monob", "pal8", "gray16be"])
def test_pictures_of_every_kind_give_the_mask(
    pixel_format: str, private: Side, tmp_path: Path
) -> None:
    if pixel_format == "gray16be":
        for number, mask in enumerate(TRUE):
            values = (65535 * mask.astype(np.uint16)).astype(">u2")
            frame = maker.planes("gray16be", H, W, values)
            path = tmp_path / STEM / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            maker.make_raw(
                path, [frame], maker.Kind(suffix=".png", codec="png", pixel_format="gray16be")
            )
    else:
        pictures(tmp_path, pixel_format=pixel_format)
    assert np.array_equal(found(tmp_path, private), TRUE)


def test_pictures_are_sorted_by_number_and_zeros_and_ones_are_bits(tmp_path: Path) -> None:
    for number, mask in zip((8, 9, 10, 11), TRUE, strict=True):  # "10" sorts before "8" as text
        picture(tmp_path / STEM / f"a2_{number}.png", mask.astype(np.uint8))
    for private in ("person", "background"):
        assert np.array_equal(found(tmp_path, private), TRUE)


@pytest.mark.parametrize("private", ["person", "background"])
@pytest.mark.parametrize("suffix", [".npz", ".masks.npz"])
def test_arrays_of_bits_bytes_and_packed_bits_give_the_mask(
    suffix: str, private: Side, tmp_path: Path
) -> None:
    packed = np.packbits(TRUE, axis=2)
    for array in (TRUE, TRUE.astype(np.uint8), 255 * TRUE.astype(np.uint8), packed):
        npz(tmp_path, suffix, person=array)
        assert np.array_equal(found(tmp_path, private), TRUE)


def test_of_an_avatar_only_what_is_surely_drawn_is_public(tmp_path: Path) -> None:
    eroded, grown = TRUE.copy(), TRUE.copy()
    eroded[:, 6] = False
    grown[:, 5] = True
    npz(tmp_path, ".masks.npz", r=TRUE, q=grown, eroded_r=np.packbits(eroded, axis=2))
    files = MaskFiles(folder=tmp_path, private="background").read_mask(NAME, SHAPE)
    assert files.form is MaskForm.AVATAR and np.array_equal(files.person, eroded)
    assert np.array_equal(found(tmp_path, "person"), grown), "all that was blended is private"
    npz(tmp_path, ".masks.npz", r=TRUE)
    refused(tmp_path, "one of person and q .* got r; save")
    npz(tmp_path, ".masks.npz", person=TRUE, q=TRUE)
    refused(tmp_path, "one of person and q .* got person, q")


@pytest.mark.parametrize("kind", ["ffv1.mkv", "h264.mp4", "mpeg4.avi", "vp9.webm", "mjpeg.avi"])
def test_a_mask_video_never_makes_the_public_side_larger(kind: str, tmp_path: Path) -> None:
    film(tmp_path, kind=kind)
    people, sure = found(tmp_path, "person"), found(tmp_path, "background")
    assert not (TRUE & ~people).any() and not (sure & ~TRUE).any()
    assert (people ^ TRUE).mean() < 0.02 and (sure ^ TRUE).mean() < 0.02


def test_doubt_falls_on_the_private_side(tmp_path: Path) -> None:
    values = np.zeros((H, W), np.uint8)
    values[2], values[4], values[6] = 40, 100, 255
    for number in range(T):
        picture(tmp_path / "a" / f"{number}.png", values)
    files = MaskFiles(folder=tmp_path, private="person").read_mask("a.avi", SHAPE).person[0]
    assert np.flatnonzero(files.any(axis=1)).tolist() == [2, 4, 6]
    sure = MaskFiles(folder=tmp_path, private="background").read_mask("a.avi", SHAPE).person[0]
    assert np.flatnonzero(sure.any(axis=1)).tolist() == [6]


def test_a_mask_of_a_turned_video_is_upright(tmp_path: Path) -> None:
    path = tmp_path / f"{STEM}.mp4"
    path.parent.mkdir(parents=True)
    turned = np.rot90(TRUE, axes=(1, 2))
    values = 255 * np.repeat(turned[..., None], 3, axis=3).astype(np.uint8)
    maker.make(path, values, maker.Kind(options={"crf": "4"}, rotation=90))
    upright = found(tmp_path, "person")
    assert min((upright ^ TRUE).mean(), (upright ^ TRUE[:, ::-1, ::-1]).mean()) < 0.05
    npz(tmp_path / "other", person=turned)
    with pytest.raises(BadInput, match="30 x 44 pixels upright"):
        found(tmp_path / "other")


def test_a_mask_that_does_not_fit_is_refused_with_both_sizes(tmp_path: Path) -> None:
    for number, wrong in enumerate((TRUE[:3], TRUE[:, 2:], TRUE[..., 1:])):
        for form, make in (("p", pictures), ("f", film), ("n", lambda to, m: npz(to, person=m))):
            folder = tmp_path / f"{form}{number}"
            make(folder, wrong if form != "f" else wrong[..., : W - 2 * (number == 2)])
            refused(folder, r"Expected a mask of 4 frames, 30 x 44 pixels upright.*got")
    npz(tmp_path, person=TRUE[0])
    refused(tmp_path, r"an array of shape \(30, 44\)")
    film(tmp_path / "long", np.concatenate([TRUE, TRUE]))
    refused(tmp_path / "long", "got 8 frames")


@pytest.mark.parametrize("array", [TRUE.astype(float), np.where(TRUE, np.nan, 0.0)])
def test_numbers_that_are_no_mask_are_refused(array: np.ndarray, tmp_path: Path) -> None:
    npz(tmp_path, person=array)
    refused(tmp_path, "Expected bool or uint8|without NaN")


def test_other_values_and_types_are_refused(tmp_path: Path) -> None:
    npz(tmp_path, person=7 * TRUE.astype(np.uint8))
    refused(tmp_path, "0 and 1, or 0 and 255")
    npz(tmp_path, person=TRUE.astype(np.int32))
    refused(tmp_path, "bool or uint8.*int32")
    npz(tmp_path, people=TRUE)
    refused(tmp_path, "one of person and q .* got people")
    npz(tmp_path, person=np.array([object()]))
    refused(tmp_path, "whole .npz file")


def test_truncated_files_are_refused_by_name(tmp_path: Path) -> None:
    path = npz(tmp_path, person=TRUE)
    path.write_bytes(path.read_bytes()[:-60])
    refused(tmp_path, "whole .npz file at .*g01_c01.npz")
    path.unlink()
    pictures(tmp_path)
    last = tmp_path / STEM / "mask_10.png"
    last.write_bytes(last.read_bytes()[:40])
    refused(tmp_path, r"mask_10\.png")


def test_an_array_that_does_not_fit_is_refused_by_its_header(tmp_path: Path) -> None:
    huge = np.zeros((64, 1000, 1000), np.uint8)
    for suffix, arrays in ((".npz", {"person": huge}), (".masks.npz", {"person": TRUE, "r": huge})):
        folder = tmp_path / suffix
        npz(folder, suffix, **arrays)
        tracemalloc.start()
        if suffix == ".npz":
            refused(folder, "4 frames, 30 x 44 pixels upright.* got 1000 x 1000 pixels")
        else:
            assert np.array_equal(found(folder), TRUE), "and what nobody needs is not unpacked"
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
        tracemalloc.stop()


def test_what_made_a_mask_is_a_few_words(tmp_path: Path) -> None:
    npz(tmp_path, person=TRUE, segmenter_person=np.zeros(1 << 20, np.uint8))
    refused(tmp_path, "at most 1000 bytes on what made the mask")


def test_a_missing_mask_is_named_and_two_are_refused(tmp_path: Path) -> None:
    npz(tmp_path, person=TRUE)
    refused(
        tmp_path,
        "Expected a mask of Archery/other.avi .*Archery/other.masks.npz",
        "Archery/other.avi",
    )
    refused(tmp_path, "a mask of Nowhere/x.avi", "Nowhere/x.avi")
    film(tmp_path)
    refused(tmp_path, "one mask of Archery.* got .*c01.mkv and .*c01.npz; move")


def test_letter_case_is_ignored_only_where_nothing_has_the_very_name(tmp_path: Path) -> None:
    npz(tmp_path, person=TRUE)
    files = MaskFiles(folder=tmp_path, private="person")
    assert (
        files.find_mask_path(NAME.replace("v_Archery", "v_archery")).name == "v_Archery_g01_c01.npz"
    )
    np.savez(tmp_path / "Archery" / "v_archery_g01_c01.npz", person=TRUE)
    fresh = MaskFiles(folder=tmp_path, private="person")
    assert fresh.find_mask_path(NAME).name == "v_Archery_g01_c01.npz"


def test_pictures_must_be_numbered_without_a_gap_and_alone(tmp_path: Path) -> None:
    pictures(tmp_path)
    (tmp_path / STEM / "mask_10.png").unlink()
    refused(tmp_path, "every number once .* none for 10")
    (tmp_path / STEM / "notes.txt").write_text("hello")
    refused(tmp_path, "PNG files with a number alone .* got notes.txt")
    (tmp_path / STEM / "notes.txt").unlink()
    picture(tmp_path / STEM / "again_9.png", 255 * TRUE[0])
    refused(tmp_path, "number 9 twice")
    for path in (tmp_path / STEM).iterdir():
        path.unlink()
    refused(tmp_path, "Expected PNG files in .* got none")


def test_names_and_links_that_lead_out_are_refused(tmp_path: Path) -> None:
    inner = tmp_path / "masks"
    npz(tmp_path / "outside", person=TRUE)
    npz(inner, person=TRUE)
    for name in ("../outside/Archery/v_Archery_g01_c01.avi", "/etc/passwd.avi"):
        refused(inner, "name below its folder", name)
    link = inner / "Archery" / "linked.npz"
    link.symlink_to(tmp_path / "outside" / f"{STEM}.npz")
    refused(inner, "a link that leads out of it", "Archery/linked.avi")
    whole = tmp_path / "by-link"
    whole.symlink_to(inner)
    assert found(whole).any(), "the folder itself may be a link"


def test_a_folder_that_is_none_or_empty_is_refused(tmp_path: Path) -> None:
    for folder, said in ((tmp_path / "no", "got nothing"), (tmp_path, "an empty folder")):
        with pytest.raises(BadInput, match=said):
            MaskFiles(folder=folder, private="person")
