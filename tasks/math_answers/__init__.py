"""Grade mathematical answers: `MathTask`, the base class of the tasks of gsm8k, competition_math, aime and dapo.

A response is graded by what it states last, in these steps:

extraction     finds the final answer in the response
normal_form    spells it in one way; wording, intervals and structure help
equality       compares it with the reference: as text, as an exact number (exact_number), by its structure, by its
               value (evaluation)
workers        passes what needs algebra to math-verify, in separate processes (checker_process, checker)
strict_rules   verl's stricter rules for MATH and GSM8K, for `--audit` and as the reward in RL
"""

from .math_task import MathTask

__all__ = ["MathTask"]
