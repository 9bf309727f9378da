"""`harness pool import|inspect|export|audit|hardest|show`: pools in and out of the store, and what they hold."""

import pytest
from support.json_lines import read_json_lines, write_json_lines
from support.paths import TOY
from support.refusals import error_line, wrongly_refused

from harness.columns.stored import pool_keys
from harness.jobs.plan import only

KEYED = ("--task", "keyed", "--plugin", TOY)


@pytest.fixture
def pool(harness, tmp_path):
    """`harness pool COMMAND ...` on a store."""
    return lambda *args: harness("pool", *args, "--store", tmp_path / "runs")


def test_a_sampled_pool_is_exported_inspected_audited_and_imported_as_the_same_pool(pool, toy, tmp_path):
    row = toy("--task", "keyed", "--selector", "shuffle", "--audit").rows[0]
    [key] = pool_keys(tmp_path / "runs")
    audited = pool("audit", key[:6], *KEYED, "--json").rows
    assert (audited["disputed"], audited["problems"]) == (row["disputed"], 6)
    out = tmp_path / "out.jsonl"
    assert pool("export", key[:8], "--out", out).out == f"{out}: 6 problems, with verdicts\n"
    line = read_json_lines(out)[0]
    kind = "sum, temperature 1, unfiltered"
    assert (line["problem_id"], line["prompt"], line["logprob_kind"]) == ("test/0", "Say colour 0 (test).", kind)
    assert len(line["responses"]) == len(line["correct"]) == len(line["logprobs"]) == 16
    assert "finish" not in line
    stored, exported = (pool("inspect", given, "--json").rows for given in (key, out))
    imported = pool("import", out, "--task", "colours", "--plugin", TOY, "--json").rows
    for field in ("problems", "responses", "n", "distinct"):
        assert stored[field] == exported[field] == imported[field], field
    assert (stored["graded"], stored["pass_at_1"]) == (exported["graded"], exported["pass_at_1"])


def test_a_summary_counts_responses_verdicts_and_what_was_cut_and_scores_make_another_pool(pool, written, tmp_path):
    lines = [
        {"problem_id": "a", "responses": ["x", "x", "yy"], "correct": [0, 1, 1], "finish": ["stop", "length", "stop"]},
        {"problem_id": "b", "responses": ["zzzz"], "correct": [0]},
    ]
    path, out = written(lines), tmp_path / "out.jsonl"
    assert pool("inspect", path, "--json").rows == {
        **{"pool": str(path), "problems": 2, "responses": 4, "n": [1, 3], "distinct": 0.75, "mean_length": 2.0},
        **{"cut_at_max_tokens": 0.25, "graded": 4, "solvable": 1, "pass_at_1": 0.5},
    }
    shown = pool("inspect", written([{"problem_id": "a", "responses": ["x"]}], "one.jsonl")).out
    words = shown.split()
    assert [words[words.index(word) + 1] for word in ("file", "solvable", "(share)")] == ["0", "-", "1"]
    assert "`harness pool show KEY`" in shown
    plain = pool("import", path, "--json").rows["pool"]
    assert pool("export", plain, "--out", out).code == 0
    assert [line.get("finish") for line in read_json_lines(out)] == [["stop", "length", "stop"], None]
    scores = [{"rm": [0.1, -3e300, 0], "judge": [1, None, 2]}, {"rm": [None]}]
    scored = written([line | {"scores": own} for line, own in zip(lines, scores, strict=True)])
    imported = pool("import", scored, "--json").rows
    assert (imported["pool"] != plain, imported["scores"]) == (True, ["rm", "judge"])
    assert pool("export", imported["pool"], "--out", out).code == 0
    assert [line["scores"] for line in read_json_lines(out)] == scores
    assert "scores rm, judge" in " ".join(pool("inspect", out).out.split())


def test_an_unknown_key_and_a_pool_without_a_task_to_grade_it_or_verdicts_to_show_are_refused(pool, written):
    path = written([{"problem_id": "a", "prompt": "?", "responses": ["x"]}])
    key = pool("import", path, "--json").rows["pool"]
    for command, words in (
        (("inspect", "beef"), "no such file, and no such key"),
        (("audit", path), "say which --task grades it"),
        (("audit", key), "no --task says how to grade it"),
        (("audit", key, *KEYED), "none of its problems is task 'keyed''s"),
        (("show", path), "is a file: give its key"),
        (("show", key, "--wrong"), "has no verdicts"),
    ):
        assert words in error_line(pool(*command))
    assert pool("show", key).out == "a: ?\n  0 not graded\n      x\n"


def test_an_audit_counts_and_lists_every_disagreement_timeout_and_error_also_of_a_file_of_its_split(pool, written):
    lines = [
        {"problem_id": "test/0", "responses": ["say red", "say white", "say blue"]},
        {"problem_id": "test/1", "responses": ["say green", "say red", "say grey"]},
    ]
    path = written(lines)
    audited = pool("audit", path, *KEYED, "--json").rows
    assert [audited[name] for name in ("responses", "audited", "disputed", "timeout", "errors")] == [6, 6, 1, 1, 1]
    assert (audited["correct_here_only"], audited["correct_there_only"]) == (1, 0)
    assert audited["routes"] == {"by word": 4, "slow": 1, "-": 1}
    listed = [(entry["problem_id"], entry["index"], entry["why"]) for entry in audited["listed"]]
    assert listed == [("test/0", 1, "timeout"), ("test/1", 0, "disputed"), ("test/1", 2, "error")]
    assert audited["listed"][1]["second_reason"] == "must be red"
    assert "slow: 1" in pool("audit", path, *KEYED).out
    rows = [{"question": f"q{row}", "answer": f"#### {row}"} for row in range(1319)]
    given = written([{"problem_id": "test-3", "responses": ["The answer is 3.", "The answer is 4."]}])
    fixed = ("--task", "gsm8k", "--data", written(rows, "test.jsonl"), "--json")
    key = pool("import", given, *fixed).rows["pool"]
    assert pool("audit", key, *fixed).rows["audited"] == 2


def test_a_pool_with_its_own_verdicts_gives_a_list_without_the_unsolved(harness, pool, written, tmp_path):
    marks = {"never": [0, 0], "twice": [1, 1, 0, 0], "once": [0, 1, 0, 0], "tie": [1, 1, 0, 0], "always": [1, 1]}
    lines = [
        {"problem_id": name, "responses": [f"{name} {i}" for i in range(len(each))], "correct": list(map(bool, each))}
        for name, each in marks.items()
    ]
    path, out = written(lines), tmp_path / "hardest.jsonl"
    made = pool("hardest", path, "--count", 2, "--out", out, "--json").rows
    hardest = [{"problem_id": name, "n": 4, "correct": correct} for name, correct in (("once", 1), ("twice", 2))]
    assert read_json_lines(out) == hardest
    assert {name: made[name] for name in made if name != "pool"} == {
        **{"problems": 5, "solvable": 4, "written": 2, "file": str(out)},
        **{"pass_at_1_lowest": 0.25, "pass_at_1_highest": 0.5},
    }
    too_many = "4 of 5 problems have a correct response, --count asks for 5"
    assert f"error: pool hardest: {too_many}" in pool("hardest", path, "--count", 5, "--out", out).err
    run = ("run", "--pool", path, "--selector", "uniform", "--store", tmp_path / "runs", "--json", "--only", out)
    [row] = harness(*run).rows
    assert (row["problems"], row["solvable"]) == (2, 2)
    faults = [
        ('{"problem_id": "nowhere"}\n', "1 of 1 ids are not in split 'test' ('nowhere')"),
        ('{"id": "test/1"}\n', "line 1: problem_id must be a string, got None"),
        ("", "names no problem"),
        ("test/1\n", "not JSON"),
    ]
    assert not wrongly_refused(faults, lambda content: only(written(content), ["test/1"], str, "split 'test'"))


def test_each_response_is_shown_with_verdict_reason_answer_and_its_ends_and_may_be_chosen(harness, pool, tmp_path):
    long = "\n".join(f"line {number}" for number in range(9)) + "\nThe answer is 5."
    task = write_json_lines(tmp_path / "q.jsonl", [{"id": "sum", "prompt": "2 + 2?\nSay.", "reference": "4"}])
    path = write_json_lines(tmp_path / "r.jsonl", [{"problem_id": "sum", "responses": ["4", long, "four or so"]}])
    run = ("run", "--task", f"own:file={task},grader=number", "--pool", path, "--selector", "uniform")
    ran = harness(*run, "--store", tmp_path / "runs")
    [key] = pool_keys(tmp_path / "runs")
    assert f"next: `harness pool show {key[:8]} --store " in ran.err

    def show(*options):
        return pool("show", key[:6], *options)

    assert show().out == (
        "sum: 2 + 2?\n  0 correct, answer: 4\n      4\n  1 wrong, answer: 5\n      line 0\n      line 1\n      ...\n"
        "      line 8\n      The answer is 5.\n  2 wrong (no number)\n      four or so\n"
    )
    assert "line 5" in show("--full").out
    assert "2 more: --listed N" in show("--listed", 1).out
    for option, indices in (("--wrong", [1, 2]), ("--correct", [0]), ("--errors", [])):
        chosen = show("--json", option).rows["problems"]
        assert [each["index"] for problem in chosen for each in problem["responses"]] == indices
    whole = show("--problem", "sum", "--json").rows
    assert (whole["pool"], whole["graded"]) == (key, True)
    first = {"index": 0, "verdict": "correct", "reason": "", "route": "", "answer": "4", "text": "4"}
    assert whole["problems"][0]["responses"][0] == first
    assert show("--errors").out == "no such response\n"
    assert "has no problem 'summ' (did you mean 'sum'" in error_line(show("--problem", "summ"))
