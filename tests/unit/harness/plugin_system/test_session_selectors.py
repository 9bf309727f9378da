"""Objects of a session as selectors: registered for one call, named by their fields, keyed by all that they hold."""

import numpy as np
from support.notebooks import session
from support.refusals import refusal_of

from harness.plugin_system.component import build, described, registered
from harness.plugin_system.registry import is_own, load_registry

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


def names(*selectors):
    with registered(selectors) as specs:
        return list(specs)


def key_of(selector):
    with registered([selector]) as (name,):
        registry = load_registry(groups=())
        return described(registry.find("selector", name), build(registry, "selector", name))


def refused(*selectors):
    return refusal_of(registered(selectors).__enter__)


def test_specs_stay_and_objects_are_named_by_the_fields_that_differ():
    given = ("repexp:lam=0.1", Plain(), Data, Data(3.0), Data(first="a:b"), Data(4.0, "min"))
    assert names(*given[:2], *given[3:4], given[5]) == [
        "repexp:lam=0.1",
        "Plain(power=2)",
        "Data(power=3.0)",
        "Data(power=4.0, first='min')",
    ]
    assert names(given[2]) == names(given[4]) == ["Data"]


def test_an_object_is_registered_for_one_call_and_built_as_it_is():
    mine, two = Plain(5), Data(4.0, "min")
    with registered([mine, two]) as (name, other):
        assert is_own(name)
        assert build(load_registry(groups=()), "selector", name) is mine
        assert build(load_registry(groups=()), "selector", other) is two
    assert not is_own(name)
    assert "unknown selector 'Plain" in refusal_of(load_registry(groups=()).find, "selector", name)


def test_a_notebooks_class_has_another_key_in_each_call_and_the_same_within_one():
    mine = Data()
    with registered([mine]) as (name,):
        registration = load_registry(groups=()).find("selector", name)
        assert described(registration, mine) == described(registration, mine)
        assert described(registration, mine) | {"code": ""} == {
            "name": "Data",
            "params": {"power": 2.0, "first": "max"},
            "dist": "session",
            "code": "",
        }
    assert key_of(mine)["code"] != key_of(mine)["code"]


def test_a_class_of_a_file_is_keyed_by_its_fields_and_file_if_json_can_hold_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raced.py").write_text(CELL)
    import raced

    about = key_of(raced.Plain(3, [0.5, {"a": None}]))
    assert about["params"] == {"power": 3, "weights": [0.5, {"a": None}]}
    assert key_of(raced.Plain(3, [0.5, {"a": None}])) == about
    others = [raced.Plain(3, np.arange(3)), raced.Plain(3, np.arange(3)), raced.Plain(), raced.Data()]
    keys = [key_of(each) for each in (*others, raced.Plain(3, object()), raced.Plain(3, object()))]
    (tmp_path / "raced.py").write_text(CELL + "# more\n")
    keys.append(key_of(raced.Plain(3, [0.5, {"a": None}])))
    assert [key for key in [about, *keys] if [about, *keys].count(key) > 1] == []


def test_what_cannot_be_raced_is_one_line():
    assert refused(3).startswith(
        "a selector is a spec such as 'repexp:lam=0.1', or an object with rank(pool, rng), got 3"
    )
    assert refused(Data(), Data(first="a:b")).startswith("two selectors are called 'Data'")
    assert refused(Needy).startswith("selector Needy cannot be built: raised TypeError: ")
