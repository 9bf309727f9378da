"""`harness.select`: vectors, texts and files from Python; the same picks as the command line's, faults in one line."""

import json

import numpy as np
import pytest
from scipy import sparse
from support.choosing import of_duplicates
from support.json_lines import write_json_lines
from support.notebooks import session
from support.processes import printed_by
from support.refusals import refusal_of

import harness as package
from harness import select

H = of_duplicates(30, 6, 1)
TEXTS = ["red apple", "green pear", "red apples", "blue sky"]


@pytest.fixture
def picks(harness, tmp_path):
    """What `harness select` picks: problem id -> indices."""

    def call(*options):
        rows = harness("select", *options, "--store", tmp_path / "runs", "--json").rows
        return {row["problem_id"]: row["order"] for row in rows}

    return call


def plain(chosen):
    return {name: indices.tolist() for name, indices in chosen.items()}


@pytest.mark.slow
def test_vectors_in_memory_are_chosen_from_as_those_of_a_file(picks, tmp_path):
    np.savez(tmp_path / "E.npz", problem=H, b=H[:9])
    lines = [{"problem_id": "problem", "indices": [3, 4]}, {"problem_id": "b", "indices": [0]}]
    done = write_json_lines(tmp_path / "done.jsonl", lines)
    for selector, more, options in (
        ("repexp:lam=0.5", {}, ()),
        ("kmeans-pp", {"seed": 4, "dim": 3}, ("--seed", 4, "--dim", 3)),
        ("repexp", {"centre": False}, ("--no-centre",)),
    ):
        expected = picks("--embeddings", tmp_path / "E.npz", "--selector", selector, "-k", 5, *options)
        assert plain(select({"problem": H, "b": H[:9]}, selector, 5, **more)) == expected
        assert select(H.astype(np.float64), selector, 5, **more).tolist() == expected["problem"]
        assert plain(select(tmp_path / "E.npz", selector, 5, **more)) == expected
    after = picks("--embeddings", tmp_path / "E.npz", "--selector", "repexp", "-k", 5, "--verified", done)
    verified = {"problem": np.array([3, 4]), "b": (0,)}
    assert plain(select({"problem": H, "b": H[:9]}, k=5, verified=verified)) == after
    assert plain(select(str(tmp_path / "E.npz"), k=5, verified=verified)) == after
    assert plain(select(tmp_path / "E.npz", k=5, verified=done)) == after
    for batches in ([3, 4], [np.array([3]), [4]]):
        assert select(H, k=5, verified=batches).tolist() == after["problem"]


def test_texts_in_memory_are_chosen_from_as_those_of_a_pool(picks, tmp_path, capfd):
    pool = write_json_lines(tmp_path / "p.jsonl", [{"problem_id": "problem", "responses": TEXTS}])
    expected = picks("--pool", pool, "--selector", "repexp", "-k", 3)
    capfd.readouterr()
    assert plain(select(pool, k=3, quiet=True)) == plain(select({"problem": TEXTS}, k=3, quiet=True)) == expected
    assert capfd.readouterr() == ("", "")
    chosen = select(np.array(TEXTS), k=3)
    assert (chosen.tolist(), chosen.dtype) == (expected["problem"], np.intp)
    assert "embedder: tfidf" in capfd.readouterr().err
    assert select(TEXTS, "length", 2).tolist() == picks("--pool", pool, "--selector", "length", "-k", 2)["problem"]


def test_ids_are_the_callers_own_and_numbers_of_any_kind_are_vectors():
    chosen = select({7: [[1, 2], [3, 4], [9, 9]], (1, 2): H.tolist()}, k=2)
    assert list(chosen) == [7, (1, 2)]
    assert {len(indices) for indices in chosen.values()} == {2}
    assert select(H, k=29, verified={7}).tolist() == select(H, k=29, verified=np.int64([7])).tolist()


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix, sparse.lil_array])
@pytest.mark.parametrize("width", [6, 600])  # wider than `dim`, they are projected
def test_a_sparse_matrix_gives_the_picks_of_its_dense_form(kind, width):
    dense = np.random.default_rng(0).normal(size=(30, width)) * (np.random.default_rng(1).random((30, width)) < 0.2)
    for selector in ("repexp", "facility-location"):
        expected = select(dense, selector, 8, quiet=True)
        assert (select(kind(dense), selector, 8, quiet=True) == expected).all()
        both = select({"a": kind(dense), "b": dense}, selector, 8, quiet=True)
        assert (both["a"] == select({"a": dense}, selector, 8, quiet=True)["a"]).all()


def test_a_loop_verifies_the_picks_of_a_sparse_matrix(tmp_path):
    outcome = package.verify(
        sparse.csr_matrix(H), lambda problem, index, text: index == 7, "in-order", budget=9, quiet=True,
        journal=tmp_path / "journal.jsonl",
    )  # fmt: skip
    assert (outcome["solved"], outcome["calls"]) == (1, 8)


def test_a_sparse_matrix_that_is_none_of_vectors_is_one_line():
    spoilt = sparse.csr_matrix(H)
    spoilt[3, 1] = np.nan
    huge = sparse.csr_matrix(H) * 1e16
    for source, line in (
        (spoilt, "must hold finite numbers up to 1e+15, got nan in 1 of 30 rows, row 3 the first"),
        (huge, "must hold finite numbers up to 1e+15, got "),
        (sparse.csr_matrix((30, 2), dtype=complex), "must hold numbers, got complex128"),
        (sparse.coo_array(H[0]), "expected (n, d): one row a response"),
    ):
        assert line in refusal_of(select, source, "repexp", 2, quiet=True)


def test_an_object_of_the_callers_selects():
    far = session(
        "class Far:\n    def rank(self, pool, rng):\n        yield from (pool.embeddings**2).sum(1).argsort()"
    )["Far"]
    centred = H - H.mean(axis=0)
    expected = (centred**2).sum(1).argsort()[:4].tolist()
    assert select(H, far, 4).tolist() == select(H, far(), 4).tolist() == expected
    exec("class Near:\n    rank = lambda self, pool, rng: iter(range(9))", namespace := {"__name__": "__main__"})
    near = namespace["Near"]()
    near.model = object()  # no key could be made of it, and none is needed
    assert select(H, near, 2).tolist() == [0, 1]
    head = session("class Head:\n    def select(self, pool, k, rng):\n        return range(k)")["Head"]
    assert select({"a": H}, head(), 3)["a"].tolist() == [0, 1, 2]


FAULTS = [
    ((H,), {"k": 31}, "select: problem 'problem' has 30 responses: -k 31 is more"),
    ((H,), {"k": "3"}, "select: k must be a valid integer, got '3'"),
    ((H,), {"kk": 3}, "select: no option 'kk' (did you mean 'k'? options: centre, data, "),
    ((H[0],), {}, "embeddings vectors: 'problem' has shape (6,), expected (n, d): one row a response"),
    ((H * np.nan,), {}, "embeddings vectors: 'problem' must hold finite numbers"),
    (([[1], [2, 3]],), {}, "embeddings vectors: 'problem' cannot be read ("),
    (([["a"], ["b"]],), {}, "embeddings vectors: 'problem' must hold numbers, got <U1"),
    (({},), {}, "select: no problems are given"),
    (({1: H, "1": H},), {}, "select: two problems have one id"),
    ((H, "repxep"), {}, "unknown selector 'repxep' (did you mean 'repexp'?"),
    ((H, 3), {}, "a selector is a spec such as 'repexp:lam=0.1', or an object with rank(pool, rng), got 3"),
    ((H,), {"embedder": "tfidf"}, "select: give --embeddings or --embedder, not both"),
    ((H, "dedup"), {"k": 1}, "selector 'dedup' reads texts: give --pool beside --embeddings"),
    ((TEXTS,), {"k": 1, "model": "tiny24"}, "select: --task, --model and --scorer go with a pool file"),
    (
        (TEXTS,),
        {"k": 1, "embedder": "hidden-mean"},
        "embedder 'hidden-mean' takes a model's hidden states: say which --model",
    ),
    (
        (TEXTS,),
        {"k": 1, "verified": [4]},
        "verified (problem): indices must be whole numbers from 0 to 3, each once, got 4",
    ),
    ((None,), {}, "embeddings vectors: 'problem' must hold numbers, got object"),
    (
        (TEXTS,),
        {"k": 1, "verified": [0.5]},
        "verified (problem): indices must be whole numbers from 0 to 3, each once, got 0.5",
    ),
    (({"a": TEXTS},), {"k": 1, "verified": [1]}, "select: verified must be a mapping of problem ids to indices"),
    (({"a": TEXTS},), {"k": 1, "verified": {"b": [1]}}, "verified: problem 'b' is none of the 1 of the pool"),
    (("none.jsonl",), {}, "pool none.jsonl: no such file"),
]


def test_a_fault_is_one_line():
    said = {
        json.dumps([start, *map(str, options)]): refusal_of(select, *given, **options)
        for given, options, start in FAULTS
    }
    unexpected = {key: line for key, line in said.items() if not line.startswith(json.loads(key)[0])}
    assert unexpected == {}
    assert len(said) == len(FAULTS)


def test_a_notebook_shows_an_error_as_one_line():
    with pytest.raises(package.HarnessError) as caught:
        select(H, k=31)
    assert caught.value._render_traceback_() == [f"HarnessError: {caught.value}"]


def test_import_harness_loads_the_door_only_when_it_is_used():
    code = "import sys, harness\nprint('harness.api' in sys.modules, 'pydantic' in sys.modules)\n"
    code += "print({'run', 'select', 'read_results', 'Pool'} <= set(dir(harness)), hasattr(harness, 'rum'))\n"
    code += "harness.run, harness.select, harness.read_results\n"
    code += "print({'torch', 'transformers', 'pandas', 'matplotlib', 'datasets', 'harness_plugins'} & set(sys.modules))"
    first, second, third = printed_by(code).splitlines()
    assert (first, second, third) == ("False False", "True False", "set()")
