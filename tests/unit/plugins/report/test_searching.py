"""The page of a search: what was found by call, against what is known of chance, with a map and names."""

import itertools
import json
import math

import numpy as np
import pytest
from support.json_lines import write_json_lines
from support.refusals import refusal_of
from support.report_page import parsed

import harness as package
from harness.system.progress import Progress
from harness_plugins.report.searching import chance, write_search

H = np.random.default_rng(0).normal(size=(40, 6))
NAMES = [f"CHEMBL{row}" for row in range(39)] + ["</script><b>"]


@pytest.fixture
def searched(tmp_path, monkeypatch):
    """A search of 12 candidates of plate.npz: every third was a hit, one failed, and two are out."""
    monkeypatch.chdir(tmp_path)
    np.savez("plate.npz", plate=H, names=NAMES)
    search = package.search(H, names=NAMES, journal="plate.jsonl", quiet=True)
    asked = search.ask(12)
    for place, name in enumerate(reversed(asked[:10])):  # hits come back in any order
        search.tell(name, "error" if name == asked[4] else (9 - place) % 3 == 0)
    return asked


def written(journal, out=None, rate=None, **options):
    return write_search(journal, out, Progress(quiet=True), rate, **options)


def view_of(page):
    return parsed(page)[0]["views"][0]


def test_the_page_has_hits_in_the_order_asked_for_a_map_names_and_what_is_out(tmp_path, searched):
    journal, embeddings = tmp_path / "plate.jsonl", tmp_path / "plate.npz"
    page = written(journal, embeddings=embeddings)
    view, again = view_of(page), page.read_bytes()
    assert [row["name"] for row in view["rows"]] == searched
    outcomes = ["hit", "miss", "miss", "hit", "error", "miss", "hit", "miss", "miss", "hit", "open", "open"]
    assert [row["outcome"] for row in view["rows"]] == outcomes
    assert view["found"] == [1, 1, 1, 2, 2, 3, 3, 3, 4]
    assert (view["n"], view["at"], view["names"][:-1]) == (40, list(range(40)), NAMES[:-1])
    assert [view["verdict"][NAMES.index(name)] for name in searched[:5]] == ["c", "w", "w", "c", "e"]
    sizes = [size for _, size in view["answers"]]
    assert (sum(sizes), sizes) == (40, sorted(sizes, reverse=True))
    assert written(journal, embeddings=embeddings).read_bytes() == again


def by_enumeration(n, c, t):
    """The mean and the two 2.5 % quantiles of the hits among the first t of a random order."""
    hits = sorted(sum(place < c for place in chosen) for chosen in itertools.combinations(range(n), t))
    ends = (next(h for h in range(n + 1) if sum(x <= h for x in hits) >= q * len(hits)) for q in (0.025, 0.975))
    return sum(hits) / len(hits), *ends


def test_chance_is_the_exact_band_of_known_verdicts_a_binomial_one_of_a_rate_else_whether_hits_came_early():
    correct = [True] * 3 + [False] * 7
    told = chance([True, False, True, False, False], correct, rate=0.5)  # verdicts count more than a word
    for t in range(6):
        expected = by_enumeration(10, 3, t)
        assert [told["chance"][name][t] for name in ("mean", "low", "high")] == pytest.approx(list(expected)), t
    as_many = sum(math.comb(3, h) * math.comb(7, 5 - h) for h in (2, 3)) / math.comb(10, 5)
    assert told["said"].startswith("3 of the 10 candidates are hits, by the verdicts of the pool file: a random order")
    assert told["said"].endswith(f"as many or more with probability {as_many:.2g}.")
    told = chance([False] * 9 + [True], None, rate=0.1)
    assert told["said"].startswith("If 10 % of the candidates are hits, as --rate says, a random order finds 1.0 in 10")
    assert f"with probability {1 - 0.9**10:.2g}. The last outcome is a hit: if the search stopped" in told["said"]
    curve = chance([True, True, False, False, False], None, None)["chance"]
    assert [(curve["low"][t], curve["high"][t]) for t in range(6)] == [by_enumeration(5, 2, t)[1:] for t in range(6)]
    assert not curve["known"]
    assert chance([], None, None)["chance"]["at"] == [0]


def test_a_pool_files_verdicts_are_what_chance_is_known_by(tmp_path):
    texts = [f"{'abc'[row % 3] * row} {row}" for row in range(12)]
    line = {"problem_id": "a", "responses": texts, "correct": [row % 4 == 0 for row in range(12)]}
    pool, journal = write_json_lines(tmp_path / "pool.jsonl", [line]), tmp_path / "verify.jsonl"
    package.verify(pool, lambda name, index, text: index % 4 == 0, journal=journal, budget=8, until=9, quiet=True)
    view = view_of(written(journal, tmp_path / "a.html"))
    assert view["said"].startswith("3 of the 12 candidates are hits, by the verdicts of the pool file")
    assert view["map"]["of"] == "tfidf"


@pytest.mark.usefixtures("searched")
def test_faults_are_one_line(tmp_path):
    journal, begun, other = (tmp_path / name for name in ("plate.jsonl", "begun.jsonl", "other.npz"))
    np.savez(other, plate=H + 1)
    begun.write_text(journal.read_text().splitlines()[0] + "\n")
    for words, path, options in (
        ("plate.jsonl is of other candidates than ", journal, {"embeddings": other}),
        ("is no journal of `harness verify`", write_json_lines(tmp_path / "no.jsonl", [{}]), {}),
        ("holds no picks yet", begun, {}),
        ("absent.jsonl: cannot be read", tmp_path / "absent.jsonl", {}),
        ("--rate is the share of candidates that are hits, between 0 and 1, got 3", journal, {"rate": 3.0}),
    ):
        assert words in refusal_of(written, path, **options)
    search = package.search(H, names=NAMES, journal="plate.jsonl", top=1, quiet=True)
    search.tell(search.open[0], 3.5)
    assert "the journal holds measured values: --threshold says" in refusal_of(written, journal)
    assert view_of(written(journal, threshold=3.0))["found"][-1] == 5
    assert json.loads(journal.read_text().splitlines()[-1])["value"] == 3.5
