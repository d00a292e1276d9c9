"""Look into recordings: what a video file holds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from masquerade.doors.answer import Answer
from masquerade.recordings import Video
from masquerade.video import probe, read


def probe_file(path: Path | str) -> probe.Contents:
    """What a video or picture file holds; it is decoded once, all of it."""
    return probe.probe(Path(path))


def read_video(path: Path | str) -> Video:
    """A whole video in memory, as uint8 RGB; for long ones use `release_file`, which streams."""
    frames, rate_hz = read.whole(Path(path))
    return Video(frames=frames, rate_hz=rate_hz)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Print what is inside a video or picture file.

    Args:
        file: .mp4 .mov .mkv .webm .avi .png .jpg
    """

    file: Positional[Path]

    def run(self) -> Answer:
        """Decode all of it and describe it."""
        inside = probe_file(self.file)
        frames, height, width, _ = inside.shape
        varying = " on average; the time between frames varies" * inside.is_variable_rate
        lines = [
            "PRIVATE: this describes the original.",
            f"{frames} frames of {width} x {height} at {inside.rate_hz:.6g} Hz{varying} "
            f"({inside.seconds:.2f} s)",
            f"{inside.codec} in {inside.container}: {inside.pixel_format}, {inside.bits} bits, "
            f"{inside.colour_range} range",
        ]
        if inside.rotation:
            lines.append(f"turned by {inside.rotation} degrees to stand upright")
        if inside.aspect != 1:
            lines.append(f"pixels are {inside.aspect} as wide as high")
        dropped = [
            *inside.other_streams,
            *([f"{inside.chapters} chapters"] * (inside.chapters > 0)),
        ]
        dropped += [f"{key}: {value}" for key, value in inside.metadata.items()]
        lines += [f"a release drops: {what}" for what in dropped]
        lines += [f"note: {warning}" for warning in inside.warnings]
        return Answer(
            data={
                "private": True,
                "frames": frames,
                "height": height,
                "width": width,
                "rate_hz": inside.rate_hz,
                "rate": str(inside.rate),
                "seconds": inside.seconds,
                "codec": inside.codec,
                "container": inside.container,
                "pixel_format": inside.pixel_format,
                "bits": inside.bits,
                "colour_range": inside.colour_range,
                "rotation": inside.rotation,
                "aspect": str(inside.aspect),
                "is_variable_rate": inside.is_variable_rate,
                "has_alpha": inside.has_alpha,
                "header_frames": inside.header_frames,
                "other_streams": list(inside.other_streams),
                "metadata": dict(inside.metadata),
                "chapters": inside.chapters,
                "warnings": list(inside.warnings),
            },
            lines=lines,
        )


COMMANDS = {"probe": Probe}
