"""Progress where no screen is: a line now and then, and nothing for a machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from masquerade import progress

Tick = Callable[[float], None]


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Tick:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def pass_(seconds: float) -> None:
        now[0] += seconds

    return pass_


def work(pass_time: Tick) -> None:
    with progress.show_steps() as told:
        told("reading", 0, 4)
        for done in (1, 2):
            pass_time(9)
            told("reading", done, 4)
        pass_time(61)
        told("training", 0, 1)


def test_without_a_screen_a_line_says_step_time_and_estimate(
    pass_time: Tick, capsys: pytest.CaptureFixture[str]
) -> None:
    work(pass_time)
    assert capsys.readouterr().err.splitlines() == [
        "reading, step 2 of 4, 0:00:18 so far, about 18 seconds left of it",
        "training, 0:01:19 so far",
    ]


def test_a_machine_reads_no_progress(
    pass_time: Tick, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress.sys, "argv", ["masquerade", "audit", "--json"])
    work(pass_time)
    assert capsys.readouterr().err == ""


def test_every_step_counts_and_nobody_who_does_not_watch_is_told(
    pass_time: Tick, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_shown in (True, False):
        with progress.make_progress_bars(is_shown=is_shown) as shown:
            task = shown.add_task("files", total=3)
            pass_time(20)
            shown.advance(task)
    assert capsys.readouterr().err == "files, step 1 of 3, 0:00:20 so far\n"
