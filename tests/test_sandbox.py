"""Real programs through every sandbox that works here. ``none`` runs the same probes to show that they can find."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sia_ray.errors import UsageError
from sia_ray.sandbox import seccomp
from sia_ray.sandbox.capture import Capture
from sia_ray.sandbox.layout import interpreter_mounts, layout, spelled_for_the_host
from sia_ray.sandbox.policy import Cause, Finished, Job, Limits, Mount, Sandbox
from sia_ray.sandbox.select import available, select
from sia_ray.sandbox.variables import base_env

pytestmark = pytest.mark.sandbox

PREFIX = Path(sys.prefix)
PYTHON = str(PREFIX / "bin" / "python")
ISOLATING = ("bubblewrap", "namespaces", "landlock")


def works(name: str) -> Sandbox:
    for found in available():
        if found.name == name and not found.works:
            pytest.skip(f"{name}: {found.why}")
    return select(name)


@pytest.fixture(params=ISOLATING)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return works(request.param)


@pytest.fixture(params=(*ISOLATING, "none"))
def any_sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return works(request.param)


def job(code: str, *arguments: str, mounts: tuple[Mount, ...] = (), network: bool = False, **limits: float) -> Job:
    bounds = Limits.model_validate({"wall_s": 60, "memory_mb": 512} | limits)
    argv = (PYTHON, "-c", code, *arguments)
    return Job(argv, mounts, base_env(python=PREFIX), bounds, python=PREFIX, network=network)


def alive(marker: str) -> list[str]:
    """Processes of this machine whose command line bears ``marker``."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
    return found


# ---- what comes back


def test_exit_code_and_both_streams_come_back_in_the_order_of_writing(any_sandbox: Sandbox) -> None:
    code = "import os\nfor i in range(6): os.write(1 + i % 2, b'%d ' % i)\nraise SystemExit(7)"
    finished = any_sandbox.run(job(code))
    assert (finished.cause, finished.returncode) == (Cause.EXITED, 7), finished
    assert finished.output.data == b"0 1 2 3 4 5 "
    assert finished.sandbox == any_sandbox.name
    assert 0 < finished.cpu_s < finished.wall_s + 1


def test_a_crash_is_told_apart_from_an_exit(any_sandbox: Sandbox) -> None:
    finished = any_sandbox.run(job("import os; os.abort()"))
    assert (finished.cause, finished.returncode, finished.detail) == (Cause.SIGNAL, -signal.SIGABRT, "SIGABRT")


def test_output_is_bounded_and_counted(any_sandbox: Sandbox) -> None:
    code = "import os\nfor _ in range(800): os.write(1, b'x' * 62500)\nos.write(1, b'the end')"
    output = any_sandbox.run(job(code, output_bytes=1000)).output
    assert output.total == 50_000_007
    assert output.truncated
    assert (output.head, output.tail) == (b"x" * 1000, b"x" * 993 + b"the end")


def test_bytes_that_are_no_text_survive(any_sandbox: Sandbox) -> None:
    finished = any_sandbox.run(job(r"import os; os.write(1, b'\xff\x00\x1b[31m\xc3')"))
    assert finished.output.data == b"\xff\x00\x1b[31m\xc3"


def test_only_the_variables_of_the_job_are_there(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIA_RAY_TEST_SECRET", "inherited")
    request = job("import os; print(*sorted(os.environ))")
    names = set(sandbox.run(request).output.text().split())
    assert names - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"} == set(request.env)


def test_runs_from_many_threads_do_not_mix(any_sandbox: Sandbox) -> None:
    jobs = [job(f"import sys; print({n}); sys.exit({n})") for n in range(6)]
    with ThreadPoolExecutor(max_workers=3) as pool:
        results = list(pool.map(any_sandbox.run, jobs))
    assert [r.returncode for r in results] == list(range(6))
    assert [r.output.text() for r in results] == [f"{n}\n" for n in range(6)]


def test_numeric_libraries_start(sandbox: Sandbox) -> None:
    pytest.importorskip("numpy")
    finished = sandbox.run(job("import numpy; a = numpy.ones((300, 300)); print(int((a @ a)[0, 0]))"))
    assert finished.output.text() == "300\n", finished.output.text()


def test_a_missing_program_and_a_missing_mount_are_nobodys_score(any_sandbox: Sandbox, tmp_path: Path) -> None:
    absent = job("")._replace(argv=("/nowhere/python",))
    assert any_sandbox.run(absent).cause is Cause.INFRASTRUCTURE
    unmounted = any_sandbox.run(job("", mounts=(Mount(tmp_path / "gone", "/data"),)))
    assert unmounted.cause is Cause.INFRASTRUCTURE
    assert "gone" in unmounted.detail
    elsewhere = any_sandbox.run(job("")._replace(cwd="/nowhere"))
    assert (elsewhere.cause, elsewhere.returncode) == (Cause.INFRASTRUCTURE, None)
    assert "nowhere" in elsewhere.detail


# ---- mounts


def test_a_mount_is_read_only_unless_writable(sandbox: Sandbox, tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    work.mkdir()
    (data / "in.txt").write_text("given")
    code = """
import sys
from pathlib import Path
data, work = map(Path, sys.argv[1:])
print((data / 'in.txt').read_text())
for change in (lambda: (data / 'in.txt').write_text('forged'), lambda: (data / 'new').touch(),
               lambda: (data / 'in.txt').unlink(), lambda: (data / 'in.txt').rename(work / 'in.txt')):
    try:
        change()
        print('changed')
    except OSError:
        pass
Path('out.txt').write_text('made')
(work / 'sub').mkdir()
"""
    mounts = (Mount(data, "/data"), Mount(work, "/job/here", writable=True))
    finished = sandbox.run(job(code, "/data", "/job/here", mounts=mounts)._replace(cwd="/job/here"))
    assert finished.output.text() == "given\n", finished
    assert (data / "in.txt").read_text() == "given"
    assert [p.name for p in data.iterdir()] == ["in.txt"]
    assert (work / "out.txt").read_text() == "made"
    assert (work / "sub").is_dir()


def test_the_file_size_limit_holds(any_sandbox: Sandbox, tmp_path: Path) -> None:
    code = "import sys\nwith open(sys.argv[1], 'wb') as f:\n for _ in range(3): f.write(bytes(1 << 20)); f.flush()"
    finished = any_sandbox.run(job(code, "/out/big", mounts=(Mount(tmp_path, "/out", True),), file_mb=2))
    assert not finished.ok
    assert (tmp_path / "big").stat().st_size == 2 << 20


# ---- limits and clean ends

STUBBORN = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(os.path.join(sys.argv[1], 'started'), 'w').close()
        os.close(write)
        for fd in (0, 1, 2):
            os.close(fd)
        signal.pause()
    os._exit(0)
os.close(write)
os.read(read, 1)
"""
"""A daemon that ignores SIGTERM; its starter goes on once it has started."""


def test_the_time_limit_ends_a_stubborn_tree(any_sandbox: Sandbox, tmp_path: Path) -> None:
    marker = f"stubborn-{any_sandbox.name}-{os.getpid()}"
    mounts = (Mount(tmp_path, "/out", True),)
    finished = any_sandbox.run(job(STUBBORN + "signal.pause()", "/out", marker, mounts=mounts, wall_s=1.5))
    assert (finished.cause, finished.returncode) == (Cause.TIMEOUT, None), finished
    assert (tmp_path / "started").exists()
    assert alive(marker) == []
    assert finished.wall_s < 10


def test_what_a_command_leaves_behind_ends_with_it(any_sandbox: Sandbox, tmp_path: Path) -> None:
    marker = f"left-{any_sandbox.name}-{os.getpid()}"
    finished = any_sandbox.run(job(STUBBORN, "/out", marker, mounts=(Mount(tmp_path, "/out", True),)))
    assert finished.ok, finished
    assert (tmp_path / "started").exists()
    assert alive(marker) == []


def test_a_memory_hog_is_stopped(any_sandbox: Sandbox) -> None:
    finished = any_sandbox.run(job("x = []\nwhile True: x.append(bytearray(4 << 20))", memory_mb=120))
    assert finished.cause is Cause.MEMORY, finished
    assert 120 < finished.peak_memory_mb < 1000
    assert "120 MiB" in finished.detail


def test_memory_counts_over_the_whole_tree(any_sandbox: Sandbox) -> None:
    code = "import os, signal\nfor _ in range(4):\n if os.fork() == 0: break\nx = b'y' * (60 << 20)\nsignal.pause()"
    assert any_sandbox.run(job(code, memory_mb=160)).cause is Cause.MEMORY


def test_pages_that_forks_share_count_once(any_sandbox: Sandbox) -> None:
    code = """
import os
x = b'y' * (60 << 20)
read, write = os.pipe()
for _ in range(6):
    if os.fork() == 0:
        os.close(write); os.read(read, 1); os._exit(0)
end = os.times().elapsed + 0.5
while os.times().elapsed < end: pass
"""
    finished = any_sandbox.run(job(code, memory_mb=250))
    assert finished.ok, finished


def test_too_many_processes_end_the_run(any_sandbox: Sandbox) -> None:
    marker = f"forks-{any_sandbox.name}-{os.getpid()}"
    code = "import os, signal\nfor _ in range(60):\n if os.fork() == 0: break\nsignal.pause()"
    finished = any_sandbox.run(job(code, marker, processes=20))
    # Where the kernel keeps the limit (Linux 5.14), fork fails and the program ends by itself.
    assert finished.cause is Cause.PROCESSES or finished.returncode == 1, finished
    assert alive(marker) == []


def test_the_tree_dies_with_the_process_that_runs_it(any_sandbox: Sandbox, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    inner = "import os, signal, sys\nfd = os.open(sys.argv[1], os.O_WRONLY)\nos.write(fd, b'up')\nsignal.pause()"
    outer = f"""
import sys
from pathlib import Path
from sia_ray.sandbox.policy import Job, Limits, Mount
from sia_ray.sandbox.select import select
job = Job(({PYTHON!r}, "-c", {inner!r}, "/out/fifo"), (Mount(Path({str(tmp_path)!r}), "/out", True),), {{}},
          Limits(), python=Path({str(PREFIX)!r}))
print(select({any_sandbox.name!r}).run(job))
"""
    runner = subprocess.Popen([sys.executable, "-c", outer], cwd=Path(__file__).parents[1])
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert read_within(reader, 30) == b"up"
        runner.kill()
        runner.wait()
        assert read_within(reader, 10) == b""
    finally:
        runner.kill()
        os.close(reader)


def read_within(fd: int, seconds: float) -> bytes:
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        assert selector.select(seconds), "nothing came"
    return os.read(fd, 100)


# ---- what must not be seen: each probe is shown to find its prey under ``none``

PROBE = """
import glob, json, os, socket, sys
prey = json.load(open(sys.argv[1]))
found = []
for path in prey['files']:
    try:
        if open(path).read(): found.append('file by /proc' if path.startswith('/proc') else 'file')
    except OSError: pass
for path in prey['folders']:
    try:
        if os.listdir(path): found.append('folder')
    except OSError: pass
for path in glob.glob('/proc/*/environ'):
    try:
        if prey['secret'].encode() in open(path, 'rb').read(): found.append('environ')
    except OSError: pass
for family, address in prey['sockets']:
    try:
        socket.socket(family, socket.SOCK_STREAM).connect(tuple(address) if family == 2 else address)
        found.append('tcp' if family == 2 else 'unix' if address.startswith('/') else 'abstract')
    except OSError: pass
for pid in prey['processes']:
    try:
        os.kill(pid, 0)
        found.append('signal')
    except OSError: pass
print(json.dumps(sorted(set(found))))
"""


@pytest.fixture
def prey(tmp_path: Path) -> Iterator[dict[str, object]]:
    """Things of the host that generated code must not reach."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "answers.txt").write_text("42")
    # No ``env`` of ours: a process with a secret in its environment, as a Ray worker with a model key is.
    holder = subprocess.Popen(["sleep", "1000"], env={"KEY": "a-secret-of-the-host"})
    listeners = [socket.create_server(("127.0.0.1", 0))]
    for address in (str(tmp_path / "socket"), f"\0sia-ray-test-{os.getpid()}"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        listeners.append(listener)
    yield {
        "files": [str(private / "answers.txt"), f"/proc/{os.getpid()}/root{private}/answers.txt"],
        "folders": [str(tmp_path), "/var", "/run", f"/proc/{os.getpid()}/cwd/"],
        "secret": "a-secret-of-the-host",
        "sockets": [
            (int(s.family), s.getsockname().decode() if isinstance(s.getsockname(), bytes) else s.getsockname())
            for s in listeners
        ],
        "processes": [holder.pid],
    }
    for listener in listeners:
        listener.close()
    holder.kill()
    holder.wait()


def hunt(sandbox: Sandbox, prey: dict[str, object], data: Path) -> Finished:
    """Run the probe. Its prey is named in a file, as paths in arguments would be spelled anew for the host."""
    (data / "probe.py").write_text(PROBE)
    (data / "prey.json").write_text(json.dumps(prey))
    arguments = (PYTHON, "/harness/probe.py", "/harness/prey.json")
    return sandbox.run(job("")._replace(argv=arguments, mounts=(Mount(data, "/harness"),)))


def test_nothing_of_the_host_is_reached(
    sandbox: Sandbox, prey: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    finished = hunt(sandbox, prey, tmp_path_factory.mktemp("harness"))
    assert (finished.cause, finished.output.text()) == (Cause.EXITED, "[]\n"), finished


def test_the_probes_find_their_prey_without_a_sandbox(
    prey: dict[str, object], tmp_path_factory: pytest.TempPathFactory
) -> None:
    finished = hunt(select("none"), prey, tmp_path_factory.mktemp("harness"))
    everything = ["abstract", "environ", "file", "file by /proc", "folder", "signal", "tcp", "unix"]
    assert json.loads(finished.output.data) == everything, finished


def test_the_home_folder_shows_no_more_than_the_interpreter(sandbox: Sandbox) -> None:
    home = Path.home()
    code = "import os, sys\ntry: print(*os.listdir(sys.argv[1]))\nexcept OSError: pass"
    seen = set(sandbox.run(job(code, str(home))).output.text().split())
    shown = [Path(m.target) for m in interpreter_mounts(PREFIX)]
    assert seen <= {p.relative_to(home).parts[0] for p in shown if p.is_relative_to(home)}


@pytest.fixture
def venv_of_a_base(tmp_path: Path) -> tuple[Path, list[str]]:
    """A virtual environment with a package, and files of packages of others: of its base, by every spelling, and of an
    environment that lies below the base."""
    base, alias, venv = tmp_path / "python-3.11.7", tmp_path / "python-3.11", tmp_path / "venv"
    lib = f"lib/python3.{sys.version_info.minor}"
    files = []
    for root in (base, base / "envs" / "other", venv):
        (root / lib / "site-packages").mkdir(parents=True)
        (root / lib / "site-packages" / "answers.txt").write_text("42")
    (base / "lib64").symlink_to("lib")
    (base / lib / "found.txt").write_text("of the standard library")
    (base / "bin").mkdir()
    (base / "bin" / "python").symlink_to(os.path.realpath(PYTHON))
    alias.symlink_to(base)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(alias / "bin" / "python")
    (venv / "pyvenv.cfg").write_text(f"home = {alias}/bin\ninclude-system-site-packages = false\n")
    below = f"{lib}/site-packages/answers.txt"
    for name in (base, alias):
        files += [f"{name}/{below}", f"{name}/lib64/{below[4:]}", f"{name}/envs/other/{below}"]
    return venv, files


READABLE = """
import os, sys
for path in sys.argv[1:]:
    try:
        print(path, open(path).read())
    except OSError: pass
"""


def readable(sandbox: Sandbox, prefix: Path, files: list[str]) -> list[str]:
    """Those of ``files`` that a job with the environment ``prefix`` can read. Its program is a plain interpreter."""
    finished = sandbox.run(
        job(READABLE, *files)._replace(
            python=prefix, argv=(str(prefix / "bin" / "python"), "-S", "-c", READABLE, *files)
        )
    )
    assert finished.ok, finished
    return [line.split()[0] for line in finished.output.text().splitlines()]


def test_packages_of_the_base_are_hidden_and_the_environments_own_are_not(
    sandbox: Sandbox, venv_of_a_base: tuple[Path, list[str]]
) -> None:
    venv, files = venv_of_a_base
    lib = f"lib/python3.{sys.version_info.minor}"
    own = [str(venv / lib / "site-packages" / "answers.txt"), f"{venv.parent}/python-3.11/{lib}/found.txt"]
    assert readable(sandbox, venv, [*files, *own]) == own
    assert readable(select("none"), venv, [*files, *own]) == [*files, *own]


def test_packages_of_the_base_are_there_for_an_environment_that_uses_them(
    sandbox: Sandbox, venv_of_a_base: tuple[Path, list[str]]
) -> None:
    venv, files = venv_of_a_base
    (venv / "pyvenv.cfg").write_text((venv / "pyvenv.cfg").read_text().replace("false", "True"))
    assert readable(sandbox, venv, files) == files


def test_packages_of_a_python_that_is_no_environment_are_its_own(tmp_path: Path) -> None:
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    request = job("")._replace(python=tmp_path, argv=("sh",))
    assert str(packages) not in layout(request).hidden
    assert not [path for path in layout(request._replace(python=Path("/usr"))).hidden if path.startswith("/usr/")]


LISTED = """
import os, sys
for path in sys.argv[1:]:
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                with open(os.path.join(folder, name), "rb") as file: file.read(1)
            except OSError: continue
            print(os.path.join(folder, name))
            raise SystemExit
"""


def test_nothing_installed_into_the_base_or_the_system_can_be_read(sandbox: Sandbox) -> None:
    found = [p for root in ("/usr", "/usr/local", sys.base_prefix) for p in Path(root).glob("lib*/python3*/*-packages")]
    folders = [str(path) for path in found if any(file.is_file() for file in path.rglob("*"))]
    assert sandbox.run(job(LISTED, *folders)).output.text() == ""
    if folders:
        assert select("none").run(job(LISTED, *folders)).output.text() != ""


def test_hidden_folders_cannot_be_written(sandbox: Sandbox, venv_of_a_base: tuple[Path, list[str]]) -> None:
    venv, files = venv_of_a_base
    code = "import sys; open(sys.argv[1] + '.new', 'w')"
    finished = sandbox.run(
        job("")._replace(python=venv, argv=(str(venv / "bin" / "python"), "-S", "-c", code, files[0]))
    )
    assert "Error" in finished.output.text()
    assert not Path(files[0] + ".new").exists()


def test_the_network_is_there_when_asked_for(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"import socket; socket.create_connection(('127.0.0.1', {listener.getsockname()[1]})); print('in')"
        assert sandbox.run(job(code, network=True)).output.text() == "in\n"
        assert not sandbox.run(job(code)).ok


POWERS = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
done = []
if libc.unshare(0x10000000) == 0: done.append('unshare')
libc.mount(b'none', b'/no/such/place', b'tmpfs', 0, b'')
if ctypes.get_errno() != 1: done.append('mount')  # refused before it is even looked at
if libc.ptrace(0, 0, 0, 0) == 0: done.append('ptrace')
for path in ('/proc/sys/kernel/core_pattern', '/usr/bin/env', '/etc/ld.so.cache', '/dev/new', '/proc/sysrq-trigger'):
    try:
        os.close(os.open(path, os.O_WRONLY | (os.O_CREAT if path == '/dev/new' else 0)))
        done.append(path)
    except OSError: pass
try:
    socket.socket(40, socket.SOCK_STREAM)
    done.append('vsock')
except OSError: pass
rights = (ctypes.c_uint32 * 6)()
libc.capget((ctypes.c_uint32 * 2)(0x20080522, 0), rights)
if any(rights): done.append('capabilities')
if libc.prctl(21, 0, 0, 0, 0) != 2: done.append('no filter')
if libc.prctl(39, 0, 0, 0, 0) != 1: done.append('new privileges')
print(done)
"""


def test_no_powers_over_the_kernel_are_left(sandbox: Sandbox) -> None:
    assert seccomp.supported()
    assert sandbox.run(job(POWERS)).output.text() == "[]\n"


def test_powers_are_found_without_a_sandbox() -> None:
    found = select("none").run(job(POWERS)).output.text()
    assert "no filter" in found
    if os.geteuid() == 0:
        assert "capabilities" in found
        assert "core_pattern" in found


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to become someone else")
def test_an_ordinary_user_can_use_it(sandbox: Sandbox) -> None:
    system = "/usr/bin/python3"
    outer = f"""
from sia_ray.sandbox.policy import Job, Limits
from sia_ray.sandbox.select import select
run = select({sandbox.name!r}).run
code = "import os; print(os.getuid()); os.listdir('/usr')"
print(run(Job(({system!r}, "-c", code), (), {{}}, Limits(memory_mb=256))).output.text(), end="")
hog = "import signal; x = b'y' * (200 << 20); signal.pause()"
print(run(Job(({system!r}, "-c", hog), (), {{}}, Limits(memory_mb=100, wall_s=20))).cause)
"""
    root = Path(__file__).parents[1]
    site = next(PREFIX.glob("lib/python3*/site-packages"))
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", system, "-c", outer]
    env = {"PYTHONPATH": f"{root}:{site}", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    importable = subprocess.run([*as_nobody[:4], system, "-c", "import pydantic"], env=env, capture_output=True)
    if importable.returncode:
        pytest.skip("the system's Python cannot import pydantic from here")
    result = subprocess.run(as_nobody, env=env, capture_output=True, text=True, cwd="/")
    assert result.stdout == "65534\nmemory\n", result


# ---- choosing


def test_auto_takes_the_first_that_works_and_never_none() -> None:
    working = [found.name for found in available() if found.works]
    assert select("auto").name == working[0]
    assert select("auto").isolates
    assert not select("none").isolates


def test_an_unknown_mode_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="'bubblewrap'"):
        select("bubblwrap")


def test_choosing_from_many_threads_agrees() -> None:
    names, start = [], threading.Barrier(3)

    def choose() -> None:
        start.wait()
        names.append(select("auto").name)

    threads = [threading.Thread(target=choose) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 1


# ---- parts


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=1, max_value=30))
def test_capture_keeps_the_first_and_the_last_bytes(chunks: list[bytes], keep: int) -> None:
    capture, whole = Capture(keep), b"".join(chunks)
    for chunk in chunks:
        capture.feed(chunk)
    output = capture.output()
    assert output.total == len(whole)
    assert output.head == whole[:keep]
    assert output.tail == whole[keep:][-keep:]
    assert output.truncated == (len(whole) > 2 * keep)


def test_paths_below_a_mount_are_spelled_for_the_host(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    request = job("open('/data/x')", "--in=/data/y:/data", "/database", "a/data/b", mounts=(Mount(data, "/data"),))
    request = request._replace(cwd="/data", env={"A": "/data", "HOME": "/tmp"})
    spelled = spelled_for_the_host(request, tmp_path / "t")
    assert spelled.argv == (PYTHON, "-c", f"open('{data}/x')", f"--in={data}/y:{data}", "/database", "a/data/b")
    assert spelled.cwd == str(data)
    assert spelled.env == {"A": str(data), "HOME": f"{tmp_path}/t"}


def test_the_interpreter_of_an_environment_stays_where_it_is(tmp_path: Path) -> None:
    above = "/" + Path(PYTHON).parts[1]
    spelled = spelled_for_the_host(job("", mounts=(Mount(tmp_path, above),)), tmp_path)
    assert spelled.argv[0] == PYTHON


def test_prefixes_are_followed_link_by_link_and_a_home_is_none(tmp_path: Path) -> None:
    real, alias, venv = tmp_path / "python-3.11.7", tmp_path / "python-3.11", tmp_path / "venv"
    (real / "bin").mkdir(parents=True)
    (real / "lib" / "python3.11").mkdir(parents=True)
    (real / "bin" / "python3.11").touch()
    (real / "bin" / "python").symlink_to("python3.11")
    alias.symlink_to(real)
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(alias / "bin" / "python3.11")
    (venv / "pyvenv.cfg").write_text(f"home = {alias}/bin\n")
    mounts = {mount.target: mount.source for mount in interpreter_mounts(venv)}
    assert mounts == {str(venv): venv, str(alias): real, str(real): real}
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "python").symlink_to(real / "bin" / "python3.11")
    assert str(home) not in {mount.target for mount in interpreter_mounts(home)}


def test_a_mount_over_the_root_or_by_a_crooked_path_is_refused(tmp_path: Path) -> None:
    for target in ("/", "data", "/a/../b", "/a/"):
        with pytest.raises(UsageError):
            select("none").run(job("", mounts=(Mount(tmp_path, target),)))
