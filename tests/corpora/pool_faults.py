"""Pool files, tables and lines that are refused, each with what is said of it."""

import gzip
import json

OWN_LINE = {"problem_id": "a", "responses": ["x", "y"]}
OWN_LINES = [
    ({"responses": ["x"]}, "line 1: expected"), ({"problem_id": "a"}, "line 1: expected"),
    (OWN_LINE | {"problem_id": 3}, "line 1: problem_id must be a text, got 3"),
    (OWN_LINE | {"responses": []}, "line 1 (a): no responses"),
    (OWN_LINE | {"responses": ["x", 1]}, "line 1 (a): responses must be a list of texts"),
    (OWN_LINE | {"prompt": 3}, "line 1 (a): prompt must be a text, got 3"),
    (OWN_LINE | {"correct": [True]}, "correct must be a list as long as responses (2), got 1 entries"),
    (OWN_LINE | {"correct": [2, 0]}, "correct must hold true and false only"),
    (OWN_LINE | {"finish": ["stop", "eos"]}, 'finish must hold "stop" and "length" only'),
    *((OWN_LINE | {"logprobs": [-1, bad]}, "logprobs must hold numbers only") for bad in (True, float("nan"))),
    (OWN_LINE | {"scores": [1]}, "scores 'score' must be a list as long as responses (2), got 1 entries"),
    (OWN_LINE | {"scores": {"rm": 3}}, "scores 'rm' must be a list as long as responses (2), got 3"),
    (OWN_LINE | {"scores": [1, float("-inf")]}, "scores 'score' must hold finite numbers or null, got -inf"),
    (OWN_LINE | {"logprob_kind": ["sum"]}, "(a): logprob_kind must be a text, got ['sum']"),
    (OWN_LINE | {"reference": [float("nan")]}, "(a): reference must hold plain values"),
]  # fmt: skip

OWN = {"problem_id": "a", "responses": ["x"]}
EVALPLUS = {"task_id": "Mbpp/2", "solution": "def f(): return 1"}
CODET = [{"prompt": "Say red.", "samples": ["red", "blue"]}, {"prompt": "Say blue.", "samples": ["blue"]}]
NO_POOLS = [
    ("", "empty: it holds one JSON object a line"), ("\n\n", "empty"), ("[]", "empty"), ("[", "line 1: not JSON"),
    (json.dumps(OWN) + "\n" + json.dumps(OWN)[:-9], "line 2: not JSON"), ('{"a":' * 100_000, "line 1: not JSON"),
    ('{"problem_id": "a", "responses": ["x"], "reference": ' + "1" * 5000 + "}", "line 1: not JSON"),
    ('[{"problem_id": "a", "responses": ["x"]}, 3]', "entry 2: expected JSON objects"),
    ([OWN, 3], "line 2: expected JSON objects"),
    ([{"question": "a", "answers": ["b"]}], "line 1: unknown layout: its keys are 'question', 'answers'; known are"),
    ([EVALPLUS, CODET[0]], "line 2: the first line is evalplus (task_id, solution or completion), this one"),
    ([OWN, CODET[0]], "line 2: the first line is own"), (b'{"problem_id": "\xff\xfe"}', "not UTF-8 text"),
    (gzip.compress(json.dumps(OWN).encode(), mtime=0)[:-12], "not UTF-8 text"),
    (gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 40, "not UTF-8 text"),  # no such block in a gzip stream
]  # fmt: skip

ID_TABLES = [
    ("", "no rows"), ("a,b\n1,2\n", "line 2: expected the task's id (task_id) and the pool's line (pool_id or prompt)"),
    ([{"pool_id": "line-1"}], "line 1: expected the task's id"), ("task_id,pool_id\np0,\n", "line 2: expected"),
    ("pool_id,task_id\nline-1,p0\nline-1,p1\n", "line 3: 'line-1' is 'p1' here and 'p0' in a row before"),
    ('task_id,prompt\np0,"open\n', "line 1: not CSV (unexpected end of data)"), ([1, 2], "expected JSON objects"),
    (b"task_id,pool_id\n\xff,\xff\n", "not UTF-8"),
]  # fmt: skip

SEQUENCES = [
    (">a\nMK7T\n", "line 1 (a): '7' is no letter of a sequence"), (">a\n>b\nMKT\n", "line 1 (a): no sequence"),
    (">a logprob=nan\nMKT\n", "line 1 (a logprob=nan): logprob must be a number, got 'nan'"),
    (">b\nM\n\n>a correct=maybe\nMKT\n>c correct=1\nM", "no refusal"),  # not every sequence has it
    (">a plddt=0.9 ptm=1.2\nMKT\n", "plddt is from 0 to 1 or to 100, ptm from 0 to 1"),
    (">a plddt=0 ptm=1\nMKT\n", "no refusal"), ("name,sequence\na,MKT\nb,\n", "line 3 (b): no sequence"),
    # a header that only looks like one of sequences
    ('name,sequence\na,"MKT\n', "not CSV"), (b'name,"sequence"""\na,MKT\n', "no sequence"),
]  # fmt: skip
