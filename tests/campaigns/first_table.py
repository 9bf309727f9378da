"""Is the table that `make run` printed README's? `python tests/campaigns/first_table.py PRINTED`: exit code 1 if not.

Numbers may differ by 0.02, as picks that are nearly equal do between processors.
"""

import re
import sys
from pathlib import Path

NUMBER = r"-?\d+(?:\.\d+)?"


def rows(text: str) -> dict[str, list[float]]:
    """The numbers of each line that begins with a name and has two numbers or more, by the name."""
    found = (re.match(r" ([a-z][\w:=()-]*(?: \(exact\))?) {2,}(.*)", line) for line in text.splitlines())
    return {row[1]: list(map(float, re.findall(NUMBER, row[2]))) for row in found if row}


def main() -> int:
    """Compare; print what differs."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    wanted = rows(readme.partition("<!-- from results: first-run -->")[2].partition("<!-- end -->")[0])
    printed = rows(Path(sys.argv[1]).read_text())
    apart = [
        f"{name}: README {numbers}, printed {printed.get(name)}"
        for name, numbers in wanted.items()
        if len(printed.get(name, [])) < len(numbers)  # a wide console shows more columns
        or any(abs(a - b) > 0.021 + (abs(a) >= 10) for a, b in zip(numbers, printed[name], strict=False))
    ]
    exact = sum(printed.get(name, [])[: len(numbers)] == numbers for name, numbers in wanted.items())
    print(f"README's first table: {exact} of {len(wanted)} rows to the digit", *apart, sep="\n")
    return bool(apart) or len(wanted) < 8


if __name__ == "__main__":
    sys.exit(main())
