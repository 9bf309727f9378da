"""Plugins that end the process, print wherever they can, hang, or give what is no number."""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings

import numpy as np

from harness import Task, hookimpl


def shout(where: str) -> None:
    """Print in every way that there is."""
    print(f"printed in {where}")
    os.write(1, f"written in {where}\n".encode())
    sys.__stdout__.write(f"kept stdout in {where}\n")
    os.system(f"echo shell in {where}")
    warnings.warn(f"warned in {where}", stacklevel=1)


class Alien(BaseException):
    """Like what test frameworks and event loops raise."""


class Exits:
    needs = ()

    def rank(self, pool, rng):
        yield from range(len(pool) // 16)
        sys.exit(0)


class Aliens:
    needs = ()

    def rank(self, pool, rng):
        raise Alien("from elsewhere")


class ExitsInSelect:
    needs = ()

    def select(self, pool, k, rng):
        sys.exit()


class ExitsWhenBuilt:
    def __init__(self):
        sys.exit(0)


class Sound:
    needs = ()

    def rank(self, pool, rng):
        yield from rng.permutation(len(pool))


class Loud(Sound):
    def rank(self, pool, rng):
        shout("rank")
        yield from super().rank(pool, rng)


class Sleeps:
    needs = ()

    def rank(self, pool, rng):
        while True:
            time.sleep(1)
        yield


class SpinsInC:
    """Never lets go of the interpreter, so that no signal is handled and no other thread runs."""

    needs = ()

    def rank(self, pool, rng):
        yield sum(1 for _ in iter(int, 1)) if len(pool) < 0 else max(iter(int, 1))


class Dies:
    needs = ()

    def rank(self, pool, rng):
        os._exit(3)


class ExitsInEmbed:
    state = None

    def embed(self, problem, texts):
        sys.exit(0)


class GivesNan:
    state = None

    def embed(self, problem, texts):
        vectors = np.ones((len(texts), 3))
        vectors[2, 1] = np.nan
        return vectors


class ExitsInVerify(Task):
    n, max_tokens = 16, 8

    def __init__(self, data=None):
        pass

    def problems(self, split):
        from harness import Problem

        yield Problem("one", "Say colour 0.")

    def verify(self, problem, response):
        sys.exit(0)


class ExitsInProblems(ExitsInVerify):
    def problems(self, split):
        sys.exit(0)


shout("import")
atexit.register(shout, "atexit")


@hookimpl
def register_selectors(register):
    for factory in (Exits, Aliens, ExitsInSelect, ExitsWhenBuilt, Sound, Loud, Sleeps, SpinsInC, Dies):
        register(factory.__name__.lower(), factory)


@hookimpl
def register_embedders(register):
    register("exits", ExitsInEmbed)
    register("nan", GivesNan)


@hookimpl
def register_tasks(register):
    register("exits-verify", ExitsInVerify)
    register("exits-problems", ExitsInProblems)
