"""Fill the documents' blocks that come from `results/`, and draw their figures: `make results`.

    python docs/from_results.py [--check]

A block stands between `<!-- from results: NAME -->` and `<!-- end -->`; NAME is one of `published_tables.BLOCKS`.
The same cells give the same bytes. `--check` writes nothing, and names what would change (exit code 1).
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from harness.results import leaderboard
from published import FIGURES, RESULTS, ROOT, boards, every, figure
from published_tables import BLOCKS

PAGES = ("README.md", "docs/which-selector.md", "docs/paper.md", "docs/screens.md")
BLOCK = re.compile(r"(<!-- from results: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)


def files() -> dict[Path, bytes]:
    """What `make results` writes: path -> content."""
    content = {}
    for page in PAGES:
        text = (ROOT / page).read_text()
        content[ROOT / page] = BLOCK.sub(lambda block: block[1] + BLOCKS[block[2]]() + block[3], text).encode()
    texts = leaderboard.texts(every(), boards())
    content |= {RESULTS / name: text for name, text in texts.items()}
    for name in FIGURES:
        svg, data = figure(name)
        content |= {ROOT / "docs" / "images" / f"{name}.svg": svg, RESULTS / "figures" / f"{name}.csv": data}
    return content


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file would change")
    check = parser.parse_args().check
    changed = {path: text for path, text in files().items() if not path.exists() or path.read_bytes() != text}
    for path, text in changed.items():
        print(f"{'differs' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
