"""The collections of worn sensors, read from small trees in the publishers' layouts."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest

from masquerade.datasets.pamap2 import SENSORS, Pamap2
from masquerade.datasets.watch import Watch
from masquerade.datasets.wisdm import Wisdm
from masquerade.errors import BadInput
from masquerade.io import downloads

STEP = 50_000_000


def wisdm_file(root: Path, device: str, sensor: str, subject: int, rows: list[str]) -> Path:
    path = root / "raw" / device / sensor / f"data_{subject}_{sensor}_{device}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(row + "\n" for row in rows))
    return path


def wisdm_rows(subject: int, letter: str, times: list[int], first: float = 0.0) -> list[str]:
    return [f"{subject},{letter},{t},{first + i},{-i},0.5;" for i, t in enumerate(times)]


@pytest.fixture
def wisdm(tmp_path: Path) -> Path:
    (tmp_path / "activity_key.txt").write_text("walking = A\n")
    for subject in (1600, 1601):
        times = [10**12 + i * STEP for i in range(4)]
        rows = wisdm_rows(subject, "A", times)
        rows += wisdm_rows(subject, "S", [10**12 + 10**10 + i * STEP for i in range(2)], 9.0)
        wisdm_file(tmp_path, "watch", "accel", subject, rows)
    return tmp_path


def test_wisdm_gives_one_signal_a_person_with_the_rows_as_they_are(wisdm: Path) -> None:
    data = Wisdm(root=wisdm, worn="watch")
    assert [labels.subject for labels in data.labels] == ["1600", "1601"]
    assert data.labels[0].name == "watch/accelerometer/1600"
    signal = data[-1]
    assert signal.subject == "1601" and signal.rate_hz == 20.0
    assert signal.values[:, 0].tolist() == [0, 1, 2, 3, 9, 10]
    assert signal.values[1].tolist() == [1, -1, 0.5] and signal.values.dtype == np.float32
    assert signal.activity is not None
    assert [data.activities[a] for a in signal.activity] == ["walking"] * 4 + ["folding"] * 2
    assert signal.channels[0] == "watch_accelerometer_x"
    assert signal.attributes["median_interval_ns"] == STEP
    with pytest.raises(IndexError, match="below 2"):
        data[2]
    only = Wisdm(root=wisdm, worn="watch", subjects=("1601",))
    assert len(only) == 1 and only[0].subject == "1601"


def test_wisdm_has_eighteen_activities_and_no_letter_n(wisdm: Path) -> None:
    assert len(Wisdm(root=wisdm).activities) == 18 and Wisdm(root=wisdm).activities[13] == "catch"
    wisdm_file(wisdm, "watch", "accel", 1600, ["1600,N,1,1,1,1;"])
    with pytest.raises(BadInput, match=r"line 1 of .*data_1600_accel_watch"):
        Wisdm(root=wisdm, worn="watch")[0]


def test_wisdm_joins_both_sensors_by_the_nearest_row_on_the_grid(wisdm: Path) -> None:
    shift = 20_000_000
    times = [10**12 + shift + i * STEP for i in (0, 1, 3)]  # one row is missing
    rows = wisdm_rows(1600, "A", times, 100.0)
    wisdm_file(wisdm, "watch", "gyro", 1600, [*rows, "1600,B,5,1,1,1;"])
    data = Wisdm(root=wisdm, worn="watch", sensors="both")
    assert len(data) == 1  # the other person has no gyroscope
    signal = data[0]
    assert signal.values.shape[1] == 6 and len(signal.channels) == 6
    # The third instant is 30 ms from the second gyroscope row, within the tolerance of 50 ms.
    assert signal.values[:, 3].tolist() == [100, 101, 101, 102]
    assert signal.activity is not None and set(signal.activity.tolist()) == {0}


def test_wisdm_drops_instants_that_a_sensor_is_too_far_from(wisdm: Path) -> None:
    times = [10**12, 10**12 + 10 * STEP]
    wisdm_file(wisdm, "watch", "accel", 1600, wisdm_rows(1600, "A", times))
    alone = Wisdm(root=wisdm, worn="watch", on_grid=True)[0]
    assert alone.values[:, 0].tolist() == [0, 0, 1, 1]  # 0, 50, 450 and 500 ms
    wisdm_file(wisdm, "watch", "gyro", 1600, wisdm_rows(1600, "A", [7]))
    with pytest.raises(BadInput, match="both sensors at one time"):
        Wisdm(root=wisdm, worn="watch", sensors="both")[0]


def test_wisdm_on_the_grid_brings_100_hz_to_20_hz(wisdm: Path) -> None:
    times = [10**12 + i * 10_000_000 for i in range(101)]
    wisdm_file(wisdm, "watch", "accel", 1600, wisdm_rows(1600, "A", times))
    data = Wisdm(root=wisdm, worn="watch", on_grid=True)
    assert data[0].values[:, 0].tolist() == list(range(0, 101, 5))
    assert data[0].attributes["median_interval_ns"] == 10_000_000
    assert len(Wisdm(root=wisdm, worn="watch")[0].values) == 101


def test_wisdm_counts_people_and_rows_and_lists_missing_files(wisdm: Path) -> None:
    people, rows = Wisdm(root=wisdm, worn="watch").check()
    assert (people.found, people.published) == (2, 51) and not people.is_complete
    assert "raw/watch/accel/data_1602_accel_watch.txt" in people.missing
    assert (rows.found, rows.published) == (12, 3_777_046) and "15,630,426" in rows.source
    (wisdm / "activity_key.txt").unlink()
    assert Wisdm(root=wisdm, worn="watch").check()[0].missing[0] == "activity_key.txt"


OLD = """33,Jogging,49105962326000,-0.69,12.68,0.50;
33,Jogging,49106062271000,5.01,11.26,0.95;

17,Standing,0,1,2,3;17,Standing,0,4,5,6
11,Walking,1867172313000,4.4,4.4,
6,Upstairs,1,2,3,4,5;
"""


def test_wisdm_1_1_counts_malformed_rows_or_refuses_them(tmp_path: Path) -> None:
    (tmp_path / "WISDM_ar_v1.1_raw.txt").write_text(OLD)
    with pytest.raises(BadInput, match=r"line 5 of .*raw\.txt.*skip_malformed"):
        len(Wisdm(root=tmp_path, version="1.1"))
    data = Wisdm(root=tmp_path, version="1.1", skip_malformed=True)
    assert [labels.subject for labels in data.labels] == ["17", "33"]
    assert data[0].values.tolist() == [[1, 2, 3], [4, 5, 6]]  # two rows on one line
    assert data[1].activity is not None and data[1].activity.tolist() == [1, 1]
    people, rows, malformed = data.check()
    assert (people.found, rows.found, rows.published, malformed.found) == (2, 6, 1_098_207, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "2"}, "Unknown version '2'"),
        ({"worn": "ring"}, "Unknown worn 'ring'"),
        ({"sensors": "all"}, "Unknown sensors 'all'"),
        ({"subjects": ("1651",)}, "Unknown subject '1651'"),
        ({"version": "1.1", "sensors": "both"}, "nothing else"),
        ({"version": "1.1", "on_grid": True}, "clock"),
    ],
)
def test_wisdm_refuses_what_it_has_not(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Wisdm(root=Path("nowhere"), **options)  # type: ignore[arg-type]


def test_wisdm_names_what_is_not_there(wisdm: Path) -> None:
    with pytest.raises(BadInput, match="Check the root folder"):
        len(Wisdm(root=wisdm / "nowhere"))
    with pytest.raises(BadInput, match=r"WISDM_ar_v1\.1_raw\.txt; there is none"):
        len(Wisdm(root=wisdm, version="1.1"))
    with pytest.raises(BadInput, match="rows of 1602"):
        len(Wisdm(root=wisdm, worn="watch", subjects=("1602",)))
    wisdm_file(wisdm, "watch", "accel", 1600, wisdm_rows(1609, "A", [1]))
    with pytest.raises(BadInput, match="Expected rows of 1600 alone"):
        Wisdm(root=wisdm, worn="watch")[0]


def pamap_table(rows: int) -> np.ndarray:
    table = np.arange(rows * 54, dtype=float).reshape(rows, 54)
    table[:, 0] = np.arange(rows) / 100
    table[:, 1] = 4
    table[1:, 2] = np.nan
    return table


def pamap_file(root: Path, table: np.ndarray, name: str = "Protocol/subject101.dat") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [" ".join("NaN" if np.isnan(v) else f"{v:g}" for v in row) for row in table]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_pamap2_reads_the_columns_of_the_sensors_asked_for(tmp_path: Path) -> None:
    table = pamap_table(6)
    table[0, 1], table[5, 1] = 0, 24
    pamap_file(tmp_path, table)
    data = Pamap2(root=tmp_path, subjects=("101",))
    assert len(data) == 1 and data.labels[0].subject == "101"
    signal = data[0]
    columns = [4, 5, 6, 10, 11, 12, 21, 22, 23, 27, 28, 29, 38, 39, 40, 44, 45, 46]
    assert np.array_equal(signal.values, table[:, columns].astype(np.float32))
    assert signal.channels[3] == "hand_gyroscope_x" and signal.channels[-1] == "ankle_gyroscope_z"
    assert signal.rate_hz == 100.0 and signal.activity is not None
    assert signal.activity.tolist() == [-1, 3, 3, 3, 3, 17]
    assert (data.activities[3], data.activities[17]) == ("walking", "rope jumping")
    warm = Pamap2(root=tmp_path, subjects=("101",), sensors=("chest_temperature",))[0]
    assert warm.channels == ("chest_temperature",)
    assert np.array_equal(warm.values, table[:, [20]])


def test_pamap2_fills_short_gaps_and_cuts_at_long_ones(tmp_path: Path) -> None:
    table = pamap_table(40)
    table[3:5, 4] = np.nan  # two missing: a straight line
    table[10:14, 5] = np.nan  # four missing: a cut
    table[38:, 6] = np.nan  # at the end there is nothing to draw a line to
    table[20, 7] = np.nan  # a channel that nobody asked for
    table[30:, 0] += 0.5  # the clock jumps
    pamap_file(tmp_path, table)
    data = Pamap2(root=tmp_path, subjects=("101",), max_gap=3)
    assert [len(piece.values) for piece in data] == [10, 16, 8]
    assert [labels.name[-2:] for labels in data.labels] == ["#0", "#1", "#2"]
    assert np.allclose(data[0].values[2:6, 0], np.linspace(table[2, 4], table[5, 4], 4))
    assert len(Pamap2(root=tmp_path, subjects=("101",), max_gap=0)) == 4
    assert len(Pamap2(root=tmp_path, subjects=("101",), max_gap=4)) == 2


def test_pamap2_leaves_the_heart_rate_out_unless_asked(tmp_path: Path) -> None:
    table = pamap_table(24)
    table[0, 2], table[11, 2], table[22, 2] = 60, 71, 82
    pamap_file(tmp_path, table)
    assert "heart_rate" in SENSORS
    assert "heart_rate" not in Pamap2(root=tmp_path, subjects=("101",))[0].channels
    heart = Pamap2(root=tmp_path, subjects=("101",), sensors=("heart_rate",))[0]
    assert heart.values[:, 0].tolist() == list(range(60, 83))


def test_pamap2_sees_a_file_that_changed(tmp_path: Path) -> None:
    data = {"root": tmp_path, "subjects": ("101",)}
    pamap_file(tmp_path, pamap_table(5))
    assert len(Pamap2(**data)[0].values) == 5  # type: ignore[arg-type]
    pamap_file(tmp_path, pamap_table(7))
    assert len(Pamap2(**data)[0].values) == 7  # type: ignore[arg-type]


def test_pamap2_counts_files_and_rows(tmp_path: Path) -> None:
    for number in range(101, 109):
        pamap_file(tmp_path, pamap_table(3), f"Protocol/subject{number}.dat")
    pamap_file(tmp_path, pamap_table(2), "Optional/subject105.dat")
    files, rows = Pamap2(root=tmp_path).check()
    assert (files.found, files.published, rows.found) == (8, 9, 24)
    assert files.missing == ("Protocol/subject109.dat",) and rows.published == 2_872_533
    files, rows = Pamap2(root=tmp_path, session="optional").check()
    assert (files.found, files.published, rows.found) == (1, 5, 2)
    with pytest.raises(BadInput, match=r"subject109\.dat; there is none"):
        len(Pamap2(root=tmp_path))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3", "54 numbers in line 3 .*got 3"),
        ("1 4 " + "0 " * 53, "54 numbers in line 3 .*got 55"),
        ("1 4 x" + " 0" * 51, "number in line 3, column 3 .*'x'"),
        ("1 8" + " 0" * 52, "activities .* in line 3"),
        ("NaN 4" + " 0" * 52, "time .* in line 3"),
    ],
)
def test_pamap2_names_the_line_that_is_wrong(tmp_path: Path, line: str, message: str) -> None:
    path = pamap_file(tmp_path, pamap_table(2))
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(BadInput, match=message):
        len(Pamap2(root=tmp_path, subjects=("101",)))


def test_pamap2_refuses_wrong_options_and_empty_files(tmp_path: Path) -> None:
    for options, message in (
        ({"session": "both"}, "Unknown session"),
        ({"sensors": ("hand_orientation",)}, "Unknown sensor"),
        ({"sensors": ()}, "Expected sensors"),
        ({"subjects": ("110",)}, "Unknown subject"),
        ({"session": "optional", "subjects": ("102",)}, "Unknown subject"),
        ({"max_gap": -1}, "max_gap"),
    ):
        with pytest.raises(ValueError, match=message):
            Pamap2(root=tmp_path, **options)  # type: ignore[arg-type]
    pamap_file(tmp_path, pamap_table(1)).write_text("\n")
    with pytest.raises(BadInput, match="at least one row"):
        len(Pamap2(root=tmp_path, subjects=("101",)))


@pytest.fixture(scope="module")
def watch_file() -> Path:
    try:
        return downloads.fetch_asset("watch_dataset")
    except (OSError, BadInput) as error:
        pytest.skip(f"the package index is out of reach: {error}")


def test_the_watch_data_are_what_numpy_reads(watch_file: Path) -> None:
    data = Watch(root=watch_file)
    with np.errstate(all="raise"):
        truth = np.load(watch_file, allow_pickle=True).item()  # its SHA-256 is known
    assert len(data) == 140 and all(count.is_complete for count in data.check())
    for place, signal in enumerate(data):
        assert np.array_equal(signal.values, truth["X"][place].astype(np.float32))
        assert signal.subject == str(truth["subject"][place]) and signal.rate_hz == 50.0
        assert signal.activity is not None and set(signal.activity) == {truth["y"][place]}
        assert data.labels[place].activity == truth["y_labels"][truth["y"][place]]
        assert signal.attributes["side"] == ("left", "right")[int(truth["side"][place])]
    assert data[0].channels[3] == "wrist_gyroscope_x"
    some = Watch(root=watch_file, subjects=("3", "10"))
    assert len(some) == 28 and {labels.subject for labels in some.labels} == {"3", "10"}
    with pytest.raises(ValueError, match="Unknown subject '11'"):
        Watch(subjects=("11",))


class Hostile:
    """Writes a file when it is unpickled by whoever lets it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.target,)


def npy_of(content: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array(content, dtype=object), allow_pickle=True)
    return stream.getvalue()


def test_a_hostile_pickle_is_refused_and_never_run(tmp_path: Path) -> None:
    path, target = tmp_path / "watch_dataset.npy", tmp_path / "run"
    path.write_bytes(npy_of({"X": Hostile(target)}))
    with pytest.raises(BadInput, match=r"it was not run"):
        len(Watch(root=path))
    assert not target.exists()
    pickle.loads(path.read_bytes()[128:])  # it would have run elsewhere
    assert target.exists()


@pytest.mark.parametrize("call", ["os system", "builtins eval", "numpy load", "codecs encode"])
def test_no_other_name_can_be_called(tmp_path: Path, call: str) -> None:
    module, name = call.split()
    header = npy_of({})[:128]
    attack = b"\x80\x02c" + f"{module}\n{name}\n".encode() + b"X\x01\x00\x00\x001\x85R."
    path = tmp_path / "watch_dataset.npy"
    path.write_bytes(header + attack)
    with pytest.raises(BadInput, match=rf"{module}\.{name}; it was not run"):
        len(Watch(root=path))


def test_a_damaged_or_foreign_watch_file_is_refused(tmp_path: Path, watch_file: Path) -> None:
    path = tmp_path / "watch_dataset.npy"
    with pytest.raises(BadInput, match="there is none"):
        len(Watch(root=path))
    whole = watch_file.read_bytes()
    for content, message in (
        (b"", "cannot be read"),
        (b"no array at all", "cannot be read"),
        (whole[:200_000], "not run|cannot be read"),
        (npy_of({"X": []}), "Expected X, y, subject"),
        (whole.replace(b"TRAP", b"TREP"), "exercises"),
    ):
        path.write_bytes(content)
        with pytest.raises(BadInput, match=message):
            len(Watch(root=path))


def test_nothing_is_read_before_it_is_asked_for() -> None:
    nowhere = Path("nowhere")
    for data in (Wisdm(root=nowhere), Pamap2(root=nowhere), Watch(root=nowhere)):
        assert data.activities
        with pytest.raises(BadInput, match="nowhere"):
            len(data)
