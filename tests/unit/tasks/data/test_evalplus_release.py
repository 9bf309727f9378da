"""The download of a release file, from a server on loopback."""

import gzip
import hashlib
import http.server
import threading

import pytest
from support.refusals import refusal_of

from harness_tasks.evalplus_tasks import Release, downloaded

CONTENT = b'{"task_id": "Mbpp/1"}\n'


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that is served, in the place of GitHub's releases; and the requests made."""
    requests = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "served"))

        def log_message(self, *args):
            requests.append(self.path)

    (tmp_path / "served").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever).start()
        url = property(lambda release: f"http://127.0.0.1:{served.server_port}/{release.name}.jsonl.gz")
        monkeypatch.setattr(Release, "url", url)
        yield tmp_path / "served", requests
        served.shutdown()


def test_a_release_file_is_downloaded_once(server):
    folder, requests = server
    (folder / "MbppPlus.jsonl.gz").write_bytes(gzip.compress(CONTENT))
    release = Release("MbppPlus", "v1", hashlib.sha256(CONTENT).hexdigest())
    paths = [downloaded("mbppplus", release) for _ in range(2)]
    assert paths == [release.path] * 2
    assert release.path.read_bytes() == CONTENT
    assert requests == ["/MbppPlus.jsonl.gz"]


def test_a_download_that_is_broken_or_another_file_is_one_line_and_is_not_kept(server):
    folder, _ = server
    release = Release("MbppPlus", "v1", hashlib.sha256(CONTENT).hexdigest())
    packed = gzip.compress(CONTENT)
    for content in (packed[:-9], b"no archive", packed[:10] + b"\xff" * 9 + packed[19:], gzip.compress(b"another")):
        (folder / "MbppPlus.jsonl.gz").write_bytes(content)
        line = refusal_of(downloaded, "mbppplus", release)
        assert line.startswith(f"mbppplus: {release.url} is not ")
        assert line.endswith("give the file with --data FILE") or line.endswith("or give --data FILE")
        assert not release.path.exists()
