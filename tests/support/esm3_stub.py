"""Answers the engine esm3 as its child does, without ESM3: row i is the i-th letter, three rows fit into memory.

It ends at 13 steps, and fails where top_p is below a half.
"""

import json
import sys

for line in sys.stdin:
    request, answer = json.loads(line), {}
    if request["do"] == "sample":
        length, rows = len(request["prompt"]), [row for _, row in request["rows"]]
        answer = {"sequences": [chr(65 + row) * length for row in rows], "logprobs": [-1.0] * len(rows)}
        answer["tokens"] = [[row] * length for row in rows]
        if request["steps"] == 13:
            sys.exit("unlucky")
        if len(rows) > 3:
            answer = {"out_of_memory": "3 rows fit"}
        if request["top_p"] < 0.5:
            answer = {"error": "KeyError: top_p"}
    print(json.dumps(answer), flush=True)
