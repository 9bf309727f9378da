"""Lines and rows as evaluation tools write them; tests change a field or two."""

# lm-eval 0.4.13, of a task that generates
LM_EVAL = {
    "doc_id": 0, "doc": {"question": "Say colour 0 (test).", "answer": "red"}, "target": "red",
    "arguments": {"gen_args_0": {"arg_0": "Q: Say colour 0 (test).\nA:", "arg_1": {"until": ["\n"]}}},
    "resps": [["red"]], "filtered_resps": ["red"], "filter": "strict-match", "metrics": ["exact_match"],
    "doc_hash": "0" * 64, "prompt_hash": "5f" * 32, "target_hash": "0c" * 32, "exact_match": 1.0,
}  # fmt: skip

# lighteval 0.13
NEW_DETAIL = {
    "doc": {"query": "Solve this.", "choices": ["red"], "gold_index": 0, "id": "0", "task_name": "toy"},
    "metric": {"pass@k:k=1": 1.0},
    "model_response": {"input": "few shots", "text": ["red"], "text_post_processed": None, "logprobs": []},
}

# lighteval up to 0.10
OLD_DETAIL = {
    "example": "Say colour 0 (test).",
    "full_prompt": "Question: Say colour 9 (test).\nAnswer: red\n\nSay colour 0 (test).", "gold": ["red"],
    "predictions": ["red"], "metrics": {"qem": 0.0},
}  # fmt: skip

# A validation dump of verl: the prompt as the tokenizer decodes it, special tokens left out
VERL = {
    "input": "system\nYou are Qwen.\nuser\nSay colour 0 (test).\nassistant\n", "output": "say red", "gts": "red",
    "score": 1.0, "step": 40, "acc": True,
}  # fmt: skip

# As little of a line or file as tells its layout
LINES = {
    "own": {"problem_id": "a", "responses": ["x"]}, "evalplus": {"task_id": "Mbpp/2", "solution": "def f(): return 1"},
    "lm-eval": {"doc_id": 0, "doc": {"question": "q"}, "resps": [["x"]], "filter": "none"},
    "verl": {"input": "i", "output": "o", "score": 1.0, "step": 1}, "codet": {"prompt": "p", "samples": ["x"]},
}  # fmt: skip
FILES = {
    "pool.parquet": b"PAR1", "log.eval": b"PK\x03\x04", "log.json": b'{\n  "version": 2,\n  "status": "success"}',
    "pool.fasta": b">a\nMK\n", "pool.csv": b"name,sequence\na,MK\n", "screen.csv": b"smiles,active\nCCO,1\n",
    "pool.smi": b"CCO a\n", "folder/HumanEval_0/0.py": b"# 0",
}  # fmt: skip
