"""Estimate what a paper's table costs: responses, tokens, device-hours, disk and verifier hours, per row and in total.

`harness run --paper --dry-run`. If a row's model and problems are on this machine, a probe generates, grades and stores
a few responses (`probe`). All other values are assumptions: lengths and seconds come from the table (`paper.TaskSize`),
speed from a GPU's data sheet (`roofline`). Each row says what was measured and what was assumed, and every assumption
is printed. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, did_you_mean
from harness.paper import ModelSize, Paper, PaperRow, TaskSize
from harness.plugin_system.command_options import fields_of, show
from harness.plugin_system.component import ENGINE, Spec, build, parse_spec
from harness.plugin_system.registry import Registry, load_registry
from harness.system.extras import hub_offline
from harness.system.progress import Progress

from .probe import Measured, loadable, probe
from .roofline import Gpu, Speed, find_gpu, speed

HERE = "this machine"
BYTES_A_TOKEN = 3  # of a response in the store, text and ids (docs/scale-measured.md); preflight's bound is twice that
BYTES_A_VERDICT = 3  # in the store: verdict, reason, route, answer; repeats cost next to nothing
UNKNOWN = TaskSize(0, prompt_tokens=200, response_tokens=300, verdict_s=1e-3)  # of a task that is not in the table


@dataclass(frozen=True)
class Request:
    """What to price: the whole table, its rows of one task, or of one model, which need not be in the table.

    n            responses per problem; None: the paper's number, else the task's
    limit        maximum number of problems of each row; None: all
    max_tokens   maximum length of a response; None: the paper's, else the task's
    dim          maximum width of the stored vectors
    gpu          for rows that are not measured on this machine, see `find_gpu`
    data         the task's data file; None: its own data
    """

    task: str | None = None
    model: str | None = None
    engine: str = "transformers"
    n: int | None = None
    limit: int | None = None
    max_tokens: int | None = None
    dim: int = 512
    gpu: str = "h100"
    data: Path | None = None
    unsafe_exec: bool = False
    plugin_files: Sequence[Path] = ()


@dataclass(frozen=True)
class Sizes:
    """The size of a row: problems, responses per problem, tokens per response."""

    problems: int
    n: int
    max_tokens: int

    @property
    def responses(self) -> int:
        """The number of responses in all pools of the row."""
        return self.problems * self.n


def price(options: Mapping[str, Any], progress: Progress, as_json: bool) -> None:
    """Print what the paper's table would cost; `options` are the options of `harness run`, by name."""
    from .tables import costs

    request = Request(**fields_of(Request, options) | {"engine": options["engine"] or ENGINE})
    show(table(request, progress), as_json, costs)


def table(request: Request, progress: Progress) -> list[dict[str, Any]]:
    """Return a dict for each requested row of the paper, then a total for each kind of device.

    A model outside the paper gets the rows that it would have, and so does a task outside it if a model is given too.
    HarnessError for such a task without a model, or if no plugin brings a table.
    """
    registry, gpu = load_registry(request.plugin_files), find_gpu(request.gpu)
    paper = _paper(registry)
    requested = list(_requested(paper, request))
    probes = _Probes(registry, request, paper, progress)
    rows: list[dict[str, Any]] = []
    pools: set[tuple[str, ...]] = set()
    by_model = sorted(set(requested), key=lambda row: row.model)  # so that each model is loaded once
    priced_rows = {row: _Priced(registry, request, paper, row, gpu, probes) for row in by_model}
    for priced in map(priced_rows.__getitem__, requested):
        rows.append(priced.as_row(is_new_pool=priced.pool not in pools))
        pools.add(priced.pool)
    assumed = any("assumed" in row[basis] for row in rows for basis in ("speed", "lengths", "verdicts", "disk"))
    in_paper = any(row in paper.rows for row in requested)
    remarks = [f"{paper.source}: {remark}" for remark in paper.remarks] if in_paper else []
    return [*rows, *_totals(rows, _assumptions(gpu, rows) if assumed else [], remarks)]


def _paper(registry: Registry) -> Paper:
    registrations = registry.of_kind("paper")
    if not registrations:
        raise HarnessError("run: no plugin brings a paper's table (register_papers): give --task and --selector")
    papers: list[Paper] = [registration.load()() for registration in registrations]
    first = papers[0]
    return replace(  # several tables are joined
        first,
        source=", ".join(dict.fromkeys(paper.source for paper in papers)),
        rows=[row for paper in papers for row in paper.rows],
        tasks={name: size for paper in papers for name, size in paper.tasks.items()},
        models={name: size for paper in papers for name, size in paper.models.items()},
        remarks=[remark for paper in papers for remark in paper.remarks],
    )


def _requested(paper: Paper, request: Request) -> Iterator[PaperRow]:
    """The paper's rows that match the request; for a model or task outside the paper, the rows it would have."""
    rows = [row for row in paper.rows if request.task in (None, row.task)]
    if not rows:
        if request.task is None or request.model is None:
            known = did_you_mean(request.task or "", list(paper.tasks)).replace("installed", "its tasks")
            raise HarnessError(
                f"--paper: {paper.source} has no rows of task {request.task!r} {known}; or give --model too"
            )
        rows = [PaperRow("not in the paper", request.task, request.model)]
    if request.model is None:
        yield from rows
    elif any(row.model == request.model for row in rows):
        yield from (row for row in rows if row.model == request.model)
    else:
        for task in dict.fromkeys(row.task for row in rows):
            yield PaperRow("not in the paper", task, request.model)


class _Probes:
    """Run one probe per task, model and sampler, and keep its result or the reason for its failure.

    A model that cannot be loaded on this machine is tried once.
    """

    def __init__(self, registry: Registry, request: Request, paper: Paper, progress: Progress) -> None:
        self.registry, self.request, self.paper, self.progress = registry, request, paper, progress
        self.results: dict[tuple[str, ...], Measured | str] = {}
        self.engines: dict[str, Any] = {}

    def of(self, row: PaperRow, sampler: Spec, max_tokens: int) -> Measured | str:
        """Return what the probe measured, or one line that says why it failed."""
        key = (row.task, row.model, str(sampler), str(max_tokens))
        if key not in self.results:
            self.results[key] = self._probed(row, sampler, max_tokens)
        return self.results[key]

    def _probed(self, row: PaperRow, sampler: Spec, max_tokens: int) -> Measured | str:
        if row.model not in self.engines:
            absent = {model: engine for model, engine in self.engines.items() if isinstance(engine, str)}
            self.engines = absent  # one model at a time is held
            self.engines[row.model] = self._engine(row.model)
        engine = self.engines[row.model]
        if isinstance(engine, str):
            return engine
        self.progress.say(f"probe: {row.task} with {row.model}, a few responses")
        try:
            data = str(self.request.data) if self.request.data else None
            task, built = build(self.registry, "task", row.task, data=data), build(self.registry, "sampler", sampler)
            with self.progress.waiting("timing a probe"):
                return probe(task, engine, built, max_tokens, self.request.unsafe_exec)
        except Exception as failure:  # no data on this machine, too little memory, a missing library, ...
            return _one_line(failure)

    def _engine(self, model: str) -> Any:
        """The engine with that model, or one line that says why this machine cannot load it."""
        if not loadable(self.paper.models.get(model)):
            return "too large for this machine's memory"
        try:
            with hub_offline():
                engine = build(self.registry, "engine", self.request.engine, model=model)
                engine.identity()  # loads no weights, and fails if the model is not on this machine
        except Exception as failure:
            return _one_line(failure)
        return engine


def _one_line(failure: Exception) -> str:
    return str(failure).strip().split("\n")[0][:160] or type(failure).__name__


class _Priced:
    """One row of the paper with the sizes and speeds that set its price."""

    def __init__(
        self, registry: Registry, request: Request, paper: Paper, row: PaperRow, gpu: Gpu, probes: _Probes
    ) -> None:
        self.row, self.gpu, self.request = row, gpu, request
        settings = _settings(registry, row.task)
        self.size = paper.tasks.get(row.task, UNKNOWN)
        self.model: ModelSize | None = paper.models.get(row.model)
        self.sampler = parse_spec(row.sampler) if row.sampler else _own_sampler(settings)
        problems = self.size.problems or _count(registry, row.task, request)
        self.sizes = Sizes(
            problems=min(problems, request.limit or problems),
            n=request.n or settings["n"],
            max_tokens=request.max_tokens or settings["max_tokens"],
        )
        self.measured = probes.of(row, self.sampler, self.sizes.max_tokens)
        self.pool = (row.task, row.model, str(self.sampler))

    def as_row(self, is_new_pool: bool) -> dict[str, Any]:
        """Return the row to print.

        If a row above has the same pool (`is_new_pool` False), this one costs only a second pass and its vectors.
        """
        row, sizes, seen = self.row, self.sizes, self.measured if isinstance(self.measured, Measured) else None
        length = min(self._length(seen), sizes.max_tokens)
        device, devices, token_s, most_s, read_s = self._pace(seen, length)
        expected = round(sizes.responses * length)
        vectors = sizes.responses * 4 * self._dim(seen)
        texts = sizes.responses * (self._response_bytes(seen, length) + BYTES_A_VERDICT)
        prompts = (read_s or 0) * sizes.problems * self.size.prompt_tokens
        second = None if read_s is None else read_s * expected + prompts
        hours = None if token_s is None else _hours(token_s * expected + prompts)
        most = None if most_s is None else _hours(most_s * sizes.responses * sizes.max_tokens + prompts)
        if not is_new_pool:
            hours = most = None if second is None else _hours(second)
        return {
            "row": row.finding,
            "task": row.task,
            "model": row.model,
            "sampler": str(self.sampler),
            "embedder": row.embedder,
            "problems": sizes.problems,
            "n": sizes.n,
            "responses": sizes.responses if is_new_pool else 0,
            "tokens_at_most": sizes.responses * sizes.max_tokens if is_new_pool else 0,
            "tokens_expected": expected if is_new_pool else 0,
            "device": device,
            "devices": devices,
            "device_hours": hours,
            "device_hours_at_most": most,
            "disk_bytes": round(vectors + (texts if is_new_pool else 0)),
            "verifier_hours": _hours(self._verdict_s(seen) * sizes.responses) if is_new_pool else 0.0,
            "lengths": _basis(seen, "response_tokens"),
            "speed": _basis(seen, "token_s"),
            "verdicts": _basis(seen, "verdict_s"),
            "disk": _basis(seen, "response_bytes"),
            "second_pass": not is_new_pool,
            "not_probed": None if seen else self.measured,
            "assumed": self._assumed(seen),
        }

    def _length(self, seen: Measured | None) -> float:
        return seen.response_tokens if seen and seen.response_tokens else self.size.response_tokens

    def _verdict_s(self, seen: Measured | None) -> float:
        return self.size.verdict_s if seen is None or seen.verdict_s is None else seen.verdict_s

    def _response_bytes(self, seen: Measured | None, length: float) -> float:
        return seen.response_bytes if seen else BYTES_A_TOKEN * length

    def _dim(self, seen: Measured | None) -> int:
        width = seen.width if seen else self.model.width if self.model else None
        return min(self.request.dim, width or self.request.dim)

    def _pace(self, seen: Measured | None, length: float) -> tuple[str, int, float | None, float | None, float | None]:
        """Device, its count, and device-seconds per token: expected, at most (all lengths maximal), second pass."""
        if seen:
            return HERE, 1, seen.token_s, seen.token_s, seen.token_s
        if self.model is None:
            return self.gpu.name, 1, None, None, None
        expected: Speed = speed(self.gpu, self.model, self.size.prompt_tokens, length)
        longest = speed(self.gpu, self.model, self.size.prompt_tokens, self.sizes.max_tokens)
        return (
            self.gpu.name,
            expected.devices,
            expected.token_s,
            max(expected.token_s, longest.token_s),
            expected.read_s,
        )

    def _assumed(self, seen: Measured | None) -> dict[str, Any]:
        """The values that the probe did not measure, by name."""
        given: dict[str, Any] = {}
        if seen is None or seen.response_tokens is None:
            given["response_tokens"] = self.size.response_tokens
        if seen is None or seen.verdict_s is None:
            given["verdict_s"] = self.size.verdict_s
        if seen is None:
            given |= {"prompt_tokens": self.size.prompt_tokens, "bytes_a_token": BYTES_A_TOKEN}
            if self.model:
                pace = speed(self.gpu, self.model, self.size.prompt_tokens, self._length(None))
                given |= {"tokens_a_device_second": round(1 / pace.token_s), "sequences": pace.sequences}
        return given


def _settings(registry: Registry, task: str) -> dict[str, Any]:
    """The paper's n, max_tokens and sampler changes, from the task's class; reads no data."""
    factory: Any = registry.find("task", task).load()
    defaults: dict[str, Any] = {
        "n": getattr(factory, "n", 64),
        "max_tokens": getattr(factory, "max_tokens", 512),
        "sampler": {},
    }
    return defaults | dict(getattr(factory, "paper", {}))


def _own_sampler(settings: Mapping[str, Any]) -> Spec:
    return Spec("vanilla", {name: str(value) for name, value in settings["sampler"].items()})


def _count(registry: Registry, task: str, request: Request) -> int:
    """The number of problems of a task that is not in the table."""
    built = build(registry, "task", task, data=str(request.data) if request.data else None)
    return sum(1 for _ in built.problems(built.default_split(request.model or "")[0]))


def _hours(seconds: float) -> float:
    return float(f"{seconds / 3600:.4g}")


def _basis(seen: Measured | None, what: str) -> str:
    return "assumed" if seen is None or getattr(seen, what) is None else "measured"


def _totals(
    rows: Sequence[Mapping[str, Any]], assumptions: Sequence[str], remarks: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield one total per kind of device; the last one lists the assumptions and remarks."""
    devices = list(dict.fromkeys(row["device"] for row in rows))
    for device in devices:
        on_device = [row for row in rows if row["device"] == device]
        known = [row for row in on_device if row["device_hours"] is not None]
        yield {
            "row": "total",
            "device": device,
            "rows": len(on_device),
            "rows_without_hours": len(on_device) - len(known),
            **{
                name: sum(row[name] for row in on_device) for name in ("responses", "tokens_at_most", "tokens_expected")
            },
            **{name: _sum(known, name) for name in ("device_hours", "device_hours_at_most")},
            "disk_bytes": sum(row["disk_bytes"] for row in on_device),
            "verifier_hours": _sum(on_device, "verifier_hours"),
            "assumptions": list(assumptions) if device == devices[-1] else [],
            "remarks": list(remarks) if device == devices[-1] else [],
        }


def _sum(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    return float(f"{sum(row[name] for row in rows):.4g}")


def _assumptions(gpu: Gpu, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for every assumption behind the values in the rows."""
    lines = []
    if any(row["speed"] == "assumed" for row in rows):
        lines.append(
            f"assumed, speed: {gpu}; weights in bfloat16, prompts read once a problem, several GPUs share without loss"
        )
        reasons = dict.fromkeys(f"{row['model']}: {row['not_probed']}" for row in rows if row["not_probed"])
        lines.append(
            f"not probed: {'; '.join(list(reasons)[:3])}{f'; and {len(reasons) - 3} more' * (len(reasons) > 3)}"
        )
    by_task = {row["task"]: row["assumed"] for row in rows if row["assumed"]}
    for name, quantity in (
        ("response_tokens", "mean tokens a response"),
        ("prompt_tokens", "mean tokens a prompt"),
        ("verdict_s", "core-seconds a verdict"),
    ):
        given = [f"{task} {assumed[name]:g}" for task, assumed in by_task.items() if name in assumed]
        if given:
            lines.append(f"assumed, {quantity}: {', '.join(given)}")
    if any(row["disk"] == "assumed" for row in rows):
        lines.append(f"assumed, store: {BYTES_A_TOKEN} bytes a token, {BYTES_A_VERDICT} a verdict; vectors in float32")
    return lines
