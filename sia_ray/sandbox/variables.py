"""The environment variables of a sandboxed program: few, fixed, and none of them inherited.

A fixed hash seed and one thread a numeric library make two runs of one candidate comparable, and keep many
runs side by side from fighting over the cores.
"""

from __future__ import annotations

from pathlib import Path

_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def numeric_env(threads: int = 1) -> dict[str, str]:
    """The variables that tell numeric libraries to use ``threads`` threads."""
    return dict.fromkeys(_THREAD_COUNTS, str(threads))


def base_env(*, python: Path | None = None, threads: int = 1) -> dict[str, str]:
    """What a Python program needs to start. ``python`` is the prefix whose ``bin`` comes first in PATH."""
    path = "/usr/local/bin:/usr/bin:/bin"
    return {
        "PATH": f"{python}/bin:{path}" if python else path,
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "USER": "sandbox",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **numeric_env(threads),
    }
