"""Plugins that end the process or hang."""

from __future__ import annotations

import os
import sys
import time

from harness import Problem, Task, hookimpl

# fmt: off

class Alien(BaseException):
    """Like what test frameworks and event loops raise."""

class Sound:
    needs = ()
    def rank(self, pool, rng): yield from rng.permutation(len(pool))

class Exits(Sound):
    def rank(self, pool, rng):
        yield from range(len(pool) // 16)
        sys.exit(0)

class Aliens(Sound):
    def rank(self, pool, rng): raise Alien("from elsewhere")

class ExitsInSelect:
    needs = ()
    def select(self, pool, k, rng): sys.exit()

class ExitsWhenBuilt(Sound):
    def __init__(self): sys.exit(0)

class Sleeps(Sound):
    def rank(self, pool, rng):
        while True:
            time.sleep(1)
        yield

class SpinsInC(Sound):  # never lets go of the interpreter, so that no signal is handled and no other thread runs
    def rank(self, pool, rng): yield sum(1 for _ in iter(int, 1)) if len(pool) < 0 else max(iter(int, 1))

class Dies(Sound):
    def rank(self, pool, rng): os._exit(3)

class ExitsInEmbed:
    state = None
    def embed(self, problem, texts): sys.exit(0)

class ExitsInVerify(Task):
    n, max_tokens = 16, 8
    def __init__(self, data=None): pass
    def problems(self, split): yield Problem("one", "Say colour 0.")
    def verify(self, problem, response): sys.exit(0)

class ExitsInProblems(ExitsInVerify):
    def problems(self, split): sys.exit(0)

# fmt: on


@hookimpl
def register_selectors(register):
    for factory in (Exits, Aliens, ExitsInSelect, ExitsWhenBuilt, Sound, Sleeps, SpinsInC, Dies):
        register(factory.__name__.lower(), factory)


@hookimpl
def register_embedders(register):
    register("exits", ExitsInEmbed)


@hookimpl
def register_tasks(register):
    register("exits-verify", ExitsInVerify)
    register("exits-problems", ExitsInProblems)
