"""The hash of a class that a session defines: equal where nothing changed, another where anything that it names did."""

import sys

import pytest
from support.notebooks import session
from support.refusals import refusal_of

from harness.plugin_system.session_code import session_code

CELL = '''
import enum, functools, re
from dataclasses import dataclass, field
import numpy as np
from mine import scaled

SIGN = -1
TABLE = {"a": [1, 2], "b": np.arange(3)}
WORD = re.compile("x+")

class Kind(enum.Enum):
    NEAR = 1

@dataclass
class Scale:
    by: float = 2.0

    def applied(self, x):
        return self.by * x

SCALE = Scale()

def deco(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner

@deco
def score(h, power=2):
    """Score."""
    import deeper
    return [SIGN * x for x in h], TABLE, WORD, Kind.NEAR, SCALE

class Base:
    first = "low"

    @property
    def start(self):
        return 1

def made(start):
    @dataclass(frozen=True)
    class Mine(Base):
        lam: float = 0.5
        many: list = field(default_factory=list)

        @functools.lru_cache
        def cached(self):
            return 7

        @staticmethod
        def static(h):
            return (lambda: np.sort(h))()

        def rank(self, pool, rng):
            return scaled(score(pool), start, self.cached())
    return Mine

def low(x):
    return x

def high(x):
    return -x

first, second, third = low, high, low

def ends(x):
    return first(x), second(x), third(x)

Mine = made(3)
Mine.ends = ends
'''
SAME = {
    "a comment": ("        def rank", "        # best first\n        def rank"),
    "a docstring": ('"""Score."""', '"""Other words."""'),
    "layout": ("[1, 2]", "[1,  2]"),
    "what it does not name": ("SIGN = -1", "SIGN = -1\nUNUSED = object()"),
}
OTHER = {
    "a method": ("scaled(score(pool)", "scaled(score(score(pool))"),
    "a static method": ("np.sort(h)", "np.argsort(h)"),
    "a property": ("return 1", "return 2"),
    "a cached method": ("return 7", "return 8"),
    "an attribute of the base class": ('"low"', '"high"'),
    "a default of a field": ("lam: float = 0.5", "lam: float = 1.5"),
    "a factory of a default": ("default_factory=list", "default_factory=dict"),
    "a function in a cell": ("x for x in h", "x for x in h[1:]"),
    "a default of a function": ("power=2", "power=3"),
    "a decorator": ("return function(*args)", "return function(*args[::-1])"),
    "a constant": ("SIGN = -1", "SIGN = 1"),
    "a value in a dict": ("[1, 2]", "[1, 3]"),
    "an array in a dict": ("np.arange(3)", "np.arange(4)"),
    "a pattern": ('"x+"', '"x*"'),
    "an enum": ("NEAR = 1", "NEAR = 2"),
    "a field of an object": ("SCALE = Scale()", "SCALE = Scale(3)"),
    "a method of an object": ("self.by * x", "self.by / x"),
    "which of two functions a name is": ("= low, high, low", "= low, high, high"),
    "a variable of a closure": ("made(3)", "made(4)"),
    "where a function is from": ("from mine import scaled", "from others import scaled"),
}
MODULE = "import {other}\n\ndef scaled(*parts):\n    return parts\n"


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Two files of the user's, `mine` and `others`, which a session imports."""
    for name, other in (("mine", "deepest"), ("others", "json"), ("deeper", "json"), ("deepest", "json")):
        (tmp_path / f"{name}.py").write_text(MODULE.format(other=other))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("mine", "others", "deeper", "deepest"):
        sys.modules.pop(name, None)


def code_of(cell):
    return session_code(session(cell)["Mine"])


@pytest.mark.slow
def test_only_what_the_class_names_changes_its_hash(modules):
    before = code_of(CELL)
    edited = {name: CELL.replace(*edit) for name, edit in (SAME | OTHER).items()}
    assert [name for name, cell in edited.items() if cell == CELL] == []
    assert {name for name, cell in edited.items() if code_of(cell) == before} == set(SAME)


def test_the_hash_is_the_same_in_every_version_of_python():
    cell = """from dataclasses import dataclass, field
import numpy as np
@dataclass(frozen=True)
class Mine:
    lam: float = 1.0
    more: list = field(default_factory=list)
    def rank(self, pool, rng):
        yield from np.argsort(-(pool.embeddings**2).sum(axis=1))
"""
    assert code_of(cell) == "5e87adee997d7e8e"


@pytest.mark.parametrize("name", ["mine", "deeper", "deepest"])
def test_a_change_in_a_users_file_that_is_imported_at_any_depth_changes_the_hash(modules, name):
    before = code_of(CELL)
    with (modules / f"{name}.py").open("a") as file:
        file.write("MORE = 1\n")
    assert code_of(CELL) != before


def test_a_class_of_an_importable_file_has_the_hash_of_its_file(modules):
    (modules / "others.py").write_text("class Far:\n    power = 2\n")
    import others

    before = session_code(others.Far)
    (modules / "others.py").write_text("class Far:\n    power = 3\n")
    assert session_code(others.Far) != before


def test_what_has_no_source_or_no_hash_is_refused():
    exec("class Far:\n    def rank(self, pool, rng):\n        pass", namespace := {"__name__": "__main__"})
    assert refusal_of(session_code, namespace["Far"]) == (
        "selector Far: Far.rank has no source, of which its key is made: define it in a notebook's cell or in a file"
    )
    far = session("MODEL = object()\nclass Far:\n    def rank(self, pool, rng):\n        return MODEL")["Far"]
    assert refusal_of(session_code, far) == (
        "selector Far: reads 'MODEL' of type object, of which no key can be made: build it inside the class, from "
        "plain values and arrays"
    )
