"""Fault points: nothing in production, exact in tests."""

import os
import signal
import subprocess
import sys

import pytest

from sia_ray import faults
from sia_ray.clock import FakeClock, SystemClock
from sia_ray.errors import ConfigError
from sia_ray.faults import Crash, arm, armed, counting, crash, disarm, point


@pytest.fixture(autouse=True)
def nothing_stays_armed():
    yield
    disarm()


def test_an_unarmed_point_does_nothing():
    point("a")


def test_an_armed_point_acts_at_its_nth_pass_and_only_then():
    arm("a", crash, nth=2)
    point("a")
    point("b")
    with pytest.raises(Crash):
        point("a")
    point("a")


def test_the_passes_of_all_points_can_be_counted_together():
    arm(faults.ANY, crash, nth=3)
    point("a")
    point("b")
    with pytest.raises(Crash):
        point("a")


def test_arming_again_starts_a_new_count():
    with armed("a", crash, nth=2):
        point("a")
    with armed("a", crash, nth=2):
        point("a")
        with pytest.raises(Crash):
            point("a")


def test_a_crash_is_no_exception_that_code_could_handle():
    with armed("a", crash), pytest.raises(Crash):
        try:
            point("a")
        except Exception:
            pytest.fail("handled")


def test_points_are_counted_in_the_order_of_first_passing():
    with counting() as outer:
        point("b")
        with counting() as inner:
            point("a")
        point("b")
    point("a")
    assert list(outer.items()) == [("b", 2), ("a", 1)]
    assert inner == {"a": 1}


def test_nested_equal_counters_end_separately():
    with counting() as outer:
        with counting() as inner:
            pass
        point("a")
    assert (outer, inner) == ({"a": 1}, {})


def run_with(value: str) -> subprocess.CompletedProcess[bytes]:
    code = "from sia_ray.faults import point; point('a'); print('one', flush=True); point('a'); print('two')"
    env = {**os.environ, faults.VARIABLE: value}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, timeout=60)


def test_a_subprocess_is_killed_at_the_point_its_environment_names():
    done = run_with("a:kill:2")
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"one\n")


@pytest.mark.parametrize("value", ["a", "a:explode", ":kill", "a:kill:0", "a:kill:x", "a:kill:1:2"])
def test_a_fault_that_does_not_parse_is_an_error(value):
    with pytest.raises(ConfigError, match="NAME:ACTION"):
        faults.arm_from_environment(value)


def test_several_faults_may_be_named():
    faults.arm_from_environment("a:raise, b:raise:2")
    point("b")
    for name in ("a", "b"):
        with pytest.raises(Crash):
            point(name)


def test_a_fake_clock_moves_only_when_told():
    clock = FakeClock("2026-03-01T12:00:00.000Z")
    clock.advance(1.5)
    assert (clock.monotonic(), clock.now()) == (1.5, "2026-03-01T12:00:01.500Z")
    clock.set_wall("2026-03-01T11:00:00Z")
    assert (clock.monotonic(), clock.now()) == (1.5, "2026-03-01T11:00:00.000Z")
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)


def test_the_system_clock_writes_what_the_fake_one_reads():
    clock = SystemClock()
    assert FakeClock(clock.now()).now().endswith("Z")
    assert clock.monotonic() <= clock.monotonic()
