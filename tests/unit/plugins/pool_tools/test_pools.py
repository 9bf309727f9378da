"""`harness pool import|inspect|export|audit|hardest|show`: pools in and out of the store, and what they hold."""

import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.paths import TOY
from support.refusals import error_line, wrongly_refused

from harness.columns.stored import pool_keys
from harness.jobs.plan import only


@pytest.fixture
def store(tmp_path):
    return ("--store", tmp_path / "runs")


def test_a_sampled_pool_is_exported_inspected_and_imported_as_the_same_pool(harness, toy, tmp_path, store):
    toy("--selector", "shuffle")
    [key] = pool_keys(tmp_path / "runs")
    out = tmp_path / "out.jsonl"
    assert harness("pool", "export", key[:8], "--out", out, *store).out == f"{out}: 6 problems, with verdicts\n"
    line = read_json_lines(out)[0]
    kind = "sum, temperature 1, unfiltered"
    assert (line["problem_id"], line["prompt"], line["logprob_kind"]) == ("test/0", "Say colour 0 (test).", kind)
    assert len(line["responses"]) == len(line["correct"]) == len(line["logprobs"]) == 16
    assert "finish" not in line
    stored = harness("pool", "inspect", key, "--json", *store).rows
    exported = harness("pool", "inspect", out, "--json").rows
    fixed = ("--task", "colours", "--plugin", TOY, *store, "--json")
    imported = harness("pool", "import", out, *fixed).rows
    for field in ("problems", "responses", "n", "distinct", "graded", "solvable", "pass_at_1"):
        assert stored[field] == exported[field] == imported[field], field


def test_a_summary_counts_responses_verdicts_and_what_was_cut(harness, written, store):
    lines = [
        {"problem_id": "a", "responses": ["x", "x", "yy"], "correct": [0, 1, 1], "finish": ["stop", "length", "stop"]},
        {"problem_id": "b", "responses": ["zzzz"], "correct": [0]},
    ]
    path = written(lines)
    summary = harness("pool", "inspect", path, "--json").rows
    assert summary == {
        **{"pool": str(path), "problems": 2, "responses": 4, "n": [1, 3], "distinct": 0.75, "mean_length": 2.0},
        **{"cut_at_max_tokens": 0.25, "graded": 4, "solvable": 1, "pass_at_1": 0.5},
    }
    shown = harness("pool", "inspect", written([{"problem_id": "a", "responses": ["x"]}], "one.jsonl")).out
    words = shown.split()
    assert [words[words.index(word) + 1] for word in ("file", "solvable", "(share)")] == ["0", "-", "1"]
    assert "`harness pool show KEY`" in shown
    key = harness("pool", "import", path, *store, "--json").rows["pool"]
    out = path.with_name("out.jsonl")
    assert harness("pool", "export", key, "--out", out, *store).code == 0
    assert [line.get("finish") for line in read_json_lines(out)] == [["stop", "length", "stop"], None]


def test_scores_come_into_the_store_and_out_again_and_make_another_pool(harness, written, store, tmp_path):
    lines = [{"problem_id": "a", "responses": ["x", "y"]}, {"problem_id": "b", "responses": ["z", "z"]}]
    plain = harness("pool", "import", written(lines), *store, "--json").rows["pool"]
    lines[0]["scores"], lines[1]["scores"] = {"rm": [0.1, -3e300], "judge": [1, None]}, {"rm": [None, 2]}
    imported = harness("pool", "import", written(lines), *store, "--json").rows
    assert imported["pool"] != plain
    assert imported["scores"] == ["rm", "judge"]
    out = tmp_path / "out.jsonl"
    assert harness("pool", "export", imported["pool"], "--out", out, *store).code == 0
    assert [line["scores"] for line in read_json_lines(out)] == [line["scores"] for line in lines]
    assert "scores rm, judge" in " ".join(harness("pool", "inspect", out).out.split())


def test_an_unknown_key_and_a_pool_file_without_a_task_to_grade_it_are_refused(harness, written, store):
    assert "no such file, and no such key" in error_line(harness("pool", "inspect", "beef", *store))
    pool = written([{"problem_id": "a", "responses": ["x"]}])
    assert error_line(harness("pool", "audit", pool, *store)).endswith("say which --task grades it")
    imported = harness("pool", "import", pool, *store, "--json").rows["pool"]
    assert "no --task says how to grade it" in error_line(harness("pool", "audit", imported, *store))
    fixed = ("--task", "colours", "--plugin", TOY, *store)
    assert "none of its problems is task 'colours''s" in error_line(harness("pool", "audit", imported, *fixed))


# An audit


@pytest.fixture
def audit(harness, tmp_path):
    """Audit a pool by the keyed toy task."""
    fixed = ("--task", "keyed", "--plugin", TOY, "--store", tmp_path / "runs")
    return lambda pool, *more: harness("pool", "audit", pool, *fixed, *more)


def test_every_disagreement_timeout_and_error_is_counted_and_listed(audit, tmp_path):
    lines = [
        {"problem_id": "test/0", "responses": ["say red", "say white", "say blue"]},
        {"problem_id": "test/1", "responses": ["say green", "say red", "say grey"]},
    ]
    pool = write_json_lines(tmp_path / "pool.jsonl", lines)
    audited = audit(pool, "--json").rows
    assert [audited[name] for name in ("responses", "audited", "disputed", "timeout", "errors")] == [6, 6, 1, 1, 1]
    assert (audited["correct_here_only"], audited["correct_there_only"]) == (1, 0)
    assert audited["routes"] == {"by word": 4, "slow": 1, "-": 1}
    listed = [(entry["problem_id"], entry["index"], entry["why"]) for entry in audited["listed"]]
    assert listed == [("test/0", 1, "timeout"), ("test/1", 0, "disputed"), ("test/1", 2, "error")]
    assert audited["listed"][1]["second_reason"] == "must be red"
    assert "slow: 1" in audit(pool).out


def test_a_pool_of_the_store_is_audited_by_its_key_and_by_a_file_of_its_split(
    toy, audit, harness, written, store, tmp_path
):
    row = toy("--task", "keyed", "--selector", "shuffle", "--audit").rows[0]
    [pool] = pool_keys(tmp_path / "runs")
    audited = audit(pool[:6], "--json").rows
    assert (audited["disputed"], audited["problems"]) == (row["disputed"], 6)
    rows = [{"question": f"q{row}", "answer": f"#### {row}"} for row in range(1319)]
    given = written([{"problem_id": "test-3", "responses": ["The answer is 3.", "The answer is 4."]}])
    fixed = ("--task", "gsm8k", "--data", written(rows, "test.jsonl"), *store, "--json")
    key = harness("pool", "import", given, *fixed).rows["pool"]
    assert harness("pool", "audit", key, *fixed).rows["audited"] == 2


def pool_lines(**correct):
    """A pool with its own verdicts; problem `a=[1, 0]` has two responses, the first of them correct."""
    return [
        {"problem_id": name, "responses": [f"{name} {i}" for i in range(len(marks))], "correct": list(map(bool, marks))}
        for name, marks in correct.items()
    ]


def test_a_pool_with_its_own_verdicts_gives_a_list_without_the_unsolved(harness, written, tmp_path):
    pool = written(
        pool_lines(never=[0, 0, 0, 0], twice=[1, 1, 0, 0], once=[0, 1, 0, 0], tie=[1, 1, 0, 0], always=[1] * 4)
    )
    out = tmp_path / "hardest.jsonl"
    made = harness("pool", "hardest", pool, "--count", 2, "--out", out, "--store", tmp_path / "runs", "--json")
    assert made.code == 0, made.err
    assert read_json_lines(out) == [
        {"problem_id": "once", "n": 4, "correct": 1},
        {"problem_id": "twice", "n": 4, "correct": 2},
    ]
    assert {name: made.rows[name] for name in made.rows if name != "pool"} == {
        **{"problems": 5, "solvable": 4, "written": 2, "file": str(out)},
        **{"pass_at_1_lowest": 0.25, "pass_at_1_highest": 0.5},
    }
    for count, words in (
        (5, "4 of 5 problems have a correct response, --count asks for 5"),
        (0, "Invalid value for '--count'"),
    ):
        refused = harness("pool", "hardest", pool, "--count", count, "--out", out, "--store", tmp_path / "runs")
        assert (refused.code, words in refused.err) == (2, True)
    run = ("run", "--pool", pool, "--selector", "uniform", "--store", tmp_path / "runs", "--json", "--only", out)
    [row] = harness(*run).rows
    assert (row["problems"], row["solvable"]) == (2, 2)


def test_a_list_that_names_no_problem_of_the_task_is_refused_in_one_line(written):
    faults = [
        ('{"problem_id": "nowhere"}\n', "1 of 1 ids are not in split 'test' ('nowhere')"),
        ('{"id": "test/1"}\n', "line 1: problem_id must be a string, got None"),
        ("", "names no problem"),
        ("test/1\n", "not JSON"),
    ]
    assert not wrongly_refused(faults, lambda content: only(written(content), ["test/1"], str, "split 'test'"))


LONG = "\n".join(f"line {number}" for number in range(9)) + "\nThe answer is 5."


@pytest.fixture
def graded(harness, tmp_path):
    """`harness pool show KEY` on a pool that a run graded, and what the run said."""
    task = write_json_lines(tmp_path / "q.jsonl", [{"id": "sum", "prompt": "2 + 2?\nSay.", "reference": "4"}])
    pool = write_json_lines(tmp_path / "r.jsonl", [{"problem_id": "sum", "responses": ["4", LONG, "four or so"]}])
    store = ("--store", tmp_path / "runs")
    spec = f"own:file={task},grader=number"
    ran = harness("run", "--task", spec, "--pool", pool, "--selector", "uniform", *store)
    [key] = pool_keys(tmp_path / "runs")
    return lambda *options: harness("pool", "show", key[:6], *store, *options), ran, key


def test_each_response_has_verdict_reason_answer_and_its_ends(graded):
    show, ran, key = graded
    assert f"next: `harness pool show {key[:8]} --store " in ran.err
    assert show().out == (
        "sum: 2 + 2?\n  0 correct, answer: 4\n      4\n  1 wrong, answer: 5\n      line 0\n      line 1\n      ...\n"
        "      line 8\n      The answer is 5.\n  2 wrong (no number)\n      four or so\n"
    )
    assert "line 5" in show("--full").out
    assert "2 more: --listed N" in show("--listed", 1).out


def test_verdicts_and_a_problem_are_chosen(graded):
    show, _, key = graded
    chosen = [show("--json", option).rows["problems"] for option in ("--wrong", "--correct", "--errors")]
    assert [[each["index"] for problem in problems for each in problem["responses"]] for problems in chosen] == [
        *([1, 2], [0], [])
    ]
    whole = show("--problem", "sum", "--json").rows
    assert (whole["pool"], whole["graded"]) == (key, True)
    first = {"index": 0, "verdict": "correct", "reason": "", "route": "", "answer": "4", "text": "4"}
    assert whole["problems"][0]["responses"][0] == first
    assert show("--errors").out == "no such response\n"
    assert "has no problem 'summ' (did you mean 'sum'" in error_line(show("--problem", "summ"))


def test_a_file_and_verdicts_of_a_pool_without_any_are_refused(harness, written, tmp_path):
    store = ("--store", tmp_path / "runs")
    pool = written([{"problem_id": "a", "prompt": "?", "responses": ["x"]}])
    assert "is a file: give its key" in error_line(harness("pool", "show", pool, *store))
    key = harness("pool", "import", pool, *store, "--json").rows["pool"]
    assert "has no verdicts" in error_line(harness("pool", "show", key, "--wrong", *store))
    assert harness("pool", "show", key, *store).out == "a: ?\n  0 not graded\n      x\n"
