"""Rows that are requested in batches: the same as one by one, and paid for once, whatever happens in between."""

import asyncio
import json
import re

import pytest
from support.openai_batches import Batches
from support.openai_client import CHAT, OTHER, SECRET, UNKNOWN, parrot_texts, sample
from support.openai_server import half, reset, serving
from support.refusals import refusal_of

from harness.records import Limits
from harness_plugins.engines.openai import batch
from harness_plugins.engines.openai.account import entries
from harness_plugins.engines.openai.engine import SEEDS, OpenAI
from harness_plugins.engines.openai.prices import Tokens, worst_case

PATHS = ["POST /v1/files", "POST /v1/batches"]


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    """Poll without long pauses."""
    monkeypatch.setattr(batch, "POLL_S", 0.01)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pool").mkdir()
    return tmp_path / "pool"


@pytest.fixture
def server():
    with serving(**UNKNOWN, batches=Batches()) as (url, behaviour):
        yield url, behaviour


def of_batches(server, folder, **options):
    url, _ = server
    prompts, limits = options.pop("prompts", [CHAT, OTHER]), Limits(folder, max_tokens=options.pop("max_tokens", None))
    engine = OpenAI(url=url, batch=True, retries=options.pop("retries", 8))
    engine.charge(limits)
    files = [folder / f"{len(prompt[0]['content']):012x}.paid.jsonl" for prompt in prompts]
    return sample(engine, prompts, journals=files, n=options.pop("n", 4), **options)


def killed_at(owner, step, server, folder):
    """A run in which nothing is done from this step on."""

    class Killed(BaseException):
        pass

    def kill(*args, **options):
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, step, kill)
        with pytest.raises(Killed):
            of_batches(server, folder)


def texts(sampled):
    return [list(responses.texts) for responses in sampled]


BOTH = [parrot_texts(range(4), SEEDS, seed) for seed in (7, 8)]


def test_a_batch_has_the_rows_of_single_requests_and_its_tokens_are_counted_once(server, folder):
    url, behaviour = server
    done = {}
    sampled = of_batches(server, folder, done=done.__setitem__)
    assert texts(sampled) == BOTH
    single = sample(OpenAI(url=url), [CHAT, OTHER], n=4)
    for one, other in zip(sampled, single, strict=True):
        assert (one.token_ids, list(one.logprobs), list(one.lengths)) == (
            other.token_ids,
            list(other.logprobs),
            list(other.lengths),
        )
    assert texts([done[0], done[1]]) == BOTH
    assert [path for path in behaviour.batches.seen if "POST" in path] == PATHS
    used = [entry for entry in entries(folder) if entry.batch]
    assert [(entry.batch, entry.is_open, entry.in_flight) for entry in used] == [("batch_1", False, Tokens())]
    assert (used[0].tokens.requests, used[0].tokens.completion) == (8, 16)
    assert texts(of_batches(server, folder)) == BOTH  # from the journals
    assert len(behaviour.batches.made) == 1
    (file, *_) = behaviour.batches.files.values()
    requests = [json.loads(line) for line in file.splitlines()]
    assert {request["url"] for request in requests} == {"/v1/chat/completions"}
    assert all(len(request["custom_id"]) <= 64 for request in requests)
    assert [body for body in behaviour.bodies if body["seed"] == requests[0]["body"]["seed"]] == [requests[0]["body"]]


def test_a_run_killed_while_it_creates_polls_or_downloads_pays_for_nothing_twice(server, folder):
    _, behaviour = server

    for step in ("_write_id", "_ended"):
        killed_at(batch.Batches, step, server, folder)
        (entry,) = [each for each in entries(folder) if each.is_open]
        assert entry.in_flight == sum((worst_case(prompt, 1, 8) for prompt in (CHAT, OTHER) * 4), Tokens())
    killed_at(batch.Results, "sync", server, folder)
    assert texts(of_batches(server, folder)) == BOTH
    assert [path for path in behaviour.batches.seen if "POST" in path] == PATHS
    assert sum((entry.tokens for entry in entries(folder)), Tokens()).requests == 8


def test_a_run_killed_before_the_batch_was_created_creates_it_and_others_are_told_of_it(server, folder):
    url, behaviour = server
    killed_at(batch.Batches, "_created", server, folder)
    (entry,) = [each for each in entries(folder) if each.is_open]
    single = OpenAI(url=url)
    single.charge(Limits(folder))
    line = refusal_of(single.check, [CHAT], 8)
    assert line == refusal_of(sample, single, n=1, journals=[folder / "0123456789ab.paid.jsonl"])
    assert f"batch {entry.name} of this pool is not fetched yet: give batch=true to fetch it, or delete " in line
    assert behaviour.bodies == []
    assert texts(of_batches(server, folder)) == BOTH
    assert len(behaviour.batches.made) == 1


def test_where_the_answer_to_the_creation_is_lost_no_second_batch_is_created(server, folder):
    _, behaviour = server
    behaviour.batches.created = lambda handler: reset(handler, None) or True
    assert texts(of_batches(server, folder)) == BOTH
    assert len(behaviour.batches.made) == 1


def test_a_download_that_breaks_off_begins_again_and_counts_each_row_once(server, folder):
    _, behaviour = server
    faults = [half, lambda handler, content: handler.send(503, b""), None]

    def broken(handler, content):
        fault = faults.pop(0) if faults else None
        if fault is half:  # some whole lines, and then nothing
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            handler.wfile.write(content[: len(content) // 2])
            handler.close_connection = True
            return None
        return fault(handler, content) if fault else handler.send(200, content)

    behaviour.batches.download = broken
    assert texts(of_batches(server, folder)) == BOTH
    assert sum((entry.tokens for entry in entries(folder)), Tokens()).requests == 8
    assert all(len(path.read_bytes().splitlines()) == 4 for path in folder.glob("*.paid.jsonl"))


@pytest.mark.parametrize("end", ["expired", "cancelled"])
def test_of_a_batch_that_ends_early_the_results_are_kept_and_the_next_run_asks_for_the_rest(server, folder, end):
    _, behaviour = server
    behaviour.batches.ends, behaviour.batches.answers = end, 5
    first, second = of_batches(server, folder)
    assert (len(first), len(second)) == (4, 1)
    assert second.missing == dict.fromkeys(range(1, 4), "batch: Too late. batch_expired")
    behaviour.batches.ends = "completed"
    assert texts(of_batches(server, folder)) == BOTH
    assert [batch["input_file_id"] for batch in behaviour.batches.made.values()] == list(behaviour.batches.files)[:4:3]
    assert sum((entry.tokens for entry in entries(folder)), Tokens()).requests == 8


def test_a_batch_that_fails_is_one_line_costs_nothing_and_is_asked_for_again(server, folder):
    _, behaviour = server
    behaviour.batches.ends = "failed"
    line = refusal_of(of_batches, server, folder)
    assert line == "openai: batch batch_1 failed: Line 1 is no JSON. invalid_json_line"
    assert [entry.worst for entry in entries(folder) if entry.batch] == [Tokens()]
    behaviour.batches.ends = "completed"
    assert texts(of_batches(server, folder)) == BOTH


def test_the_reason_of_a_refused_request_of_a_batch_is_told(server, folder):
    _, behaviour = server
    behaviour.refuses = ("seed",)
    line = refusal_of(of_batches, server, folder)
    assert line == "openai: none of 8 responses came: batch: Unrecognized request argument supplied: seed"
    assert [entry.worst for entry in entries(folder) if entry.batch] == [Tokens()]


def test_a_cap_makes_smaller_batches_and_stops_before_the_first_that_could_exceed_it(server, folder):
    _, behaviour = server
    one = max(worst_case(prompt, 1, 8).total for prompt in (CHAT, OTHER))
    cap = 21 * one // 10
    line = refusal_of(of_batches, server, folder, max_tokens=cap, n=8)
    assert line.startswith(f"openai: stopped before --max-tokens-total, {cap:,} tokens: ")
    files = [behaviour.batches.files[each["input_file_id"]] for each in behaviour.batches.made.values()]
    sizes = [content.count(b"\n") for content in files]
    assert sizes[:2] == [2, 1]
    assert 3 < sum(sizes) < 16
    assert sum((entry.worst for entry in entries(folder)), Tokens()).total <= cap
    whole = of_batches(server, folder, max_tokens=100 * one, n=8)
    assert texts(whole) == [parrot_texts(range(8), SEEDS, seed) for seed in (7, 8)]


def test_results_that_were_not_asked_for_are_ignored_and_write_no_other_file(server, folder, tmp_path):
    _, behaviour = server

    def hostile(handler, content):
        good = [json.loads(line) for line in content.splitlines()]
        names = ["../../x-0-1", "/tmp/x-0-1", "0123456789ab-0-1", "0123456789ab-0", 3, None]
        bad = [{**good[0], "custom_id": name} for name in names]
        lines = [json.dumps(each).encode() for each in (*good, *bad)]
        handler.send(200, b"\n".join([b"\xff", b"[1]", b"{", *lines]))

    behaviour.batches.download = hostile
    assert texts(of_batches(server, folder)) == BOTH
    assert (
        len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4
    )  # two journals, a run's and a batch's file


def test_a_server_without_batches_or_with_broken_ones_is_one_line(folder, monkeypatch):
    with serving(**UNKNOWN) as (url, behaviour):
        line = refusal_of(of_batches, (url, None), folder)
        assert line == "openai: the server takes no batch (404: Not Found): leave out batch=true"
        assert not [entry for entry in entries(folder) if entry.is_open]
        assert "needs a store" in refusal_of(sample, OpenAI(url=url, batch=True))
        behaviour.batches = Batches(polls=0)
        behaviour.batches.polled = lambda handler: behaviour.batches.made.clear()
        behaviour.batches.download = lambda handler, content: handler.send(404, b"{}")
        line = refusal_of(of_batches, (url, None), folder)
        assert line.startswith("openai: batch batch_1 cannot be fetched: 404")
        assert re.search(r"the same command tries it again, and who deletes \S+/spent\.\w+\.json gives it up$", line)
        behaviour.batches.polled = None
        assert "No such batch" in refusal_of(of_batches, (url, None), folder)


def test_the_key_is_in_no_file_of_a_batch(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    echo = lambda body, prompt, seeds: [(f"it is {SECRET}", "stop", [1, 2], -1.0) for _ in seeds]  # noqa: E731
    with serving(**UNKNOWN, key=SECRET, generate=echo, batches=Batches()) as (url, _):
        assert {text for each in texts(of_batches((url, None), folder)) for text in each} == {"it is [key]"}
    assert not any(SECRET[:10].encode() in path.read_bytes() for path in folder.iterdir())


def test_batches_run_where_an_event_loop_runs_already(server, folder):
    async def notebook():
        return of_batches(server, folder)

    assert texts(asyncio.run(notebook())) == BOTH
