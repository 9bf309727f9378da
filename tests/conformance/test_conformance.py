"""Every built-in passes the conformance kit."""

from importlib.util import find_spec

import pytest
from corpora.conformance_specs import DATA, VARIANTS
from support.selector_pools import orders_of_each

from harness import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.testing import checks, findings, selector_checks
from harness.testing.checking import called_elsewhere

REGISTRY = load_registry()


def names(kind: str) -> list[str]:
    return [registration.name for registration in REGISTRY.of_kind(kind)]


def built(kind: str, spec: str, **context):
    if spec == "kmedoids" and find_spec("kmedoids") is None:
        pytest.skip("needs the package kmedoids")
    return build(REGISTRY, kind, spec, **context)


def failures(kind: str, spec: str, **context) -> list[str]:
    """What the checks that fail say."""
    return [row["what"] for row in findings(kind, built(kind, spec, **context)) if row["outcome"] == "failed"]


@pytest.mark.parametrize("spec", sorted({*names("selector")} - {"rnd"}))
def test_every_selector_passes_all_checks_in_this_process(spec, monkeypatch):
    for name, value in {"BUDGET_N": 256, "MEMORY_BYTES": 24 * 2**20, "SAMPLES": 60}.items():
        monkeypatch.setattr(selector_checks, name, value)
    selector = built("selector", spec)
    found = [each.finding(selector) for each in checks("selector") if each.name != "same-in-another-process"]
    assert [finding["what"] for finding in found if finding["outcome"] == "failed"] == []


def test_another_process_gives_every_selector_the_same_orders():
    registered = set(names("selector")) - {"rnd"} - ({"kmedoids"} if find_spec("kmedoids") is None else set())
    selectors = [built("selector", spec) for spec in [*sorted(registered), *VARIANTS]]
    elsewhere = called_elsewhere(orders_of_each, selectors)
    here = orders_of_each(selectors)
    assert [selector for selector, a, b in zip(selectors, here, elsewhere, strict=True) if a != b] == []


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*sorted({*names("selector")} - {"rnd"}), "rnd:steps=2", *VARIANTS])
def test_every_selector_passes_the_whole_kit_as_a_third_partys_does(spec):
    assert failures("selector", spec) == []


def test_every_sampler_conforms():
    specs = [*names("sampler"), "min-p:p=0.1", "vanilla:temperature=0.7,top_k=50"]
    assert {spec: failures("sampler", spec) for spec in specs} == {spec: [] for spec in specs}


# esmc and esm3 take proteins alone, morgan and rdkit-descriptors molecules, of which the kit's texts and prompts are
# none: their own tests have what they take.
@pytest.mark.parametrize(
    "spec",
    [
        *sorted(set(names("embedder")) - {"esmc", "morgan", "rdkit-descriptors", "sentence", "tfidf"}),
        "random-features:dim=7",
    ],
)
def test_every_embedder_conforms(spec):
    assert failures("embedder", spec) == []


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["sentence", "tfidf", "tfidf:ngrams=1", "random-features:dim=7,seed=3"])
def test_embedders_that_take_longer_conform(spec):
    if spec == "sentence":
        pytest.importorskip("sentence_transformers")
        try:
            _ = built("embedder", spec)._encoder
        except HarnessError as refusal:
            pytest.skip(str(refusal))
    assert failures("embedder", spec) == []


# own has no problems without a file: its tests are in tests/unit/tasks/test_own.py.
@pytest.mark.parametrize("name", [name for name in names("task") if name not in {*DATA, "own"}])
def test_every_task_without_outside_data_conforms(name):
    assert failures("task", name, data=None) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in names("task") if name in DATA])
def test_every_task_with_outside_data_conforms(name, shared_data):
    rows = list(findings("task", built("task", name, data=str(shared_data / "tasks" / DATA[name]))))
    assert [row["what"] for row in rows if row["outcome"] == "failed"] == []
    assert "reference-is-correct" in [row["check"] for row in rows if row["outcome"] == "passed"]


# The others have tests of their own: of a server, of vLLM's environment, of proteins.
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(names("engine")) - {"esm3", "openai", "vllm"}))
def test_every_engine_conforms_on_the_embedded_model(name):
    rows = list(findings("engine", built("engine", name, model="tiny24")))
    assert [row["what"] for row in rows if row["outcome"] == "failed"] == []
    assert "hidden-states" in [row["check"] for row in rows if row["outcome"] == "passed"]
