"""Work on many files at a time; in loky a worker that is killed takes nobody else along."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from masquerade._optional import Later, require

if TYPE_CHECKING:
    import joblib
    from joblib.externals import loky
else:
    joblib, loky = Later("joblib"), Later("joblib.externals.loky")  # one file needs no crew


Task = TypeVar("Task")
Done = TypeVar("Done")
_BREATH = 1.0  # seconds between two looks at whether we are still wanted
_THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


@dataclass(frozen=True, kw_only=True)
class Crew(Generic[Task, Done]):
    """What is done with each task, and what is said of one whose worker was killed.

    Args:
        work: in a worker.
        mourn: here.
    """

    work: Callable[[Task], Done]
    mourn: Callable[[Task], Done]

    def run(
        self, tasks: Sequence[Task], *, jobs: int | None, backend: str
    ) -> Generator[Done, None, None]:
        """What became of each task, as they are done.

        Args:
            tasks: begun in this order.
            jobs: at a time; by default as many as there are processors.
            backend: loky (processes of this machine), threading, dask or ray. Only with loky is
                a task mourned whose worker was killed; the others may end the run, or do it twice.
        """
        jobs = min(jobs or joblib.cpu_count(), len(tasks))
        if not tasks:
            return
        if jobs == 1 and backend == "loky":
            yield from map(self.work, tasks)
        elif backend == "loky":
            yield from self._in_processes(tasks, jobs)
        else:
            is_here = backend == "threading"
            with _backend(backend):
                parallel = joblib.Parallel(
                    n_jobs=jobs, return_as="generator_unordered" if is_here else "list"
                )
                yield from parallel(joblib.delayed(self.work)(task) for task in tasks)

    def _in_processes(self, tasks: Sequence[Task], jobs: int) -> Generator[Done, None, None]:
        """Each worker is a pool of its own: in a common one a killed worker breaks them all."""
        waiting = list(reversed(tasks))
        idle = [_worker(jobs) for _ in range(jobs)]
        busy: dict[Future[Done], tuple[Any, Task]] = {}
        try:
            while waiting or busy:
                while waiting and idle:
                    worker, task = idle.pop(), waiting.pop()
                    busy[worker.submit(self.work, task)] = worker, task
                for future in wait(busy, return_when=FIRST_COMPLETED).done:
                    worker, task = busy.pop(future)
                    try:
                        done = future.result()
                    except BrokenExecutor:
                        worker.shutdown(kill_workers=True)
                        worker, done = _worker(jobs), self.mourn(task)
                    idle.append(worker)
                    yield done
        finally:
            for worker in [*idle, *(worker for worker, _ in busy.values())]:
                worker.shutdown(kill_workers=True)


def _worker(jobs: int) -> Any:
    """One process, with its share of the processors unless the environment says otherwise."""
    share = str(max(joblib.cpu_count() // jobs, 1))
    env = {name: os.environ.get(name, share) for name in _THREADS}
    return loky.ProcessPoolExecutor(
        max_workers=1, env=env, initializer=_end_with, initargs=(os.getpid(),)
    )


def _end_with(parent: int) -> None:
    """End when whoever started this worker is gone: it was killed, and nobody would stop us.

    What is unfinished goes with us; nothing of it has its name, and the next run sweeps it.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_BREATH)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _backend(name: str) -> Iterator[None]:
    """joblib's backend; those of a cluster register themselves first."""
    if name == "dask":
        require("dask.distributed", extra="dask").Client()
    elif name == "ray":
        require("ray.util.joblib", extra="ray").register_ray()
    with joblib.parallel_config(backend=name):
        yield
