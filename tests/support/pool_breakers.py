"""Selectors that break the pool that they are given, or raise what nobody can print: each costs its own row only."""

from __future__ import annotations

from harness import hookimpl

# fmt: off

class Mute(Exception):  # cannot say what it is
    def __str__(self): raise RuntimeError("mute")

class InOrder:  # ranks in order and then does something to the pool
    needs = ()
    def rank(self, pool, rng):
        order = list(range(len(pool)))
        self.harm(pool)
        return order

class Empties(InOrder):  # leaves the pool without texts
    def harm(self, pool):
        object.__setattr__(pool, "texts", None)

class Deletes(InOrder):  # takes a column away
    def harm(self, pool):
        object.__delattr__(pool, "texts")

class Truncates(InOrder):  # leaves one response
    def harm(self, pool):
        object.__setattr__(pool, "texts", pool.texts[:1])

class Writes(InOrder):  # writes to a column, which is read-only
    def harm(self, pool):
        pool.lengths[0] = 3

class Mutes(InOrder):  # raises an exception without a text
    def harm(self, pool): raise Mute

class Subset:  # a subset method that leaves one response
    needs = ()
    def select(self, pool, k, rng):
        object.__setattr__(pool, "texts", pool.texts[:1])
        return list(range(k))

BREAKERS = (Empties, Deletes, Truncates, Writes, Mutes, Subset)

# fmt: on


@hookimpl
def register_selectors(register):
    """Register each by its name in lower case."""
    for factory in BREAKERS:
        register(factory.__name__.lower(), factory)
