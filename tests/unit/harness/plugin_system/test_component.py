"""From text on a command line to a built component and back; what of its code its key holds; objects of a session."""

import importlib
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest
from support.notebooks import session
from support.refusals import refusal_of, wrongly_refused

from harness.plugin_system.calls import needs, picked, require_selector, subset_of
from harness.plugin_system.component import (
    build,
    code_files,
    described,
    parameters,
    parse_spec,
    registered,
    source_hash,
)
from harness.plugin_system.registry import Origin, Registration, Registry, load_registry


@dataclass(frozen=True)
class Knobs:
    """A component with one parameter of each type."""

    lam: float = 1.0
    count: int = 3
    first: Literal["random", "max"] = "random"
    flag: bool = False
    most: int | None = None


def failing():
    raise ValueError("no knobs")


ORIGIN = Origin("dist", "1", "entry")
REGISTRY = Registry(
    [Registration("selector", "knobs", Knobs, ORIGIN), Registration("selector", "none", failing, ORIGIN)]
)
FORMLESS = ("knobs:lam", "knobs:lam=1,lam=2", "knobs:=1", "own:", "own:a='x'y,b", "own:,a=1")
WRONG = {
    "knobs:lam=abc": "knobs: lam must be a valid number",
    "knobs:count=1.5": "knobs: count must be a valid integer",
    "knobs:first=last": "knobs: first must be 'random' or 'max', got 'last'",
    "knobs:lamda=1": "knobs: no parameter 'lamda' (did you mean 'lam'? it takes lam, count, first, flag, most)",
    **dict.fromkeys(FORMLESS, "parameters are written name:key=value"),
    ":lam=1": "a name is missing",
    "knob": "unknown selector 'knob' (did you mean 'knobs'?",
    "none:x=1": "none: no parameter 'x' (it takes none)",
    "none": "selector 'none' from dist 1 cannot be built: raised ValueError: no knobs (test_component.py:",
}
QUOTED = {
    "own:command='f(1, 2) \"x\"',n=3": {"command": 'f(1, 2) "x"', "n": "3"},
    'own:pattern="it\'s, (a=b)"': {"pattern": "it's, (a=b)"},
    "own:command=python check.py --tolerance=0.1": {"command": "python check.py --tolerance=0.1"},
}


def test_text_is_converted_to_the_declared_types_and_back_or_refused_in_one_clear_line():
    built = build(REGISTRY, "selector", "knobs:lam=0.1,count=7,first=max,flag=true,most=none")
    assert built == Knobs(0.1, 7, "max", True, None)
    assert parameters(built) == {"lam": 0.1, "count": 7, "first": "max", "flag": True, "most": None}
    assert str(parse_spec("knobs:lam=0.1,first=max")) == "knobs:lam=0.1,first=max"
    assert wrongly_refused(WRONG.items(), lambda spec: build(REGISTRY, "selector", spec)) == []
    for again in (parse_spec, lambda text: parse_spec(str(parse_spec(text)))):
        assert {text: dict(again(text).params) for text in QUOTED} == QUOTED


def test_a_selector_has_one_of_two_methods_and_each_pick_is_checked_when_it_arrives():
    ranker, subset = SimpleNamespace(rank=min), SimpleNamespace(select=lambda pool, k, rng: range(k + 1), needs=())
    assert (require_selector("x", ranker), require_selector("x", subset)) == (ranker, subset)
    assert (needs(ranker), needs(subset)) == (("embeddings",), ())
    assert refusal_of(require_selector, "x", 3) == "selector 'x': has neither rank(pool, rng) nor select(pool, k, rng)"
    line = refusal_of(require_selector, "x", SimpleNamespace(rank=min, needs=("logprobs", "verdicts")))
    assert line == "selector 'x': needs ['verdicts']; it can need 'embeddings', 'logprobs', 'scores'"
    wrong = [(second, f"an index must be an integer, got {second}") for second in (1.0, True)]
    wrong += [(second, f"index {second} is outside the pool of 3") for second in (3, -1)]
    assert wrongly_refused([*wrong, (0, "index 0 was picked twice")], lambda second: list(picked([0, second], 3))) == []
    assert next(picked([0, 9], 3)) == 0
    whole = list(picked(np.array([2, 0, 1]), 3))
    assert (whole, {type(index) for index in whole}) == ([2, 0, 1], {int})
    assert refusal_of(subset_of, subset, [None] * 9, 2, None) == "select gave 3 indices for k = 2"


# Code in keys: the whole files of a component's module and of what that imports of its package.

PICKS = "class Picks:\n    def rank(self, pool, rng):\n        return iter(())\n"


@pytest.fixture
def source(tmp_path, monkeypatch):
    """Write `name__inner="source"` to name/inner.py in a folder on `sys.path`; return the folder."""
    monkeypatch.syspath_prepend(tmp_path)

    def call(**files):
        for name, text in files.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()
        return tmp_path

    return call


def test_an_edit_of_a_built_in_selector_changes_the_keys_of_those_that_import_it_alone():
    homes = {each.name: each.load().__module__ for each in load_registry().of_kind("selector")}
    files = {name: {file.name for file in code_files(home)} for name, home in homes.items()}
    own = {name: f"{home.rpartition('.')[2]}.py" for name, home in homes.items()}
    shared = {name: {other for other in own if own[other] in files[name] - {own[name]}} for name in own}
    assert {name for name, others in shared.items() if len(others) > 3} == set()
    assert shared["uniform"] == shared["repexp"] == shared["kcenter"] == set()
    assert "answer-round-robin" in shared["outcome-ucb"]
    task = load_registry().find("task", "mbppplus").load()  # code that is sent into the sandbox counts
    assert {"inside.py", "confinement.py"} <= {file.name for file in code_files(task.__module__)}


def test_imports_in_functions_in_a_circle_and_in_try_are_followed_within_the_top_package_and_none_is_made(source):
    folder = source(
        circle__picks=f"from . import a\n{PICKS}",
        circle__a="try:\n    from ._c import y\nexcept ImportError:\n    from ._slow import y\n",
        circle___slow="def f():\n    import circle.picks, numpy, beside\n    from circle.heavy.part import x\ny = 1\n",
        circle__heavy__part="x = 1\n",
        circle__unrelated="z = 1\n",
        beside="z = 1\n",
    )
    (folder / "circle" / "heavy" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    picks = importlib.import_module("circle.picks").Picks()
    files = code_files("circle.picks")
    names = {str(file.relative_to(folder / "circle").with_suffix("")) for file in files}
    assert names - {"heavy/__init__"} == {"picks", "a", "_slow", "heavy/part"}
    hashes = {source_hash(picks)}
    for file in files:
        file.write_text(f"{file.read_text()}# a comment counts\n")
        hashes.add(source_hash(picks))
    assert len(hashes) == 1 + len(files)


def test_a_plugin_file_counts_with_those_beside_it_and_a_factory_in_another_module_too(source):
    hook = "@hookimpl\ndef register_selectors(register):\n    register('mine', Picks)\n"
    plugin = f"import helper, numpy, harness\nfrom harness import hookimpl\n\n{PICKS}\n{hook}"
    folder = source(plugin=plugin, helper="x = 1\n", unrelated="x = 1\n")

    def about(registry):
        return described(registry.find("selector", "mine"), build(registry, "selector", "mine"))

    before = about(load_registry([folder / "plugin.py"], groups=()))
    assert {file.name for file in code_files("harness_file_plugin")} == {"plugin.py", "helper.py"}
    source(helper="x = 2\n")
    assert about(load_registry([folder / "plugin.py"], groups=())) != before
    source(factory__picks=PICKS, factory__make="def make():\n    from .picks import Picks\n    return Picks()\n")
    make = importlib.import_module("factory.make").make
    made = Registry([Registration("selector", "mine", make, Origin("mine", "1", "made"))])
    before = about(made)
    source(factory__make="def make():\n    return 1\n")
    assert about(made) != before


# Objects of a session as selectors: registered for one call, named by their fields, keyed by all that they hold.

CELL = """
from dataclasses import dataclass
import numpy as np

class Plain:
    def __init__(self, power=2, weights=None):
        self.power, self.weights = power, weights
    def rank(self, pool, rng):
        return iter(range(len(pool)))

@dataclass(frozen=True)
class Data:
    power: float = 2.0
    first: str = "max"
    def select(self, pool, k, rng):
        return range(k)

class Needy(Plain):
    def __init__(self, must):
        pass
"""
CLASSES = session(CELL)
Plain, Data, Needy = CLASSES["Plain"], CLASSES["Data"], CLASSES["Needy"]


def key_of(selector):
    with registered([selector]) as (name,):
        registry = load_registry(groups=())
        return described(registry.find("selector", name), build(registry, "selector", name))


def test_an_object_is_registered_for_one_call_built_as_it_is_and_named_by_the_fields_that_differ():
    given = ("repexp:lam=0.1", Plain(), Data(3.0), Data(4.0, "min"))
    with registered(given) as names:
        assert list(names) == ["repexp:lam=0.1", "Plain(power=2)", "Data(power=3.0)", "Data(power=4.0, first='min')"]
        for name, mine in zip(names[1:], given[1:], strict=True):
            assert build(load_registry(groups=()), "selector", name) is mine
    assert "unknown selector 'Plain" in refusal_of(load_registry(groups=()).find, "selector", names[1])
    refused = [
        ([3], "a selector is a spec such as 'repexp:lam=0.1', or an object with rank(pool, rng), got 3"),
        ([Data, Data(first="a:b")], "two selectors are called 'Data'"),
        ([Needy], "selector Needy cannot be built: raised TypeError: "),
    ]
    assert wrongly_refused(refused, lambda selectors: registered(selectors).__enter__()) == []


def test_a_notebooks_class_has_another_key_in_each_call_and_one_of_a_file_is_keyed_by_its_fields_and_file(source):
    about = {"name": "Data", "params": {"power": 2.0, "first": "max"}, "dist": "session", "code": ""}
    assert key_of(Data()) | {"code": ""} == about
    assert key_of(Data())["code"] != key_of(Data())["code"]
    exec(PICKS, names := {"__name__": "without_a_file"})
    assert source_hash(names["Picks"]()) == source_hash(names["Picks"]()) != source_hash(Registry()) == ""  # the core
    source(raced=CELL)
    raced = importlib.import_module("raced")
    weights = [[0.5, {"a": None}], None, np.arange(3), np.arange(3), object(), object()]
    keys = [key_of(raced.Plain(3, each)) for each in weights]
    assert keys[0]["params"] == {"power": 3, "weights": weights[0]}
    assert key_of(raced.Plain(3, weights[0])) == keys[0]
    source(raced=CELL + "# more\n")
    keys += [key_of(raced.Data()), key_of(raced.Plain(3, weights[0]))]
    assert [key for key in keys if keys.count(key) > 1] == []
