"""The download of a release file, from a server on loopback; the types of MBPP+'s arguments, as evalplus has them."""

import functools
import gzip
import hashlib
import http.server
import threading

import pytest
from support.refusals import refusal_of

from harness_tasks.evalplus_tasks import MbppPlus, Release, converted, downloaded
from harness_tasks.programs import evalplus_oracle

CONTENT = b'{"task_id": "Mbpp/1"}\n'
RELEASE = Release("MbppPlus", "v1", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def served(tmp_path, monkeypatch):
    """The release file that is served in the place of GitHub's; and the requests made."""
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            requests.append(self.path)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    handler = functools.partial(Handler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        url = property(lambda release: f"http://127.0.0.1:{server.server_port}/{release.name}.jsonl.gz")
        monkeypatch.setattr(Release, "url", url)
        yield tmp_path / "MbppPlus.jsonl.gz", requests
        server.shutdown()


def test_a_release_file_is_downloaded_once_and_a_broken_or_another_one_is_one_line_and_not_kept(served):
    file, requests = served
    packed = gzip.compress(CONTENT)
    for content in (packed[:-9], b"no archive", packed[:10] + b"\xff" * 9 + packed[19:], gzip.compress(b"another")):
        file.write_bytes(content)
        line = refusal_of(downloaded, "mbppplus", RELEASE)
        assert line.startswith(f"mbppplus: {RELEASE.url} is not ")
        assert line.endswith("give the file with --data FILE") or line.endswith("or give --data FILE")
        assert not RELEASE.path.exists()
    requests.clear()
    file.write_bytes(packed)
    assert [downloaded("mbppplus", RELEASE) for _ in range(2)] == [RELEASE.path] * 2
    assert (RELEASE.path.read_bytes(), requests) == (CONTENT, ["/MbppPlus.jsonl.gz"])


def test_arguments_are_those_of_evalplus_in_every_problem(shared_data):
    assert converted("Mbpp/2", [[[3, 4], [5]]]) == [[(3, 4), (5,)]]
    theirs = pytest.importorskip("evalplus.data.mbpp").mbpp_deserialize_inputs
    for problem in MbppPlus(str(shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz")).problems("test"):
        inputs = problem.meta["base_input"] + problem.meta["plus_input"][:9]
        if len(repr(inputs)) < 10_000:
            assert repr(converted(problem.id, inputs)) == repr(theirs(problem.id, inputs)), problem.id


def test_constants_and_formulas_are_those_of_evalplus():
    theirs = pytest.importorskip("evalplus.eval._special_oracle")
    assert list(evalplus_oracle.SETS) == theirs.MBPP_OUTPUT_SET_EQ_TASKS
    assert list(evalplus_oracle.NOT_NONE) == theirs.MBPP_OUTPUT_NOT_NONE_TASKS
    for a, b in ((1, 1), (2, 77), (15, 3), (208, 1_000), (99_991, 77)):
        assert evalplus_oracle.pyramid_surface(a, b) == theirs._surface_Area(a, b)
        assert evalplus_oracle.digit_distance(a, b) == theirs._digit_distance_nums(a, b)
        assert evalplus_oracle.polynomial([a, -b, 3], 0.3 * b) == theirs._poly([a, -b, 3], 0.3 * b)
