"""Bad input is normal input: clear errors, nothing half-done under a final name."""

from __future__ import annotations

import os
import resource
import signal
import time
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from masquerade import FileSettings, check_receipt, make_mechanism, release_file
from masquerade.errors import BadInput
from masquerade.io import arrays, atomic
from masquerade.publish.spine import IfExists

AGAIN = FileSettings(if_standing=IfExists.OVERWRITE)
MECHANISM = make_mechanism("gaussian_noise", epsilon=8, delta=1e-5, unit="frame", low=0, high=9)


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def zipped(path: Path, name: str, data: bytes) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, data)
    made = path.read_bytes()
    path.unlink()
    return made


def twins(path: Path) -> bytes:
    """Two arrays of one name: read by name, one of them would be released twice."""
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for value in (0.0, 1.0):
            scratch = path.with_suffix(".npy")
            archive.writestr("a.npy", npy(np.full(5, value), scratch))
            scratch.unlink()
    made = path.read_bytes()
    path.unlink()
    return made


def left_over(folder: Path, *expected: str) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(expected)


def npy(array: np.ndarray, path: Path) -> bytes:
    np.save(path, array, allow_pickle=True)
    return path.read_bytes()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv"])
def test_each_format_goes_in_and_comes_out(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / name, tmp_path / f"out-{name}"
    values = np.arange(12.0).reshape(4, 3) % 9
    if name.endswith("npz"):
        np.savez(source, hand=values, foot=values[:, :1])
    elif name.endswith("npy"):
        np.save(source, values)
    else:
        write(source, "x,y,z\n" + "\n".join(",".join(map(str, row)) for row in values))
    is_csv = name.endswith("csv")
    release_file(source, target, MECHANISM, options=FileSettings(heading=is_csv))
    table = arrays.read_array_file(target, heading=is_csv)
    assert table.arrays[0].shape == (4, 3)
    assert check_receipt(target).guarantee.epsilon == 8.0
    assert table.names == (("hand", "foot") if name.endswith("npz") else ())
    assert table.columns == (("x", "y", "z") if name.endswith("csv") else ())
    ends = ("", ".receipt.json", ".receipt.json.sig")
    left_over(tmp_path, name, *(f"out-{name}{end}" for end in ends))


def test_csv_keeps_every_bit(tmp_path: Path) -> None:
    write(tmp_path / "in.csv", "\ufeff1,2\n\n3,4\n")
    release_file(tmp_path / "in.csv", tmp_path / "out.csv", MECHANISM)
    values = arrays.read_array_file(tmp_path / "out.csv").arrays[0]
    grid = MECHANISM.compute_scale((2, 2)).grid  # type: ignore[attr-defined]
    assert values.shape == (2, 2) and np.all(values / grid == np.rint(values / grid))


def test_a_column_file_may_become_an_array_file(tmp_path: Path) -> None:
    write(tmp_path / "in.csv", "1\n2\n3\n")
    release_file(tmp_path / "in.csv", tmp_path / "out.npy", MECHANISM)
    assert np.load(tmp_path / "out.npy").shape == (3, 1)


def test_bad_files_get_a_clear_error_and_leave_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch.npy"
    good = npy(np.zeros((4, 3)), scratch)
    bad = {
        "empty.npy": b"",
        "truncated.npy": good[:-5],
        "headless.npy": good[:20],
        "text.npy": b"hello",
        "objects.npy": npy(np.array([{}, None], dtype=object), scratch),
        "words.npy": npy(np.array(["a", "b"]), scratch),
        "flags.npy": npy(np.array([True]), scratch),
        "complex.npy": npy(np.array([1j]), scratch),
        "nothing.npy": npy(np.zeros((0, 3)), scratch),
        "scalar.npy": npy(np.array(3.0), scratch),
        "nan.npy": npy(np.array([1.0, np.nan]), scratch),
        "zip.npz": b"PK\x03\x04 broken",
        "void.npz": b"PK\x05\x06" + bytes(18),
        "empty.csv": b"",
        "heading.csv": b"x,y\n1,2\n",
        "names.csv": b"John Smith HIV+\n0.5\n",
        "missing.csv": b"NA,NA\n1,2\n",
        "long.csv": b"1" * 200_000 + b",2\n",
        "array.npz": good,
        "twins.npz": twins(tmp_path / "twins"),
        "notes.npz": zipped(tmp_path / "notes", "readme.txt", b"hello"),
        "huge.npy": good[:8] + good[8:].replace(b"(4, 3)", b"(4000000000000, 3)"),
        "ragged.csv": b"1,2\n3\n",
        "words.csv": b"1,2\n3,secret\n",
        "nan.csv": b"1,2\n3,nan\n",
        "latin.csv": b"\xff\xfe1,2\n",
    }
    scratch.unlink()
    for name, data in bad.items():
        source, target = write(tmp_path / name, data), tmp_path / f"out-{name}"
        with pytest.raises(BadInput) as error:
            release_file(source, target, MECHANISM)
        assert "secret" not in str(error.value), "messages name the place, never a value"
        source.unlink()
        left_over(tmp_path)
    with pytest.raises(BadInput, match="got nothing"):
        release_file(tmp_path / "missing.npy", tmp_path / "out.npy", MECHANISM)


@pytest.mark.parametrize("as_mask", [False, True])
def test_a_header_as_large_as_memory_is_refused_unread(as_mask: bool, tmp_path: Path) -> None:
    path, length = tmp_path / "a.npz", 64 << 20
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", b"\x93NUMPY\2\0" + length.to_bytes(4, "little") + b" " * length)
    tracemalloc.start()
    with pytest.raises(BadInput, match="cannot be read"):
        arrays.read_array(path, lambda *_: None) if as_mask else arrays.read_array_file(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((2, 2, 2)))
    np.savez(tmp_path / "in.npz", a=np.zeros(2))
    for source, target, message in (
        ("in.npy", "out.mp3", "Unknown kind of file '.mp3'"),
        ("in.wav", "out.npy", "got nothing"),
        ("in.npy", "in.npy", "another name"),
        ("in.npy", "nowhere/out.npy", "to exist; make it first"),
        ("in.npz", "out.npy", "a .npz to become a .npz"),
        ("in.npy", "out.npz", "a .npz to become a .npz"),
        ("in.npy", "out.csv", "one or two axes"),
    ):
        with pytest.raises(ValueError, match=message):
            release_file(tmp_path / source, tmp_path / target, MECHANISM)
    left_over(tmp_path, "in.npy", "in.npz")


def test_an_output_that_stands_there_is_never_silently_taken_or_lost(tmp_path: Path) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, np.zeros((4, 3)))
    first = release_file(source, target, MECHANISM)
    before = target.read_bytes()
    with pytest.raises(FileExistsError, match="nobody can tell which"):
        release_file(source, target, MECHANISM)
    kept = release_file(
        source, target, MECHANISM, options=FileSettings(if_standing=IfExists.RESUME)
    )
    assert kept.receipt == first.receipt and target.read_bytes() == before
    other = make_mechanism("gaussian_noise", epsilon=1, delta=1e-5, unit="frame", low=0, high=9)
    for choice in (IfExists.REFUSE, IfExists.RESUME):
        with pytest.raises(FileExistsError, match="another release"):
            release_file(source, target, other, options=FileSettings(if_standing=choice))
    assert target.read_bytes() == before
    release_file(source, target, other, options=FileSettings(if_standing=IfExists.OVERWRITE))
    assert check_receipt(target).guarantee.epsilon == 1.0
    target.write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="without a good receipt"):
        release_file(source, target, MECHANISM, options=FileSettings(if_standing=IfExists.RESUME))
    assert target.read_bytes() == b"mine"


def test_an_overwrite_that_cannot_finish_keeps_the_old_output(tmp_path: Path) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, np.zeros((4, 3)))
    target.write_bytes(b"old")
    (tmp_path / "out.npy.receipt.json").mkdir()
    with pytest.raises(ValueError, match="room for a file"):
        release_file(
            source, target, MECHANISM, options=FileSettings(if_standing=IfExists.OVERWRITE)
        )
    assert target.read_bytes() == b"old"


def test_two_processes_at_once_make_one_release(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((300, 50)))
    for turn in range(10):
        target = tmp_path / f"out{turn}.npy"
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                try:
                    release_file(tmp_path / "in.npy", target, MECHANISM)
                except FileExistsError:
                    os._exit(7)
                os._exit(0)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert sorted(codes) == [0, 7]
        check_receipt(target)


def test_the_refusal_of_a_range_does_not_depend_on_the_data() -> None:
    with pytest.raises(ValueError, match="subtract a public offset"):
        make_mechanism(
            "gaussian_noise", epsilon=8, delta=1e-4, unit="value", low=2.0**32 - 1, high=2.0**32 + 1
        ).guarantee((3,))


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros(100_000))
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            release_file(tmp_path / "in.npy", tmp_path / "out.npy", MECHANISM)
        except OSError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    left_over(tmp_path, "in.npy")


def test_a_kill_at_any_moment_leaves_no_output_without_a_good_receipt(tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.zeros((200, 50)))
    target = tmp_path / "out.npy"
    rng = np.random.default_rng(3)
    for _ in range(30):
        child = os.fork()
        if child == 0:
            release_file(
                tmp_path / "in.npy",
                target,
                MECHANISM,
                options=FileSettings(if_standing=IfExists.OVERWRITE),
            )
            os._exit(0)
        time.sleep(float(rng.uniform(0, 0.02)))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if target.exists():
            check_receipt(target)
    for part in tmp_path.glob(".masquerade-*.part"):
        part.unlink()
    release_file(
        tmp_path / "in.npy", target, MECHANISM, options=FileSettings(if_standing=IfExists.OVERWRITE)
    )
    check_receipt(target)


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    target = write(tmp_path / "page.html", "old")
    with pytest.raises(RuntimeError), atomic.open_unfinished(target):
        raise RuntimeError("power cut")
    assert target.read_text() == "old"
    left_over(tmp_path, "page.html")
