"""The command line: the contract's JSON, clear errors, exit codes, no tracebacks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def words(line: str) -> list[str]:
    return line.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("account gaussian --epsilon 8 --delta 1e-4 --sensitivity 1", {"sigma": 0.5430751}),
        ("account gaussian --noise-std 0.5430751 --delta 1e-4", {"epsilon": 8.0}),
        ("account gaussian --epsilon 8 --delta 1e-4 --releases 4", {"sigma": 1.086151}),
        (
            "account poisson --noise-multiplier 4 --sampling-prob 0.01 --steps 1000 --delta 1e-5",
            {
                "zero_out": 0.2722,
                "add_remove": 0.2722,
                "replace_one": 0.5614,
                "revealed_zero_out": 3.9216,
                "revealed_replace_one": 9.176,
            },
        ),
        (
            "account votes --aggregator lnmax --gamma 0.1 --queries 1000 --delta 1e-5",
            {"epsilon": 27.6859},
        ),
        (
            "account votes --aggregator gnmax --noise-std 40 --queries 1000 --delta 1e-5",
            {"epsilon": 4.9834},
        ),
        (
            "account votes --aggregator lnmax --gamma 0.01 --queries 1600 --delta 1e-5 "
            "--shards-per-subject 2",
            {"epsilon": 5.0304},
        ),
        (
            "account sensitivity --unit pixels --pixels 16 --frames 16 --height 240 --width 320 "
            "--block 16 --columns 3072",
            {"block_means": 27.60456, "array": 1766.692},
        ),
    ],
)
def test_the_contract(line: str, expected: dict[str, float], command: Any) -> None:
    done = command(*words(line), "--json")
    assert done.code == 0, done.err
    assert {key: done.json[key] for key in expected} == pytest.approx(expected, abs=1e-9)


def test_calibration_by_command(command: Any) -> None:
    done = command(
        *words(
            "account calibrate --epsilon 1 --delta 1e-5 --sampling-prob 0.01 --steps 1000 "
            "--relation zero_out --json"
        )
    )
    assert done.json["noise_multiplier"] == pytest.approx(1.4147, rel=1e-4)


def test_votes_list_all_bounds(command: Any) -> None:
    line = "account votes --aggregator lnmax --gamma 0.1 --queries 1000 --delta 1e-5 --json"
    bounds = command(*words(line)).json["bounds"]
    assert set(bounds) == {"pure", "optimal", "pld_laplace", "moments"}


def test_a_published_claim_by_command(command: Any) -> None:
    line = "account published --paper video_dprp --epsilon 8 --delta 1e-4"
    data = command(*words(line), "--json").json
    assert data["valid"] is False and data["why"]
    assert data["sigma_1"] == 4.1891 and data["sigma_2"] == 44.4545
    assert data["true_epsilon"]["value"] == pytest.approx(2146, rel=1e-3)
    assert data["true_epsilon"]["frame"] == pytest.approx(4.69e8, rel=2e-3)
    assert "CLAIMED, NOT VALID" in command(*words(line)).out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("account gaussian --epsilon -1 --delta 1e-4", "epsilon to be finite and > 0"),
        ("account gaussian --epsilon nan --delta 1e-4", "epsilon=nan"),
        ("account gaussian --epsilon 1 --delta 1", "strictly between 0 and 1"),
        ("account gaussian --epsilon 1 --delta nan", "strictly between 0 and 1"),
        ("account gaussian --epsilon 1 --noise-std 1 --delta 1e-4", "exactly one of"),
        ("account gaussian --delta 1e-4", "exactly one of"),
        ("account gaussian --epsilon", "--epsilon"),
        ("account gaussian --epsilon one --delta 1e-4", "--epsilon"),
        ("account gaussian --epsilon 1 --delta 1e-4 --sensitivity 0", "sensitivity"),
        (
            "account poisson --noise-multiplier 4 --sampling-prob 2 --steps 1 --delta 1e-5",
            "probability in (0, 1]",
        ),
        (
            "account poisson --noise-multiplier 4 --sampling-prob 0.1 --steps 0 --delta 1e-5",
            "whole number >= 1",
        ),
        ("account calibrate --epsilon inf --delta 1e-5 --sampling-prob 1 --steps 1", "epsilon=inf"),
        ("account votes --aggregator lnmax --queries 10 --delta 1e-5", "Expected gamma"),
        ("account votes --aggregator best --queries 10 --delta 1e-5", "aggregator"),
        (
            "account published --paper magic",
            "Unknown paper 'magic'; choose from feature_projective",
        ),
        ("account published", "choose from feature_projective"),
        ("account sensitivity --unit face --frames 1 --height 1 --width 1", "Unknown unit 'face'"),
        ("account tax", "Unknown account command 'tax'"),
        ("relase in out", "did you mean release?"),
        ("release a.npy b.npy --mechanism gausian_noise", "did you mean gaussian_noise?"),
        ("release a.npy b.npy", "gaussian_noise, learned_filter"),
        (
            "release a.npy b.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-4",
            "everything that one person contributed",
        ),
        (
            "release a.npy b.npy --mechanism gaussian_noise --epsilon 8 --delta 1e-4 --unit face",
            "Unknown unit 'face'",
        ),
        ("account", ""),
        ("", ""),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_wrong_use_exits_with_two_and_says_why(
    line: str, message: str, as_json: bool, command: Any
) -> None:
    done = command(*words(line), *(["--json"] if as_json and line else []))
    assert done.code == 2
    assert "Traceback" not in done.err
    said = done.err
    if as_json and message:
        said = json.loads(done.err)["error"]
        assert done.out == ""
    flat = " ".join(said.replace("│", " ").split())
    assert message in flat


def test_a_bad_file_exits_with_four(command: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.npy"
    flags = words(
        "--mechanism gaussian_noise --epsilon 8 --delta 1e-4 --unit value --low 0 --high 1"
    )
    missing = command("release", source, tmp_path / "out.npy", *flags, "--json")
    assert missing.code == 4 and "got nothing" in json.loads(missing.err)["error"]
    np.save(source, np.array([np.nan]))
    assert command("release", source, tmp_path / "out.npy", *flags).code == 4
    assert not (tmp_path / "out.npy").exists()
    assert command("receipt", "check", source).code == 4


def test_releasing_from_the_command_line(command: Any, tmp_path: Path) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, np.zeros((5, 2)))
    line = "--mechanism=gaussian_noise --epsilon 8 --delta 1e-4 --unit frame --low 0 --high 1"
    preview = command("release", source, target, *words(line), "--dry-run", "--json")
    assert preview.code == 0 and not target.exists()
    assert preview.json["expected_error"] == pytest.approx(2**0.5 * 0.5430751, rel=1e-4)
    said = command("release", source, target, *words(line))
    assert said.code == 0 and "epsilon 8 and delta 0.0001" in said.out
    again = command("release", source, target, *words(line), "--json")
    assert again.code == 2 and "--resume" in again.err
    resumed = command("release", source, target, *words(line), "--resume", "--json")
    assert resumed.json["already_done"] is True
    assert command("release", source, target, *words(line), "--resume", "--overwrite").code == 2
    checked = command("receipt", "check", target, "--json").json
    assert checked["ok"] is True and checked["receipt"]["guarantee"]["epsilon"] == 8.0
    rehearsal = command("release", source, target, *words(line), "--rehearsal-seed", "1", "--json")
    assert rehearsal.json["output"].endswith("out.rehearsal.npy")
    assert rehearsal.json["guarantee"]["epsilon"] is None
    page = tmp_path / "page.html"
    assert command("report", target, "--out", page).code == 0
    assert "epsilon 8" in page.read_text() and "NOT VERIFIED" in page.read_text()
    assert command("report", "--out", page).code == 2


def test_help_lists_verbs_commands_and_flags(command: Any) -> None:
    assert "release" in command("--help").out
    assert "calibrate" in command("account", "--help").out
    assert "--noise-multiplier" in command("account", "poisson", "--help").out
    assert "gaussian_noise" in command("release", "--help").out
    assert "--unit" in command("release", "--mechanism", "gaussian_noise", "--help").out
    assert command("--version").out.startswith("masquerade ")


def test_the_installed_command_runs_without_a_traceback() -> None:
    program = Path(sys.executable).with_name("masquerade")
    done = subprocess.run(
        [program, *words("account gaussian --epsilon 0 --delta 1e-4 --json")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert json.loads(done.stderr)["exit_code"] == 2
