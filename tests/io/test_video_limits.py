"""What a header says is refused before it is unpacked, and a file cannot nest without end."""

from __future__ import annotations

import gc
import resource
import struct
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import video_files as maker
from masquerade.errors import BadInput
from masquerade.io import arrays
from masquerade.io.devices import batch_frames
from masquerade.io.video import formats, probe, read, whole
from masquerade.mechanisms.pooled_gaussian import PooledGaussian
from masquerade.publish.sources import ReadLimits, probe_recording

HUGE = (30_000, 20_000)


def png(path: Path, size: tuple[int, int]) -> Path:
    """A black picture in a few bytes; its data breaks off behind the first rows if it is large."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    width, height = size
    rows = zlib.compress(bytes((1 + 3 * width) * min(height, 600)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )
    return path


def large_in_header(path: Path) -> Path:
    """A file whose header says that it is huge, and which is small."""
    width, height = HUGE
    small = maker.moving(1, 48, 64)
    if path.suffix == ".png":
        return png(path, HUGE)
    if path.suffix in (".jpg", ".avi"):
        kind = maker.Kind(suffix=path.suffix, codec="mjpeg", pixel_format="yuvj420p")
        data = bytearray(maker.make(path, small, kind).read_bytes())
        place = data.index(b"\xff\xc0")
        data[place + 5 : place + 9] = struct.pack(">HH", height, width)
        path.write_bytes(data)
    else:
        data = bytearray(maker.make(path, small, GIF).read_bytes())
        data[6:10] = struct.pack("<HH", width, height)
        path.write_bytes(data)
    return path


GIF = maker.Kind(suffix=".gif", codec="gif", pixel_format="rgb8")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".avi", ".gif"])
def test_frames_that_would_be_huge_are_refused_by_their_header(suffix: str, tmp_path: Path) -> None:
    path = large_in_header(tmp_path / f"a{suffix}")
    message = r"at most 67108864 pixels, got 30000x20000 .*--max-pixels"
    message = "damaged after frame 0" if suffix == ".avi" else message  # only the decoder knows
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for reader in (probe.probe, lambda path: list(read.read_frames(path)), probe_recording):
        with pytest.raises(BadInput, match=message):
            reader(path)
    assert time.monotonic() - began < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, "kB"


def test_the_limit_can_be_moved_and_has_an_end(tmp_path: Path, command: Any) -> None:
    path = png(tmp_path / "a.png", (40, 30))
    words = ("data", "probe", path, "--max-pixels")
    assert command(*words, 1200).code == 0
    refused = command(*words, 1199)
    assert refused.code == 4 and "40x30" in refused.err
    flags = ("release", path, tmp_path / "b.png", "--mechanism", "mosaic", "--max-pixels")
    assert command(*flags, 1199).code == 4 and not (tmp_path / "b.png").exists()
    assert command(*flags, 1199, "--dry-run").code == 4
    assert command(*flags, 1200).code == 0
    assert command(*flags, formats.MAX_PIXELS + 1).code == 2
    ledger = tmp_path / "ledger"
    opening = ("--unit", "pixels", "--pixels", 4, "--epsilon", 8, "--delta", 1e-4)
    assert command("ledger", "open", "ward", "--ledger", ledger, *opening).code == 0
    add = ("ledger", "add", "ward", path, "--ledger", ledger, "--max-pixels")
    assert command(*add, 1199).code == 4
    assert command(*add, 1200).code == 0


def test_the_size_of_a_webp_is_read_from_each_kind_of_header(tmp_path: Path) -> None:
    heads = {
        b"VP8X" + bytes(8) + (99).to_bytes(3, "little") + (49).to_bytes(3, "little"),
        b"VP8L" + bytes(4) + b"\x2f" + (99 | 49 << 14).to_bytes(4, "little"),
        b"VP8 " + bytes(10) + struct.pack("<HH", 100, 50),
    }
    for head in heads:
        path = tmp_path / "a.webp"
        path.write_bytes(b"RIFF" + bytes(4) + b"WEBP" + head)
        with path.open("rb") as stream:
            assert formats.find_picture_size(stream) == (100, 50)


def test_an_archive_that_unpacks_to_gigabytes_is_refused_by_its_header(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.zeros(1 << 20), b=np.zeros(1 << 20))
    assert path.stat().st_size < 40_000
    assert len(arrays.read_array_file(path).arrays) == 2
    with pytest.raises(BadInput, match=r"at most 10000000 bytes .* --max-bytes"):
        probe_recording(path, limits=ReadLimits(max_bytes=10_000_000))
    np.save(tmp_path / "a.npy", np.zeros(2000))
    with pytest.raises(BadInput, match="at most 15999 bytes of numbers, got 16000"):
        arrays.read_array_file(tmp_path / "a.npy", max_bytes=15_999)
    (tmp_path / "a.csv").write_text("1,2\n" * 100)
    with pytest.raises(BadInput, match="at most 100 bytes"):
        arrays.read_array_file(tmp_path / "a.csv", max_bytes=100)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_a_header_that_announces_more_than_is_there_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(2000))
    data = path.read_bytes().replace(b"(2000,), }" + b" " * 9, b"(2000, 9000000000), }"[:19])
    lying = data.replace(b"(2000,)", b"(9**99)")
    for body in (
        lying,
        path.read_bytes().replace(b"(2000,), }      ", b"(99999999999,), }")[:9999],
    ):
        if suffix == ".npz":
            with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
                archive.writestr("a.npy", body)
        else:
            path.write_bytes(body)
        with pytest.raises(BadInput, match="cannot be read"):
            arrays.read_array_file(tmp_path / f"a{suffix}")


@pytest.mark.parametrize("kind", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_a_kind_of_compression_that_numpy_never_writes_is_refused(
    kind: int, tmp_path: Path
) -> None:
    np.save(tmp_path / "a.npy", np.zeros(9))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", kind) as archive:
        archive.write(tmp_path / "a.npy", "a.npy")
    with pytest.raises(BadInput, match="as NumPy writes it"):
        arrays.read_array_file(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "a/../b", "C:x", "a\\b", "", "a\x1b[2Jb"])
def test_names_of_arrays_that_lead_elsewhere_are_refused(name: str, tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w") as archive,
        archive.open(f"{name}.npy", "w") as out,
    ):
        np.lib.format.write_array(out, np.zeros(3))
    with pytest.raises(BadInput, match="plain name for array 1"):
        arrays.read_array_file(tmp_path / "a.npz")


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0", "+1", "-x", "@sum", "\x1b[2J"])
def test_headings_that_a_spreadsheet_would_run_are_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"time,{name}\n1,2\n")
    with pytest.raises(BadInput, match="plain name for column 2") as error:
        arrays.read_array_file(tmp_path / "a.csv", heading=True)
    assert name not in str(error.value)


def element(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) | 1 << 56).to_bytes(8, "big") + body


@pytest.mark.parametrize("depth", [2, 1500])
def test_nested_clusters_are_refused_with_a_message(depth: int, tmp_path: Path) -> None:
    body = b""
    for _ in range(depth):
        body = element(b"\x1f\x43\xb6\x75", body)
    path = tmp_path / "a.mkv"
    path.write_bytes(element(b"\x1a\x45\xdf\xa3", b"") + element(b"\x18\x53\x80\x67", body))
    with pytest.raises(BadInput, match="damaged at or after byte"):
        probe.probe(path)


def test_a_healthy_film_of_many_clusters_is_whole(tmp_path: Path) -> None:
    cluster = element(b"\x1f\x43\xb6\x75", element(b"\xe7", b"\0"))
    path = tmp_path / "a.mkv"
    path.write_bytes(
        element(b"\x1a\x45\xdf\xa3", b"") + element(b"\x18\x53\x80\x67", cluster * 2000)
    )
    with path.open("rb") as stream:
        whole.check_whole(stream, path)


def test_what_is_held_at_once_does_not_grow_with_the_frame() -> None:
    assert batch_frames(1080, 1920) == 16 and batch_frames(2160, 3840) == 4
    assert batch_frames(20_000, 20_000) == 1
    fine = PooledGaussian(epsilon=8, delta=1e-4, unit="pixels", pixels=4)
    for shape in ((250, 240, 320, 3), (250, 2160, 3840, 3), (250, 8000, 8000, 3)):
        chunks = fine.list_chunks(shape)
        assert sum(chunk.length for chunk in chunks) == 250
        sites = chunks[0].length * shape[1] * shape[2]
        assert sites <= 8 * (1 << 24) or chunks[0].length == 2
    assert len(fine.list_chunks((250, 240, 320, 3))) == 1


def test_frames_that_were_read_are_let_go_at_once(tmp_path: Path) -> None:
    path = maker.make(tmp_path / "long.mp4", np.zeros((40, 32, 32, 3), np.uint8), maker.Kind())
    gc.collect()
    gc.disable()  # what only a collection of cycles would free counts as kept
    try:
        for _ in read.read_frames(path):
            pass
        kept = [held for held in gc.get_objects() if type(held).__name__ == "SideDataContainer"]
        assert len(kept) <= 2
    finally:
        gc.enable()
