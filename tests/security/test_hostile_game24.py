"""Responses that try to mislead the checker of game24, to run code in it or to stall it."""

import time

from corpora.game24 import HONEST, HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from harness import Problem, correct
from harness_tasks.game24 import Game24

TASK, PUZZLE = Game24(), Problem("4-4-8-8", "4 4 8 8")
LIMIT_S = 0.25  # of processor time for one verdict, which takes 0.01 s at most; a quadratic search would take longer
PIECES = [*"0468+-*/()[]{}=.x \n$", r"\boxed{", r"\frac{", "}{", "Answer:", "4+4+8+8", "= 24", "ſ", "é", "\ud800"]


def test_a_hostile_response_is_wrong_each_time_soon_and_leaves_no_trace():
    faults = []
    for name, response in {**HOSTILE, "the prompt": TASK.messages(PUZZLE)[0]["content"]}.items():
        started = time.process_time()
        verdict = TASK.verify(PUZZLE, response)
        spent = time.process_time() - started
        short = verdict.reason.isascii() and len(verdict.reason) < 20
        if verdict.status != "wrong" or not short or spent > LIMIT_S or TASK.verify(PUZZLE, response) != verdict:
            faults.append((name, verdict, spent))
        TASK.answer(PUZZLE, response)
        assert TASK.verify(Problem("4-5-6-10", "4 5 6 10"), HONEST) == correct()
    assert not faults


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_text_gets_a_verdict_and_its_answer_reads_as_itself(text):
    assert TASK.verify(PUZZLE, text).status in {"correct", "wrong"}
    answer = TASK.answer(PUZZLE, text)
    if answer is not None and not answer.endswith(" = "):
        assert TASK.answer(PUZZLE, answer) == answer
