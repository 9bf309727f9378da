"""The conformance kit: checks of what the harness expects of a plugin; the plugin's tests call them.

    from harness.testing import checks

    @pytest.mark.parametrize("check", checks("selector"), ids=str)
    def test_it_conforms(check):
        check(MySelector())

A check is called with the built component. It returns, or raises `ConformanceError` (an AssertionError, one line:
check, component, what, got, what to do), or `Inapplicable` (a unittest.SkipTest, which pytest shows as a skip). The kit
does not import pytest. `harness check KIND NAME` runs the same checks; docs/plugins.md says what that proves.
"""

from .checking import KINDS, Check, ConformanceError, Inapplicable, check_registered, checks, findings

__all__ = ["KINDS", "Check", "ConformanceError", "Inapplicable", "check_registered", "checks", "findings"]
