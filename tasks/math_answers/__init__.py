"""Grade mathematical answers: `MathTask`, the base class of the tasks of gsm8k, competition_math, aime and dapo.

`extraction` finds the final answer, `normal_form` spells it in one way, `equality` compares it by text, structure and
`values`; what needs algebra goes to math-verify in separate processes (`checker`, `sandbox.forked`).
"""

from .math_task import MathTask

__all__ = ["MathTask"]
