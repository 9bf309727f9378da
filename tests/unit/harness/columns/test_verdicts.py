"""Verdicts: each thing graded once, a fault of the grader is an error and never wrong; answers, audits, chance."""

import pytest
from support.refusals import refusal_of, wrongly_refused
from support.stores import all_cells, files_of
from support.toy import Keyed

from harness import HarnessError, Problem, Task, wrong
from harness.columns.store import Memo, about, read
from harness.columns.verdicts import answers_of, disputes, graded

PROBLEM = Problem("0", "Say a colour", reference="red")


def statuses(verdicts):
    return [verdict.status for verdict in verdicts]


def test_responses_with_one_key_are_graded_once_and_known_verdicts_are_not_asked_for_again_errors_are(tmp_path):
    Keyed.graded.clear()
    verdicts, answers = graded(Keyed(), PROBLEM, ["say red", "oh red", "say blue", "say red", "well blue"])
    assert [text for _, text in Keyed.graded] == ["say red", "say blue"]
    assert statuses(verdicts) == ["correct", "correct", "wrong", "correct", "wrong"]
    assert answers == ["red", "red", "blue", "red", "blue"]
    graded(Keyed(), PROBLEM, ["say red", "say grey"], known=Memo(tmp_path / "m"))
    Keyed.graded.clear()
    verdicts, _ = graded(Keyed(), PROBLEM, ["my red", "my grey", "my blue"], known=Memo(tmp_path / "m"))
    assert [text for _, text in Keyed.graded] == ["my grey", "my blue"]
    assert statuses(verdicts) == ["correct", "error", "wrong"]
    assert verdicts[0].route == "by word"  # as the first time
    assert Memo(tmp_path / "m").lacking(["red", "grey", "blue"]) == ["grey"]


class Faulty(Task):
    """Raises what its response says."""

    def verify(self, problem, response):
        if response == "fix me":
            raise HarnessError("set a key")
        if response == "wrong":
            return wrong()
        raise ZeroDivisionError(response)

    def answer(self, problem, response):
        if response == "none":
            raise SystemExit("a plugin that exits")
        return response.upper()

    def verdict_key(self, problem, response, answer, *, finish):
        raise KeyError(response)


def test_a_verifier_that_raises_gives_an_error_for_that_response_alone_and_a_fault_of_the_users_is_raised(tmp_path):
    known = Memo(tmp_path / "m")
    verdicts, answers = graded(Faulty(), PROBLEM, ["wrong", "oh", "none", "wrong"], known=known)
    assert (statuses(verdicts), known.values) == (
        ["wrong", "error", "error", "wrong"],
        [],
    )  # what has no key is not kept
    assert verdicts[1].reason == "ZeroDivisionError: oh"
    assert answers == ["WRONG", "OH", None, "WRONG"]
    refusals = [(["wrong", "fix me"], "set a key"), (["oh", "fix me"], "set a key")]  # the second one by one
    assert wrongly_refused(refusals, lambda texts: graded(Faulty(), PROBLEM, texts)) == []
    few = Faulty()
    few.verify_all = lambda problem, responses, *, finish: [wrong()]
    assert refusal_of(graded, few, PROBLEM, ["a", "b"]) == "task Faulty: verify_all gave 1 verdicts for 2"
    few.answers = lambda problem, responses, *, finish: ["x"]
    assert refusal_of(answers_of, few, PROBLEM, ["a", "b"]) == "task Faulty: answers gave 1 for 2 responses"


def test_an_error_stays_apart_from_a_wrong_response_in_store_and_table(toy, tmp_path):
    [row] = toy("--split", "broken", "--selector", "shuffle").rows
    verdicts = [verdict for path in files_of(tmp_path / "runs", "verdicts") for verdict in read(path).to_pylist()]
    reasons = [verdict["reason"] for verdict in verdicts if verdict["status"] == "error"]
    assert set(reasons) == {"RuntimeError: the verifier is out of order", "no answer from the lab"}
    [cell] = all_cells(tmp_path / "runs")
    assert sum(entry["errors"] for entry in cell["problems"]) == row["errors"] == len(reasons)
    assert row["flagged"]


COSTLY = """
def failing(gives):
    how = (HERE / "fails").read_text()
    if how == "exit":
        raise SystemExit("a plugin that exits")
    if how == "refuse":
        raise HarnessError("no sandbox here")
    if how == "interrupt" and len((HERE / "notes").read_text().splitlines()) == 2:
        raise KeyboardInterrupt
    return [] if how == "few" else gives

class Runs(Colours):  # each response for half a second; one that ends as "fails" says is a fault of ours
    runs_answers = True
    def run_answers(self, problem, responses, *, finish):
        note(*sorted(response.split()[-1] for response in responses))
        lost = (HERE / "fails").read_text() or "-"
        return failing([None if text.endswith(lost) else Ran(text.split()[-1], 0.5) for text in responses])
    def answer(self, problem, response):
        raise AssertionError("answers cost a run")

class Measures(Measured, Colours):
    measured_together = 3
    def __init__(self, data=None, most: int = 9):
        super().__init__(data)
        self.most = most
    def measurer(self):
        return self
    def identity(self):
        return {"measurer": "letters"}
    def measurable(self, problem, responses):
        return [text for text in responses if "pink" not in text]
    def measure(self, texts):
        note(*(text.split()[-1] for text in texts))
        return failing([{"letters": len(text)} for text in texts])
    def judge(self, problem, response, measurements):
        return correct() if measurements["letters"] < self.most else wrong("long")
"""


@pytest.fixture
def costly(toy, tmp_path, plugin):
    """Run a costly task on two problems of 16 responses, where something fails."""
    own = plugin(COSTLY, task=["Runs", "Measures"])

    def call(task, fails="", *options):
        (tmp_path / "plugins" / "fails").write_text(fails)
        return toy("--plugin", own, "--task", task, "--data", "2", "--selector", "shuffle", *options)

    return call


def test_an_answer_is_run_once_for_equal_responses_and_again_after_a_fault_of_ours(costly, tmp_path, noted):
    assert costly("runs", "red").code == 0
    ran = [line.split() for line in noted()]
    assert [sorted(set(each)) for each in ran] == ran  # each response once
    tables = [read(path) for path in files_of(tmp_path / "runs", "verdicts")]
    known = [[answer for answer in each if answer != "red"] for each in ran]
    assert [about(table)["cpu_s"] for table in tables] == [len(each) / 2 for each in known]
    assert [sorted({answer for answer in table["answer"].to_pylist() if answer}) for table in tables] == known
    assert costly("runs", "", "--n", "12").code == 0
    assert noted() == ["red", "red"]
    [_, fewer] = sorted(all_cells(tmp_path / "runs"), key=lambda cell: -cell["problems"][0]["n"])
    assert all(entry["answering"][1] > 0 for entry in fewer["problems"])  # what it cost, whoever ran it


@pytest.mark.parametrize(
    ("task", "fails", "line"),
    [
        ("runs", "refuse", "no sandbox here"),
        ("runs", "few", "task 'runs': run_answers gave 0 answers for "),
        ("runs", "exit", "task 'runs': run_answers raised SystemExit: a plugin that exits"),
        ("measures", "few", "Measures: measure gave 0 entries for "),
    ],
)
def test_a_task_that_can_run_no_answer_is_refused_in_one_line_and_nothing_is_kept(costly, tmp_path, task, fails, line):
    outcome = costly(task, fails)
    assert (outcome.code, outcome.out, f"error: {line}" in outcome.err) == (2, "", True)
    assert files_of(tmp_path / "runs", "verdicts") == []


def test_what_was_measured_before_a_failure_is_kept_and_what_has_no_measurement_is_judged_so(costly, tmp_path, noted):
    assert costly("measures", "interrupt").code == 130
    first, lost = noted()
    assert len(first.split()) == 3
    assert costly("measures").code == 0
    assert noted()[0] == lost
    verdicts = [row for path in files_of(tmp_path / "runs", "verdicts") for row in read(path).to_pylist()]
    of = {
        name: {(row["status"], row["reason"]) for row in verdicts if row["answer"] == name} for name in ("pink", "red")
    }
    assert of == {"pink": {("error", "KeyError: 'letters'")}, "red": {("correct", "")}}
    assert costly("measures:most=5").rows[0]["solvable"] == 0  # another threshold measures nothing again
    assert noted() == []


STRICT = """
class Strict(Colours):
    def audit(self, problem, response):
        note(problem.id, response)
        return None if "grey" in response else wrong("strict")
"""


def test_the_second_grader_is_asked_once_for_equal_responses_and_its_disputes_are_counted(toy, tmp_path, plugin, noted):
    own = plugin(STRICT, task=["Strict"])
    outcome = toy("--plugin", own, "--task", "strict", "--data", "3", "--selector", "shuffle", "--audit")
    asked = noted()
    assert len(asked) == len(set(asked))
    first, texts, second = (
        [read(path)[column].to_pylist() for path in files_of(tmp_path / "runs", kind)]
        for kind, column in (("verdicts", "status"), ("responses", "text"), ("audits", "status"))
    )
    assert second == [[None if "grey" in text else "wrong" for text in each] for each in texts]
    disputed = [each.count("correct") for each in first]  # grey is the colour of none of them
    [cell] = all_cells(tmp_path / "runs")
    assert [entry["disputed"] for entry in cell["problems"]] == disputed
    audited = sum("grey" not in text for each in texts for text in each)
    assert f"audit: {sum(disputed)} of {audited} verdicts" in outcome.err
    who = disputes(["correct", "correct", "wrong", "wrong", "error"], ["correct", "wrong", "correct", None, "wrong"])
    assert who == ["", "only the first", "only the second", "", ""]


LUCKY = """
class Lucky(Colours):
    chance_gradings = 8
    def problems(self, split):
        for i, word in enumerate(["red", "green", "blue", "red"]):
            yield Problem(f"p{i}", "?", reference=word)
"""


def test_the_chance_level_is_by_the_references_of_some_other_problems(toy, tmp_path, plugin):
    own = plugin(LUCKY, task=["Lucky"])
    options = ("--plugin", own, "--task", "lucky", "--n", 2, "--selector", "shuffle", "--audit")
    toy(*options)
    paths = files_of(tmp_path / "runs", "chance")
    counts = [about(read(path)) for path in paths]
    tried = [2, 3, 3, 2]  # of problems with the same reference none is tried
    assert [gradings for _, gradings in counts] == [2 * others for others in tried]
    for i, ((hits, _), path) in enumerate(zip(counts, files_of(tmp_path / "runs", "responses"), strict=True)):
        texts, own_word = read(path)["text"].to_pylist(), ("red", "green", "blue", "red")[i]
        others = [
            sum(text.endswith(word) for text in texts) for word in ("red", "green", "blue", "red") if word != own_word
        ]
        assert hits == sum(others)
    assert [entry["chance"] for entry in all_cells(tmp_path / "runs")[0]["problems"]] == counts
    for path in paths:
        path.unlink()
    toy(*options)
    assert files_of(tmp_path / "runs", "chance") == paths
