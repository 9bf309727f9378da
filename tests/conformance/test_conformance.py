"""The conformance kit: every built-in passes it, and each broken plugin is caught by the check that should."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from importlib.util import find_spec

import numpy as np
import pytest
from support.broken_plugins import BY_KIND, Lamps, Sound, SoundEngine, SoundOnVectors
from support.paths import ROOT, SUPPORT
from support.processes import printed_by, run_to_end
from support.toy import Letters, Measured

from harness import HarnessError, Sampler
from harness.plugin_system.component import build, parse_spec
from harness.plugin_system.registry import load_registry
from harness.testing import (
    KINDS,
    ConformanceError,
    Inapplicable,
    checks,
    examples,
    findings,
    global_rngs,
    selector_checks,
)

BROKEN = SUPPORT / "broken_plugins.py"
REGISTRY = load_registry()
DATA = {
    "mbppplus": "MbppPlus-v0.2.0.jsonl.gz",
    "humanevalplus": "HumanEvalPlus-v0.1.10.jsonl.gz",
    "math": "math500.jsonl",
    "math500": "math500.jsonl",
    "gsm8k": "gsm8k_test.jsonl",
    "aime24": "aime24_qwq.jsonl",
    "aime25": "aime25_qwq.jsonl",
    "dapo-math": "dapo-math-17k.parquet",
    "dapo-aime": "aime25_qwq.jsonl",
}
EXTRAS = {"kmedoids": "kmedoids", "sentence": "sentence_transformers"}
QUICK = {"rnd": "rnd:steps=2"}  # an eighth of the training: the kit ranks some 1,500 pools
VARIANTS = ["repexp:first=max", "kcenter:first=max", "dpp-map:kernel=cosine", "dpp-map:first=max", "k-dpp:kernel=rbf"]
VARIANTS += ["facility-location:similarity=rbf", "facility-location:similarity=euclidean", "length:first=long"]
VARIANTS += ["answer-round-robin:order=random,unanswered=cluster", "dedup:by=answer", "ngram-coverage:weights=idf"]
VARIANTS += ["ngram-coverage:unit=character,ngrams=3", "outcome-ucb:bonus=batch,value=none", "logprob:per=token"]
VARIANTS += ["mmr:alpha=0.1,quality=logprob", "k-dpp:kernel=linear", "repexp:lam=0.01", "unlikely:per=token"]


def names(kind: str) -> list[str]:
    return [registration.name for registration in REGISTRY.of_kind(kind)]


def built(kind: str, spec: str, **context):
    name = parse_spec(spec).name
    if name in EXTRAS and find_spec(EXTRAS[name]) is None:
        pytest.skip(f"{name} needs {EXTRAS[name]}")
    return build(REGISTRY, kind, QUICK.get(spec, spec), **context)


def outcomes(kind: str, component) -> dict[str, list[str]]:
    """Outcome -> the checks that had it."""
    found: dict[str, list[str]] = {"passed": [], "failed": [], "not applicable": []}
    for finding in findings(kind, component):
        found[finding["outcome"]].append(finding["check"])
    return found


def failures(kind: str, component) -> list[str]:
    """What the checks that fail say."""
    return [finding["what"] for finding in findings(kind, component) if finding["outcome"] == "failed"]


def tried(name: str, selector) -> None:
    """Call one of a selector's checks, which must apply: what does not would show as a skip of the test."""
    try:
        next(check for check in checks("selector") if check.name == name)(selector)
    except Inapplicable as why:
        raise RuntimeError(f"{name} does not apply: {why}") from why


def broken_selector(name: str):
    """The broken selector of that name."""
    return next(factory for factory in BY_KIND["selector"] if factory.__name__ == name)()


# Every built-in conforms


@pytest.mark.parametrize(
    "spec",
    [pytest.param(spec, marks=[pytest.mark.slow] if spec in QUICK else []) for spec in [*names("selector"), *VARIANTS]],
)
def test_every_selector_conforms(spec):
    assert failures("selector", built("selector", spec)) == []


def test_equivariance_is_not_asked_of_a_selector_that_says_it_goes_by_the_order():
    found = outcomes("selector", built("selector", "in-order"))
    assert "permutation-equivariant" in found["not applicable"]
    assert "reads-what-it-says" in found["passed"]


@pytest.mark.parametrize("spec", [*names("sampler"), "min-p:p=0.1", "vanilla:temperature=0.7,top_k=50"])
def test_every_sampler_conforms(spec):
    assert failures("sampler", built("sampler", spec)) == []


# esmc and esm3 take proteins alone, of which the kit's texts and prompts are none: test_proteins.py has what they take.
@pytest.mark.parametrize(
    "spec", [*sorted(set(names("embedder")) - {"esmc"}), "tfidf:ngrams=1", "random-features:dim=7,seed=3"]
)
def test_every_embedder_conforms(spec):
    embedder = built("embedder", spec)
    if parse_spec(spec).name == "sentence":
        try:
            _ = embedder._encoder
        except HarnessError as refusal:
            pytest.skip(str(refusal))
    assert failures("embedder", embedder) == []


@pytest.mark.parametrize("name", [name for name in names("task") if name not in DATA])
def test_every_task_without_outside_data_conforms(name):
    assert failures("task", built("task", name, data=None)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in names("task") if name in DATA])
def test_every_task_with_outside_data_conforms(name, shared_data):
    task = built("task", name, data=str(shared_data / "tasks" / DATA[name]))
    found = outcomes("task", task)
    assert found["failed"] == []
    assert "reference-is-correct" in found["passed"]


# The others have tests of their own: of a server, of vLLM's environment, of proteins.
@pytest.mark.parametrize("name", sorted(set(names("engine")) - {"esm3", "openai", "vllm"}))
def test_every_engine_conforms_on_the_embedded_model(name):
    found = outcomes("engine", built("engine", name, model="tiny24"))
    assert found["failed"] == []
    assert "encode-equals-sample" in found["passed"]


# Each broken plugin is caught, by the check that should and by no other


def test_there_are_enough_broken_plugins_for_every_check():
    caught = {kind: set().union(*(factory.CAUGHT_BY for factory in BY_KIND[kind])) for kind in KINDS}
    assert len(BY_KIND["selector"]) >= 20
    for kind in KINDS:
        assert caught[kind] <= {check.name for check in checks(kind)}
    assert caught["selector"] == {check.name for check in checks("selector")}
    for kind in ("task", "embedder", "engine", "sampler"):
        by_all_kinds = {"parameters-round-trip", "picklable"}
        assert caught[kind] | by_all_kinds == {check.name for check in checks(kind)} | by_all_kinds


@pytest.mark.parametrize(
    ("kind", "factory"),
    [(kind, factory) for kind in KINDS for factory in BY_KIND[kind]],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_plugin_is_caught_in_one_line_by_the_check_that_should_and_by_no_other(kind, factory, monkeypatch):
    if "time-budget" in factory.CAUGHT_BY:
        monkeypatch.setattr(selector_checks, "TIME_S", 1.0)
    failed = {row["check"]: row["what"] for row in findings(kind, factory()) if row["outcome"] == "failed"}
    assert set(failed) == factory.CAUGHT_BY
    for check in checks(kind):
        said = failed.get(check.name)
        if said is not None:
            assert said.startswith(f"{check}: {factory.__name__}")
            assert said.endswith(f"; {check.remedy}")
            assert "\n" not in said
            assert len(said) < 500


@pytest.mark.parametrize(
    ("kind", "factory"),
    [
        ("selector", Sound),
        ("selector", SoundOnVectors),
        ("task", Lamps),
        ("sampler", Sampler),
        ("embedder", Letters),
        ("engine", SoundEngine),
    ],
)
def test_what_the_broken_ones_are_made_from_conforms(kind, factory):
    assert failures(kind, factory()) == []


# What a failure says


def test_a_failure_is_an_assertion_that_shows_what_was_found():
    with pytest.raises(AssertionError, match="complete: AllButOne: 23 picks from a pool of 24, where 24 are wanted; "):
        tried("complete", broken_selector("AllButOne"))


def test_an_exception_of_the_component_is_named_with_its_line():
    message = r"contract: OffByOne: raised IndexError: .* \(broken_plugins.py:\d+\); "
    with pytest.raises(ConformanceError, match=message):
        tried("contract", broken_selector("OffByOne"))


def test_a_task_that_measures_is_told_what_it_lacks_to_be_judged():
    contract = checks("task")[0]
    contract(Measured())
    unjudged = next(factory for factory in BY_KIND["task"] if factory.__name__ == "Unjudged")
    with pytest.raises(ConformanceError, match="contract: Unjudged: it has measurer and no judge, so nothing would be"):
        contract(unjudged())


def test_one_mistake_is_reported_once_and_the_checks_that_presume_it_say_where_to_begin():
    found = list(findings("selector", broken_selector("WithReplacement")))
    waiting = [finding["what"] for finding in found if finding["outcome"] == "not applicable"]
    assert len(waiting) > 15
    assert set(waiting) == {"first fix what distinct-indices finds"}


def test_a_component_is_judged_anew_when_its_state_is_another():
    class Fickle(Sound):
        bad = False

        def rank(self, pool, rng):
            yield from [0] * len(pool) if self.bad else rng.permutation(len(pool)).tolist()

    fickle = Fickle()
    tried("one-response", fickle)
    fickle.bad = True
    with pytest.raises(RuntimeError, match="first fix what distinct-indices finds"):
        tried("one-response", fickle)


def test_checks_have_distinct_kebab_names_and_a_summary_in_the_document():
    text = (ROOT / "docs" / "conformance.md").read_text()
    for kind in KINDS:
        found = checks(kind)
        assert len({check.name for check in found}) == len(found)
        for check in found:
            assert str(check) == check.name == check.name.lower().replace("_", "-")
            assert f"| `{check.name}` | {check.summary} |" in text


def test_a_kind_without_checks_is_one_clear_line():
    assert checks("selectors") == checks("selector")
    with pytest.raises(HarnessError, match=r"no checks for kind 'sampling' \(did you mean 'sampler'\?"):
        checks("sampling")


def test_the_selector_of_contributing_passes_untouched(harness, tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (tmp_path / "farthest.py").write_text(re.search(r"```python\n(.*?)```", text, re.DOTALL)[1])
    outcome = harness("check", "selector", "farthest", "--plugin", tmp_path / "farthest.py", "--json")
    assert [row["what"] for row in outcome.rows if row["outcome"] == "failed"] == []
    assert outcome.code == 0
    outcome = harness("check", "selector", "farthest", "--plugin", tmp_path / "farthest.py")
    assert f"{len(checks('selector')) - 4} passed, 0 failed, 4 not applicable" in outcome.out


# What the kit leaves behind, and what it asks for


def test_the_kit_loads_neither_a_test_framework_nor_torch():
    modules = [f"harness.testing.{path.stem}" for path in (ROOT / "harness" / "testing").glob("*.py")]
    code = f"import sys, importlib\nfor name in {modules!r}: importlib.import_module(name.removesuffix('.__init__'))\n"
    code += "from harness.testing import checks; [checks(kind) for kind in ('selector', 'engine', 'task')]\n"
    code += "print(sorted({'pytest', 'hypothesis', 'torch', 'transformers', 'sklearn'} & set(sys.modules)))"
    code += "\nprint(any(name.startswith('harness_') for name in sys.modules))"
    assert printed_by(code).split("\n")[:2] == ["[]", "False"]


def test_the_kit_leaves_the_global_generators_as_they_were():
    random.seed(5)
    np.random.seed(5)
    before = global_rngs.states()
    assert failures("selector", Sound()) == []
    assert global_rngs.states() == before
    with pytest.raises(ConformanceError):
        tried("global-rngs-untouched", broken_selector("Reseeding"))
    assert global_rngs.states() == before


def test_pytest_shows_what_does_not_apply_as_a_skip_and_what_fails_as_a_failure(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "import pytest\n"
        "from harness.testing import checks\n\n"
        "class Head:\n"
        "    needs = ()\n"
        "    def select(self, pool, k, rng):\n"
        "        return range(k)\n\n"
        "@pytest.mark.parametrize('check', checks('selector'), ids=str)\n"
        "def test_it_conforms(check):\n"
        "    check(Head())\n"
    )
    command = [sys.executable, "-m", "pytest", "-rsf", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path]
    done = run_to_end(command, cwd=tmp_path)
    assert done.returncode == 1
    assert "FAILED test_mine.py::test_it_conforms[permutation-equivariant]" in done.stdout
    assert "a subset method has no prefixes" in done.stdout
    assert f" 1 failed, {len(checks('selector')) - 5} passed, 4 skipped in " in done.stdout


# The two pools on which order must not depend on place


def test_without_ties_nothing_ties():
    pool = examples.without_ties()
    n = len(pool)
    distances = np.linalg.norm(pool.embeddings[:, None] - pool.embeddings[None], axis=2)[np.triu_indices(n, 1)]
    for column in (pool.texts, pool.answers, pool.logprobs, pool.lengths, pool.logprobs / pool.lengths, distances):
        assert len(set(np.asarray(column).tolist())) == len(column)
    assert sorted(examples.DISTINCT_MOVED) == list(range(n))


def test_copies_are_equal_in_every_column_and_their_permutation_changes_every_part():
    pool, kind = examples.with_copies()
    for a in range(len(pool)):
        for b in range(len(pool)):
            same = pool.texts[a] == pool.texts[b] and (pool.embeddings[a] == pool.embeddings[b]).all()
            assert same == (kind[a] == kind[b])
    assert sorted(np.bincount(kind)) == [1, 2, 4]
    moved = kind[list(examples.COPIES_MOVED)]
    for part in (slice(0, 1), slice(0, 3), slice(0, 4), slice(3, 4), slice(4, 7), slice(6, 7), slice(0, 7, 2)):
        assert sorted(kind[part]) != sorted(moved[part])


@pytest.mark.parametrize("bias", [0.0, 0.35])
def test_a_random_ranker_is_judged_by_the_distribution_of_its_picks(bias):
    class Biased(Sound):
        def rank(self, pool, rng):
            order = rng.permutation(len(pool))
            at = int(np.flatnonzero(order == 0)[0])
            if rng.random() < bias:
                order[[0, at]] = order[[at, 0]]
            yield from order.tolist()

    if bias:
        with pytest.raises(ConformanceError, match="changes the distribution of the pick number 1"):
            tried("permutation-equivariant", Biased())
    else:
        tried("permutation-equivariant", Biased())


def test_a_deterministic_ranker_may_break_ties_by_the_lowest_index():
    class ByCluster(Sound):
        """Clusters of answers by size, ties to the first to come; within one as they come."""

        def rank(self, pool, rng):
            size = Counter(pool.answers)
            yield from sorted(range(len(pool)), key=lambda i: (-size[pool.answers[i]], i))

    tried("permutation-equivariant", ByCluster())


# The command


def test_the_command_shows_every_check_and_exits_0_where_all_pass(harness):
    outcome = harness("check", "selector", "kcenter:first=max", "--json")
    assert outcome.code == 0, outcome.err
    assert [row["check"] for row in outcome.rows] == [check.name for check in checks("selector")]
    assert {row["outcome"] for row in outcome.rows} == {"passed", "not applicable"}
    assert {(row["kind"], row["name"]) for row in outcome.rows} == {("selector", "kcenter:first=max")}
    table = harness("check", "selectors", "uniform")
    assert table.code == 0
    assert "permutation-equivariant" in table.out
    assert " 0 failed, " in table.out


def test_the_command_exits_1_and_names_what_failed(harness):
    outcome = harness("check", "selector", "hashed", "--plugin", BROKEN, "--json")
    assert outcome.code == 1
    failed = [row for row in outcome.rows if row["outcome"] == "failed"]
    assert [row["check"] for row in failed] == ["same-in-another-process"]
    assert failed[0]["what"].startswith("same-in-another-process: Hashed: another process gives [")
    assert harness("check", "selector", "sound", "--plugin", BROKEN).code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("selector", "repex"), "unknown selector 'repex' (did you mean 'repexp'?"),
        (("executor", "local"), "no checks for kind 'executor'"),
        (("selector", "repexp:lamda=1"), "repexp: no parameter 'lamda' (did you mean 'lam'?"),
        (("task", "game24", "--data", "no-such-file.csv"), "game24: cannot read 'no-such-file.csv'"),
        (("engine", "transformers", "--model", "./no-such-folder"), "does not exist"),
    ],
)
def test_what_cannot_be_tried_is_one_line_and_exit_code_2(harness, args, said):
    outcome = harness("check", *args)
    assert outcome.code == 2
    assert said in outcome.err
    assert outcome.err.strip().count("\n") == 0
    assert outcome.out == ""


def test_all_of_a_kind_are_checked_and_one_that_cannot_be_tried_does_not_stop_the_others(harness):
    outcome = harness("check", "sampler", "*", "--json")
    assert outcome.code == 0
    assert {row["name"] for row in outcome.rows} == {f"diversity-harness/{name}" for name in names("sampler")}
    outcome = harness("check", "task", "*", "--data", "no-such-file.csv", "--json")
    assert outcome.code == 0
    game24 = [row for row in outcome.rows if row["name"] == "diversity-harness/game24"]
    assert game24[-1]["outcome"] == "not applicable"
    assert "cannot read" in game24[-1]["what"]


def test_an_engine_is_tried_on_the_embedded_model_by_default(harness):
    outcome = harness("check", "engine", "transformers", "--json")
    assert outcome.code == 0, outcome.err
    assert {row["check"]: row["outcome"] for row in outcome.rows}["encode-equals-sample"] == "passed"
