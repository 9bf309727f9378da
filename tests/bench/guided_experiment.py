"""The paper's RF5 at small scale: `python tests/bench/guided_experiment.py`, then `harness plot guided`.

tiny24 on the hardest puzzles that its stored pool solves at least once (a cell under results/ says which; the paper
drops the others too), beta in {0, 0.5, 1}, several seeds, each sequence stopped at its first correct response. Prints a
line a beta; started again it goes on. docs/engines.md has what was found.

Seeds begin at 1: the cell's pool was sampled with seed 0, and with the same random numbers beta = 0 would sample the
same failures again by which the puzzles were chosen.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from harness.jobs import until_correct
from harness.jobs.options import RunConfig
from harness.results import cells, published, stopping_times
from harness.system.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.bench_sizes import parsed

RESULTS, CELL = Path(__file__).parents[2] / "results", "06b64f335ebc228ba58c"


def write_hardest(cell: str, count: int, path: Path) -> None:
    """Write the hardest puzzles of a cell that have a correct response, those of equal hardness by their ids."""
    measured = published.read(published.named(cell, [RESULTS], "guided_experiment"))
    outcomes = cells.outcomes(measured)
    ids = [entry["id"] for entry in measured["problems"]]
    solved = sorted((correct / n, id_) for id_, n, correct in zip(ids, outcomes.n, outcomes.c, strict=True) if correct)
    path.write_text("".join(json.dumps({"problem_id": id_}) + "\n" for _, id_ in solved[:count]))


def main() -> None:
    """Run all, and print what came of each beta."""
    parser = argparse.ArgumentParser(description="share solved against budget, with and without the bonus")
    parser.add_argument("--store", type=Path, default=Path("guided-runs"))
    parser.add_argument("--cell", default=CELL)
    parser.add_argument("--puzzles", type=int, default=30)
    parser.add_argument("--n", type=int, default=1024)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--betas", type=float, nargs="+", default=[0.0, 0.5, 1.0])
    options = parsed(parser, puzzles=1, n=2, seeds=1, betas=[1.0])
    torch.set_num_threads(1)
    options.store.mkdir(parents=True, exist_ok=True)
    only = options.store / "hardest.jsonl"
    write_hardest(options.cell, options.puzzles, only)
    for seed in range(1, options.seeds + 1):
        for beta in options.betas:
            config = RunConfig(
                task="game24",
                sampler=f"repexp-guided:beta={beta:g}",
                split="heldout",
                only=only,
                n=options.n,
                seed=seed,
                store=options.store,
                until_correct=True,
            )
            row = until_correct.run(config, Progress())
            print(f"seed {seed}, beta {beta:g}: {row['solved']} of {row['problems']} solved", flush=True)
    records = [stopping_times.read(path) for path in sorted((options.store / stopping_times.FOLDER).glob("*.json"))]
    for beta in options.betas:
        row = stopping_times.row([record for record in records if record["inputs"]["sampler"]["beta"] == beta])
        shares = {
            k: (round(row["share_solved"][k], 3), round(row["share_solved_se"][k], 3)) for k in row["share_solved"]
        }
        mean = row["restricted_mean"][str(options.n)], row["restricted_mean_se"][str(options.n)]
        print(f"beta {beta:g}: restricted mean {mean[0]:.1f} ± {mean[1]:.1f}; solved {shares}")


if __name__ == "__main__":
    main()
