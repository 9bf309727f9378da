"""Put published JSON cells into parquet files, and show that every number stays: `python -m studies.convert`.

Each JSON file of a cell or of a sequence in results/ goes into the parquet file of its task beside it, is read back, is
compared with what the JSON file holds, and is deleted. So it can run again when JSON files were added. Badges in
`conformance/` go into one file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from harness.results import published, stopping_times
from harness.results.published import Place
from harness.system.json_text import canonical_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", type=Path, default=Path("results"))
    results = parser.parse_args().results
    folders: dict[Path, dict[str, Any]] = {}
    paths: list[Path] = []
    for path in sorted(results.rglob("*.json")):
        content = json.loads(path.read_text())
        if isinstance(content, dict) and content.get("kind") in ("diversity-harness cell", stopping_times.KIND):
            if path.parent.name == published.SEQUENCES:
                target = path.parent / f"{content['labels']['task']}.parquet"
                assert stopping_times.read(path) == content
            else:
                target = path.parent.with_name(f"{path.parent.name}.parquet")
                assert published.read(Place(path, path.stem)) == content
            folders.setdefault(target, {})[path.stem] = content
            paths.append(path)
    for target, added in folders.items():
        held = {}
        if target.exists():
            held = {place.key: published.value(place) for place in published.places([target], sequences=True)}
        published.write(target, held | added)
        again = {place.key: published.value(place) for place in published.places([target], sequences=True)}
        assert again == held | added
        texts = [
            {key: json.dumps(each, sort_keys=True) for key, each in many.items()} for many in (again, held | added)
        ]
        assert texts[0] == texts[1]  # 1 is not 1.0
        if target.parent.name != published.SEQUENCES:
            assert {key: published.read(Place(target, key)) for key in added} == added
        print(f"{target}: {len(added)} added to {len(held)}, {target.stat().st_size:,} bytes, each read back equal")
    badges = {}
    for path in sorted(results.glob("conformance/*.json")):
        badges[path.stem] = json.loads(path.read_text())
        paths.append(path)
    if badges:
        file = results / published.REPORTS
        badges = (json.loads(file.read_text()) if file.exists() else {}) | badges
        lines = ",\n".join(f'"{name}":{canonical_json(badge)}' for name, badge in sorted(badges.items()))
        file.write_text(f"{{\n{lines}\n}}\n")
        print(f"{file}: {len(badges)} reports")
    for path in paths:
        path.unlink()
    for folder in {path.parent for path in paths}:
        if not any(folder.iterdir()):
            folder.rmdir()
    print(f"{len(paths)} JSON files converted")


if __name__ == "__main__":
    main()
