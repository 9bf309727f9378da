"""The rules by which mathematical answers are graded, for `MathTask` and the graders of own problems: strings only.

`extraction` finds the final answer, `normal_form` spells it in one way, `equality` compares it by text, structure and
`values`; what needs algebra goes to math-verify in separate processes (`checker`, `sandbox.forked`). None of these
modules knows a task or a verdict.
"""
