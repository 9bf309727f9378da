"""Train with the bonus: GRPO on Game of 24 with RepExp's bonus, then pass@k before and after, on held-out puzzles.

    .venv/bin/pip install --constraint constraints.txt --editable '.[trl]'
    python examples/train.py

Two steps of a model of a million parameters on a CPU: they show the commands, and learn nothing yet. Without `SMALL`
and `FEW` it is a real run; `--bonus none` is plain GRPO beside it.
"""

import subprocess
import sys

SMALL = "--model tiny24-weak --limit 8 --set steps=2 --set batch=4 --set mini_batch=4 --set rollouts=4"
FEW = "--n 8 --limit 4 --max-tokens 64"
TRAIN = (
    f"rl train --task game24 --trainer trl --cpu --preset exploring --bonus repexp --out runs/rl/repexp --yes {SMALL}"
)

for command in (TRAIN, f"rl eval runs/rl/repexp --yes {FEW}"):
    print("$ harness", command, flush=True)
    subprocess.run([sys.executable, "-m", "harness", *command.split()], check=True)
