"""What of a component's code its key holds: the whole files of its module and of what that imports of its package."""

import importlib

import pytest
from support.paths import ROOT

from harness.plugin_system.component import SESSION_CODE, build, code_files, described, source_hash
from harness.plugin_system.registry import Origin, Registration, Registry, load_registry

PICKS = "class Picks:\n    def rank(self, pool, rng):\n        return iter(())\n"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write `name__inner="source"` to name/inner.py in a folder on `sys.path`; return the folder."""
    monkeypatch.syspath_prepend(tmp_path)

    def call(**files):
        for name, source in files.items():
            path = tmp_path.joinpath(*name.split("__")).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        importlib.invalidate_caches()
        return tmp_path

    return call


def hash_of(module):
    return source_hash(importlib.import_module(module).Picks())


def stems(module, folder):
    importlib.import_module(module)
    return {str(file.relative_to(folder).with_suffix("")) for file in code_files(module)}


def test_an_edit_of_a_built_in_selector_changes_the_keys_of_those_that_import_it_alone():
    homes = {each.name: each.load().__module__ for each in load_registry().of_kind("selector")}
    own = {
        name: ROOT / "selectors" / f"{module.partition('.')[2].replace('.', '/')}.py" for name, module in homes.items()
    }
    assert len(own) > 20
    shared = {
        name: {other for other in own if own[other] in code_files(homes[name]) and own[other] != own[name]}
        for name in own
    }
    assert {name for name, others in shared.items() if len(others) > 3} == set()
    assert shared["uniform"] == shared["repexp"] == shared["kcenter"] == set()
    assert "answer-round-robin" in shared["outcome-ucb"]


def test_code_that_is_sent_into_the_sandbox_counts():
    task = load_registry().find("task", "mbppplus").load()
    assert {"inside.py", "confinement.py"} <= {file.name for file in code_files(task.__module__)}


def test_imports_in_functions_in_a_circle_and_in_try_are_followed_within_the_top_package(written):
    folder = written(
        circle__picks=f"from . import a\n{PICKS}",
        circle__a="from .deep.b import x\ntry:\n    from ._c import y\nexcept ImportError:\n    from ._slow import y\n",
        circle__deep__b="def f():\n    import circle.a as a, numpy\nx = 1\n",
        circle___slow="import beside\ny = 1\n",
        circle__unrelated="z = 1\n",
        beside="z = 1\n",
    )
    assert stems("circle.picks", folder) == {f"circle/{name}" for name in ("picks", "a", "deep/b", "_slow")}
    hashes = {hash_of("circle.picks")}
    for file in sorted(code_files("circle.picks")):
        file.write_text(f"{file.read_text()}# a comment counts\n")
        hashes.add(hash_of("circle.picks"))
    assert len(hashes) == 5


def test_nothing_is_imported_to_find_the_files(written):
    folder = written(lazy__picks=f"def f():\n    from .heavy.part import x\n{PICKS}", lazy__heavy__part="x = 1\n")
    (folder / "lazy" / "heavy" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    assert stems("lazy.picks", folder) == {"lazy/picks", "lazy/heavy/part"}


def test_a_plugin_file_counts_with_those_beside_it_and_never_with_the_core(written):
    plugin = (
        "import helper, numpy, harness\nfrom harness import hookimpl\n\n"
        f"{PICKS}\n@hookimpl\ndef register_selectors(register):\n    register('mine', Picks)\n"
    )
    folder = written(plugin=plugin, helper="x = 1\n", unrelated="x = 1\n")
    registry = load_registry([folder / "plugin.py"], groups=())
    before = described(registry.find("selector", "mine"), build(registry, "selector", "mine"))
    assert {file.name for file in code_files("harness_file_plugin")} == {"plugin.py", "helper.py"}
    (folder / "helper.py").write_text("x = 2\n")
    registry = load_registry([folder / "plugin.py"], groups=())
    assert described(registry.find("selector", "mine"), build(registry, "selector", "mine")) != before


def test_a_factory_in_another_module_counts(written):
    written(
        factory__picks=PICKS,
        factory__make="def make():\n    from .picks import Picks\n    return Picks()\n",
    )
    made = Registration("selector", "made", importlib.import_module("factory.make").make, Origin("mine", "1", "made"))
    component = build(Registry([made]), "selector", "made")
    before = described(made, component)["code"]
    written(factory__make="def make():\n    return 1\n")
    assert described(made, component)["code"] != before


def test_code_of_the_core_is_in_no_key_and_code_without_a_file_has_another_one_in_each_process():
    assert source_hash(Registry()) == ""
    names = {"__name__": "without_a_file"}
    exec(PICKS, names)
    assert source_hash(names["Picks"]()) == source_hash(names["Picks"]()) != ""
    assert len(SESSION_CODE) > 16
