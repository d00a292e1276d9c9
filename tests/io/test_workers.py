"""Tasks on workers: killed ones are named and tried again, failed ones stop nobody."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import python
from masquerade import progress
from masquerade.errors import BadInput
from masquerade.io.atomic import TaskJournal
from masquerade.io.workers import LostWorker, TaskOutcome, WorkerPool

TWO = WorkerPool(jobs=2)


def mark(folder: Path, task: object) -> int:
    """A file for each time that a task begins; how often it has."""
    (folder / f"{task}-{os.getpid()}").touch()
    return len(list(folder.glob(f"{task}-*")))


def square(folder: Path, deadly: int, times: int, task: int) -> int:
    """The square; a deadly task is killed so many times, as the system does where memory ends."""
    if mark(folder, task) <= times and task == deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return task**2


def refuse_odd(task: int) -> int:
    if task % 2:
        raise BadInput(f"Expected an even number, got {task}.")
    return task


class Untold(Exception):
    """Does not survive the way back: it is made of two things."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def raise_untold(task: int) -> int:
    raise Untold("not", "told")


def by_number(outcomes: Iterator[TaskOutcome[int, Any]]) -> list[TaskOutcome[int, Any]]:
    return sorted(outcomes, key=lambda outcome: outcome.number)


def test_a_killed_worker_is_named_and_its_task_is_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = WorkerPool(jobs=2, title="squares")
    function = partial(square, tmp_path, 3, 1)
    done = by_number(pool.run_tasks(function, range(8), describe="task {}".format))
    assert [outcome.get_value() for outcome in done] == [task**2 for task in range(8)]
    lost = {outcome.task: outcome.lost_workers for outcome in done if outcome.lost_workers}
    assert list(lost) == [3] and len(lost[3]) == 1
    assert (tmp_path / f"3-{lost[3][0]}").exists(), "this very process"
    assert (
        f"Worker {lost[3][0]} was killed, perhaps for memory, while it worked on task 3; that is "
        "tried once more.\n"
    ) in capsys.readouterr().err
    others = [task for task in range(8) if task != 3]
    assert all(len(list(tmp_path.glob(f"{task}-*"))) == 1 for task in others), "each once"


def test_a_task_that_kills_two_workers_is_given_up_and_the_others_are_done(tmp_path: Path) -> None:
    done = by_number(TWO.run_tasks(partial(square, tmp_path, 1, 2), range(5)))
    assert [outcome.value for outcome in done] == [0, None, 4, 9, 16]
    assert isinstance(done[1].error, LostWorker) and len(set(done[1].lost_workers)) == 2
    with pytest.raises(MemoryError, match="Expected its worker to finish; it was killed"):
        done[1].get_value()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_an_error_in_one_task_does_not_stop_the_others(backend: str, jobs: int) -> None:
    pool = WorkerPool(jobs=jobs, backend=backend)
    done = by_number(pool.run_tasks(refuse_odd, range(5)))
    assert [outcome.value for outcome in done] == [0, None, 2, None, 4]
    assert [str(outcome.error) for outcome in done if outcome.error] == [
        f"Expected an even number, got {task}." for task in (1, 3)
    ]
    assert all(isinstance(done[task].error, BadInput) for task in (1, 3))
    if jobs == 2:
        assert "refuse_odd" in str(getattr(done[1].error, "__cause__", "")), "where it was raised"
    with pytest.raises(BadInput, match="got 1"):
        list(pool.map_tasks(refuse_odd, range(5)))


def test_an_error_that_cannot_travel_is_told_in_words() -> None:
    (one, two) = TWO.run_tasks(raise_untold, [1, 2])
    assert {str(one.error), str(two.error)} == {"Untold: not told"}
    (found, _) = TWO.run_tasks(lambda task: contextlib.ExitStack() if task else open, [0, 1])
    assert found.error is None or "pickle" in str(found.error)


def sleep_first(task: int) -> int:
    time.sleep(0.4 if task == 0 else 0.0)
    return task


def test_values_come_in_the_order_of_their_tasks_whoever_is_first() -> None:
    assert next(iter(TWO.run_tasks(sleep_first, range(6)))).number != 0
    assert list(TWO.map_tasks(sleep_first, range(6))) == list(range(6))


def test_tasks_are_taken_when_a_worker_is_free() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[int]:
        for task in range(9):
            taken.append(task)
            yield task

    for done, _ in enumerate(TWO.run_tasks(refuse_odd, tasks()), 1):
        assert len(taken) <= done + 3
    assert taken == list(range(9))


def count_threads(_: int) -> dict[str, int]:
    import cv2
    import numpy as np
    from threadpoolctl import threadpool_info

    np.ones((8, 8)) @ np.ones((8, 8))
    found = {each["prefix"]: each["num_threads"] for each in threadpool_info()}
    return {**found, "cv2": cv2.getNumThreads()}


def test_workers_share_the_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for found in WorkerPool(jobs=2, threads=1).map_tasks(count_threads, range(2)):
        assert set(found.values()) == {1}
    share = max((os.cpu_count() or 1) // 2, 1)
    for found in TWO.map_tasks(count_threads, range(2)):
        assert max(found.values()) <= share


def test_one_job_is_done_here_and_needs_no_joblib() -> None:
    said = python(
        "import os, sys; from masquerade.io.workers import WorkerPool; "
        "found = [*WorkerPool(jobs=1).map_tasks(lambda task: os.getpid(), range(3)), "
        "*WorkerPool().map_tasks(lambda task: os.getpid(), [1])]; "
        "print(set(found) == {os.getpid()}, 'joblib' in sys.modules, 'rich' in sys.modules)"
    )
    assert said.split() == ["True", "False", "False"]


def squares(journal: TaskJournal, tasks: list[int], seen: list[int]) -> dict[int, Any]:
    def work(task: int) -> dict[str, int]:
        seen.append(task)
        if task == 13:
            raise BadInput("Expected another number.")
        return {"square": task**2}

    with journal:
        done = list(WorkerPool(jobs=1).run_tasks(work, tasks, journal=journal))
    return {outcome.task: outcome.value for outcome in done}


def test_a_journal_is_taken_up_and_what_failed_is_tried_again(tmp_path: Path) -> None:
    seen: list[int] = []
    path = tmp_path / "new" / "tasks.jsonl"
    first = squares(TaskJournal(path, run="a"), [1, 13], seen)
    assert first == {1: {"square": 1}, 13: None}
    assert path.stat().st_mode & 0o777 == 0o600
    again = TaskJournal(path, run="a")
    assert squares(again, [13, 1, 2], seen) == {1: {"square": 1}, 13: None, 2: {"square": 4}}
    assert seen == [1, 13, 13, 2] and set(again.values) == {"1", "2"} and again.seconds > 0
    assert squares(TaskJournal(path, run="b"), [1], seen) == {1: {"square": 1}}
    assert seen[-1] == 1, "of another run"
    squares(TaskJournal(path, run="b", is_resumed=False), [1], seen)
    assert seen[-2:] == [1, 1]
    again.remove_file()
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_line_is_dropped_and_the_next_one_stands_by_itself(cut: int, tmp_path: Path) -> None:
    seen: list[int] = []
    path = tmp_path / "tasks.jsonl"
    squares(TaskJournal(path), [1, 2, 3], seen)
    path.write_bytes(path.read_bytes()[:-cut])
    for _ in range(2):
        assert squares(TaskJournal(path), [1, 2, 3], seen)[3] == {"square": 9}
    assert seen == [1, 2, 3, 3], "the torn one alone, and once"
    assert [json.loads(line).get("task") for line in path.read_text().splitlines()] == [
        *(None, "1", "2", "3")
    ]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"\x00\xff[\n", b'{"task": "1"}\n', *lines[2:]]))
    squares(TaskJournal(path), [1, 2, 3], seen)
    assert seen == [1, 2, 3, 3, 1], "what cannot be read was not done"


def test_two_runs_do_not_write_one_journal(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    with TaskJournal(path), pytest.raises(BadInput, match="that no other run writes"):
        squares(TaskJournal(path), [1], [])


STOPPED = """
import sys, time
from pathlib import Path
from masquerade.io.atomic import TaskJournal
from masquerade.io.workers import WorkerPool

def work(path):
    if path.endswith("quick"):
        return 1
    Path(path).touch()
    try:
        time.sleep(120)
    finally:
        Path(path).unlink()

if __name__ == "__main__":
    with TaskJournal(Path(sys.argv[1])) as journal:
        for outcome in WorkerPool(jobs=2).run_tasks(work, sys.argv[2:], journal=journal):
            print("done", flush=True)
"""


@pytest.mark.parametrize("to_group", [True, False])
def test_a_stop_ends_the_workers_at_once_and_they_clean_up(to_group: bool, tmp_path: Path) -> None:
    (program := tmp_path / "stopped.py").write_text(STOPPED)
    signs, journal = [tmp_path / name for name in ("one", "two")], tmp_path / "tasks.jsonl"
    with subprocess.Popen(
        [sys.executable, program, journal, tmp_path / "quick", *signs],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while not all(sign.exists() for sign in signs):
            assert process.poll() is None
            time.sleep(0.02)
        began = time.monotonic()
        (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)  # until all have closed their pipes
    assert time.monotonic() - began < 10 and process.returncode == -signal.SIGINT
    assert out == "done\n" and err.count("Traceback") == 1 and "KeyboardInterrupt" in err
    assert not any(sign.exists() for sign in signs), "they were asked before they were killed"
    with TaskJournal(journal) as held:
        assert held.values == {str(tmp_path / "quick"): 1}


def test_whoever_leaves_early_ends_the_workers(tmp_path: Path) -> None:
    with contextlib.closing(TWO.run_tasks(partial(linger, tmp_path), range(4))) as outcomes:
        assert next(outcomes).task == 0
    processes = {int(path.name.partition("-")[2]) for path in tmp_path.iterdir()}
    assert len(processes) == 2
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def linger(folder: Path, task: int) -> None:
    mark(folder, task)
    until = time.monotonic() + 60
    while len({path.name.partition("-")[2] for path in folder.iterdir()}) < 2:
        assert time.monotonic() < until
        time.sleep(0.02)
    time.sleep(60.0 if task else 0.0)


def processes_of(factor: int) -> set[int]:
    """The two that work at once, which are not this one."""
    found = set()
    for process, value in TWO.map_tasks(lambda task: (meet(task), factor * task), [0.3, 0.3]):
        found.add(process)
        assert value == factor * 0.3
    assert os.getpid() not in found
    return found


def meet(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def test_workers_stay_for_the_next_run_from_the_same_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SETTING", "1")
    first = processes_of(1)
    assert len(first) == 2 and processes_of(2) == first
    lost = min(first)
    os.kill(lost, signal.SIGKILL)
    time.sleep(0.2)
    again = processes_of(3)
    assert lost not in again and len(again & first) == 1, "killed without work: nothing is lost"
    monkeypatch.chdir(tmp_path)
    elsewhere = processes_of(4)
    assert not elsewhere & (first | again)
    monkeypatch.setenv("SOME_SETTING", "2")
    assert not processes_of(5) & elsewhere


def test_the_estimate_is_over_the_whole_and_leaves_out_what_was_done_before() -> None:
    now = [0.0]
    with progress.whole_bar("cells", total=100, done=50) as bar:
        shown, left = bar.progress, progress._TotalTimeColumn()
        shown.get_time = lambda: now[0]
        task = shown.tasks[bar.task]
        task._get_time, task.start_time = shown.get_time, 0.0
        assert left.render(task).plain == "-:--:--"
        for done in range(1, 11):  # pairs that end in one moment, a minute apart
            now[0] = 60.0 * ((done + 1) // 2)
            bar.advance()
        assert task.completed == 60 and left.render(task).plain == "0:20:00"
        now[0] += 30
        assert left.render(task).plain == "0:19:30"


def test_lines_have_an_estimate_over_the_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.whole_bar("cells", total=100, done=90) as bar:
        for _ in range(4):
            now[0] += 30
            bar.advance()
    assert capsys.readouterr().err.splitlines()[-1] == (
        "cells, step 94 of 100, 0:02:00 so far, about 3 minutes left of it"
    )
