"""What a process may still do after it gave up its privileges."""

import os

import pytest
from support.processes import printed_by

GIVE_UP = "from harness_tasks.sandbox.confinement import give_up_privileges; give_up_privileges(); "


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may drop what later programs could regain")
def test_no_capability_is_left_and_none_can_be_regained():
    status = printed_by(GIVE_UP + "print(open('/proc/self/status').read())").splitlines()
    assert [line.split()[1] for line in status if line.startswith("Cap")] == ["0" * 16] * 5
    assert "NoNewPrivs:\t1" in status
