"""Speeds and the time left: from tokens where they are known, without jumps, and never `0/s`."""

import itertools

import pytest

from harness.system.pace import Pace, clock, rate


def test_durations_are_hours_minutes_seconds():
    table = {0: "0:00:00", 0.4: "0:00:00", 59.6: "0:01:00", 80: "0:01:20", 7199: "1:59:59", 360_000: "100:00:00"}
    assert {seconds: clock(seconds) for seconds in table} == table
    assert clock(-3) == "0:00:00"


def test_a_slow_rate_is_told_in_minutes_or_hours():
    table = {1234.5: "1,234/s", 12.3: "12/s", 1.23: "1.2/s", 0.5: "30/min", 0.02: "1.2/min", 0.001: "3.6/h"}
    assert {per_s: rate(per_s) for per_s in table} == table


def test_without_tokens_the_rest_takes_as_long_as_what_is_done():
    pace = Pace(total=10, now=100.0)
    assert pace.left_s(105.0) is None
    pace.done = 2
    assert pace.left_s(110.0) == pytest.approx(40)
    resumed = Pace(total=10, now=0.0)
    resumed.done = resumed.done_before = 8
    assert resumed.left_s(5.0) is None
    resumed.done = 9
    assert resumed.left_s(5.0) == pytest.approx(5)


def sampled(lengths, most, per_step_s=1.0, running=4):
    """(time, time that is really left, estimate, whether it is a bound) for rows sampled `running` at a time."""
    pace, now, rest = Pace(len(lengths), 0.0, most), 0.0, list(lengths)
    pace.count_tokens(0, 0.0)
    active, seen = [rest.pop(0) for _ in range(running)], []
    while active:
        now += per_step_s
        pace.count_tokens(len(active), now)
        active = [length - 1 for length in active]
        pace.done += active.count(0)
        active = [length for length in active if length]
        active += [rest.pop(0) for _ in range(min(running - len(active), len(rest)))]
        seen.append((now, pace.left_s(now), pace.is_bound))
    return [(at, now - at, left, bound) for at, left, bound in seen]


def test_the_time_left_begins_as_a_bound_and_comes_down_without_jumps():
    seen = sampled([30, 50, 70, 90] * 10, most=100)
    (_, really, first, bound), *_ = seen
    assert bound
    assert first >= really
    assert not seen[-1][3]
    for (_, _, before, _), (_, _, after, _) in itertools.pairwise(seen):
        assert after < before + 3  # it may stand still, and does not leap up
    late = [(really, left) for at, really, left, _ in seen if really < seen[0][1] / 2]
    assert [pair for pair in late if abs(pair[1] - pair[0]) > 0.3 * pair[0] + 30] == []
    assert seen[-1][2] < 3


def test_work_that_slows_down_near_its_end_is_not_told_to_be_all_but_done():
    pace, now = Pace(400, 0.0, 50), 0.0
    pace.count_tokens(0, 0.0)
    for _ in range(380):  # four times as slow from the 300th on
        now += 50 if pace.done >= 300 else 12.5
        pace.done += 1
        pace.count_tokens(50, now)
        left = pace.left_s(now)
    really_at_that_mean_speed = 20 * now / 380
    assert left > 0.5 * really_at_that_mean_speed


def test_the_clock_of_tokens_starts_when_the_model_is_loaded_if_the_engine_says_so():
    told, untold = Pace(4, 0.0, 100), Pace(4, 0.0, 100)
    told.count_tokens(0, 60.0)
    for pace in (told, untold):
        pace.count_tokens(50, 65.0)
    assert told.tokens_a_s(70.0) == pytest.approx(5)
    assert untold.tokens_a_s(70.0) == pytest.approx(50 / 70)
