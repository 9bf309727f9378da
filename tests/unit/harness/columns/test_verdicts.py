"""Verdicts: each thing graded once, a fault of the grader is an error and never wrong; answers, audits, chance."""

import json

import pytest
from support.paths import TOY
from support.refusals import refusal_of, wrongly_refused
from support.stores import all_cells, files_of
from support.toy import Colours, Keyed

from harness import HarnessError, Problem, Task, correct, wrong
from harness.columns.store import Memo, about, read
from harness.columns.verdicts import answers_of, disputes, graded

PROBLEM = Problem("0", "Say a colour", reference="red")


@pytest.fixture(autouse=True)
def _nothing_asked():
    Keyed.graded.clear()


def statuses(verdicts):
    return [verdict.status for verdict in verdicts]


# Grading.


def test_responses_with_one_key_are_graded_once_and_known_verdicts_are_not_asked_for_again_errors_are(tmp_path):
    verdicts, answers = graded(Keyed(), PROBLEM, ["say red", "oh red", "say blue", "say red", "well blue"])
    assert [text for _, text in Keyed.graded] == ["say red", "say blue"]
    assert statuses(verdicts) == ["correct", "correct", "wrong", "correct", "wrong"]
    assert answers == ["red", "red", "blue", "red", "blue"]
    assert graded(Keyed(), PROBLEM, []) == ([], [])
    graded(Keyed(), PROBLEM, ["say red", "say grey"], known=Memo(tmp_path / "m"))
    Keyed.graded.clear()
    verdicts, _ = graded(Keyed(), PROBLEM, ["my red", "my grey", "my blue"], known=Memo(tmp_path / "m"))
    assert [text for _, text in Keyed.graded] == ["my grey", "my blue"]
    assert statuses(verdicts) == ["correct", "error", "wrong"]
    assert verdicts[0].route == "by word"  # as the first time
    assert Memo(tmp_path / "m").lacking(["red", "grey", "blue"]) == ["grey"]


class Faulty(Task):
    """Raises what its response says; `together` is what grading many at once gives."""

    def __init__(self, together=None):
        self.together = together

    def verify(self, problem, response):
        if response == "fix me":
            raise HarnessError("set a key")
        if response == "wrong":
            return wrong()
        raise ZeroDivisionError(response)

    def verify_all(self, problem, responses, *, finish):
        return super().verify_all(problem, responses) if self.together is None else self.together

    def answer(self, problem, response):
        if response == "none":
            raise SystemExit("a plugin that exits")
        return response.upper()


def test_a_verifier_that_raises_gives_an_error_for_that_response_alone_and_a_fault_of_the_users_is_raised():
    verdicts, answers = graded(Faulty(), PROBLEM, ["wrong", "oh", "none"])
    assert statuses(verdicts) == ["wrong", "error", "error"]
    assert verdicts[1].reason == "ZeroDivisionError: oh"
    assert answers == ["WRONG", "OH", None]
    refusals = [(["wrong", "fix me"], "set a key"), (["oh", "fix me"], "set a key")]  # the second one by one
    assert wrongly_refused(refusals, lambda texts: graded(Faulty(), PROBLEM, texts)) == []
    line = refusal_of(graded, Faulty([wrong()]), PROBLEM, ["a", "b"])
    assert line == "task Faulty: verify_all gave 1 verdicts for 2"


def test_a_verdict_key_that_raises_is_none(tmp_path):
    class Unkeyed(Keyed):
        def verdict_key(self, problem, response, answer, *, finish):
            raise KeyError(response)

    known = Memo(tmp_path / "m")
    verdicts, _ = graded(Unkeyed(), PROBLEM, ["say red", "oh red", "say red"], known=known)
    assert [text for _, text in Keyed.graded] == ["say red", "oh red"]  # equal texts once
    assert (statuses(verdicts), known.values) == (["correct"] * 3, [])


def test_answers_are_extracted_together_or_one_by_one():
    assert answers_of(Colours(), PROBLEM, ["say red", ""]) == ["red", None]
    assert answers_of(Faulty(), PROBLEM, ["a", "none"]) == ["A", None]

    class Short(Colours):
        def answers(self, problem, responses, *, finish):
            return ["red"]

    line = refusal_of(answers_of, Short(), PROBLEM, ["say red", "say blue"])
    assert line == "task Short: answers gave 1 for 2 responses"


def test_how_a_response_ended_is_part_of_it():
    class Reads(Colours):
        def verify_all(self, problem, responses, *, finish):
            return [correct() if end == "stop" else wrong(end) for end in finish]

        def verdict_key(self, problem, response, answer, *, finish):
            return finish

        def answers(self, problem, responses, *, finish):
            return finish

    verdicts, answers = graded(Reads(), PROBLEM, ["a"] * 3, ["stop", "length", "stop"])
    assert (statuses(verdicts), answers) == (["correct", "wrong", "correct"], ["stop", "length", "stop"])


def test_an_error_stays_apart_from_a_wrong_response_in_store_and_table(toy, tmp_path):
    outcome = toy("--split", "broken", "--selector", "shuffle")
    [row] = outcome.rows
    tables = [read(path).to_pydict() for path in files_of(tmp_path / "runs", "verdicts")]
    statuses = [status for table in tables for status in table["status"]]
    reasons = {reason for table in tables for reason in table["reason"]}
    assert (row["errors"], row["flagged"]) == (statuses.count("error"), True)
    assert {"RuntimeError: the verifier is out of order", "no answer from the lab", "colour"} <= reasons
    [cell] = all_cells(tmp_path / "runs")
    assert sum(entry["errors"] for entry in cell["problems"]) == row["errors"] > 0


# Answers and measurements.

COSTLY = """
class Runs(Colours):
    '''Runs a response in half a second. What a file beside this one names fails: as a fault of ours, or wholly.'''

    runs_answers = True

    def run_answers(self, problem, responses, *, finish):
        from harness.contracts import Ran

        fails = (HERE / "fails").read_text() if (HERE / "fails").exists() else ""
        note(*sorted(response.split()[-1] for response in responses))
        if fails == "exit":
            raise SystemExit("a plugin that exits")
        if fails == "refuse":
            raise HarnessError("no sandbox here")
        if fails == "few":
            return []
        return [None if response.endswith(fails or "-") else Ran(response.split()[-1], 0.5) for response in responses]

    def answer(self, problem, response):
        raise AssertionError("answers cost a run")


class Measures(Measured, Colours):
    measured_together = 3

    def measurer(self):
        return self

    def identity(self):
        return {"measurer": "letters"}

    def measurable(self, problem, responses):
        return [text for text in responses if "pink" not in text]

    def measure(self, texts):
        note(*(text.split()[-1] for text in texts))
        fails = HERE / "fails"
        if fails.exists() and len((HERE / "notes").read_text().splitlines()) == 2:
            if fails.read_text() == "few":
                return []
            raise KeyboardInterrupt
        return [{"letters": len(text)} for text in texts]

    def judge(self, problem, response, measurements):
        return correct() if measurements["letters"] < 9 else wrong("long")
"""


@pytest.fixture
def costly(harness, tmp_path, plugin):
    """Run a costly task on two problems of 16 responses, where something fails."""
    own = plugin(COSTLY, task=["Runs", "Measures"])

    def call(task, fails="", *options):
        path = tmp_path / "plugins" / "fails"
        path.write_text(fails) if fails else path.unlink(missing_ok=True)
        fixed = ("--engine", "toy", "--data", "2", "--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs")
        return harness("run", "--task", task, *fixed, "--selector", "shuffle", "--json", *options)

    return call


def test_an_answer_is_run_once_for_equal_responses_and_what_it_cost_counts_whoever_ran_it(costly, tmp_path, noted):
    assert costly("runs").code == 0
    ran = [line.split() for line in noted()]
    assert [sorted(set(each)) for each in ran] == ran  # each response once
    tables = [read(path) for path in files_of(tmp_path / "runs", "verdicts")]
    assert [about(table)["cpu_s"] for table in tables] == [len(each) / 2 for each in ran]
    assert [sorted(set(table["answer"].to_pylist())) for table in tables] == ran
    assert costly("runs", "", "--n", "12").code == 0
    assert noted() == []
    [_, fewer] = sorted(all_cells(tmp_path / "runs"), key=lambda cell: -cell["problems"][0]["n"])
    assert [entry["answering"][0] for entry in fewer["problems"]] == [12, 12]
    assert all(entry["answering"][1] > 0 for entry in fewer["problems"])


def test_what_a_fault_of_ours_left_without_an_answer_is_run_again_for_the_next_pool(costly, tmp_path, noted):
    costly("runs", "red")
    assert all("red" not in read(path)["answer"].to_pylist() for path in files_of(tmp_path / "runs", "verdicts"))
    assert len(noted()) == 2
    costly("runs", "", "--n", "12")
    assert noted() == ["red", "red"]


@pytest.mark.parametrize(
    ("fails", "line"),
    [
        ("refuse", "no sandbox here"),
        ("few", "task 'runs': run_answers gave 0 answers for "),
        ("exit", "task 'runs': run_answers raised SystemExit: a plugin that exits"),
    ],
)
def test_a_task_that_can_run_no_answer_is_refused_in_one_line_and_nothing_is_kept(costly, tmp_path, fails, line):
    outcome = costly("runs", fails)
    assert (outcome.code, outcome.out) == (2, "")
    assert f"error: {line}" in outcome.err
    assert files_of(tmp_path / "runs", "verdicts") == []
    assert costly("runs").code == 0


def test_what_was_measured_before_a_failure_is_kept_and_what_has_no_measurement_is_judged_so(costly, tmp_path, noted):
    assert costly("measures", "interrupt").code == 130
    first, lost = noted()
    assert len(first.split()) == 3
    again = costly("measures")
    assert again.code == 0
    assert noted()[0] == lost
    verdicts = [row for path in files_of(tmp_path / "runs", "verdicts") for row in read(path).to_pylist()]
    pink = [row for row in verdicts if row["answer"] == "pink"]
    assert pink
    assert {(row["status"], row["reason"]) for row in pink} == {("error", "KeyError: 'letters'")}
    assert {row["status"] for row in verdicts if row["answer"] == "red"} == {"correct"}


def test_a_measurer_that_gives_too_few_entries_is_named(costly):
    assert "error: Measures: measure gave 0 entries for " in costly("measures", "few").err


# A second grader, and the chance level.


def test_the_second_grader_is_asked_once_for_equal_responses_and_its_disputes_are_counted(
    harness, tmp_path, plugin, noted
):
    own = plugin(
        """
class Strict(Colours):
    def audit(self, problem, response):
        note(problem.id, response)
        return None if "grey" in response else wrong("strict")
""",
        task=["Strict"],
    )
    fixed = ("--engine", "toy", "--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs", "--json")
    outcome = harness("run", "--task", "strict", "--data", "3", "--selector", "shuffle", "--audit", *fixed)
    asked = noted()
    assert len(asked) == len(set(asked)) == len({line for line in asked if " say " in line})
    first = [read(path)["status"].to_pylist() for path in files_of(tmp_path / "runs", "verdicts")]
    texts = [read(path)["text"].to_pylist() for path in files_of(tmp_path / "runs", "responses")]
    second = [read(path)["status"].to_pylist() for path in files_of(tmp_path / "runs", "audits")]
    assert second == [[None if "grey" in text else "wrong" for text in each] for each in texts]
    disputed = [each.count("correct") for each in first]  # grey is the colour of none of them
    [cell] = all_cells(tmp_path / "runs")
    assert [entry["disputed"] for entry in cell["problems"]] == disputed
    assert (
        f"audit: {sum(disputed)} of {sum(map(len, texts)) - sum(t == 'say grey' for e in texts for t in e)} verdicts"
        in (outcome.err)
    )


def test_who_alone_calls_a_response_correct_disputes_it():
    said = disputes(["correct", "correct", "wrong", "wrong", "error"], ["correct", "wrong", "correct", None, "wrong"])
    assert said == ["", "only the first", "only the second", "", ""]


LUCKY = """
class Lucky(Colours):
    chance_gradings = {gradings}

    def problems(self, split):
        for i, word in enumerate(json.loads((HERE / "words").read_text())):
            yield Problem(f"p{{i}}", "?", reference=word)

    def verify(self, problem, response):
        note(problem.id, response)
        return super().verify(problem, response)
"""


@pytest.mark.parametrize(
    ("gradings", "words", "n", "tried"),
    [
        (8, ["red", "green", "blue", "red"], 4, [2, 2, 2, 2]),
        (8, ["red", "green", "blue", "red"], 2, [2, 3, 3, 2]),  # of problems with the same reference none is tried
        (1, ["red", "green", "blue"], 4, [1, 1, 1]),
        (8, ["red", "red"], 4, [0, 0]),
        (512, ["red", "green", "blue"], 300, [2, 2, 2]),
    ],
)
def test_the_chance_level_is_by_the_references_of_some_other_problems(
    harness, tmp_path, plugin, gradings, words, n, tried
):
    own = plugin(LUCKY.format(gradings=gradings), task=["Lucky"])
    (tmp_path / "plugins" / "words").write_text(json.dumps(words))
    fixed = ("--engine", "toy", "--plugin", TOY, "--plugin", own, "--store", tmp_path / "runs", "--json", "--n", n)
    run = ("run", "--task", "lucky", *fixed, "--selector", "shuffle", "--audit")
    outcome = harness(*run)
    assert outcome.code == 0, outcome.err
    paths = files_of(tmp_path / "runs", "chance")
    counts = [about(read(path)) for path in paths]
    assert [gradings for _, gradings in counts] == [min(n, 256) * others for others in tried]
    for i, ((hits, _), path) in enumerate(zip(counts, files_of(tmp_path / "runs", "responses"), strict=True)):
        said = [text.split()[-1] for text in read(path)["text"].to_pylist()][:256]
        others = sorted(said.count(word) for j, word in enumerate(words) if words[i] != word and j != i)
        assert sum(others[: tried[i]]) <= hits <= sum(others[len(others) - tried[i] :])
    cell = all_cells(tmp_path / "runs")[0]
    assert [entry["chance"] for entry in cell["problems"]] == counts
    names = [path.name for path in paths]
    for path in paths:
        path.unlink()
    harness(*run)
    assert [path.name for path in files_of(tmp_path / "runs", "chance")] == names  # chosen by a seed of the problem
