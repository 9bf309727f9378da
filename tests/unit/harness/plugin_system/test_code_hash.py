"""What of a component's code its key holds: its own module and what that imports of its distribution, and no more."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
import sys

import pytest
from support.environments import pythons
from support.paths import ROOT
from support.processes import run_to_end

from harness.plugin_system.code_hash import code_hash, modules_of
from harness.plugin_system.component import UNHASHED, build, described, source_hash
from harness.plugin_system.registry import load_registry
from harness.plugin_system.syntax_text import syntax_text
from harness.store import versions
from harness.store.stage import Store

SOURCE = '''"""A module."""
from __future__ import annotations
import numpy as np, os.path
from . import vectors
from .far import near as here
from typing import TYPE_CHECKING, ClassVar
if TYPE_CHECKING:
    from .types import Only

# a comment
LIMIT: int = 1_000

@decorated(deep=True)
class Picks(Base, metaclass=Meta):
    """Picks."""
    kind: ClassVar[str] = "picks"
    lam: float = 1e-3

    async def rank(self, pool: Pool, /, *rest, rng: Rng = None, **more) -> Iterator[int]:
        """Ranks."""
        seen: set[int] = set()
        text = f"a{{b}} {pool!r:>{self.lam}} {rng = }" "tail \\N{LATIN SMALL LETTER SHARP S}"
        async with pool as one, rest[0]:
            yield {**more, "x": [*seen, -1, 2j, b"\\xff", ..., None, True], 1: x if (y := 3) else lambda a, b=2: a @ b}
        try:
            del seen[1:2, ::3]
        except* ValueError as failure:
            raise KeyError from failure
        match pool:
            case {"a": [1, *others], **rest} | Point(x=0) if others:
                return
            case _:
                global LIMIT
'''
GOLDEN = "888d4f4e6710632db3d26b913281fb800f80a2a0b1d0db2962fb8af62182e9f1"  # of SOURCE, whatever the version of Python


def load(folder, name, attribute="Picks"):
    """The class of that name in a module below the folder."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        return getattr(importlib.import_module(name), attribute)
    finally:
        sys.path.remove(str(folder))


def write(folder, **files):
    """Write `name__inner="source"` to name/inner.py below the folder."""
    for name, source in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


# The text of a file.


def edited(source, old, new):
    assert old in source
    return syntax_text(source.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""Another module."""'),
        ('"""Ranks."""', ""),
        ("# a comment", "# another\n\n"),
        ("LIMIT: int", "LIMIT"),
        ("pool: Pool,", "pool,"),
        (" -> Iterator[int]", ""),
        ("seen: set[int]", "seen"),
        (
            "import numpy as np, os.path\nfrom . import vectors\n",
            "from . import vectors\nimport numpy as np, os.path\n",
        ),
        ("    from .types import Only", "    from .types import Other"),
        ("1_000", "1000"),
        ('"tail', "f'tail"[0:0] + '"tail'),
    ],
)
def test_what_changes_no_result_changes_no_text(old, new):
    assert edited(SOURCE, old, new) == syntax_text(SOURCE.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1_000", "1_001"),
        ("kind: ClassVar[str]", "kind: str"),
        ("lam: float", "lam: InitVar[float]"),
        ("rng: Rng = None", "rng: Rng = 0"),
        ("[1:2, ::3]", "[1:2, ::4]"),
        ("deep=True", "deep=1"),
        ("near as here", "far as here"),
        ("async with", "with"),
        ("!r:>", "!s:>"),
        ("global LIMIT", "nonlocal LIMIT"),
        ("except*", "except"),
    ],
)
def test_what_may_change_a_result_changes_the_text(old, new):
    assert edited(SOURCE, old, new) != syntax_text(SOURCE.encode())


def test_docstrings_count_in_a_file_that_reads_them():
    source = 'def prompt():\n    "Solve this."\nPROMPT = prompt.__doc__\n'
    assert edited(source, "Solve this.", "Solve that.") != syntax_text(source.encode())


def test_every_version_of_python_writes_the_same_text(tmp_path):
    files = [ROOT / folder for folder in ("selectors", "tasks", "plugins", "tests")]
    paths = [str(path) for folder in files for path in sorted(folder.rglob("*.py"))[:12]]
    (tmp_path / "source.py").write_text(SOURCE)
    program = (
        "import hashlib, json, runpy, sys; text = runpy.run_path(sys.argv[1])['syntax_text'];"
        "texts = [text(open(path, 'rb').read()) for path in sys.argv[2:]];"
        "print(json.dumps([list(sys.version_info[:2]), texts[0].digest,"
        " hashlib.sha256(repr([(t.digest, t.imports) for t in texts]).encode()).hexdigest()]))"
    )
    arguments = [
        "-I",
        "-c",
        program,
        str(ROOT / "harness" / "plugin_system" / "syntax_text.py"),
        str(tmp_path / "source.py"),
        *paths,
    ]
    results = {}
    for python in {sys.executable, *(path for minor in (11, 12, 13, 14) for path in pythons(minor))}:
        done = run_to_end([python, *arguments])
        if done.returncode == 0:  # a pyenv shim may stand for a version that is not chosen
            version, *digests = json.loads(done.stdout)
            results[tuple(version)] = digests
    assert {digests[0] for digests in results.values()} == {GOLDEN}
    assert len({digests[1] for digests in results.values()}) == 1
    if len(results) == 1:
        pytest.skip(f"only Python {sys.version_info[0]}.{sys.version_info[1]} is here; the golden hash holds")


# Which modules.

VECTORS, SOURCES = "harness_selectors.numerics.vectors", "harness_tasks.data.sources"
MATH = [f"harness_tasks.math_answers{name}" for name in (
    "", ".checker", ".checker_process", ".equality", ".evaluation", ".exact_number", ".extraction", ".intervals",
    ".math_task",
    ".normal_form", ".strict_rules", ".structure", ".wording", ".workers",
)] + ["harness_tasks.sandbox.confinement", "harness_tasks.sandbox.syscalls"]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "modules"),
    [
        ("selector", "uniform", ["harness_selectors.uniform"]),
        (
            "selector",
            "repexp",
            [
                "harness_selectors.repexp",
                "harness_selectors.numerics.elliptical",
                "harness_selectors.numerics.elliptical_batch",
                "harness_selectors.numerics.elliptical_bounds",
                VECTORS,
            ],
        ),
        ("selector", "kcenter", ["harness_selectors.kcenter", "harness_selectors.numerics.nearest_pick", VECTORS]),
        ("selector", "outcome-ucb", ["harness_selectors.outcome_ucb", "harness_selectors.answer_round_robin"]),
        ("task", "game24", ["harness_tasks.game24", "harness_tasks.arithmetic", "harness_tasks.data.hands", SOURCES]),
        ("task", "gsm8k", ["harness_tasks.gsm8k", SOURCES, *MATH]),
        ("task", "math500", ["harness_tasks.competition_math", "harness_tasks.data.math_rows", SOURCES, *MATH]),
        ("embedder", "hidden-mean", ["harness_plugins.embedders.hidden_states"]),
        (
            "sampler",
            "repexp-guided",
            [
                "harness_plugins.samplers.guided",
                "harness_plugins.samplers.guided.covariance",
                "harness_plugins.samplers.plain",
            ],
        ),
    ],
)
def test_a_built_ins_code_is_what_a_reader_finds(kind, name, modules):
    registration = load_registry().find(kind, name)
    component = registration.load()
    assert modules_of([component], "diversity-harness", UNHASHED.get(kind, frozenset())) == sorted(modules)


def test_code_that_is_sent_into_the_sandbox_counts():
    component = load_registry().find("task", "mbppplus").load()
    assert {"harness_tasks.sandbox.inside", "harness_tasks.sandbox.child"} <= set(modules_of([component]))


def test_every_built_in_has_a_hash_and_none_of_the_core():
    registry = load_registry()
    for kind in ("task", "selector", "embedder", "sampler"):
        for registration in registry.of_kind(kind):
            component = registration.load()
            modules = modules_of([component], registration.origin.dist, UNHASHED.get(kind, frozenset()))
            assert component.__module__ in modules
            assert not [name for name in modules if name.split(".")[0] == "harness"]
            assert re.fullmatch("[0-9a-f]{16}", code_hash([component], registration.origin.dist))


# What changes a component's hash.

MOVED = ("repexp", "elliptical", "elliptical_batch", "elliptical_bounds", "vectors")


def copied(folder, package):
    for name in MOVED:
        file = next((ROOT / "selectors").rglob(f"{name}.py"))
        write(folder, **{f"{package}__{name}": file.read_text().replace(".numerics.", ".")})
    return folder / package


def test_moving_a_file_changes_no_key(tmp_path):
    from harness_selectors.repexp import RepExp

    copied(tmp_path, "flat_selectors")
    flat = load(tmp_path, "flat_selectors.repexp", "RepExp")
    package = copied(tmp_path, "deep_selectors")
    (package / "numerics").mkdir()
    for name in ("elliptical", "elliptical_batch", "elliptical_bounds"):
        text = (package / f"{name}.py").read_text().replace("from .vectors", "from ..vectors")
        (package / "numerics" / f"{name}.py").write_text(text)
        (package / f"{name}.py").unlink()
    text = (package / "repexp.py").read_text()
    text = re.sub(r"from \.(elliptical\w*) import", r"from deep_selectors.numerics.\1 import", text, count=1)
    text = re.sub(r"from \.(elliptical\w*) import", r"from .numerics.\1 import", text)
    (package / "picking").mkdir()
    text = text.replace("from .numerics", "from ..numerics").replace("from .vectors", "from ..vectors")
    text = text.replace("harness_selectors.repexp:RepExp", "deep_selectors.picking.repexp:RepExp")
    (package / "repexp.py").unlink()
    (package / "picking" / "repexp.py").write_text(text)
    deep = load(tmp_path, "deep_selectors.picking.repexp", "RepExp")
    assert code_hash([RepExp]) == code_hash([flat]) == code_hash([deep])


def test_editing_what_a_selector_imports_inside_a_function_changes_its_key(tmp_path):
    package = copied(tmp_path, "edited_selectors")
    selector = load(tmp_path, "edited_selectors.repexp", "RepExp")
    before = code_hash([selector])
    batch = package / "elliptical_batch.py"
    text = batch.read_text()
    batch.write_text("# A comment.\n" + text.replace('"""', '"""Other words. ', 1))
    assert code_hash([selector]) == before
    batch.write_text(f"{text}\nROUNDING = 1e-6\n")
    assert code_hash([selector]) != before


def test_imports_in_a_circle_and_in_try_and_by_name_are_followed(tmp_path):
    write(
        tmp_path,
        circle__picks="from . import a\nclass Picks: pass\n",
        circle__a="from .b import x\ntry:\n    from ._fast import y\nexcept ImportError:\n    from ._slow import y\n",
        circle__b="import circle.a as a\nx = 1\ndef f(): return importlib.import_module('.c', __package__)",
        circle___slow="y = 1\n",
        circle__c="import numpy.linalg\ndef f(): return __import__('circle.d')\n",
        circle__d="import json\n",
        circle__unrelated="z = 1\n",
    )
    picks = load(tmp_path, "circle.picks")
    sys.path.insert(0, str(tmp_path))
    try:
        assert modules_of([picks]) == [f"circle.{name}" for name in ("_slow", "a", "b", "c", "d", "picks")]
        seen = {code_hash([picks])}
        for name in ("_slow", "a", "b", "c", "d", "picks"):
            path = tmp_path / "circle" / f"{name}.py"
            path.write_text(f"{path.read_text()}\nmore = 1\n")
            seen.add(code_hash([picks]))
        assert len(seen) == 7
    finally:
        sys.path.remove(str(tmp_path))


def test_a_plugin_files_neighbours_count_and_other_distributions_do_not(tmp_path, monkeypatch):
    write(tmp_path, my_plugin="import my_helper, numpy\nclass Picks: pass\n", my_helper="x = 1\n", numpy="x = 1\n")
    spec = importlib.util.spec_from_file_location("harness_file_my_plugin", tmp_path / "my_plugin.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "numpy.py").unlink()
    spec.loader.exec_module(module)
    assert modules_of([module.Picks], "my_plugin") == ["harness_file_my_plugin", "my_helper"]


def test_all_packages_of_a_distribution_count(tmp_path, monkeypatch):
    site = tmp_path / "site-packages"
    write(
        site,
        two_picks__picks="from two_common import x\nfrom foreign_package import y\nclass Picks: pass\n",
        two_picks____init__="from .others import z\n",
        two_picks__others="z = 1\n",
        two_common="x = 1\n",
        foreign_package="y = 1\n",
    )
    about = site / "two_picks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: two-picks\nVersion: 1.0\n")
    (about / "RECORD").write_text("two_common.py,,\ntwo_picks/picks.py,,\n")
    monkeypatch.syspath_prepend(str(site))
    picks = importlib.import_module("two_picks.picks").Picks
    assert modules_of([picks], "two-picks") == ["two_common", "two_picks.picks"]


def test_code_without_a_file_has_a_hash_of_its_own():
    def made(body, doc="Picks."):
        names = {"__name__": "notebook"}
        helper = f"STEP = 2\ndef helper(x):\n    return {body}\n"
        rank = f"    def rank(self, pool):\n        '{doc}'\n        return [helper(i) for i in pool]\n"
        exec(compile(f"{helper}class Picks:\n{rank}", "<cell>", "exec"), names)
        return names["Picks"]

    assert code_hash([made("x + STEP")]) == code_hash([made("x + STEP", "Other words.")])
    assert code_hash([made("x + STEP")]) != code_hash([made("x - STEP")])


def test_a_factory_in_another_module_counts(tmp_path):
    write(
        tmp_path,
        factory__picks="class Picks: pass\n",
        factory__make="def make():\n    from .picks import Picks\n    return Picks()\n",
    )
    make = load(tmp_path, "factory.make", "make")
    registry = load_registry()
    registration = type(registry.find("selector", "uniform"))(
        "selector", "made", make, registry.find("selector", "uniform").origin
    )
    sys.path.insert(0, str(tmp_path))
    try:
        registry.registrations.append(registration)
        component = build(registry, "selector", "made")
        before = described(registration, component)["code"]
        (tmp_path / "factory" / "make.py").write_text("def make():\n    return 1\n")
        assert described(registration, component)["code"] != before
    finally:
        sys.path.remove(str(tmp_path))


def test_the_papers_sizes_and_rl_settings_are_no_part_of_a_verdicts_key():
    source = (ROOT / "tasks" / "competition_math.py").read_bytes()
    assert b"paper: ClassVar" in source
    without = UNHASHED["task"]
    edited_source = re.sub(rb'"n": \d+', b'"n": 12345', source, count=1).replace(b"import MATH", b"import GSM8K")
    assert edited_source != source
    assert syntax_text(edited_source, without) == syntax_text(source, without)
    assert "harness_tasks.data.rl_settings" not in modules_of(
        [load_registry().find("task", "math").load()], "", without
    )


def test_a_task_from_the_core_has_no_code_of_its_own():
    from harness.running.importing import PoolTask

    assert source_hash(PoolTask([])) == ""


# Versions of the stages.


def test_the_first_version_of_a_stage_keeps_keys_and_the_next_changes_them(tmp_path, monkeypatch):
    def stage():
        return Store(tmp_path).stage("pool", {"n": 1}, ".parquet")

    first = stage()
    assert first.key == hashlib.sha256(b'{"n":1,"stage":"pool"}').hexdigest()[:20]
    monkeypatch.setitem(versions.STAGES, "pool", 2)
    assert stage().key != first.key
    assert dict(stage().inputs) == {"n": 1, "stage_version": 2}
