"""The page about published files: what is private is shown when asked, and never in public."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
FILM = BEFORE / "public" / "film.mp4"


def answer(path: Path) -> Path:
    """What an attack writes, in small."""
    figures = {"measure": "rank-1", "value": 0.25, "low": 0.125, "high": 0.5}
    one = {"attacker": "a stranger", "verdict": "weakened"}
    one |= {name: [figures] for name in ("published", "ceiling", "floor")}  # type: ignore[dict-item]
    path.write_text(json.dumps({"attack": "reidentify", "attackers": [one]}))
    return path


def private(tmp_path: Path) -> tuple[Any, ...]:
    return (
        *("report", FILM, "--out", tmp_path / "page.html"),
        *("--original", BEFORE / "private" / "film.mp4"),
        *("--attacks", answer(tmp_path / "found.json")),
    )


def test_what_is_private_is_shown_and_the_page_is_stamped(command: Any, tmp_path: Path) -> None:
    done = command(*private(tmp_path), "--json")
    assert done.code == 0 and done.json["private"] is True
    text = (tmp_path / "page.html").read_text()
    assert "PRIVATE" in text and "Before (private)" in text and "0.250 (0.125 to 0.500)" in text
    assert text.count("<video") == 2


def test_a_public_page_leaves_out_all_that_is_private_and_says_so(
    command: Any, tmp_path: Path
) -> None:
    assert command(*private(tmp_path), "--public").code == 0
    text = (tmp_path / "page.html").read_text()
    assert "PRIVATE" not in text and "was left out of this page" in text
    assert "Before (private)" not in text and "a stranger" not in text
    assert command("report", FILM, "--out", tmp_path / "plain.html").code == 0
    bare = (tmp_path / "plain.html").read_text()
    assert text.count("<video") == bare.count("<video") == 1


@pytest.mark.parametrize("spoil", ["{", "[]", '{"attack": "x", "attackers": [{}]}'])
def test_what_no_attack_wrote_is_refused(spoil: str, command: Any, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text(spoil)
    done = command("report", FILM, "--attacks", tmp_path / "no.json", "--out", tmp_path / "p.html")
    assert done.code == 4 and "masquerade attack --out" in done.err
    assert not (tmp_path / "p.html").exists()


def test_an_original_stands_beside_one_file_alone(command: Any, tmp_path: Path) -> None:
    folder = BEFORE / "public"
    done = command("report", folder, "--original", FILM, "--out", tmp_path / "p.html")
    assert done.code == 2 and "a page for each" in done.err
