"""A plugin file that prints wherever it can: when it is imported, when it ranks and when the process ends."""

import atexit
import os
import sys
import warnings

from harness import hookimpl


def shout(where):
    print(f"printed in {where}")
    os.write(1, f"written in {where}\n".encode())
    sys.__stdout__.write(f"kept stdout in {where}\n")
    os.system(f"echo shell in {where}")
    warnings.warn(f"warned in {where}", stacklevel=1)


class Loud:
    needs = ()

    def rank(self, pool, rng):
        shout("rank")
        yield from rng.permutation(len(pool))


shout("import")
atexit.register(shout, "atexit")


@hookimpl
def register_selectors(register):
    register("loud", Loud)
