"""The tasks of this distribution, by name. A task's module is imported when the task is asked for."""

from __future__ import annotations

from harness import hookimpl
from harness.hookspecs import Register

TASKS = {
    "game24": "game24:Game24",
    "gsm8k": "gsm8k:Gsm8k",
    "math": "competition_math:Math",
    "math500": "competition_math:Math500",
    "aime24": "aime:Aime24",
    "aime25": "aime:Aime25",
    "dapo-math": "dapo:DapoMath",
    "dapo-aime": "dapo:DapoAime",
    "mbppplus": "evalplus_tasks:MbppPlus",
    "humanevalplus": "evalplus_tasks:HumanEvalPlus",
    "proteins": "proteins:Proteins",
    "own": "own:Own",
}


@hookimpl
def register_tasks(register: Register) -> None:
    """Register them."""
    for name, place in TASKS.items():
        register(name, f"harness_tasks.{place}")
