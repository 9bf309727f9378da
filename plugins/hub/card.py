"""Write the dataset card of a pool's repository: its README.md, with the front matter that the hub reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.results import inert_text

from .manifest import Manifest, StageEntry

SPLIT = "pool"  # `datasets` needs a split's name; a pool has no train and test
SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "n>1B")


def card(manifest: Manifest, repo: str, licence: str) -> str:
    """Return the card, Markdown after a front matter of YAML.

    repo      OWNER/NAME, for the card's commands
    licence   of the responses, as the hub writes it; "unknown" if none is given

    The front matter's values are written as JSON, which is valid YAML, so that no value can end the front matter.
    """
    front = "".join(f"{name}: {json.dumps(value)}\n" for name, value in _front_matter(manifest, licence).items())
    return f"---\n{front}---\n\n{_body(manifest, repo)}"


def _front_matter(manifest: Manifest, licence: str) -> dict[str, Any]:
    configs: list[dict[str, Any]] = [
        {"config_name": stage.folder, "data_files": [{"split": SPLIT, "path": f"{stage.folder}/*.parquet"}]}
        for stage in manifest.stages
    ]
    configs[0]["default"] = True
    return {
        "license": licence,
        "pretty_name": f"Pool {manifest.pool.key}: {_title(manifest)}",
        "tags": ["diversity-harness", "pool", "synthetic"],
        "task_categories": ["text-generation"],
        "size_categories": [_size(manifest.pool.rows)],
        "configs": configs,
    }


def _size(rows: int) -> str:
    return SIZES[min(max(len(str(rows)) - 3, 0), len(SIZES) - 1)]


def _title(manifest: Manifest) -> str:
    inputs = manifest.pool.inputs
    task = inputs.get("task")
    name = task["name"] if isinstance(task, dict) else task or "problems of its own"
    model = inputs.get("engine", {}).get("model")
    return f"{name}, {model}" if model else str(name)


def _body(manifest: Manifest, repo: str) -> str:
    pool = manifest.pool
    made = "".join(f"| {inert_text.markdown(name)} | {_cell(value)} |\n" for name, value in flat(pool.inputs))
    held = "".join(_held(stage) for stage in manifest.stages)
    return f"""# {inert_text.markdown(_line(_title(manifest)))}

A pool of [diversity-harness](https://pypi.org/project/diversity-harness/): {pool.rows:,} responses of a language model
to {len(pool.shards):,} problems, for measuring in which order to verify them.

```sh
harness pool pull {repo}
```

brings it into a store under its key, `{pool.key}`, with every hash checked; `harness run` with the settings below then
samples nothing. Without the harness:

```python
from datasets import load_dataset

responses = load_dataset("{repo}", split="{SPLIT}")
```

{_about_prompts(manifest)}

## How it was made

| setting | value |
|---|---|
{made}| harness | {_cell(manifest.made_by)} |

## What is here

| table | rows | bytes | made from |
|---|---|---|---|
{held}
A row is a response: `problem_id`, `index` (from 0, in its problem), and in `responses` `text`, `finish` ("stop": the
model ended it, "length": the limit did), `length` in tokens, `logprob` (the sum over the tokens of the model's own
log-probabilities; NaN where unknown) and `token_ids`{_scores(manifest)}. `manifest.json` has the SHA-256 of every file.
"""


def _scores(manifest: Manifest) -> str:
    names = ", ".join(_cell(f"score:{name}") for name in manifest.scores)
    return f";\nfurther {names}, numbers of reward models or judges, NaN where unknown" if names else ""


def _held(stage: StageEntry) -> str:
    size = sum(file.size for file in stage.files)
    own = {
        name: value for name, value in stage.inputs.items() if name in ("embedder", "dim", "task", "grader", "given")
    }
    return f"| `{stage.folder}` | {stage.rows:,} | {size:,} | {_cell(own)} |\n"


def _about_prompts(manifest: Manifest) -> str:
    if manifest.prompts is not None:
        licence = inert_text.markdown(_line(manifest.prompts))
        return f"The problems' texts (`prompt`) are under a licence of their own: {licence}."
    return (
        "The problems' texts are not here: `problem_id` and the task's own data say which problem a response answers. "
        "Responses may quote them."
    )


def flat(inputs: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of each setting in nested `inputs`, e.g. ("sampler.temperature", 1.0).

    `before` is put before each name.
    """
    for name, value in inputs.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{_line(text).replace('|', '/').replace('`', chr(39))}`"


def _line(text: str) -> str:
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
