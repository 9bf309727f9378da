"""The paper's RF5 at small scale: `python tests/bench/guided_experiment.py`, then `harness plot guided`.

tiny24 on the 30 hardest puzzles that its stored pool solves at least once (a cell under results/ says which; the paper
drops the others too), beta in {0, 0.5, 1}, several seeds, each sequence stopped at its first correct response. Prints a
line a beta; started again it goes on. docs/paper.md has what was found.

Seeds begin at 1: the cell's pool was sampled with seed 0, and with the same random numbers beta = 0 would sample the
same failures again by which the puzzles were chosen.
"""

import json
import sys
from pathlib import Path

import torch

from harness.jobs import until_correct
from harness.jobs.options import RunConfig
from harness.results import cells, published, stopping_times
from harness.system.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.benches import sizes
from support.paths import ROOT

RESULTS, CELL = ROOT / "results", "06b64f335ebc228ba58c"
BETAS = (0.0, 0.5, 1.0)
STORE = Path("guided-runs")


def write_hardest(count: int, path: Path) -> None:
    """Write the hardest puzzles of the cell that have a correct response, those of equal hardness by their ids."""
    measured = published.read(published.named(CELL, [RESULTS], "guided_experiment"))
    outcomes = cells.outcomes(measured)
    ids = [entry["id"] for entry in measured["problems"]]
    solved = sorted((correct / n, id_) for id_, n, correct in zip(ids, outcomes.n, outcomes.c, strict=True) if correct)
    path.write_text("".join(json.dumps({"problem_id": id_}) + "\n" for _, id_ in solved[:count]))


def main() -> None:
    """Run all, and print what came of each beta."""
    options = sizes(__doc__, n=(1024, 2), seeds=(5, 1), puzzles=(30, 1))
    betas = BETAS[-1:] if options.smallest else BETAS
    torch.set_num_threads(1)
    STORE.mkdir(exist_ok=True)
    only = STORE / "hardest.jsonl"
    write_hardest(options.puzzles, only)
    fixed = {"task": "game24", "split": "heldout", "only": only, "n": options.n, "store": STORE, "until_correct": True}
    for seed in range(1, options.seeds + 1):
        for beta in betas:
            config = RunConfig(sampler=f"repexp-guided:beta={beta:g}", seed=seed, **fixed)
            row = until_correct.run(config, Progress())
            print(f"seed {seed}, beta {beta:g}: {row['solved']} of {row['problems']} solved", flush=True)
    records = [stopping_times.read(path) for path in sorted((STORE / stopping_times.FOLDER).glob("*.json"))]
    for beta in betas:
        row = stopping_times.row([record for record in records if record["inputs"]["sampler"]["beta"] == beta])
        errors = row["share_solved_se"]
        shares = {k: (round(share, 3), round(errors[k], 3)) for k, share in row["share_solved"].items()}
        mean, error = row["restricted_mean"][str(options.n)], row["restricted_mean_se"][str(options.n)]
        print(f"beta {beta:g}: restricted mean {mean:.1f} ± {error:.1f}; solved {shares}")


if __name__ == "__main__":
    main()
