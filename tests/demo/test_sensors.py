"""The demo's worn sensors: what each unit pays stands in the table."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from masquerade.demo import sensors


def test_the_demos_table_says_what_each_unit_pays() -> None:
    line = sensors.Labelling(
        data="a",
        people=7,
        teachers=20,
        agreement=0.5,
        labels="gnmax",
        right=0.25,
        top_1=0.4,
        teacher_epsilon=2.0,
        person_epsilon=43.0301,
        figure=7.84,
    )
    (row,) = sensors.list_rows([line])
    assert row[-3:] == ("2", "43.04", "7.84 (ESTIMATE, NO GUARANTEE)")
    truth = replace(line, teacher_epsilon=None, person_epsilon=None, figure=None)
    assert sensors.list_rows([truth])[0][-3:] == ("-", "-", "-")
    said = " ".join(sensors.write_sentences([line, line, truth, line, line, truth]))
    assert "epsilon 2 for the data behind one teacher gives 43.04 for a person" in said
