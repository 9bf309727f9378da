r"""Grading of mathematical answers: `MathTask`, which the tasks gsm8k, math, math500, aime and dapo take up.

A response is graded by what it states last: `extraction` finds it, `normal_form` spells it one way, `equality` compares
it with the reference as text, as an exact number (`exact_number`), by structure and by value (`evaluation`); what needs
algebra goes to math-verify in a process of its own (`workers`, `checker`). `strict_rules` holds verl's rules for MATH
and GSM8K, for `--audit` and as the reward in RL.
"""

from .math_task import MathTask

__all__ = ["MathTask"]
