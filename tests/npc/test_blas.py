"""The BLAS that makes MLX fast on a CPU: real, loaded in time, and silent about nothing."""

import json
import os
import subprocess
import sys

import pytest

from npc import blas

LINUX = sys.platform.startswith("linux")

SPEED = """
import json, time
import numpy as np
from npc.mlx import BLAS, ON_CPU, mx

def best(run):
    run()
    times = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)

a = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32)
b = mx.array(a)
print(json.dumps({"cpu": ON_CPU, "source": BLAS.source, "threads": BLAS.threads,
                  "numpy": best(lambda: a @ a), "mlx": best(lambda: mx.eval(b @ b))}))
"""


def run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ | environment
    )
    return done.stdout


@pytest.mark.skipif(not LINUX, reason="only the Linux wheel of MLX needs a BLAS")
def test_matmul_is_about_as_fast_as_numpys():
    found = json.loads(run(SPEED, ERRAND_BLAS_THREADS="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"))
    if not found["cpu"]:
        pytest.skip("MLX computes on a GPU here")
    assert found["source"] in ("system", "faiss-cpu")
    assert found["threads"] == 1
    # the reference BLAS is 50 times slower than NumPy's; a busy machine may cost a factor of a few
    assert found["mlx"] < 8 * found["numpy"], found


@pytest.mark.skipif(not LINUX, reason="only the Linux wheel of MLX needs a BLAS")
def test_says_so_when_mlx_was_imported_first():
    message = run("import mlx.core; from npc import blas; r = blas.preload(); assert not r.fast; print(r.message)")
    assert "imported before npc" in message and len(message.splitlines()) == 1


@pytest.mark.skipif(not LINUX, reason="only the Linux wheel of MLX needs a BLAS")
def test_falls_back_with_one_line_that_names_the_remedy():
    code = "from npc import blas; blas._candidates = lambda: iter(()); import npc.mlx; print(npc.mlx.BLAS.fast)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    line = done.stderr.strip()
    assert "pip install faiss-cpu" in line and len(line.splitlines()) == 1


def test_does_not_import_faiss():
    assert run("import npc.mlx, sys; print('faiss' in sys.modules)").strip() == "False"


def test_threads_are_checked():
    with pytest.raises(ValueError, match="1 or more"):
        blas.preload(0)


def test_the_environment_is_left_as_it_was():
    code = "import os; before = dict(os.environ); import npc.mlx; print(dict(os.environ) == before)"
    assert run(code).strip() == "True"


def test_a_wrong_variable_is_named():
    done = subprocess.run(
        [sys.executable, "-c", "import npc.mlx"],
        capture_output=True,
        text=True,
        env=os.environ | {"ERRAND_BLAS_THREADS": "two"},
    )
    assert done.returncode != 0 and "ERRAND_BLAS_THREADS is 'two'" in done.stderr
