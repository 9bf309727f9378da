"""What runs inside verl's processes: our trainer and workers, on verl's own extension points.

`plugin` is what verl loads (entry-point group `verl.plugins`), `__main__` what the harness starts. Nothing here copies
verl's loop; `contract` names all that is private to verl and leaned on.
"""

from __future__ import annotations

RUN = "HARNESS_RL_RUN"  # names the run's folder in the environment of all its processes
