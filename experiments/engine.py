"""One engine for all experiments: settings and presets, a journal, processes, the command line.

An experiment is one module with ``EXPERIMENT``: its settings (the flags), a function that measures
and one that writes its page. What is measured are cells, dataclasses whose fields say which arm,
column and panel they are of; what is said of cells is in `experiments.claims`, how they are laid
out and drawn in `experiments.pages`.

Imports neither torch nor what draws on a screen: experiments also run where only the former is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import platform
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import joblib

from masquerade import __version__, _check, _json, catalog
from masquerade.collection import Collection
from masquerade.errors import BadInput, exit_code, format_error
from masquerade.io import atomic
from masquerade.result import CommandResult

Progress = Callable[[str, int, int], None]  # what is done, how far, and of how much
Made = TypeVar("Made")
# where and how, not what
_ELSEWHERE = ("out", "page", "jobs", "num_processes", "workers", "physical", "kept_only", "named")


# --- settings and presets


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The flags that all experiments have; an experiment adds its own, a comment beside each.

    A number that a preset decides is None until somebody sets it. A subclass has its own ``out``.
    """

    DATA: ClassVar[str] = "stage"  # the data set if none is named; "" if it needs none

    out: Path = Path("out")  # folder for the results; it is made
    page: Path | None = None  # page of the docs to which a section is added
    jobs: int = 0  # processes on a processor; 0 for one a core
    quick: bool = False  # smaller and sooner, to see that all works

    def settle(self, data: Any = None) -> Any:
        """The settings as they are run on a data set, with nothing left open that is known."""
        return self

    @property
    def processes(self) -> int:
        """That work side by side: one beside a GPU."""
        is_cuda = getattr(self, "device", "cpu") == "cuda"
        return 1 if is_cuda else self.jobs or len(os.sched_getaffinity(0))


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Values of an experiment's settings.

    Args:
        values: by field.
        left_open: what the paper does not say, and what is taken, in sentences.
    """

    values: Mapping[str, Any]
    left_open: tuple[str, ...] = field(default_factory=tuple)


def fill_settings(settings: Made, values: Mapping[str, Any]) -> Made:
    """The settings with every field that is None as the values have it."""
    missing = {name: v for name, v in values.items() if getattr(settings, name) is None}
    if not missing:
        return settings  # one that checks itself by this very function comes to an end
    return dataclasses.replace(settings, **missing)  # type: ignore[type-var]


def check_settings(settings: Any, **checks: Sequence[str]) -> None:
    """Check those fields that are given, by the names of checks: ``positive=("epochs",)``.

    Of a field with several values each is checked; none at all are refused.
    """
    for check, names in checks.items():
        for name in names:
            value = getattr(settings, name)
            if value == ():
                raise ValueError(f"Expected at least one of {name}, got none.")
            for one in value if isinstance(value, tuple) else (value,):
                if one is not None:
                    getattr(_check, check)(**{name: one})


def write_command(settings: Any, data: Any) -> str:
    """The line that gives the same again: what is not as usual, and of paths only that one is."""
    words = [f"python -m experiments {catalog.find_entry_name(settings)}"]
    if data is not None:
        name = catalog.find_entry_name(data)
        words += [] if name == type(settings).DATA else [f"--data {name}"]
    for options in (data, settings):
        for option, value in _list_chosen(options):
            flag = option.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words.append(f"--{flag} {_quote_value(value)}".rstrip())  # a list may be empty
    return " ".join(words)


def _list_chosen(options: Any) -> list[tuple[str, Any]]:
    """The fields that are not as usual, but for where results go."""
    if options is None:
        return []
    ordered = sorted(dataclasses.fields(options), key=lambda each: each.name == "quick")
    values = [(field, getattr(options, field.name)) for field in ordered]
    return [
        (field.name, value)
        for field, value in values
        if field.name not in _ELSEWHERE and value != field.default
    ]


def _quote_value(value: Any) -> str:
    if isinstance(value, Path):
        return "PATH"
    return (
        " ".join(map(_quote_value, value)) if isinstance(value, tuple) else shlex.quote(str(value))
    )


# --- arms


@dataclass(frozen=True, kw_only=True)
class Arm:
    """A row of the tables: what is done, and what it protects."""

    # its method or mechanism; None for what is measured otherwise
    make: Callable[..., Any] | None = None
    protects: str = ""  # its unit, in words
    # fields in which it differs from the base that all arms share
    set: Mapping[str, Any] = field(default_factory=dict)
    # fields whose values the settings hold under names of their own
    take: Mapping[str, str] = field(default_factory=dict)
    is_free: bool = False  # whether it is the same in every column and panel: it has no noise
    is_claim: bool = False  # whether the epsilon that is asked for is only claimed
    short: str = ""  # its name beside a plot, if that is another one

    def build_method(self, settings: Any, base: Mapping[str, Any]) -> Any:
        """The method with the base's fields, the settings' own and then the arm's."""
        if self.make is None:
            raise ValueError("Expected an arm with a method, got one that is measured otherwise.")
        taken = {own: getattr(settings, name) for own, name in self.take.items()}
        return self.make(**(dict(base) | taken | dict(self.set)))


# --- a run: data, journal, processes


def split_data(data: Collection[Any]) -> tuple[Collection[Any], Collection[Any]]:
    """The training and the test split of a data set of videos.

    Raises:
        BadInput: if it holds no videos, or is one part.
    """
    from masquerade.publish.collections import select_split  # reads video files

    train, test = (select_split(data, name) for name in ("train", "test"))
    if train is test:
        raise BadInput(
            f"Expected a train and a test split, got one part of {data.ABOUT.title}; leave out "
            "--split, put the class folders into folders train and test, or give a manifest a "
            "column split."
        )
    return train, test


def chain_recordings(data: Collection[Any], *splits: str) -> Iterator[Any]:
    """All recordings of some splits, one after the other."""
    return itertools.chain.from_iterable(data.select_part(split) for split in splits)


def run_parallel(calls: Iterable[Callable[[], Made]], *, jobs: int) -> Iterator[Made]:
    """What calls give, in their order, in processes of one thread each; with one job, here.

    Small products that several threads share take far longer wherever the cores have other work.
    """
    if jobs == 1:
        for call in calls:
            yield call()
        return
    with warnings.catch_warnings(), joblib.parallel_config("loky", inner_max_num_threads=1):
        warnings.filterwarnings("ignore", message="A worker stopped")  # joblib starts another
        tasks = (joblib.delayed(call)() for call in calls)
        yield from joblib.Parallel(n_jobs=jobs or -1, return_as="generator")(tasks)


def hide_progress(what: str, done: int, total: int) -> None:
    """Tell nobody how far the work is."""


@contextlib.contextmanager
def show_progress() -> Iterator[Progress]:
    """A bar that says what is done, on a screen."""
    from masquerade import progress  # not where there is no screen

    with progress.make_progress_bars() as shown:
        task = shown.add_task("", total=None)
        yield lambda what, done, total: shown.update(
            task, description=what, completed=done, total=total
        )


@dataclass(kw_only=True)
class Journal:
    """What a run has measured so far, as a file: one that was stopped goes on where it was."""

    path: Path | None = None  # of the file; without one nothing outlives the run
    run: str = ""  # what has to be the same
    held: dict[str, Any] = field(default_factory=dict)  # results by name
    before: float = 0.0  # seconds that the stopped runs took
    start: float = field(default_factory=time.perf_counter)
    device: str = "cpu"  # that it runs on
    machine: str = ""  # where its results were measured, in words; empty before the first

    @classmethod
    def open(cls, settings: Any, data: Any) -> Journal:
        """The one in the settings' folder, if it is of the same settings, data and version."""
        known = [
            __version__,
            catalog.find_entry_name(settings),
            "" if data is None else catalog.find_entry_name(data),
        ]
        known += [repr(_list_chosen(options)) for options in (settings, data)]
        found = cls(
            path=settings.out / "cells.json",
            run=hashlib.sha256("\n".join(known).encode()).hexdigest(),
            device=getattr(settings, "device", "cpu"),
        )
        if found.path is not None and found.path.is_file():
            kept = json.loads(found.path.read_text(encoding="utf-8"))
            if kept["run"] == found.run:
                found.held, found.before = kept["cells"], kept["seconds"]
                found.machine = kept.get("machine", "")
        return found

    @property
    def seconds(self) -> float:
        """That it took, stopped runs included."""
        return self.before + time.perf_counter() - self.start

    def measure_once(self, name: str, measure: Callable[[], Any]) -> Any:
        """What is noted under a name; if nothing is, it is measured, and noted as JSON."""
        if name not in self.held:
            self.note_result(name, measure())
        return self.held[name]

    def note_result(self, name: str, value: Any) -> None:
        """Keep a result, as it will be read again."""
        self.held[name] = _json.encode_noun(value)
        self.machine = self.machine or name_machine(self.device)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            kept = {"run": self.run, "seconds": self.seconds, "machine": self.machine}
            kept |= {"cells": self.held}
            atomic.write_whole(self.path, json.dumps(kept).encode())

    def remove(self) -> None:
        """Forget it all: the next run measures anew."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def name_machine(device: str) -> str:
    """What this runs on, in words."""
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    if device == "cuda":
        from masquerade._torch import torch  # pages without networks need none

        machine += f", {torch.cuda.get_device_name(0)}"
    return machine


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: settings, data, what is noted, and who is told how far it is."""

    settings: Any  # of the experiment, settled
    data: Any = None  # that it is measured on; None where it needs none
    journal: Journal = field(default_factory=Journal)  # of the run
    progress: Progress = hide_progress  # called with what is done, how far it is, and of how much

    def find_missing(self, names: Iterable[str]) -> list[str]:
        """Those that are not noted, each once."""
        return [name for name in dict.fromkeys(names) if name not in self.journal.held]

    def measure_cells(
        self,
        what: str,
        tasks: Mapping[str, Callable[[], Any]],
        *,
        jobs: int | None = None,
        finish: Callable[[str, Any], Any] = lambda name, made: made,
    ) -> dict[str, Any]:
        """What tasks give, by name and as JSON; what is noted already is not done again.

        Args:
            what: they are, for the progress.
            tasks: for other processes; what they need travels along.
            jobs: processes; as many as the settings have if None.
            finish: what is done with the answer of each, here, before it is noted.
        """
        missing = self.find_missing(tasks)
        jobs = self.settings.processes if jobs is None else jobs
        calls = (tasks[name] for name in missing)
        made = run_parallel(calls, jobs=jobs if len(missing) > 1 else 1)
        for number, (name, answer) in enumerate(zip(missing, made, strict=True)):
            self.journal.note_result(name, finish(name, answer))
            self.progress(what, number + 1, len(missing))
        return {name: self.journal.held[name] for name in tasks}


# --- experiments, and the command line


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment."""

    settings: type[Settings]  # its flags; its docstring is the help
    measure: Callable[[Run], Any]  # everything, from a `Run`
    write_page: Callable[[Any], Any]  # what was measured, for machines and for people

    def run(self, settings: Any, data: Any = None) -> CommandResult:
        """Measure what the journal does not have, and write the page."""
        settled = settings.settle(data)
        journal = Journal.open(settled, data)
        with show_progress() as progress:
            run = Run(settings=settled, data=data, journal=journal, progress=progress)
            found = self.measure(run)
        answer: CommandResult = self.write_page(found).publish(settings, data, journal)
        return answer


@dataclass(frozen=True, kw_only=True)
class Task:
    """Work without a journal: it writes a page of the docs, or the weights of a network."""

    settings: Any  # a dataclass of flags whose ``run`` does it; its docstring is the help

    def run(self, settings: Any, data: Any = None) -> CommandResult:
        """Do it."""
        answer: CommandResult = settings.run()
        return answer


def list_experiments() -> tuple[str, ...]:
    """Their names."""
    folder = Path(__file__).parent
    found = (path for path in folder.glob("*.py") if "\nEXPERIMENT" in path.read_text("utf-8"))
    return tuple(sorted(path.stem for path in found))


def load_experiment(name: str) -> Experiment | Task:
    """One by its name; only its module is imported."""
    if name not in list_experiments():
        raise ValueError(_check.describe_unknown("experiment", name, list_experiments()))
    found: Experiment | Task = import_module(f"experiments.{name}").EXPERIMENT
    return found


def parse_command(words: Sequence[str]) -> tuple[Experiment | Task, Any, Any]:
    """An experiment, its settings and its data from a command line.

    ``--preset NAME`` is ``--setting NAME`` unless the data set has a preset of this name.
    """
    import tyro

    name, *rest = words
    experiment = load_experiment(name)
    kind, data = experiment.settings, getattr(experiment.settings, "DATA", "")
    for at, word in enumerate(rest):
        if word == "--preset" and rest[at + 1 : at + 2] in (["stage"], ["paper"]):
            rest[at] = "--setting"
    if "--data" in rest:
        at = rest.index("--data")
        data, rest = (rest[at + 1 : at + 2] or [""])[0], rest[:at] + rest[at + 2 :]
    kinds = {"settings": kind}
    if data:
        kinds["data"] = type(catalog.make_example("datasets", data))
    flat: Any = dataclasses.make_dataclass(
        "Command", [(own, Annotated[of, tyro.conf.arg(name="")]) for own, of in kinds.items()]
    )
    found = tyro.cli(
        flat,
        args=rest,
        prog=f"python -m experiments {name}",
        description=kind.__doc__,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    return experiment, found.settings, getattr(found, "data", None)


def _drop_infinity(value: Any) -> Any:
    """JSON has no infinity: such an epsilon is null."""
    if isinstance(value, dict):
        return {name: _drop_infinity(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_drop_infinity(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def main(words: Sequence[str]) -> int:
    """Run an experiment: its lines, or with ``--json`` one JSON object, are printed."""
    is_json = "--json" in words
    words = [word for word in words if word != "--json"]
    if not words or words[0] in ("-h", "--help"):
        print(
            "python -m experiments NAME [--data NAME] [FLAGS]; --help after NAME tells the flags."
        )
        print("\n".join(list_experiments()))
        return 0
    try:
        experiment, settings, data = parse_command(words)
        answer = experiment.run(settings, data)
    except (Exception, KeyboardInterrupt) as error:
        code = exit_code(error)
        if code == 1:
            raise
        shown = {"error": format_error(error), "exit_code": code}
        print(json.dumps(shown) if is_json else f"experiments: {shown['error']}", file=sys.stderr)
        return code
    print(json.dumps(_drop_infinity(answer.data)) if is_json else "\n".join(answer.lines))
    return answer.exit_code
