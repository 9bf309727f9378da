r"""Whole responses and their verdicts, by what a grader must do with them. The texts are ours.

kind: (task, response, references for which it is right, those for which it is wrong), between bars; `own` is
`own:grader=number`, `own-math` `own:grader=math`
"""

from __future__ import annotations

ROWS: dict[str, list[tuple[str, str, str, str]]] = {
    "no word before a box takes it back": [
        ("math", r"The number of ways such that A is not first is \(\boxed{9}\).", "9", ""),
        ("math", r"There are $\boxed{24}$ ways in all. The number with chocolate not on the bottom is $\boxed{18}$.",
            "18", "24"), ("math", r"The number that cannot be written so: $\boxed{11}$", "11", ""),
        ("gsm8k", r"The days on which she does not work are \boxed{9}.", "9", ""),
        ("own", r"In all \boxed{24}. Those not on the bottom: \boxed{18}", "18", "24"),
    ],
    "a statement is read as a whole": [
        ("math", "Final Answer: The largest $n$ is 34.", "34", "n"),
        ("math", r"The answer is that the probability $p$ equals $\frac{5}{6}$.", r"\frac{5}{6}", ""),
        ("math", "The answer is $5$ million.", "5000000", "5"),
        ("math", "The answer is $2^{10}$ + 1.", "2^{10}+1", "2^{10}"),
        ("gsm8k", "Answer: Tom has 34 marbles.", "34", ""), ("own", "**Answer:** $x$ = 120", "120", ""),
    ],
    "signs and currencies of other keyboards": [
        ("gsm8k", "#### −18", "-18", "18"), ("gsm8k", "#### –18", "-18", ""),
        ("gsm8k", "So he has −18 dollars", "-18", ""), ("gsm8k", "#### £42", "42", ""),
        ("gsm8k", "#### ₹ 42", "42", ""), ("gsm8k", "#### ４２", "42", ""), ("math", r"\boxed{−5}", "-5", ""),
    ],
    "the last number, however it is introduced": [
        ("gsm8k", "<answer>70</answer>", "70", ""), ("gsm8k", "5 * 14 => 70", "70", ""),
        ("gsm8k", "5 * 14 → 70", "70", ""), ("gsm8k", "**70**", "70", ""),
        ("gsm8k", "So it costs 1.5 million.", "1500000", ""), ("math", "<answer>70</answer>", "70", ""),
        ("own", "5 * 14 => 70", "70", ""),
    ],
    "digits inside something else are no number": [
        ("math", r"So it is $\frac{3}{4}$", r"\frac{3}{4}", "4"), ("math", "So it is $2^{10}$", "", "10"),
        ("math", r"So it is $\sqrt{2}$", "", "2"), ("gsm8k", "So it costs 1.5 million.", "", "5"),
        ("gsm8k", "They share it 3:2", "", "2"), ("gsm8k", "She has 7 + 5", "", "5"),
        ("gsm8k", "between 20-24", "", "24"), ("own", "So it is 2^10", "", "10"),
    ],
    "another turn or problem ends the response": [
        ("gsm8k", "#### 18\nuser\nAnd what is 2 + 3?\nassistant\n#### 5", "18", "5"),
        ("gsm8k", "#### 18\n\nHuman: What is 2 + 3?\n\nAssistant: #### 5", "18", ""),
        ("gsm8k", "#### 18<|im_end|>\n<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n#### 5", "18", ""),
        ("gsm8k", "#### 18 [INST] What is 2 + 3? [/INST] #### 5", "18", ""),
        ("gsm8k", "#### 18\n\n### Instruction:\nWhat is 2 + 3?\n\n### Response:\n#### 5", "18", ""),
        ("gsm8k", "#### 18<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n#### 5", "18", ""),
        ("gsm8k", "#### 18<end_of_turn>\n<start_of_turn>user\n#### 5", "18", ""),
        ("gsm8k", "#### 18<｜User｜>What is 2 + 3?<｜Assistant｜>#### 5", "18", ""),
        ("gsm8k", "#### 18</s>#### 5", "18", ""), ("gsm8k", "#### 18<|endoftext|>#### 5", "18", ""),
        ("gsm8k", "So he has 18 dollars.\n\nHuman: and 2 + 3?\n\nAssistant: 5", "18", ""),
        ("gsm8k", "#### 18\n\nExercise 3. What is 2 + 3?\n#### 5", "18", ""),
        ("math", "\\boxed{18}\n\n## Problem\nSo \\boxed{5}", "18", ""),
        ("math", "\\boxed{18}\n\nQ: 12 men dig. How many?\nA: \\boxed{5}", "18", ""),
        ("math", "\\boxed{18}\n\nInput: more\nOutput: \\boxed{5}", "18", ""),
        ("math", "The answer goes in \\boxed{}.\n\nProblem: find x.\n\nSolution: \\boxed{18}", "18", ""),
        ("math", "<|im_start|>assistant\nProblem: What is 2 + 3?\nSolution: \\boxed{5}", "5", ""),
        ("math", r"<|channel|>analysis<|message|>It is 5.<|end|><|start|>assistant<|channel|>final<|message|>\boxed{5}",
            "5", ""),
    ],
    "an equation is not its right side": [
        ("math", r"\boxed{|x-3|=7}", "", "7"),
    ],
    "formulas and units at the end": [
        ("gsm8k", "The proceeds are $118 000.", "118000", "0"), ("gsm8k", "so that is 84/12 = 7 dozen eggs", "7", ""),
        ("gsm8k", "#### 7 dozen", "7", ""), ("math", r"So it is $\dfrac{1}{3} $.", "1/3", ""),
        ("math", r"It is $ \begin{pmatrix}1 & 0 \\ 0 & 1\end{pmatrix} $.",
            r"\begin{pmatrix}1 & 0 \\ 0 & 1\end{pmatrix}", ""), ("gsm8k", "So he runs 15km.", "15", ""),
        ("gsm8k", "She is 3rd", "", "3"), ("gsm8k", "It is .4", "0.4", ""),
    ],
    "an answer twice is two answers": [
        ("gsm8k", "#### 5,5", "", "5"),
    ],
    "units and digits of other alphabets": [
        ("gsm8k", "#### 42个", "42", ""),
    ],
    "an empty box hides no answer": [
        ("math", r"So \boxed{5}. (Final answer within \boxed{}.)", "5", ""),
        ("math", r"So \boxed{5}." + " It is so." * 3_000, "5", ""),
        ("math", r"So \boxed{5}. It is put into \boxed{\ldots} as you asked.", "5", ""),
        ("gsm8k", "#### 5\n(Final answer within \\boxed{}.)", "5", ""),
        ("math", r"The answer is 5, and not within \boxed{}.", "5", ""),
    ],
    "the same in another form": [
        ("math", r"\boxed{|x|}", "", "x"),
    ],
    "grader=math of own problems": [
        ("own-math", r"\boxed{\frac{1}{\sqrt{3}}}", r"\frac{\sqrt{3}}{3}", ""),
        ("own-math", r"\boxed{\sqrt{3}}", "", r"\frac{\sqrt{3}}{3}"),
        ("own-math", "The answer is 0.5.", r"$\frac{1}{2}$", ""), ("own-math", r"\boxed{(-\infty, 3)}", "x<3", ""),
        ("own-math", r"\boxed{x \le 3}", "", "x<3"),
    ],
}  # fmt: skip
