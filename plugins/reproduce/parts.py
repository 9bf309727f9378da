"""Read plan.toml, and carry its parts out: each is a command line of its own, in a process of its own.

What is already there is found by the parts themselves, so the same command again goes on. What a part printed as JSON
is kept in OUT/parts; the cells that it names are copied to OUT/cells, so that a figure shows these and no others.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.results import cells
from harness.system.children import run_child
from harness.system.extras import hub_is_out_of_reach
from harness.system.json_text import digest, read, readable

SCALES = ("paper", "tiny")
PLACE = re.compile(r"\{([a-z-]+)\}")
HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
FAULTS = re.compile(r"^(?:not planned yet|error): (?:\d+ things stand in the way: )?|(?:; )?\(\d+\) ")
FOR_PLANS = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_OFFLINE": "1"}
NOT_TIMED = "hours: not known"  # a dry run times a model that is on this machine
KEPT_LINES = re.compile(r"^(error|failed|to do|at most|not planned yet|#|.*\b(hours?|GB|weights)\b)")


class NotMade(Exception):
    """A value of a command line that no part has made, or that the user did not give."""


@dataclass
class Part:
    """A command line of the plan, with the values that fill it, and what came of it.

    status   None: not carried out yet; 0: done; another number: how it ended; text: why it was not begun
    rows     what it printed as JSON
    most     what it takes, where its own dry run cannot say it
    """

    command: str
    values: Mapping[str, Any]
    id: str | None = None
    most: str = ""
    status: int | str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Reproduction:
    """NAME at a scale: its parts in their order, and the folder of its results."""

    name: str
    scale: str
    store: Path
    given: Mapping[str, Sequence[str]]
    parts: list[Part] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = list(self._repeated(self.entry["parts"]))

    @property
    def entry(self) -> Mapping[str, Any]:
        """What plan.toml says of NAME."""
        return plan()[self.name]

    @property
    def out(self) -> Path:
        """STORE/reproduce/NAME-SCALE."""
        return self.store / "reproduce" / f"{self.name}-{self.scale}"

    def figures(self) -> list[Part]:
        """The `plot` lines, each a part; an option whose value was not made is left out with its name."""
        lines = list(self._repeated(self.entry["figures"]))
        for part in lines:
            pairs = re.findall(r"--\S+ \S+|\S+", part.command)
            part.command = " ".join(pair for pair in pairs if pair[:2] != "--" or self._is_made(pair, part))
        return lines

    def words(self, part: Part) -> list[str]:
        """The words of a part's command line; NotMade if a value is missing."""
        return list(self._filled(part.command, part))

    def _repeated(self, entries: Iterable[Mapping[str, Any]]) -> Iterator[Part]:
        scale, lists = self.entry[f"{self.scale}-scale"], plan()["lists"]
        scale = {name: lists[value[1:]] if str(value)[:1] == "@" else value for name, value in scale.items()}
        for entry in entries:
            if entry.get("only", self.scale) == self.scale:
                each = entry.get("each", [])
                for items in itertools.product(*(scale[name] for name in each)):
                    values = dict(scale)
                    for name, item in zip(each, items, strict=True):
                        values |= item if isinstance(item, dict) else {name: item}
                    yield Part(entry["command"], values, entry.get("id"), entry.get(f"{self.scale}-most", ""))

    def _is_made(self, text: str, part: Part) -> bool:
        try:
            return bool(list(self._filled(text, part)))
        except NotMade:
            return False

    def _filled(self, text: str, part: Part) -> Iterator[str]:
        for word in shlex.split(text):
            if whole := PLACE.fullmatch(word):
                value = self._value(whole[1], part)
                yield from self._filled(value, part) if isinstance(value, str) else value
            else:
                yield PLACE.sub(lambda place: " ".join(self._filled("{" + place[1] + "}", part)), word)

    def _value(self, name: str, part: Part) -> str | Sequence[str]:
        """A value: a text, which is filled and split in its turn, or the words themselves."""
        done = [each for each in self.parts if each.status == 0]
        if name in self.given or name in part.values:
            return self.given[name] if name in self.given else part.values[name]
        if name in ("store", "out"):
            return [str(getattr(self, name))]
        if name == "folders":
            words = [
                row["folder"]
                for each in done
                if each.values.get("task") == part.values.get("task")
                for row in each.rows
                if "folder" in row
            ]
        elif name == "evaluations":
            words = [str(self.out / each.values["task"]) for each in done if each.command.startswith("rl eval")]
        else:
            id_, _, what = name.rpartition("-")
            of_id = [each for each in done if each.id == id_ and each.values.get("task") == part.values.get("task")]
            paths = [self.store / "cells" / f"{row['cell']}.json" for each in of_id for row in each.rows]
            words = [str(path) if what == "cell" else cells.read(path)["inputs"]["pool"]["key"] for path in paths[:1]]
        if not words:
            raise NotMade(name)
        return words


@cache
def plan() -> Mapping[str, Any]:
    """What plan.toml holds."""
    return tomllib.loads(Path(__file__).with_name("plan.toml").read_text("utf-8"))


def names() -> list[str]:
    """All that can be reproduced, in the paper's order."""
    return [name for name in plan() if name not in ("lists", "fetch", "sizes")]


def named(name: str, scale: str, store: Path, given: Mapping[str, Sequence[str]]) -> Reproduction:
    """The reproduction with this name; HarnessError if there is none, or no such scale."""
    if name.lower() not in names():
        raise HarnessError(f"reproduce: no {name!r} {did_you_mean(name, names(), 'there are')}")
    if scale not in SCALES:
        raise HarnessError(f"reproduce: --scale must be {' or '.join(SCALES)}, got {scale!r}")
    return Reproduction(name.lower(), scale, store, given)


def process(words: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    """The command line of a part as a process of this Python."""
    module = [] if words[0] == "-m" else ["-m", "harness"]
    return [sys.executable, *module, *words, *([] if words[0] == "-m" else more)]


def to_fetch(work: Reproduction) -> dict[str, bool]:
    """What its parts read from elsewhere -> whether it is in the hub's cache here: models, data and weights."""
    wanted: dict[str, None] = {}
    for part in work.parts:
        values = [value for name in ("model", "task") if isinstance(value := part.values.get(name), str)]
        for value in values:
            if "/" in value:
                size = plan()["sizes"].get(value, "size not known")
                wanted[f"model {value} ({size}): https://huggingface.co/{value}, with its licence"] = None
            for source in plan()["fetch"].get(value, []) if work.scale != "tiny" else ():
                wanted[source] = None
    return {source: _is_here(source) for source in wanted}


def _is_here(source: str) -> bool:
    name = HUB_NAME.search(source)
    if name is None or not importlib.util.find_spec("huggingface_hub"):
        return False
    from huggingface_hub.constants import HF_HOME, HF_HUB_CACHE

    prepared = Path(os.environ.get("HF_DATASETS_CACHE", f"{HF_HOME}/datasets")) / name[0].replace("/", "___").lower()
    weights = Path(HF_HUB_CACHE, f"models--{name[0].replace('/', '--')}").glob("snapshots/*/*.safetensors")
    return prepared.is_dir() or any(weights)


def out_of_reach(work: Reproduction) -> str:
    """One line about all that is missing here where the hub cannot be reached; "" if it can, or if nothing is."""
    missing = [source.partition(": https")[0] for source, is_here in to_fetch(work).items() if not is_here]
    if not missing or (importlib.util.find_spec("huggingface_hub") and not hub_is_out_of_reach()):
        return ""
    return (
        f"the hub cannot be reached from here, and {len(missing)} are not in its cache here: {'; '.join(missing)}. "
        "Copy HF_HOME from a machine where these parts' --dry-run and `hf download` have filled it, or type a part "
        "yourself with --model FOLDER and --data FILE"
    )


def previews(work: Reproduction) -> Iterator[tuple[str, list[str]]]:
    """Each part's command line, and what its own --dry-run says of steps, responses, hours and disk.

    Nothing is fetched for it, and no money spent. Where an earlier part has not made the list of questions yet, its
    length is taken; where the part's dry run cannot say what it takes, what the plan says.
    """
    fetched = [name[0] for source in to_fetch(work) if (name := HUB_NAME.search(source))]  # told beside the parts

    def preview(part: Part) -> tuple[str, list[str]]:
        most = [PLACE.sub(lambda place: part.values[place[1]], part.most)] if part.most else []
        try:
            words = work.words(replace(part, values={"max-cost": "MONEY", **part.values}))
        except NotMade as missing:
            return part_text(work, part), [*most, _why_not(missing)]
        if words[0] != "run" and words[:2] != ["rl", "train"]:
            return shown(words), most or ["it makes no responses"]
        options = list(words)
        if "--only" in options and not Path(options[(at := options.index("--only")) + 1]).exists():
            options[at : at + 2] = ["--limit", part.values["count"]]
        notes = []
        if options.count("MONEY"):
            at = options.index("MONEY")
            del options[at - 1 : at + 1]
            notes = [_why_not(NotMade("max-cost"))]
        options += ["--dry-run", *(["--json"] if words[0] == "run" else [])]
        out, err = rehearsed(options)
        lines = (err if words[0] == "run" else out + err).splitlines()
        kept = [line for line in dict.fromkeys(lines) if KEPT_LINES.match(line) and "trl_child" not in line]
        for line in [line for line in kept if FAULTS.match(line)]:
            kept.remove(line)
            faults = [fault for fault in FAULTS.split(line) if fault and not any(name in fault for name in fetched)]
            kept += [f"{line.partition(':')[0]}: {'; '.join(faults)}"] if faults else []
        if not any(line.startswith(("to do", "at most")) or "hour" in line for line in kept):
            kept = [*most, *kept]
        is_timed = any("hour" in line or " takes up to " in line for line in kept)
        return shown(words), [*kept, *notes, *([] if is_timed else [NOT_TIMED])]

    with _rehearsal() as rehearsed:
        yield from map(preview, work.parts)


@contextmanager
def _rehearsal() -> Iterator[Callable[[Sequence[str]], tuple[str, str]]]:
    """A function that carries out a command line in one process for all, and returns what it printed: out, err."""
    command, pipe = [sys.executable, "-m", "harness_plugins.reproduce.rehearsal"], subprocess.PIPE

    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={**os.environ, **FOR_PLANS}) as child:
        asked, answers = child.stdin, child.stdout
        assert asked
        assert answers

        def rehearsed(words: Sequence[str]) -> tuple[str, str]:
            print(json.dumps(list(words)), file=asked, flush=True)
            if not (answer := answers.readline()):
                raise HarnessError(f"reproduce: its dry runs ended with exit status {child.wait()} at {shown(words)}")
            out, err = json.loads(answer)
            return out, err

        yield rehearsed


def carry_out(work: Reproduction, say: Callable[[str], None]) -> None:
    """Run the parts one after another; one that fails does not end the rest. Their status and rows are kept in them."""
    (work.out / "parts").mkdir(parents=True, exist_ok=True)
    for folder in ("cells", "plots"):  # they show this call's parts and no others
        shutil.rmtree(work.out / folder, ignore_errors=True)
    (work.out / "cells").mkdir()
    for number, part in enumerate(work.parts, 1):
        try:
            words = work.words(part)
        except NotMade as missing:
            part.status = _why_not(missing)
            say(f"part {number} of {len(work.parts)} not begun: {part_text(work, part)}: {part.status}")
            continue
        say(f"part {number} of {len(work.parts)}: {shown(words)}")
        printed = work.out / "parts" / f"{readable(words[0].strip('-'))}-{digest(words, 12)}.json"
        more = ["--json", *([] if words[0] == "pool" else ["--yes"])]
        part.status = run_child(process(words, more), {}, out=printed)  # ends with this process, even by SIGKILL
        if part.status in (0, 1) and printed.stat().st_size and words[0] != "-m":
            rows = read(printed, "what a part printed", "run it again")
            part.rows = rows if isinstance(rows, list) else [rows]
        for row in part.rows:
            if "cell" in row and part.id is None:
                shutil.copy(work.store / "cells" / f"{row['cell']}.json", work.out / "cells")


def draw(work: Reproduction, say: Callable[[str], None]) -> list[Part]:
    """Run the `plot` lines; return those that failed, or could not begin."""
    figures = work.figures()
    for part in figures:
        try:
            words = work.words(part)
        except NotMade as missing:
            part.status = _why_not(missing)
            continue
        say(f"figure: {shown(words)}")
        part.status = subprocess.run(process(words), check=False).returncode
    return [part for part in figures if part.status != 0]


def shown(words: Sequence[str]) -> str:
    """A part as the user would type it."""
    return ("python " if words[0] == "-m" else "harness ") + shlex.join(words)


def part_text(work: Reproduction, part: Part) -> str:
    """A part as the user would type it; what is not made yet stands in braces."""
    known = {name: value for name, value in part.values.items() if isinstance(value, str)}
    known |= {"store": str(work.store), "out": str(work.out)}
    known |= {name: shlex.join(value) for name, value in work.given.items()}
    text = part.command
    for _ in range(2):  # values hold places too
        text = PLACE.sub(lambda place: known.get(place[1], place[0]), text)
    return "harness " + " ".join(text.split())


def _why_not(missing: NotMade) -> str:
    name = str(missing)
    return "needs --max-cost MONEY" if name == "max-cost" else f"needs {{{name}}}, which an earlier part makes"
