"""Code that runs inside verl's processes: the harness' trainer and workers, attached to verl's extension points.

verl loads `plugin` (entry-point group `verl.plugins`); the harness starts `__main__`. verl's training loop is not
copied. All that is used of verl, private parts too, is that of one version (`verl_trainer.VERSION`).
"""

from __future__ import annotations

RUN = "HARNESS_RL_RUN"  # environment variable of all processes of a run: the run's folder
