"""The main job: make the columns that a plan wants, and score each selector. Only what is missing is made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from harness.columns.column import Column, Question
from harness.columns.make import preview
from harness.columns.orders import Orders
from harness.columns.responses import Imported, Sampled
from harness.columns.store import Damaged, about
from harness.columns.stored import STAGES, list_problems
from harness.columns.vectors import Vectors
from harness.columns.verdicts import GivenVerdicts, Verdicts, disputes, runs_answers
from harness.errors import HarnessError, Lacking
from harness.plugin_system.component import weights_remark
from harness.results import cells
from harness.results.cells import Cell, made_with
from harness.results.rows import Row, beside_controls
from harness.results.rows import row as row_of_cell
from harness.system.files import write_atomically
from harness.system.json_text import digest, storable
from harness.system.progress import Progress

from . import price
from .options import RunConfig, recorded
from .plan import Plan, make_context, make_plan


def run(config: RunConfig, progress: Progress, embedders: Sequence[str] = ()) -> tuple[list[Row], dict[str, str]]:
    """Run the config. Return a row for each selector that did not fail, in the config's order, and the failures.

    The rows of controls come last (`Row.control`). The failures are selector -> one line. `embedders` are those of
    later runs with the same pool: hidden states that they read come from this sampling pass.
    """
    context = make_context(config, progress)
    price.ask_before_fetching(context)
    with progress.waiting("preparing the run"):
        plan = make_plan(config, progress, context=context)
    rows, failures, more = [], {}, also(plan, embedders)
    price.space(plan, more).require_room(plan.store.root)
    with plan.store.used():
        maker, columns = plan.maker, [*more, *plan.common]
        ready(plan, [*columns, *plan.orders.values(), *plan.controls.values()])
        if plan.all_weights:
            progress.say(weights_remark(plan.all_weights))
        costs = price.preflight(plan, more)
        if costs.is_work:
            progress.say(costs.line)
        price.require_consent("run", costs.outlook, progress, price.SHORTER)
        maker.make(columns, plan.questions, lambda: _tell_audit(plan))
        for spec, orders in plan.orders.items():
            try:
                row = maker.make([orders, plan.choices(orders), *columns], plan.questions, partial(score, plan, orders))
            except Damaged:  # the store's fault, not the selector's
                raise
            except HarnessError as failure:
                failures[spec] = str(failure)
                problems = [{"id": storable(question.problem.id)} for question in plan.questions]
                with suppress(HarnessError):
                    cell = _about(plan, orders) | {"problems": problems, "failed": str(failure)}
                    cells.write(plan.store.root / "cells", cell)
            else:
                rows.append(row)
        for spec, orders in plan.controls.items() if rows else ():
            try:
                row = maker.make([orders, plan.choices(orders), *columns], plan.questions, partial(score, plan, orders))
                rows.append(replace(row, control=True))
            except Damaged:
                raise
            except HarnessError as failure:
                progress.say(f"control {spec} left out: {failure}")
    return beside_controls(rows), failures


def also(plan: Plan, embedders: Sequence[str]) -> list[Column]:
    """The vectors of other embedders that read the states of the plan's engine, of the same sampling pass."""
    pool, columns = plan.responses, list[Column]()
    if not isinstance(pool, Sampled) or not plan.store.missing(pool, plan.questions):
        return columns
    for spec in embedders:
        with suppress(HarnessError):  # shown when it is this embedder's turn
            embedder = plan.part("embedder", spec)
            if embedder.built.state in pool.engine.built.states:
                columns.append(Vectors(embedder, pool, pool.engine, plan.config.dim, plan.config.seed))
    return columns


def ready(plan: Plan, columns: Sequence[Column]) -> None:
    """Create the folders of the columns that lack something, check the grader, and keep the list of problems."""
    for column in (plan.responses, *columns):
        if plan.store.missing(column, plan.questions):  # a store that cannot be written fails now
            plan.store.begin(column)
    grades = plan.verdicts and plan.store.missing(plan.verdicts, plan.questions)
    runs = isinstance(plan.verdicts, Verdicts) or runs_answers(plan.task)
    if grades and runs and (remark := plan.task.check(unsafe_exec=plan.config.unsafe_exec)):
        plan.progress.say(remark)
    keep_problems(plan)


def keep_problems(plan: Plan) -> None:
    """Write beside the pool which problems it has, and with which weights it was made."""
    pool = plan.store.root / plan.responses.pool_name
    list_problems(pool, plan.questions)
    rows = {name: [each.to_json() for each in weights] for name, weights in plan.weights.items() if weights}
    if rows and not (pool / "weights.json").exists():
        write_atomically(pool / "weights.json", (json.dumps(rows, indent=1) + "\n").encode())


def dry_run(config: RunConfig, progress: Progress) -> list[dict[str, Any]]:
    """`preview` of a run's columns, each under its stage. Nothing is stored.

    The costs are said too, for which a short probe may be sampled. Where libraries, data or weights are not on this
    machine, they are computed from what is known, and counts and keys may be None.
    """
    return priced(config, progress, set())[0]


def priced(config: RunConfig, progress: Progress, shown: set[Any]) -> tuple[list[dict[str, Any]], price.Costs]:
    """The rows of `dry_run`, and the costs, of what is not in `shown` yet: runs of a grid share it."""
    try:
        with progress.waiting("preparing the run"):
            plan = make_plan(config, progress)
    except Lacking as failure:
        return price.unplanned(make_context(config, progress), failure, shown)
    costs = price.preflight(plan, counted=set(shown))
    progress.say(costs.line)
    if plan.responses in shown:
        costs = costs._replace(outlook=price.Outlook())
    orders = {**plan.orders, **plan.controls}
    rows = preview([*plan.common, *orders.values()], plan.questions, plan.store, shown)
    names = ["sample", "embed", "score", "verify", "audit", "chance", *(f"rank {spec}" for spec in orders)]
    rows = sorted(
        [{**row, "stage": "sample" if row["stage"] == "import" else row["stage"]} for row in rows],
        key=lambda row: names.index(row["stage"]),
    )
    return rows, costs


def _tell_audit(plan: Plan) -> None:
    if plan.config.audit and plan.verdicts and (audits := plan.audits):
        rows, verdicts = plan.store.rows, plan.verdicts
        counts = [_disputed(rows(verdicts, each), rows(audits, each)) for each in plan.questions]
        audited, disputed = (sum(column) for column in zip(*counts, strict=True))
        listed = f"`harness pool audit {plan.responses.key}` lists them"
        plan.progress.say(f"audit: {disputed} of {audited} verdicts disputed; {listed}")


def _disputed(verdicts: Any, audits: Any, n: int | None = None) -> tuple[int, int]:
    """How many of a problem's first n verdicts the second grader judged, and how many of these it disputes."""
    first, second = verdicts["status"].to_pylist(), audits["status"].to_pylist()
    return sum(status is not None for status in second[:n]), sum(map(bool, disputes(first, second)[:n]))


def score(plan: Plan, orders: Orders) -> Row:
    """The row of a selector. Its cell, STORE/cells/KEY.json, is written unless it is there, made from these files."""
    about_cell, folder = _about(plan, orders), plan.store.root / "cells"
    checked = [column for column in (plan.audits, plan.chance) if column]
    checked = [column for column in checked if not plan.store.missing(column, plan.questions)]
    used = [orders, orders.verdicts, plan.choices(orders), *checked]
    files = [[plan.store.required(column, each).name for column in used] for each in plan.questions]
    about_cell["from"] = digest([about_cell["labels"], files])
    key = cells.key_of({**about_cell, "problems": [{"id": storable(each.problem.id)} for each in plan.questions]})
    path = folder / f"{key}.json"
    if path.exists():
        with suppress(HarnessError):
            kept = cells.read(path)
            is_named_now = about_cell.get("control") is False and kept.get("control") is not False
            if kept.get("from") == about_cell["from"] and "failed" not in kept and not is_named_now:
                return row_of_cell(kept, key)
    conditions: dict[str, set[str]] = {}  # under which the verdicts were made, such as the sandbox's tier
    for question in plan.questions:
        for name, value in about(plan.store.rows(orders.verdicts, question)).get("conditions", {}).items():
            conditions.setdefault(name, set()).add(value)
    about_cell["conditions"] = {name: sorted(values) for name, values in sorted(conditions.items())}
    entries: list[dict[str, Any]] = []

    def made() -> Iterator[dict[str, Any]]:
        for question in plan.questions:
            entry = _entry(question, orders, {column.kind: plan.store.rows(column, question) for column in used})
            yield entry
            entries.append(cells.without_orders(entry))

    with plan.progress.waiting(f"scoring {orders.selector.spec}"):
        key = cells.write(folder, about_cell | {"problems": made()})
        return row_of_cell({**about_cell, "problems": entries}, key)


def _entry(question: Question, ranked: Orders, rows: Mapping[str, Any]) -> dict[str, Any]:
    """A problem's entry in a cell: N, c, errors, routes, and per trial order and rank, or hits by budget.

    rows  kind -> the rows of its columns
    """
    orders, verdicts, columns = rows["orders"], rows["verdicts"], rows["choices"].to_pydict()
    made, m = about(orders), ranked.correct
    n, trials, status = made["n"], made["trials"], verdicts["status"].to_pylist()[: made["n"]]
    disputed = _disputed(verdicts, rows["audits"], n)[1] if "audits" in rows else None
    entry: dict[str, Any] = {"id": storable(question.problem.id), "disputed": disputed, "n": n}
    entry |= {"c": status.count("correct"), "errors": status.count("error")}
    routes = [route for route, one in zip(verdicts["route"].to_pylist()[:n], status, strict=True) if one == "correct"]
    names = [route.partition(",")[0] or "-" for route in routes]
    entry["routes"] = {name: names.count(name) for name in sorted(set(names))}
    ks = [str(k) for k in columns.pop("k")]
    by_k = {name: {k: round(x, 6) for k, x in zip(ks, values, strict=True)} for name, values in columns.items()}
    if "maj" in by_k:
        entry["maj_at_k"] = by_k.pop("maj")
    entry["best_of_k"] = {name.removeprefix("best:"): values for name, values in by_k.items()}
    picks = orders.to_pylist() if orders.num_columns else []
    if made["kind"] == "subset":
        entry["hits"] = {k: [False] * trials for k in ks}
        for pick in picks:
            entry["hits"][str(pick["k"])][pick["trial"]] = [status[at] for at in pick["picks"]].count("correct") >= m
    else:
        ordered = [pick["picks"] for pick in picks]
        found = [[rank for rank, at in enumerate(order, 1) if status[at] == "correct"] for order in ordered]
        found = found or [[] for _ in range(trials)]
        entry |= {"ranks": [hits[m - 1] if len(hits) >= m else n + 1 for hits in found], "orders": ordered}
        entry |= {"found": found} if ranked.enrichment else {}
    if (cpu_s := about(verdicts).get("cpu_s")) is not None:
        entry["answering"] = [len(verdicts), round(cpu_s, 3)]
    if "chance" in rows:
        entry["chance"] = about(rows["chance"])
    return entry


def _about(plan: Plan, orders: Orders) -> Cell:
    """How a cell was made: labels, inputs of its columns, options, versions."""
    shown = plan.vectors.shown if plan.vectors and orders.vectors else "none"
    spec = orders.selector.spec
    shown += " (unit)" if orders.unit else ""
    made = {"embedder": shown, "selector": spec, "trials": orders.trials, "seed": orders.seed}
    inputs = _inputs(plan, orders)
    parts = [part for column in inputs.values() for part in column.values() if isinstance(part, dict)]
    plugins = [str(part["dist"]) for part in parts if "dist" in part]
    weights = [each.to_json() for each in plan.all_weights]
    return {
        "kind": cells.KIND,
        "schema": cells.SCHEMA,
        **({"weights": weights} if weights else {}),
        "labels": {**plan.labels, **made},
        "grader": cells.grader({"inputs": inputs}),
        **({"control": spec in plan.controls} if spec in plan.registry.controls else {}),
        "inputs": inputs,
        "config": recorded(plan.config, spec),
        **made_with(plugins),
    }


def _inputs(plan: Plan, orders: Orders) -> dict[str, dict[str, Any]]:
    """What a cell says of the columns that it was made from."""
    pool, verdicts, config = plan.responses, orders.verdicts, plan.config
    inputs: dict[str, dict[str, Any]] = {"pool": _described(pool)}
    if isinstance(pool, Imported):
        inputs["pool"]["task"] = pool.task or None
    elif isinstance(pool, Sampled):
        inputs["pool"]["task"] = {"name": pool.task}
    if config.task:
        inputs["pool"]["revision"] = plan.task.revision
        inputs["pool"]["prompt"] = digest(list(plan.questions[0].chat))
    if orders.vectors:
        inputs["embedding"] = _described(orders.vectors)
    given = isinstance(verdicts, GivenVerdicts)
    task = plan.part_of_task.described if plan.part_of_task else {"task": None, "grader": plan.task.grader}
    inputs["verdict"] = {**_described(verdicts), **task, "given": given}
    inputs["ranking"] = _described(orders) | {"n": orders.n}
    if orders.learns:
        inputs["ranking"]["learns"] = True
    if orders.scores:
        inputs["score"] = _described(orders.scores)
    return inputs


def _described(column: Column) -> dict[str, Any]:
    """A column's key and fields; of the columns that it reads the keys."""
    own = {name: value for name, value in column.settings.items() if name not in ("kind", "version")}
    return {"key": column.key, **own, **{CALLED[each.kind]: each.key for each in column.reads}}


CALLED = {kind: stage for stage, kind in STAGES.items()}  # in cells
