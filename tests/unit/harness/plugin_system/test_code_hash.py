"""What of a component's code its key holds: its module and what that imports; and `syntax_text.py`: which text."""

import importlib
import importlib.util
import re
import sys

import pytest
from corpora.code_of_built_ins import ROWS
from corpora.source_edits import CHANGE, GOLDEN, NO_CHANGE, SOURCE
from support.environments import pythons
from support.paths import ROOT
from support.processes import run_to_end

from harness.plugin_system.code_hash import code_hash, modules_of
from harness.plugin_system.component import UNHASHED, build, described
from harness.plugin_system.registry import Origin, Registration, Registry, load_registry
from harness.plugin_system.syntax_text import syntax_text


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


def picks_of(module):
    return importlib.import_module(module).Picks


def test_a_built_ins_code_is_what_a_reader_finds():
    registry = load_registry()
    for kind, name, modules in ROWS:
        component = registry.find(kind, name).load()
        assert modules_of([component], "diversity-harness", UNHASHED.get(kind, frozenset())) == sorted(modules), name
    sandboxed = modules_of([registry.find("task", "mbppplus").load()])  # code that is sent into the sandbox counts
    assert {"harness_tasks.sandbox.inside", "harness_tasks.sandbox.child"} <= set(sandboxed)


def test_moving_a_file_changes_no_key(written):
    picks = "from {0}near import x\nfrom {1}near import y\nclass Picks: pass\n"
    written(
        flat__picks=picks.format(".", "."),
        flat__near="from .far import z\nx = y = 1\n",
        flat__far="z = 1\n",
        deep__picking__picks=picks.format("..numerics.", "deep.numerics."),
        deep__numerics__near="from ..far import z\nx = y = 1\n",
        deep__far="z = 1\n",
    )
    assert code_hash([picks_of("flat.picks")]) == code_hash([picks_of("deep.picking.picks")])


def test_editing_what_a_function_imports_changes_the_key_and_a_comment_in_it_does_not(written):
    written(edited__picks="class Picks:\n    def rank(self):\n        from .batch import go\n")
    before = [
        written(edited__batch=text) and code_hash([picks_of("edited.picks")]) for text in ("go = 1\n", "go = 2\n")
    ]
    assert before[0] != before[1]
    written(edited__batch='"""Words."""\n# A comment.\ngo = 2\n')
    assert code_hash([picks_of("edited.picks")]) == before[1]


def test_imports_in_a_circle_and_in_try_and_by_name_are_followed(written):
    folder = written(
        circle__picks="from . import a\nclass Picks: pass\n",
        circle__a="from .b import x\ntry:\n    from ._fast import y\nexcept ImportError:\n    from ._slow import y\n",
        circle__b="import circle.a as a\nx = 1\ndef f(): return importlib.import_module('.c', __package__)",
        circle___slow="y = 1\n",
        circle__c="import numpy.linalg\ndef f(): return __import__('circle.d')\n",
        circle__d="import json\n",
        circle__unrelated="z = 1\n",
    )
    names, picks = ("_slow", "a", "b", "c", "d", "picks"), picks_of("circle.picks")
    assert modules_of([picks]) == [f"circle.{name}" for name in names]
    hashes = {code_hash([picks])}
    for name in names:
        path = folder / "circle" / f"{name}.py"
        path.write_text(f"{path.read_text()}\nmore = 1\n")
        hashes.add(code_hash([picks]))
    assert len(hashes) == 7


def test_a_plugin_files_neighbours_count_and_other_distributions_do_not(written):
    folder = written(my_plugin="import my_helper, numpy\nclass Picks: pass\n", my_helper="x = 1\n")
    spec = importlib.util.spec_from_file_location("harness_file_my_plugin", folder / "my_plugin.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert modules_of([module.Picks], "my_plugin") == ["harness_file_my_plugin", "my_helper"]


def test_all_packages_of_a_distribution_count(written, monkeypatch):
    site = "site-packages__"
    sources = {
        "two_picks__picks": "from two_common import x\nfrom foreign_package import y\nclass Picks: pass\n",
        "two_picks____init__": "from .others import z\n",
        "two_picks__others": "z = 1\n",
        "two_common": "x = 1\n",
        "foreign_package": "y = 1\n",
    }
    folder = written(**{site + name: source for name, source in sources.items()}) / "site-packages"
    about = folder / "two_picks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: two-picks\nVersion: 1.0\n")
    (about / "RECORD").write_text("two_common.py,,\ntwo_picks/picks.py,,\n")
    monkeypatch.syspath_prepend(str(folder))
    assert modules_of([picks_of("two_picks.picks")], "two-picks") == ["two_common", "two_picks.picks"]


def test_a_factory_in_another_module_counts(written):
    written(
        factory__picks="class Picks: pass\n",
        factory__make="def make():\n    from .picks import Picks\n    return Picks()\n",
    )
    made = Registration("selector", "made", importlib.import_module("factory.make").make, Origin("mine", "1", "made"))
    component = build(Registry([made]), "selector", "made")
    before = described(made, component)["code"]
    written(factory__make="def make():\n    return 1\n")
    assert described(made, component)["code"] != before


def test_the_papers_sizes_and_rl_settings_are_no_part_of_a_verdicts_key():
    source, without = (ROOT / "tasks" / "competition_math.py").read_bytes(), UNHASHED["task"]
    edited = re.sub(rb'"n": \d+', b'"n": 12345', source, count=1).replace(b"import MATH", b"import GSM8K")
    assert b"paper: ClassVar" in source
    assert edited != source
    assert syntax_text(edited, without) == syntax_text(source, without)
    math = load_registry().find("task", "math").load()
    assert "harness_tasks.data.rl_settings" not in modules_of([math], "", without)


def test_code_without_a_file_has_a_hash_of_its_own():
    def made(body, doc="Picks."):
        names = {"__name__": "notebook"}
        helper = f"STEP = 2\ndef helper(x):\n    return {body}\n"
        rank = f"    def rank(self, pool):\n        '{doc}'\n        return [helper(i) for i in pool]\n"
        exec(compile(f"{helper}class Picks:\n{rank}", "<cell>", "exec"), names)
        return names["Picks"]

    assert code_hash([made("x + STEP")]) == code_hash([made("x + STEP", "Other words.")])
    assert code_hash([made("x + STEP")]) != code_hash([made("x - STEP")])


def edited(source, old, new):
    assert old in source
    return syntax_text(source.replace(old, new, 1).encode())


def test_what_changes_no_result_changes_no_text_and_what_may_change_one_does():
    text = syntax_text(SOURCE.encode())
    assert [(old, new) for old, new in NO_CHANGE if edited(SOURCE, old, new) != text] == []
    assert [(old, new) for old, new in CHANGE if edited(SOURCE, old, new) == text] == []


def test_docstrings_count_in_a_file_that_reads_them():
    source = 'def prompt():\n    "Solve this."\nPROMPT = prompt.__doc__\n'
    assert edited(source, "Solve this.", "Solve that.") != syntax_text(source.encode())


def test_every_version_of_python_writes_the_same_text(tmp_path):
    program = (
        "import runpy, sys; print(runpy.run_path(sys.argv[1])['syntax_text'](open(sys.argv[2], 'rb').read()).digest)"
    )
    (tmp_path / "source.py").write_text(SOURCE)
    files = [ROOT / "harness" / "plugin_system" / "syntax_text.py", tmp_path / "source.py"]
    others = {path for minor in (11, 12, 13, 14) for path in pythons(minor)}
    runs = [run_to_end([python, "-I", "-c", program, *files]) for python in {sys.executable, *others}]
    written = [done.stdout.strip() for done in runs if done.returncode == 0]  # a pyenv shim may stand for none
    assert written
    assert set(written) == {GOLDEN}
