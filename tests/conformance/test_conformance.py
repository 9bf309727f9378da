"""Every built-in passes the conformance kit."""

from importlib.util import find_spec

import pytest
from support.selector_pools import orders_of_each

from harness import HarnessError
from harness.plugin_system.component import build
from harness.plugin_system.registry import load_registry
from harness.testing import checks, findings, selector_checks
from harness.testing.checking import called_elsewhere

REGISTRY = load_registry()
DATA = {
    "mbppplus": "MbppPlus-v0.2.0.jsonl.gz", "humanevalplus": "HumanEvalPlus-v0.1.10.jsonl.gz", "math": "math500.jsonl",
    "math500": "math500.jsonl", "gsm8k": "gsm8k_test.jsonl", "aime24": "aime24_qwq.jsonl",
    "aime25": "aime25_qwq.jsonl", "dapo-math": "dapo-math-17k.parquet", "dapo-aime": "aime25_qwq.jsonl",
}  # fmt: skip
VARIANTS = ["repexp:first=max", "kcenter:first=max", "dpp-map:kernel=cosine", "dpp-map:first=max", "k-dpp:kernel=rbf"]
VARIANTS += ["facility-location:similarity=rbf", "facility-location:similarity=euclidean", "length:first=long"]
VARIANTS += ["answer-round-robin:order=random,unanswered=cluster", "dedup:by=answer", "ngram-coverage:weights=idf"]
VARIANTS += ["ngram-coverage:unit=character,ngrams=3", "outcome-ucb:bonus=batch,value=none", "logprob:per=token"]
VARIANTS += ["mmr:alpha=0.1,quality=logprob", "k-dpp:kernel=linear", "repexp:lam=0.01", "unlikely:per=token"]
VARIANTS += ["score:by=mean-logprob", "score-dpp:by=logprob,theta=0.1", "majority:turns=true,weight=score,by=logprob"]


def names(kind: str, *without: str) -> list[str]:
    return sorted({registration.name for registration in REGISTRY.of_kind(kind)} - set(without))


SELECTORS = names("selector", "rnd", *["kmedoids"] * (find_spec("kmedoids") is None))


def failures(kind: str, spec: str, applied: str = "", **context) -> list[str]:
    """What the checks that fail say; the check `applied` must apply."""
    rows = list(findings(kind, build(REGISTRY, kind, spec, **context)))
    assert not applied or applied in [row["check"] for row in rows if row["outcome"] == "passed"]
    return [row["what"] for row in rows if row["outcome"] == "failed"]


@pytest.mark.parametrize("spec", SELECTORS)
def test_every_selector_passes_all_checks_in_this_process(spec, monkeypatch):
    for name, value in {"BUDGET_N": 128, "MEMORY_BYTES": 12 * 2**20, "SAMPLES": 60}.items():
        monkeypatch.setattr(selector_checks, name, value)
    selector = build(REGISTRY, "selector", spec)
    found = [each.finding(selector) for each in checks("selector") if each.name != "same-in-another-process"]
    assert [finding["what"] for finding in found if finding["outcome"] == "failed"] == []


def test_another_process_gives_every_selector_the_same_orders():
    selectors = [build(REGISTRY, "selector", spec) for spec in [*SELECTORS, *VARIANTS]]
    both = zip(selectors, orders_of_each(selectors), called_elsewhere(orders_of_each, selectors), strict=True)
    assert [selector for selector, here, there in both if here != there] == []


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*SELECTORS, "rnd:steps=2", *VARIANTS])
def test_every_selector_passes_the_whole_kit_as_a_third_partys_does(spec):
    assert failures("selector", spec) == []


# Others have tests of their own: esmc and esm3 take proteins alone, morgan and rdkit-descriptors molecules, own has no
# problems without a file, openai and vllm need a server and an environment.
QUICK = [("sampler", spec) for spec in [*names("sampler"), "min-p:p=0.1", "vanilla:temperature=0.7,top_k=50"]]
QUICK += [("embedder", s) for s in names("embedder", "esmc", "morgan", "rdkit-descriptors", "sentence", "tfidf")]
QUICK += [("embedder", "random-features:dim=7"), *(("task", name) for name in names("task", *DATA, "own"))]


@pytest.mark.parametrize(("kind", "spec"), QUICK)
def test_every_sampler_embedder_and_task_without_outside_data_conforms(kind, spec):
    assert failures(kind, spec, **{"data": None} if kind == "task" else {}) == []


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["sentence", "tfidf", "tfidf:ngrams=1"])
def test_embedders_that_take_longer_conform(spec):
    if spec == "sentence":
        pytest.importorskip("sentence_transformers")
        try:
            _ = build(REGISTRY, "embedder", spec)._encoder
        except HarnessError as refusal:
            pytest.skip(str(refusal))
    assert failures("embedder", spec) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in names("task") if name in DATA])
def test_every_task_with_outside_data_conforms(name, shared_data):
    assert failures("task", name, "reference-is-correct", data=str(shared_data / "tasks" / DATA[name])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", names("engine", "esm3", "openai", "vllm"))
def test_every_engine_conforms_on_the_embedded_model(name):
    assert failures("engine", name, "hidden-states", model="tiny24") == []
