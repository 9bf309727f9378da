"""Make the golden files anew: `python tests/golden/make.py`, or only some: `... make.py small select`.

They record what the code does today. Make them only where a number is meant to change, and say in the commit which did:
the lines that this prints say how each file differs from the one before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.golden import CASES, differences, read, write  # the folder of tests comes first


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; default: all")
    parser.add_argument("--dry-run", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    for name in options.names or CASES:
        case, begun = CASES[name], time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            records = list(case.records(Path(folder)))
        lines = differences(read(case)[1], records) if case.path.exists() else []
        print(f"{name}: {len(records)} records in {time.monotonic() - begun:.0f} s, {len(lines)} differences")
        print("".join(f"  {line}\n" for line in lines[:20]), end="", flush=True)
        if not options.dry_run:
            write(case, records)
            print(f"  {case.path.name}: {case.path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    main()
