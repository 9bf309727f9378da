"""How fast work goes, and how long it still takes: of units (responses, problems) and, where known, of their tokens."""

from __future__ import annotations

import math

LEAST_MEMORY_S = 10.0  # an estimate changes over at least this time, and over a third of the time worked so far


def clock(seconds: float) -> str:
    """A duration as h:mm:ss, rounded to seconds: `0:01:20`."""
    whole = max(0, round(seconds))
    return f"{whole // 3600:,}:{whole // 60 % 60:02}:{whole % 60:02}"


def rate(per_s: float) -> str:
    """A number in a second, or in a minute or an hour if that is less than one: `143/s`, `4.2/min`."""
    size, name = next((each for each in ((1, "s"), (60, "min")) if per_s * each[0] >= 1), (3600, "h"))
    value = per_s * size
    return f"{value:,.0f}/{name}" if value >= 10 else f"{value:.1f}/{name}"


class Pace:
    """Counts units and tokens. Times are seconds of any clock, `now` the present one.

    total        units to do
    most_tokens  the most tokens that a unit can have; 0: not known, or units have no tokens
    """

    def __init__(self, total: int, now: float, most_tokens: int = 0) -> None:
        self.total, self.most_tokens = total, most_tokens
        self.done = self.done_before = self.tokens = 0
        self.began, self.sampling_since = now, math.inf
        self._left: tuple[float, float] | None = None  # an estimate, and when it was made

    def count_tokens(self, count: int, now: float) -> None:
        """Count tokens. A first call with 0 starts their clock, after the loading; else it runs from the start."""
        if math.isinf(self.sampling_since):
            self.sampling_since = self.began if count else now
        self.tokens += count

    def tokens_a_s(self, now: float) -> float:
        """Tokens a second since the first were sampled; 0 before."""
        return self.tokens / (now - self.sampling_since) if now > self.sampling_since else 0.0

    @property
    def is_bound(self) -> bool:
        """Whether the time left is only a bound, since no unit has ended before its most tokens."""
        return bool(self.most_tokens and self.tokens) and self._mean_tokens == self.most_tokens

    @property
    def _mean_tokens(self) -> float:
        return min(self.most_tokens, self.tokens / self.done) if self.done > 0 else self.most_tokens

    def left_s(self, now: float) -> float | None:
        """About how many seconds are left; None if that is not known yet.

        Units that are not done count as long as those that are: tokens of unfinished units are in the mean, which so
        begins at `most_tokens` and comes down. Later estimates move slowly.
        """
        latest = self._latest(now)
        if latest is None:
            return None
        smooth = latest
        if self._left is not None:
            before, at = self._left
            worked = now - (self.began if math.isinf(self.sampling_since) else self.sampling_since)
            expected, memory = max(0.0, before - (now - at)), max(LEAST_MEMORY_S, worked / 3)
            smooth = expected + (latest - expected) * (1 - math.exp((at - now) / memory))
        self._left = (smooth, now)
        # Work that slows down near its end is not all but done, and work that is all but done needs no minutes.
        return min(max(smooth, 0.6 * latest), latest / 0.6)

    def _latest(self, now: float) -> float | None:
        speed = self.tokens_a_s(now)
        if self.most_tokens and speed:
            return max(0.0, self.total * self._mean_tokens - self.tokens) / speed
        if self.done <= self.done_before:
            return None
        return (self.total - self.done) * (now - self.began) / (self.done - self.done_before)
