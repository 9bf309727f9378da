"""Answers the engine esm3 as its child does, without ESM3: row i is the i-th letter, three rows fit into memory.

It writes each request to its error stream, ends at 13 steps, and fails where top_p is below a half.
"""

import json
import sys

for line in sys.stdin:
    print(line.strip(), file=sys.stderr, flush=True)
    request = json.loads(line)
    answer = {"sampled": 1}
    if request["do"] == "sample" and request["steps"] == 13:
        sys.exit("unlucky")
    if request["do"] == "sample" and len(request["rows"]) > 3:
        answer = {"out_of_memory": "3 rows fit"}
    elif request["do"] == "sample":
        length, rows = len(request["prompt"]), [row for _, row in request["rows"]]
        answer = {"sequences": [chr(65 + row) * length for row in rows], "logprobs": [-1.0] * len(rows)}
        answer["tokens"] = [[row] * length for row in rows]
        if request["top_p"] < 0.5:
            answer = {"error": "KeyError: top_p"}
    print(json.dumps(answer), flush=True)
