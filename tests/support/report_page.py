"""Reports for tests: made by the command line, read back from the file; and responses that a page should survive."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from support.json_lines import write_json_lines

HOSTILE = (
    "</script><script>window.pwned = 1; alert(1)</script>",
    '<img src="http://127.0.0.1:9/leak" onerror="window.pwned = 2; alert(2)"><b id="made-of-text">bold</b>',
    "<!-- <script> ]]> --!> </style><style>* { display: none }</style> {{script}} &lt;b&gt; \\u003c/script\\u003e",
    "javascript:alert(3) ${alert(4)} `${alert(5)}` ' \" \\ \\' \\\"",
    "right to left \u202egnirts desrever\u202c, isolates \u2066x\u2069, zero\u200bwidth, \ufeffmark, soft\u00adhyphen",
    "lines \u2028 and \u2029, NUL \x00, bell \x07, escape \x1b[31m red, C1 \x85, delete \x7f, \ufffe\uffff",
    "lone \ud800 and \udc00 surrogates, pair \U0001f600",
    "accents " + "Z" + "\u0301\u0300\u0336" * 200,
    "half a megabyte " + "<x>" * 175_000,
    "wide" * 2_000,
    "",
    "  \n\t \n",
)


class Elements(HTMLParser):
    """Of a page: [tag, attributes, content] of its script and style elements, and all of its tags."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.tags = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("script", "style"):
            self.elements.append([tag, dict(attrs), ""])

    def handle_data(self, data):
        if self.elements and self.cdata_elem:
            self.elements[-1][2] += data


def parsed(path):
    """The page's data, its script and style elements, and all of its tags (`Elements`)."""
    page = Elements(path.read_bytes().decode())
    data = next(content for _, attrs, content in page.elements if attrs.get("id") == "data")
    return json.loads(data), page.elements, page.tags


def pool_file(path, problems):
    """A pool that brings its own verdicts: problem id -> [(response, is correct), ...]."""
    lines = []
    for name, pairs in problems.items():
        texts, marks = zip(*pairs, strict=True)
        line = {
            "problem_id": name,
            "prompt": f"prompt of {name}",
            "responses": texts,
            "correct": list(map(bool, marks)),
        }
        lines.append(line)
    return write_json_lines(path, lines)


def hostile_pool(path):
    """A pool of two problems whose ids, prompts and responses are hostile."""
    pairs = [(text, place % 3 == 0) for place, text in enumerate(HOSTILE)]
    long = "a-very-long-problem-id-without-any-blank-" * 4
    return pool_file(path, {"<script>alert(0)</script>": pairs, long + "\u202e<i>": pairs[::-1]})
