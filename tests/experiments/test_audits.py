"""The docs page on audits: every game stands there, and another's section stays."""

from __future__ import annotations

from pathlib import Path

from experiments import audits
from masquerade.publish.audits import AUDIT_COLUMNS, list_audit_rows, make_short_games, play_games

DOCS = Path(__file__).parents[2] / "docs"


def test_the_docs_page_has_every_game_and_another_section() -> None:
    page = (DOCS / "audits.md").read_text()
    for name in audits.make_long_games():
        assert f"\n| {name} |" in page, f"{name} is new: run `make audit`"
    assert page.endswith(audits.read_section(DOCS / "audits.md"))
    assert page.startswith(audits.write_page({}).partition("\n|")[0])


def test_a_game_is_a_row(tmp_path: Path) -> None:
    played = play_games({"gumbel_votes": make_short_games()["gumbel_votes"]})
    (row,) = list_audit_rows(played)
    assert row[0] == "gumbel_votes" and len(row) == len(AUDIT_COLUMNS)
    assert " | ".join(row) in audits.write_page(played)
    assert audits.read_section(tmp_path / "none.md") == ""
