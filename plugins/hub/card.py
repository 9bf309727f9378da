"""Write the dataset card of a pool's repository: its README.md, with the front matter that the hub reads."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.columns.stored import StoredPool
from harness.results import inert_text

from .dataset import HubDataset, Snapshot

NAME = "README.md"
SPLIT = "pool"  # `datasets` needs a split's name; a pool has no train and test
SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B", "n>1B")
_OURS = re.compile(rb"\n<!-- ([0-9a-f]{64}) -->\n\Z")  # ends a card: the hash of what stands before it


@dataclass(frozen=True)
class Card:
    """What a card says.

    licence   of the responses, as the hub writes it; None: the card says "unknown"
    prompts   the licence of the problems' texts; None if they are not there
    """

    pool: StoredPool
    repo: str
    licence: str | None
    prompts: str | None
    problems: int
    rows: int

    def page(self, folders: Sequence[str]) -> str:
        """The card, Markdown after a front matter of YAML; `folders`: those of the columns in the repository.

        The front matter's values are written as JSON, which is valid YAML, so that no value can end the front matter.
        """
        front = "".join(f"{name}: {json.dumps(value)}\n" for name, value in self._front_matter(folders).items())
        page = f"---\n{front}---\n\n{self._body(folders)}".rstrip("\n")
        return f"{page}\n<!-- {hashlib.sha256(page.encode('utf-8', 'replace')).hexdigest()} -->\n"

    def _front_matter(self, folders: Sequence[str]) -> dict[str, Any]:
        at = self.pool.folder.name
        configs: list[dict[str, Any]] = [
            {"config_name": folder, "data_files": [{"split": SPLIT, "path": f"{at}/{folder}/*.parquet"}]}
            for folder in folders
            if not folder.startswith("vectors.")
        ]
        configs[0]["default"] = True  # the responses: their name comes first
        return {
            "license": self.licence or "unknown",
            "pretty_name": f"Pool {self.pool.key}: {self._title}",
            "tags": ["diversity-harness", "pool", "synthetic"],
            "task_categories": ["text-generation"],
            "size_categories": [SIZES[min(max(len(str(self.rows)) - 3, 0), len(SIZES) - 1)]],
            "configs": configs,
        }

    @property
    def _title(self) -> str:
        name = self.pool.about.get("task") or "problems of its own"
        model = self.pool.about.get("engine", {}).get("model")
        return f"{name}, {model}" if model else str(name)

    def _body(self, folders: Sequence[str]) -> str:
        made = "".join(f"| {inert_text.markdown(name)} | {_cell(value)} |\n" for name, value in flat(self.pool.about))
        texts = (
            "The problems' texts are not here: `problems.jsonl` has their ids, and the task's own data says which "
            "problem a response answers. Responses may quote them."
            if self.prompts is None
            else "The problems' texts (in `problems.jsonl`) are under a licence of their own: "
            f"{inert_text.markdown(_line(self.prompts))}."
        )
        return f"""# {inert_text.markdown(_line(self._title))}

A pool of [diversity-harness](https://pypi.org/project/diversity-harness/): {self.rows:,} responses of a language model
to {self.problems:,} problems, for measuring in which order to verify them.

```sh
harness pool pull {self.repo}
```

brings it into a store under its key, `{self.pool.key}`, with every file checked; `harness run` with the settings below
then samples nothing. Without the harness:

```python
from datasets import load_dataset

responses = load_dataset("{self.repo}", split="{SPLIT}")
```

{texts}

## How it was made

| setting | value |
|---|---|
{made}| harness | {_cell(__version__)} |

## What is here

{"".join(f"- `{folder}`{chr(10)}" for folder in folders)}
Each folder has one file a problem, which its name begins with; `column.json` says what made them. A row is a response,
in the order in which it was sampled: `text`, `finish` ("stop": the model ended it, "length": the limit did), `length`
in tokens, `logprob` (the sum over the tokens of the model's own log-probabilities; NaN where unknown), `token_ids`, and
`score:...`, numbers of reward models or judges, if there are any. Vectors are arrays (`numpy.load`). A file's name ends
with the hash of its content.
"""


def is_ours(hub: HubDataset, snapshot: Snapshot) -> bool:
    """Whether the repository has no card, or one as we wrote it, that nobody has edited."""
    if NAME not in snapshot.files:
        return True
    with tempfile.TemporaryDirectory() as folder:
        hub.fetch(snapshot.commit, NAME, (), Path(folder))
        content = (Path(folder) / NAME).read_bytes()
    match = _OURS.search(content)
    return match is not None and hashlib.sha256(content[: match.start()]).hexdigest().encode() == match[1]


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
