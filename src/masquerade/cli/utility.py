"""Measure how much of the picture is left of a video; the figures are private."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from masquerade import _check, _json
from masquerade.cli.flags import Positional
from masquerade.publish.evaluation import _compare_films, _open_film, _open_original
from masquerade.quality.picture import PictureQuality
from masquerade.result import CommandResult


@dataclass(frozen=True, kw_only=True)
class MeasureQuality:
    """Compare a video with its original: PSNR, SSIM, flicker. The figures are private.

    Args:
        before: the original: a video, a picture, or a .npy or .npz of (T, H, W, 3) uint8.
        after: what was made of it, of the same length and size.
        every: measure SSIM, the slow one, on every so many frames.
    """

    before: Positional[Path]
    after: Positional[Path]
    every: int = 1

    def __post_init__(self) -> None:
        _check.count(every=self.every)

    def run(self) -> CommandResult:
        """Measure, and say to whom the figures may be shown."""
        before, after = _open_original(self.before), _open_film(self.after)
        quality = _compare_films(before, after, every=self.every)
        return CommandResult(
            data={
                "private": True,
                **_json.encode_noun(quality),
                "flicker_ratio": quality.flicker_ratio,
                "identical": quality.is_identical,
                "rounded": after.is_rounded,
            },
            lines=[
                "PRIVATE: computed from the original. Keep these figures where the original is.",
                *_format_quality(quality),
                *(["AFTER was rounded and clamped to 0..255 to be shown."] * after.is_rounded),
            ],
        )


def _format_quality(quality: PictureQuality) -> list[str]:
    """The figures for people."""
    side = quality.ssim_window
    told = [f"{quality.frames} frames of {quality.width}x{quality.height} pixels."]
    if quality.is_identical:
        told.append("PSNR:      infinite; no pixel differs")
    else:
        of_frames = f"{quality.psnr_of_frames:.2f} dB"
        if math.isinf(quality.psnr_of_frames):
            of_frames = "infinite, some are unchanged"
        told.append(
            f"PSNR:      {quality.psnr:.2f} dB over all pixels (mean of frames {of_frames})"
        )
    told.append(
        f"SSIM:      {quality.ssim:.4f}, the mean of {quality.ssim_frames} frames "
        f"(window {side}x{side})"
    )
    if quality.frames == 1:
        return [*told, "Flicker:   none; there is a single frame"]
    times = "" if math.isinf(quality.flicker_ratio) else f", {quality.flicker_ratio:.3g} times it"
    return [
        *told,
        f"Flicker:   {quality.flicker_before:.3g} grey levels a frame before, "
        f"{quality.flicker_after:.3g} after{times}",
        f"Stability: the change made varies by {quality.perturbation_stability:.3g} grey levels "
        "from frame to frame",
    ]


COMMAND = MeasureQuality
