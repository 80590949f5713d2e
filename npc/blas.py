"""A fast float32 matmul for MLX on Linux without a GPU.

The Linux wheel of MLX links the reference BLAS, which multiplies matrices some fifty times slower than the
machine can. An OpenBLAS that is loaded *before* ``mlx.core``, with its symbols global, takes over
``cblas_sgemm``. The system's library is tried first, then the one that the ``faiss-cpu`` wheel carries (faiss
itself is not imported).

Import MLX through :mod:`npc.mlx`, which calls :func:`preload` first, and the order can't go wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

CARRIER = "faiss-cpu"
THREADS_VARIABLE = "ERRAND_BLAS_THREADS"
# what the carried OpenBLAS needs, in the order in which it must be loaded
NEIGHBOURS = ("libquadmath", "libgfortran", "libgomp")


@dataclass(frozen=True)
class BlasReport:
    """What :func:`preload` did.

    ``source`` is ``"system"``, ``"faiss-cpu"`` or ``"none"``; ``threads`` is the number of threads the
    library will use, None where it is unknown; ``needed`` is False where MLX brings a fast matmul of its own.
    """

    source: str
    path: str | None
    threads: int | None
    needed: bool
    message: str

    @property
    def fast(self) -> bool:
        return not self.needed or self.path is not None


_report: BlasReport | None = None


def preload(threads: int | None = None) -> BlasReport:
    """Loads an OpenBLAS for MLX, once for each process; later calls return the first one's report.

    ``threads`` is for good: an OpenMP build keeps a count for each thread that calls it, so that nothing set
    later from here would reach MLX's own thread. None takes ``ERRAND_BLAS_THREADS``, ``OPENBLAS_NUM_THREADS``
    or ``OMP_NUM_THREADS`` from the environment, else all cores. Several processes side by side want 1 each.

    Never raises for what the machine lacks: the report says what was found, and how slow it will be without.
    """
    global _report
    if threads is not None and threads < 1:
        raise ValueError(f"blas threads must be 1 or more, not {threads}")
    if _report is None:
        _report = _load(threads or _default_threads())
    return _report


def _default_threads() -> int:
    for name in (THREADS_VARIABLE, "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").strip()
        if not text:
            continue
        if not text.isdecimal() or int(text) < 1:
            raise ValueError(f"environment variable {name} is {text!r}, must be a number of 1 or more")
        return int(text)
    return cores()


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform.startswith("linux") else os.cpu_count() or 1


def _load(threads: int) -> BlasReport:
    if not sys.platform.startswith("linux"):
        return BlasReport("none", None, None, False, f"blas: {platform.system()} needs no help")
    if "mlx.core" in sys.modules:
        message = (
            "blas: mlx.core was imported before npc, so matmul stays on the slow reference "
            "BLAS (about 2 GFLOP/s); import npc.mlx first"
        )
        return BlasReport("none", None, None, True, message)
    for source, candidate in _candidates():
        with thread_environment(threads):
            library = _open(candidate)
        if library is not None:
            library.openblas_set_num_threads(ctypes.c_int(threads))
            count = int(library.openblas_get_num_threads())
            message = f"blas: OpenBLAS from {source}, {count} thread{'s' if count != 1 else ''}"
            return BlasReport(source, str(candidate[-1]), count, True, message)
    message = (
        "blas: no OpenBLAS found, MLX will be about 50 times slower on this CPU (2 GFLOP/s); "
        f"pip install {CARRIER}, or install your system's libopenblas"
    )
    return BlasReport("none", None, None, True, message)


@contextlib.contextmanager
def thread_environment(threads: int) -> Iterator[None]:
    """What the libraries read from the environment while they are loaded, here or in children started within.

    Idle OpenMP threads would spin for milliseconds and take the other core from whoever shares it: they sleep
    instead.
    """
    wanted = {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    before = {name: os.environ.get(name) for name in [*wanted, "OMP_WAIT_POLICY"]}
    os.environ.update(wanted)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _candidates() -> Iterator[tuple[str, list[Path]]]:
    """Yields (source, libraries in load order); the last one is the OpenBLAS itself."""
    yield "system", [Path("libopenblas.so.0")]
    carried = _carried_files()
    blas = [path for path in carried if path.name.startswith("libopenblas")]
    needs = [path for stem in NEIGHBOURS for path in carried if path.name.startswith(stem)]
    for path in blas:
        yield CARRIER, [*needs, path]


def _carried_files() -> list[Path]:
    try:
        files = metadata.distribution(CARRIER).files or []
    except metadata.PackageNotFoundError:
        return []
    return sorted(Path(str(file.locate())) for file in files if ".libs" in str(file.parent))


def _open(libraries: list[Path]) -> ctypes.CDLL | None:
    """Loads all of ``libraries`` with global symbols; None where one can't be loaded or the last has no
    CBLAS.
    """
    library = None
    for path in libraries:
        try:
            library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError:
            return None
    if library is None or not all(
        hasattr(library, name) for name in ("cblas_sgemm", "openblas_get_num_threads", "openblas_set_num_threads")
    ):
        return None
    return library
