"""Selectors that break the pool that they are given, or raise what nobody can print: each costs its own row only."""

from __future__ import annotations

from harness import hookimpl


class Mute(Exception):
    """Cannot say what it is."""

    def __str__(self):
        raise RuntimeError("mute")


def mute(pool):
    """Raise it."""
    raise Mute


HARMS = {
    "empties": lambda pool: object.__setattr__(pool, "texts", None),
    "truncates": lambda pool: object.__setattr__(pool, "texts", pool.texts[:1]),
    "writes": lambda pool: pool.lengths.__setitem__(0, 3),
    "mutes": mute,
}


class Ranker:
    """Harms the pool after it has ranked it, in order."""

    needs = ()

    def rank(self, pool, rng):
        order = list(range(len(pool)))
        self.harm(pool)
        return order


@hookimpl
def register_selectors(register):
    """Register each by its name."""
    for name, harm in HARMS.items():
        register(name, type(name.title(), (Ranker,), {"harm": staticmethod(harm)}))
