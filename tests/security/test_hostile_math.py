r"""Hostile responses to the grader of math answers: none is correct, none hangs, crashes or does anything.

The attacks are those of the survey that the design rests on (A1-A9, M10-M27) and more of our own. Each is graded twice
with the same verdict, and after each an honest answer that needs math-verify is still graded right. The CPU limit is
0.3 s here, so that the slow ones stay affordable; one test keeps the real limit.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness import Problem, Verdict, correct
from harness.stages.verify import graded as graded_texts
from harness_tasks.math_answers import MathTask, math_task, workers
from harness_tasks.math_answers.workers import shared_workers

TASK = MathTask()
WALL_S = 120  # a bound on hangs only: machines are shared
OUR_CPU_S = 1.0  # in the process that grades


def boxed(answer: str) -> str:
    return rf"Therefore $\boxed{{{answer}}}$."


def nested(opening: str, inner: str, closing: str, times: int) -> str:
    return opening * times + inner + closing * times


def graded(gold: str, response: object) -> Verdict:
    return TASK.verify(Problem("p", "", gold), response)  # type: ignore[arg-type]


GUESSES = " or ".join(rf"\boxed{{{guess}}}" for guess in range(1, 6))
TOWER = "9^{9^{9}}"

# name: (reference, response)
ATTACKS: dict[str, tuple[str, object]] = {
    "A1 empty": ("5", ""),
    "A2 NUL": ("5", boxed("5\x00")),
    "A3 lone surrogate": ("5", boxed("5\ud800")),
    "A3 lone surrogate in words": ("5", "The answer is \udcff5"),
    "A4 a megabyte of x": ("5", "x" * 1_000_000),
    "A5 a megabyte of spaces": ("5", " " * 1_000_000),
    "A6 None": ("5", None),
    "A6 a number": ("5", 5),
    "A6 a list": ("5", [boxed("5")]),
    "A6 bytes": ("5", b"\\boxed{5}"),
    "A7 the prompt": ("5", "What is 2 + 3? Put your final answer within \\boxed{}."),
    "A8 right, then wrong": ("5", boxed("5") + " Wait, " + boxed("7")),
    "A9 open boxes": ("5", "\\boxed{" * 20_000 + "5"),
    "M10 power tower": ("5", boxed(TOWER)),
    "M11 tower of tens": ("5", boxed("10^{10^{10}}")),
    "M12 factorial": ("5", boxed("99999999!")),
    "M12 factorials of factorials": ("5", boxed("((9!)!)!")),
    "M13 binomial": ("5", boxed(r"\binom{10^9}{5\cdot10^8}")),
    "M14 long sum": ("5", boxed(r"\sum_{k=1}^{10^9} \frac{1}{k}")),
    "M15 a hundred thousand brackets": ("5", boxed(nested("(", "6", ")", 100_000))),
    "M15 brackets within the limit": ("5", boxed(nested("(", "6", ")", 240))),
    "M16 braces": ("5", boxed(nested("{", "6", "}", 5_000))),
    "M16 braces within the limit": ("5", boxed(nested("{", "6", "}", 240))),
    "M16 sets in sets": ("5", boxed(nested(r"\{", "6", r"\}", 120))),
    "M16 tuples in tuples": ("(1,2)", boxed(nested("(", "1", ",2)", 120))),
    "M17 fractions in fractions": ("5", boxed(nested(r"\frac{1}{", "6", "}", 500))),
    "M17 fractions within the limit": ("5", boxed(nested(r"\frac{1}{", "6", "}", 45))),
    "M18 a long number": ("5", boxed("5" * 200_000)),
    "M18 a long number within the limit": ("5", boxed("5" * 500)),
    "M19 polynomials": ("(x+1)^{1000}", boxed("(1+x)^{999}")),
    "M19 polynomials, expanded": ("(x+1)^{100}", boxed("(x^2+2x+1)^{49}(x+1)^{3}")),
    "M20 guess list in boxes": ("5", GUESSES),
    "M20 guess list in a box": ("5", boxed("1 or 2 or 3 or 4 or 5")),
    "M20 guess list as a set": ("5", boxed(r"\{1,2,3,4,5\}")),
    "M20 guess list by plus-minus": ("5", boxed(r"\pm 5")),
    "M21 chain": ("5", boxed("1=2=3=4=5")),
    "M21 chain of names": ("5", boxed("x=y=4=5")),
    "M23 NaN": ("5", boxed("NaN")),
    "M23 NaN for zero": ("0", boxed(r"\text{NaN}")),
    "M23 one by zero": ("5", boxed("1/0")),
    "M23 zero by zero": ("0", boxed(r"\frac{0}{0}")),
    "M23 infinity": ("5", boxed(r"\infty")),
    "M23 infinity less infinity": ("0", boxed(r"\infty - \infty")),
    "M23 a huge exponent": ("5", boxed("1e999999999")),
    "M23 a huge power of ten": ("5", boxed(r"5 \times 10^{999999999}")),
    "M23 a tiny number for zero": ("0", boxed("10^{-400}")),
    "M24 a hundredfold": ("5", boxed("500")),
    "M24 slightly off": (r"\frac{7}{3}", boxed("2.33345")),
    "M25 display brackets": ("5", "\\[" * 20_000 + "6"),
    "M25 final answer, often": ("5", "final answer " * 20_000 + "6"),
    "M25 answer is, often": ("5", "the answer is $" * 20_000),
    "M25 hashes": ("5", "####" * 50_000),
    "M25 dollars": ("5", boxed("$" * 400 + "6")),
    "M25 commas": ("5", boxed("1," * 249 + "1")),
    "M25 text commands": ("5", boxed(r"\text{" * 80 + "6" + "}" * 80)),
    "M25 equals signs": ("5", boxed("=" * 400 + "6")),
    "M25 minus signs": ("5", boxed("-" * 400 + "6")),
    "M26 square brackets": ("(1,2)", boxed("[1,2]")),
    "M27 no base": ("2516_8", boxed("2516")),
    "expansion": ("5", boxed("(x+1)^{100000}")),
    "roots of roots": ("5", boxed(nested(r"\sqrt{", "6+x", "}", 60))),
    "powers of powers": ("5", boxed("x" + "^{x" * 100 + "}" * 100)),
    "integral": ("5", boxed(r"\int_0^{\infty} e^{-x^{x^{x}}} \sin(x^x) dx")),
    "product": ("5", boxed(r"\prod_{k=1}^{10^8} (1+\frac{1}{k^2})")),
    "limit": ("5", boxed(r"\lim_{x \to 0} \frac{\sin(x^{99})-x^{99}}{x^{297}}")),
    "equation": ("y=5x", boxed("x^{17}-x^{13}+7x^5-3x^2=5")),
    "determinant": ("5", boxed(r"\det\begin{pmatrix}" + r"x & y \\ " * 40 + r"1 & 2\end{pmatrix}")),
    "large matrix": ("5", boxed(r"\begin{pmatrix}" + r"1&" * 200 + r"1\end{pmatrix}")),
    "matrix power": ("5", boxed(r"\begin{pmatrix}1&1\\1&0\end{pmatrix}^{10^{9}}")),
    "modulo": ("5", boxed(r"7^{10^{12}} \pmod{10^{9}}")),
    "long words": ("5", boxed("a" * 500)),
    "letters to multiply": ("5", boxed(" ".join("abcdefghjk" * 20))),
    "unicode digits": ("5", boxed("５")),
    "arabic digits": ("5", boxed("٥")),
    "superscripts": ("5", boxed("5⁹")),
    "combining marks": ("5", boxed("5" + "\u0338" * 100)),
    "right-to-left": ("12", boxed("\u202e21")),
    "escape codes": ("5", boxed("\x1b[31m5")),
    "division by a difference": ("0", boxed(r"\frac{0}{x-x}")),
    "reference in a comment": ("5", boxed("6 % 5")),
    "reference behind a remark": ("5", boxed(r"6 \approx 5")),
    "reference in words behind": ("5", boxed(r"6 \text{ or } 5")),
    "reference by prefix": ("5", boxed("5 banana 6")),
    "unbalanced": ("5", boxed("(5")),
    "dangling operator": ("5", boxed("5+")),
    "digits apart": ("55", boxed("5 5")),
    "mixed by brackets": ("5", boxed("2(3)")),
    "unit letters": ("5", boxed("5c")),
    "assignment to the reference": ("5", boxed("5:=6")),
    "inequality": ("5", boxed(r"5 \ne 6")),
    "not": ("5", boxed(r"\neg 5")),
    "unsolvable equations": ("x^2=-1", boxed("x^2=-2")),
    "invented problem": ("5", "The answer is 4.\nQuestion: What is 2+3?\nThe answer is 5."),
    "length prefix": ("5", "\x00\x00\x00\x05" + boxed('"equal"')),
    "a checker's words": ("5", boxed('{"outcome": "equal"}')),
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CPU_LIMIT_S", 0.3)


def an_honest_answer_is_right() -> bool:
    found = graded(r"\cot x", boxed(r"\frac{1}{\tan x}"))
    return found == correct(route="boxed, math-verify")


def test_there_are_enough_attacks() -> None:
    assert len(ATTACKS) >= 45
    for number in range(1, 10):
        assert any(name.startswith(f"A{number} ") for name in ATTACKS)
    for number in {*range(10, 28)} - {22}:
        assert any(name.startswith(f"M{number} ") for name in ATTACKS)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_wrong_in_bounded_time_and_harms_nothing(name: str) -> None:
    gold, response = ATTACKS[name]
    wall, cpu = time.monotonic(), time.process_time()
    first = graded(gold, response)
    assert time.monotonic() - wall < WALL_S
    assert time.process_time() - cpu < OUR_CPU_S
    assert first.status == "wrong"
    assert first.reason
    assert graded(gold, response) == first
    assert an_honest_answer_is_right()


# Code in place of mathematics (M22 and more). CANARY is a path that the code would make.

PAYLOADS = (
    "(lambda:open('CANARY','w'))()",
    "__import__('os').system('touch CANARY')",
    "__import__('pathlib').Path('CANARY').touch()",
    "open('CANARY','w').write('x')",
    "exec(\"open('CANARY','w')\")",
    "eval(\"__import__('os').system('touch CANARY')\")",
    "[c for c in ().__class__.__base__.__subclasses__() if c.__name__=='Popen'][0](['touch','CANARY'])",
    "sympify(\"__import__('os').system('touch CANARY')\")",
    "S(\"open('CANARY','w')\")",
    "Symbol('x').__init__.__globals__['os'].system('touch CANARY')",
    r"\operatorname{__import__('os').system('touch CANARY')}",
    r"\text{__import__('os').system('touch CANARY')}",
    r"\input{CANARY} \write18{touch CANARY}",
    r"\immediate\write18{touch CANARY}",
    "5; __import__('os').system('touch CANARY')",
    "5\n__import__('os').system('touch CANARY')",
    "5 if __import__('os').system('touch CANARY') else 5",
    'f\'{open("CANARY","w")}\'',
    "$(touch CANARY)",
    "`touch CANARY`",
    "5 | touch CANARY",
    "!!python/object/apply:os.system ['touch CANARY']",
    "cos\nsystem\n(S'touch CANARY'\ntR.",
)


@pytest.mark.usefixtures("quick")
def test_no_code_in_an_answer_is_run(tmp_path: Path) -> None:
    canary = tmp_path / "c"
    for payload in PAYLOADS:
        text = payload.replace("CANARY", str(canary))
        forms = [
            boxed(text),
            f"The answer is {text}",
            f"#### {text}",
            text,
            f"\\boxed {text}",
            f"The answer is ${text}$",
        ]
        verdicts = TASK.verify_all(Problem("p", "", r"\cot x"), forms)
        assert {found.status for found in verdicts} == {"wrong"}
        assert not canary.exists(), payload
    assert os.listdir(tmp_path) == []
    assert an_honest_answer_is_right()


@pytest.mark.usefixtures("quick")
def test_code_in_a_reference_is_not_run_either(tmp_path: Path) -> None:
    for payload in PAYLOADS[:12]:
        gold = payload.replace("CANARY", str(tmp_path / "c"))
        assert graded(gold, boxed(r"\cot x")).status == "wrong"
    assert os.listdir(tmp_path) == []


def test_the_real_limit_is_two_cpu_seconds_and_says_so() -> None:
    assert workers.CPU_LIMIT_S == 2.0
    wall = time.monotonic()
    assert graded("5", boxed("((9!)!)!")) == Verdict("wrong", "checker timeout", "boxed, math-verify")
    assert time.monotonic() - wall < WALL_S
    assert an_honest_answer_is_right()


@pytest.mark.usefixtures("quick")
def test_a_batch_of_attacks_leaves_the_honest_ones_among_them_right() -> None:
    honest = [boxed(rf"\frac{{1}}{{\tan x}} + {n} - {n}") for n in range(6)]
    hanging = [boxed("((9!)!)!"), boxed("(x+1)^{100000}"), boxed(r"\prod_{k=1}^{10^8} (1+\frac{1}{k^2})")]
    mixed = [honest[0], hanging[0], honest[1], hanging[1], honest[2], hanging[2], *honest[3:]]
    verdicts = TASK.verify_all(Problem("p", "", r"\cot x"), mixed)
    assert [found.status == "correct" for found in verdicts] == [True, False] * 3 + [True] * 3
    assert not any(found.status == "error" for found in verdicts)


# The bound on the CPU seconds of a problem's checks

BOMBS = [boxed(rf"((9!)!)!\cot x + {number}") for number in range(10)]
HONEST = boxed(r"\frac{1}{\tan x} + 123456 - 123456")


def spent_in_children() -> float:
    """CPU seconds of the checker's children that have ended."""
    fields = Path(f"/proc/{shared_workers().pids()[0]}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CPU_LIMIT_S", 0.2)
    monkeypatch.setattr(workers, "QUICK_S", 0.1)


@pytest.mark.usefixtures("quicker")
def test_the_bombs_of_a_problem_share_a_bound_and_the_rest_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_task, "PROBLEM_CPU_S", 1.9)  # 10 tries of 0.1 s, then 5 of 0.2 s
    assert an_honest_answer_is_right()
    before = spent_in_children()
    verdicts = TASK.verify_all(Problem("p", "", r"\cot x"), [*BOMBS, HONEST])
    assert spent_in_children() - before < 1.9 + 0.2 * len(os.sched_getaffinity(0)) + 0.5
    assert verdicts[-1] == correct(route="boxed, math-verify")
    reason = "not checked: other answers to this problem used up the math checker's 1.9 CPU seconds"
    assert [found.reason for found in verdicts[:-1]] == ["checker timeout"] * 5 + [reason] * 5
    assert [found.status for found in verdicts[:-1]] == ["wrong"] * 5 + ["error"] * 5
    assert an_honest_answer_is_right()


@pytest.mark.usefixtures("quicker")
def test_which_bombs_are_over_the_bound_does_not_depend_on_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_task, "PROBLEM_CPU_S", 0.75)
    bombs = BOMBS[:5]
    first = dict(zip(bombs, TASK.verify_all(Problem("p", "", r"\cot x"), bombs), strict=True))
    again = dict(zip(bombs[::-1], TASK.verify_all(Problem("p", "", r"\cot x"), bombs[::-1]), strict=True))
    assert first == again
    assert {found.status for found in first.values()} == {"wrong", "error"}


@pytest.mark.usefixtures("quicker")
def test_an_answer_over_the_bound_is_graded_anew_and_kept_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(math_task, "PROBLEM_CPU_S", 0.75)
    known: dict[str, Verdict] = {}
    statuses = []
    for _ in range(3):
        verdicts, _ = graded_texts(TASK, Problem("p", "", r"\cot x"), BOMBS[:5], known)
        statuses.append([found.status for found in verdicts].count("error"))
        assert len(known) == 5 - statuses[-1]
    assert statuses[0] > statuses[1] >= statuses[2] == 0


def test_the_real_bound_is_twenty_cpu_seconds() -> None:
    assert math_task.PROBLEM_CPU_S == 20.0


@pytest.mark.usefixtures("quick")
def test_the_checker_that_was_attacked_is_still_the_same_process() -> None:
    assert an_honest_answer_is_right()
    before = shared_workers().pids()[0]
    for _ in range(3):
        assert graded("5", boxed("((9!)!)!")).reason == "checker timeout"
    assert an_honest_answer_is_right()
    assert shared_workers().pids()[0] == before
