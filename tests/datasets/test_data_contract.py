"""What every data set must keep, found by its file. A new file gets these tests for free."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from conftest import python
from experiments import engine
from masquerade import catalog
from masquerade.collection import Collection, DataSource, Medium, format_citation
from masquerade.errors import BadInput, MissingExtra

NAMES = catalog.list_entries("datasets")
each_entry = pytest.mark.parametrize("name", NAMES)


def example(name: str) -> Collection[Any]:
    try:
        found: Collection[Any] = catalog.make_example("datasets", name)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    return found


def test_there_are_data_sets() -> None:
    assert {"folder", "hmdb51", "ntu_rgbd", "pa_hmdb51", "toyota_smarthome", "ucf101"} <= set(NAMES)


@each_entry
def test_a_data_set_is_a_frozen_dataclass_on_collection(name: str) -> None:
    entry = example(name)
    assert isinstance(entry, Collection) and dataclasses.is_dataclass(entry)
    first = dataclasses.fields(entry)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(entry, first, None)
    assert catalog.find_entry_name(entry) == name
    assert entry == dataclasses.replace(entry)


@each_entry
def test_a_data_set_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    entry = example(name)
    about = entry.ABOUT
    assert isinstance(about, DataSource) and isinstance(about.kind, Medium)
    assert about.title and about.licence
    assert not about.home or about.home.startswith(("https://", "http://"))
    assert bool(about.home) <= bool(about.citation), "what is published is cited"
    if about.citation:
        assert format_citation(about.citation)
        module = inspect.getsourcefile(type(entry))
        assert module is not None
        assert f"[{about.citation}" in Path(module).read_text(), "the docstring cites it"
    said = type(entry).__doc__ or ""
    assert len(said.splitlines()) > 3 and "Args:" in said


def test_making_a_data_set_reads_nothing() -> None:
    """An audit hook sees every file that is opened and every folder that is listed."""
    code = f"""
import sys
from dataclasses import replace
from masquerade import catalog
seen, watched = [], False
reading = ("open", "os.listdir", "os.scandir", "glob.glob", "pathlib.Path.glob")
sys.addaudithook(lambda event, _: seen.append(event) if watched and event in reading else None)
for name in {NAMES!r}:
    try:
        entry = catalog.make_example("datasets", name)
    except ImportError:
        continue
    watched = True
    replace(entry)
    watched = False
    print(name, *seen)
    seen.clear()
watched = True
open(sys.executable, "rb").close()
watched = False
print(*seen)
"""
    *entries, last = python(code).splitlines()
    assert last == "open", "the hook sees"
    assert entries and set(entries) <= set(NAMES)


@each_entry
def test_a_root_that_is_not_there_is_named(name: str, tmp_path: Path) -> None:
    entry: Any = example(name)
    roots = [
        field.name
        for field in dataclasses.fields(entry)
        if isinstance(getattr(entry, field.name), Path)
    ]
    if "root" not in roots:
        pytest.skip("this one is made, not read")
    gone = dataclasses.replace(entry, **{root: tmp_path / f"no {root}" for root in roots})
    for call in (lambda: gone.labels, lambda: len(gone)):
        with pytest.raises(BadInput, match="no root"):
            call()
    try:
        assert not all(count.is_complete for count in gone.check())
    except BadInput as told:
        assert "no root" in str(told)


@each_entry
def test_a_data_set_shares_no_flag_with_whatever_learns_from_it(name: str) -> None:
    entry = example(name)
    if entry.kind == Medium.PHOTOS:
        pytest.skip("nothing learns from photos")
    pytest.importorskip("torch")
    verb = importlib.import_module("masquerade.cli.train").COMMAND
    learners = [
        verb,
        *(catalog.make_example("training", method) for method in catalog.list_entries("training")),
    ]
    settings = [engine.load_experiment(each).settings for each in engine.list_experiments()]
    learners += [each for each in settings if getattr(each, "DATA", "")]
    mine = {field.name for field in dataclasses.fields(entry)}
    for learner in learners:
        assert not mine & {field.name for field in dataclasses.fields(learner)}, learner


@each_entry
def test_a_data_set_has_the_parts_that_it_lists_and_no_others(name: str) -> None:
    entry = example(name)
    if name in ("folder", "manifest"):
        pytest.skip("it has to look")
    for part in entry.parts:
        found = entry.select_part(part)
        assert type(found) is type(entry) and found.part_name == found.explicit_part == part
    with pytest.raises(BadInput, match=", ".join(entry.parts) or "which has no parts"):
        entry.select_part("nonsense")


@each_entry
def test_a_data_set_gives_the_kinds_that_it_lists_and_no_others(name: str) -> None:
    entry = example(name)
    assert entry.select_kind(entry.kind) is entry
    for kind in Medium:
        if kind in entry.kinds:
            assert entry.select_kind(kind).kind == kind
        else:
            with pytest.raises(BadInput, match=f"a data set of {kind}, got "):
                entry.select_kind(kind)


def test_people_are_chosen_where_they_have_names() -> None:
    watch = example("watch")
    assert watch.explicit_subjects == ()
    assert watch.select_subjects(["3", "4"]).explicit_subjects == ("3", "4")
    with pytest.raises(BadInput, match="whose people have names, got UCF101"):
        example("ucf101").select_subjects(["g01"])


@pytest.mark.parametrize("name", ["ucf101", "hmdb51", "ntu_rgbd", "toyota_smarthome", "stage"])
def test_the_usual_part_is_taken_for_a_choice_only_if_it_was_chosen(name: str) -> None:
    entry = example(name)
    chosen = entry.select_part(entry.part_name)
    assert entry.explicit_part is None and len({entry.part_name, chosen.part_name}) == 1
    assert entry.select_default_part("test").part_name == "test"
    assert chosen.select_default_part("test") is chosen


def test_a_flag_with_two_meanings_is_refused(command: Any, tmp_path: Path) -> None:
    words = ("--method", "mask_dp", "--data", "mpii", "--root", tmp_path)
    words += ("--epsilon", "1", "--unit", "record")
    done = command("train", tmp_path / "m.safetensors", *words)
    assert done.code == 2 and "got --form, which mpii has as well" in " ".join(done.err.split())
