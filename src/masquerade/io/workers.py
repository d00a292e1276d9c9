"""Many tasks on several workers: each has its outcome, and a killed worker takes no other along.

A worker is a process of its own. If it is killed (for memory, or by somebody), it is named with its
task, another takes its place, and the task is tried once more; what a task does has to be the same
when it is done twice. Workers end with whoever started them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import secrets
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from masquerade._optional import lazy_module, require_extra
from masquerade.errors import StopRequested
from masquerade.io.atomic import TaskJournal

if TYPE_CHECKING:
    import joblib
    from joblib.externals import loky
else:  # one task needs none of them
    joblib, loky = lazy_module("joblib"), lazy_module("joblib.externals.loky")


Task = TypeVar("Task")
Value = TypeVar("Value")
_MAX_TRIES = 2
_GRACE_S = 2.0  # seconds in which a worker may clean up before it is killed
_IDLE_S = 300.0  # seconds after which a worker without work ends
_POLL_S = 1.0  # seconds between two looks at whether whoever started a worker still lives
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)


class LostWorker(MemoryError):
    """The worker of a task was killed each time that it was tried."""


@dataclass(frozen=True, kw_only=True)
class TaskOutcome(Generic[Task, Value]):
    """What became of a task.

    Args:
        number: its place among the tasks, from 0.
        task: itself.
        value: what the function gave; None if it failed.
        error: why it failed, if it did.
        seconds: that it took.
        lost_workers: process ids of workers that were killed while they worked on it.
        is_resumed: whether it was read from a journal.
    """

    number: int
    task: Task
    value: Value | None = None
    error: Exception | None = None
    seconds: float = 0.0
    lost_workers: tuple[int, ...] = ()
    is_resumed: bool = False

    def get_value(self) -> Value:
        """The value; raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


def count_jobs(jobs: int) -> int:
    """As many as were asked for; 0 asks for one a core.

    Example:
        >>> count_jobs(3), count_jobs(0) >= 1
        (3, True)
    """
    return jobs or int(joblib.cpu_count())


@dataclass(frozen=True, kw_only=True)
class WorkerPool:
    """Where tasks are worked on.

    Args:
        jobs: at a time; 0 for one a core, 1 for none but this process.
        backend: loky (processes of this machine), threading, dask or ray. Only with loky is a task
            tried again whose worker was killed; the others may end the run, or do it by themselves.
        threads: of each worker process in numerical libraries; 0 for its share of the processors
            unless the environment says otherwise. Small products that several threads share take
            far longer wherever the cores have other work.
        title: of a bar that shows how far it is, with an estimate over the whole; none if empty.

    Example:
        >>> list(WorkerPool(jobs=1).map_tasks(abs, [-1, 2]))
        [1, 2]
    """

    jobs: int = 0
    backend: str = "loky"
    threads: int = 0
    title: str = ""

    def run_tasks(
        self,
        function: Callable[[Task], Value],
        tasks: Iterable[Task],
        *,
        describe: Callable[[Task], str] = str,
        journal: TaskJournal | None = None,
    ) -> Generator[TaskOutcome[Task, Value], None, None]:
        """What became of each task, as they are done; one that fails does not stop the others.

        Args:
            function: what is done with a task; a worker is sent it once, with what it is bound to.
            tasks: begun in this order, each taken when a worker is free.
            describe: the name of a task, for people and in the journal.
            journal: its values are not computed again, and new ones are added to it.
        """
        total = len(tasks) if isinstance(tasks, Sized) else None
        numbered: Iterable[tuple[int, Task]] = enumerate(tasks)
        resumed: list[TaskOutcome[Task, Value]] = []
        if journal is not None:
            numbered, known = list(numbered), journal.values
            resumed = [
                TaskOutcome(number=number, task=task, value=known[describe(task)], is_resumed=True)
                for number, task in numbered
                if describe(task) in known
            ]
            numbered = [each for each in numbered if describe(each[1]) not in known]
        left = None if total is None else total - len(resumed)
        attempts = (_Attempt(number=number, task=task) for number, task in numbered)
        with contextlib.ExitStack() as stack:
            bar = None
            if self.title:
                from masquerade.progress import whole_bar  # where nobody looks none is made

                bar = stack.enter_context(whole_bar(self.title, total=total, done=len(resumed)))

            def tell_lost(task: Task, process: int) -> None:
                if bar is not None:
                    bar.print_line(
                        f"Worker {process} was killed, perhaps for memory, while it worked on "
                        f"{describe(task)}; that is tried once more."
                    )

            yield from resumed
            with contextlib.closing(
                self._run_attempts(function, attempts, left, tell_lost)
            ) as outcomes:
                for outcome in outcomes:
                    if journal is not None and outcome.error is None:
                        name = describe(outcome.task)
                        kept = journal.record_task(name, outcome.value, outcome.seconds)
                        outcome = replace(outcome, value=kept)
                    if bar is not None:
                        bar.advance()
                    yield outcome

    def map_tasks(
        self, function: Callable[[Task], Value], tasks: Iterable[Task]
    ) -> Generator[Value, None, None]:
        """The values in the order of their tasks; the first error ends it."""
        early: dict[int, TaskOutcome[Task, Value]] = {}
        place = 0
        with contextlib.closing(self.run_tasks(function, tasks)) as outcomes:
            for outcome in outcomes:
                early[outcome.number] = outcome
                while place in early:
                    yield early.pop(place).get_value()
                    place += 1

    def _run_attempts(
        self,
        function: Callable[[Task], Value],
        attempts: Iterator[_Attempt[Task]],
        total: int | None,
        tell_lost: Callable[[Task, int], None],
    ) -> Generator[TaskOutcome[Task, Value], None, None]:
        jobs = self.jobs if total is None or total > 1 else min(self.jobs or 1, 1)
        jobs = count_jobs(jobs) if total is None else min(count_jobs(jobs), max(total, 1))
        if self.backend == "loky" and jobs > 1:
            processes = _ProcessPool(function, attempts, jobs, self.threads, tell_lost)
            yield from processes.run_attempts()
        elif self.backend == "loky" or total == 0:
            for attempt in attempts:
                yield attempt.make_outcome(_call_function(function, attempt.task))
        else:
            given = {attempt.number: attempt for attempt in attempts}
            with _use_backend(self.backend):
                parallel = joblib.Parallel(
                    n_jobs=jobs,
                    return_as="generator_unordered" if self.backend == "threading" else "list",
                )
                calls = (
                    joblib.delayed(_call_numbered)(function, number, attempt.task)
                    for number, attempt in given.items()
                )
                for number, found in parallel(calls):
                    yield given[number].make_outcome(found)


class _TaskResult(NamedTuple):
    """What a worker sends back."""

    value: Any
    error: Exception | None
    seconds: float
    where: str = ""  # the error was raised; its own traceback does not travel


@dataclass(kw_only=True)
class _Attempt(Generic[Task]):
    """A task that is worked on."""

    number: int
    task: Task
    lost: tuple[int, ...] = ()

    def make_outcome(self, found: _TaskResult) -> TaskOutcome[Task, Any]:
        """What became of it."""
        if found.error is not None and found.where:
            found.error.__cause__ = RuntimeError(f"In a worker:\n{found.where}")
        return TaskOutcome(
            number=self.number,
            task=self.task,
            value=found.value,
            error=found.error,
            seconds=found.seconds,
            lost_workers=self.lost,
        )


@dataclass
class _Worker:
    """One process, which begins with its first task.

    Args:
        executor: a pool of its own: in a common one a killed worker breaks them all.
        process: its id.
        function: the name of the one that it was sent.
    """

    executor: Any
    process: int = 0
    function: str = ""

    def submit(self, name: str, packed: bytes, task: Any) -> Future[_TaskResult | None]:
        """Begin a task, with the function unless the worker has it."""
        sent = b"" if self.function == name else packed
        future: Future[_TaskResult | None] = self.executor.submit(_call_in_worker, name, sent, task)
        self.function, self.process = name, next(iter(self.executor._processes), 0)
        return future

    def kill_process(self) -> None:
        """End it, whatever it does."""
        self.executor.shutdown(kill_workers=True)


_IDLE_WORKERS: dict[Any, list[_Worker]] = {}  # workers without work, by what they were started with


class _BusyWorker(NamedTuple, Generic[Task]):
    """A worker, and what it works on since when."""

    worker: _Worker
    attempt: _Attempt[Task]
    began: float


@dataclass
class _ProcessPool(Generic[Task, Value]):
    """Tasks on processes; these stay for the next ones, unless something ends the run.

    Args:
        function: what is done with a task.
        attempts: tasks that wait; each is taken when a process is free.
        jobs: processes, at most.
        threads: of each in numerical libraries.
        tell_lost: called with a task that is tried again, and the process that was killed.
    """

    function: Callable[[Task], Value]
    attempts: Iterator[_Attempt[Task]]
    jobs: int
    threads: int
    tell_lost: Callable[[Task, int], None]
    again: list[_Attempt[Task]] = field(default_factory=list)
    idle: list[_Worker] = field(default_factory=list)
    busy: dict[Future[_TaskResult | None], _BusyWorker[Task]] = field(default_factory=dict)

    def run_attempts(self) -> Generator[TaskOutcome[Task, Value], None, None]:
        """As they are done; whoever leaves earlier ends the processes."""
        warnings.filterwarnings("ignore", message="A worker stopped")  # loky starts another
        finished: list[TaskOutcome[Task, Value]] = []
        packed = bytes(loky.backend.reduction.dumps(self.function))  # closures, too
        name, kept = secrets.token_hex(8), self._reuse_workers()
        try:
            self.idle = [kept.pop() if kept else self._start_worker() for _ in range(self.jobs)]
            while True:
                while self.idle and (attempt := self._next_attempt()) is not None:
                    self._submit_attempt(name, packed, attempt)
                yield from finished  # while others work
                if not self.busy:
                    break
                done = wait(self.busy, return_when=FIRST_COMPLETED).done
                found = [(self.busy.pop(future), future) for future in done]
                finished = [
                    one for held, future in found for one in self._take_result(held, future)
                ]
        except BaseException:
            self._end_workers()
            raise
        kept += self.idle

    def _next_attempt(self) -> _Attempt[Task] | None:
        return self.again.pop() if self.again else next(self.attempts, None)

    @property
    def _worker_environment(self) -> dict[str, str]:
        share = str(self.threads or max(joblib.cpu_count() // self.jobs, 1))
        own = {} if self.threads else os.environ
        return {name: own.get(name, share) for name in _THREAD_VARIABLES}

    def _reuse_workers(self) -> list[_Worker]:
        """Workers that were started by this process as new ones would be; others are ended."""
        environment = frozenset((os.environ | self._worker_environment).items())
        place = Path().stat()
        started = (os.getpid(), place.st_dev, place.st_ino, tuple(sys.path), environment)
        _end_warm(but=started)
        return _IDLE_WORKERS.setdefault(started, [])

    def _start_worker(self) -> _Worker:
        executor = loky.ProcessPoolExecutor(
            max_workers=1,
            timeout=_IDLE_S,
            env=self._worker_environment,
            initializer=_begin_worker,
            initargs=(os.getpid(),),
        )
        return _Worker(executor)

    def _submit_attempt(self, name: str, packed: bytes, attempt: _Attempt[Task]) -> None:
        worker = self.idle.pop()
        try:
            future = worker.submit(name, packed, attempt.task)
        except BrokenExecutor:  # it was killed while it had no work
            worker.kill_process()
            worker = self._start_worker()
            future = worker.submit(name, packed, attempt.task)
        self.busy[future] = _BusyWorker(worker, attempt, time.perf_counter())

    def _take_result(
        self, held: _BusyWorker[Task], future: Future[_TaskResult | None]
    ) -> Iterator[TaskOutcome[Task, Value]]:
        """What became of a task, unless it is tried again; the worker is free, or another is."""
        error = future.exception()
        is_gone = isinstance(error, BrokenExecutor | KeyboardInterrupt)
        self.idle.append(self._start_worker() if is_gone else held.worker)
        if is_gone:
            held.worker.kill_process()
        if error is None and (found := future.result()) is not None:
            yield held.attempt.make_outcome(found)
        elif error is None:  # another process than the one that was sent the function
            held.worker.function = ""
            self.again.append(held.attempt)
        elif isinstance(error, loky.process_executor.TerminatedWorkerError | KeyboardInterrupt):
            yield from self._retry_lost(held)
        else:
            assert isinstance(error, Exception)
            yield held.attempt.make_outcome(
                _TaskResult(None, error, time.perf_counter() - held.began)
            )

    def _retry_lost(self, held: _BusyWorker[Task]) -> Iterator[TaskOutcome[Task, Value]]:
        held.attempt.lost += (held.worker.process,)
        if len(held.attempt.lost) < _MAX_TRIES:
            self.tell_lost(held.attempt.task, held.worker.process)
            self.again.append(held.attempt)
            return
        said = "Expected its worker to finish; it was killed, perhaps for memory. Try --jobs 1."
        found = _TaskResult(None, LostWorker(said), time.perf_counter() - held.began)
        yield held.attempt.make_outcome(found)

    def _end_workers(self) -> None:
        """Workers clean up what they have begun, if they can; then they are gone."""
        try:
            for process in [held.worker.process for held in self.busy.values()]:
                with contextlib.suppress(ProcessLookupError):
                    if process:  # 0 would be all of us
                        os.kill(process, signal.SIGTERM)
            wait(self.busy, timeout=_GRACE_S)
        finally:
            for worker in [*self.idle, *(held.worker for held in self.busy.values())]:
                worker.kill_process()


@atexit.register
def _end_warm(but: Any = None) -> None:
    """End the workers without work that this process has started."""
    for other in [each for each in _IDLE_WORKERS if each[0] == os.getpid() and each != but]:
        for worker in _IDLE_WORKERS.pop(other):
            worker.kill_process()


def _begin_worker(parent: int) -> None:
    """End when asked to, and when whoever started this worker is gone.

    What is unfinished goes with us; nothing of it has its name, and the next run sweeps it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us hears it, and ends us
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise_stop)

    def watch_parent() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_S)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()


def _raise_stop(*_: object) -> None:
    raise StopRequested("Stopped.")


_SENT_FUNCTIONS: dict[str, Callable[[Any], Any]] = {}  # in a worker: the last that was sent


def _call_in_worker(name: str, packed: bytes, task: Any) -> _TaskResult | None:
    """None if the function was not sent to this process."""
    if packed:
        _SENT_FUNCTIONS.clear()
        _SENT_FUNCTIONS[name] = pickle.loads(packed)
    return (
        _call_function(_SENT_FUNCTIONS[name], task, is_sent=True)
        if name in _SENT_FUNCTIONS
        else None
    )


def _call_numbered(
    function: Callable[[Any], Any], number: int, task: Any
) -> tuple[int, _TaskResult]:
    return number, _call_function(function, task, is_sent=True)


def _call_function(
    function: Callable[[Any], Any], task: Any, *, is_sent: bool = False
) -> _TaskResult:
    began = time.perf_counter()
    value, failed, where = None, None, ""
    try:
        value = function(task)
    except Exception as error:
        failed, where = error, "".join(traceback.format_exception(error)) * is_sent
    failed = _make_sendable(failed) if failed is not None and is_sent else failed
    return _TaskResult(value, failed, time.perf_counter() - began, where)


def _make_sendable(error: Exception) -> Exception:
    """The error, or its words if it cannot travel."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


@contextlib.contextmanager
def _use_backend(name: str) -> Iterator[None]:
    """joblib's backend; those of a cluster register themselves first."""
    if name == "dask":
        require_extra("dask.distributed", extra="dask").Client()
    elif name == "ray":
        require_extra("ray.util.joblib", extra="ray").register_ray()
    with joblib.parallel_config(backend=name):
        yield
