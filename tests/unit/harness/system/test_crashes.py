"""A verifier's own exception is told from its judgement."""

import subprocess
import sys

from harness.system.crashes import crashed

PROGRAMS = {  # a program, with the response in `response.py` -> whether it failed itself
    "raise KeyError('licence')": True,
    "import no_such_module": True,
    "raise SystemExit(1)": False,
    "import sys; print('wrong', file=sys.stderr); sys.exit(1)": False,
    "assert 1 == 2, 'two lines\\nof reason'": False,
    "raise ValueError('two\\nlines')": True,
    "def f(:": True,
    "exec(open('response.py').read())": False,
    "import runpy; runpy.run_path('response.py')": False,
    "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise AssertionError from None": False,
    "try:\n    assert False\nexcept AssertionError:\n    {}['key']": True,
    "import unittest\nclass T(unittest.TestCase):\n    def test(self): {}['x']\nunittest.main()": False,
}


def test_an_exception_of_the_verifier_is_its_own_fault_and_a_failed_check_or_the_responses_is_not(tmp_path):
    (tmp_path / "response.py").write_text("undefined_name\n")
    (tmp_path / "check.py").touch()
    wrong = {}
    for program, own in PROGRAMS.items():
        (tmp_path / "check.py").write_text(program)
        done = subprocess.run([sys.executable, "check.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 1, program
        if crashed(done.stderr, ["response.py"]) != own:
            wrong[program] = done.stderr
    assert wrong == {}
