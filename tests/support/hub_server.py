"""As much of the Hugging Face hub, on loopback, as `huggingface_hub` and `datasets` speak with for datasets.

Repositories with commits, visibility, large files by the LFS protocol, tokens, and a front matter that is parsed. For
faults: `files` of a commit may be changed, and `stop_after` files the server drops the connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

import yaml

TOKEN = "hf_" + "x" * 30


@dataclass
class Repository:
    """Commits, oldest first; each is its files by path."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes]) -> str:
        name = hashlib.sha1(f"{len(self.commits)} {sorted(files.items())}".encode()).hexdigest()
        self.commits[name] = files
        return name

    @property
    def head(self) -> str:
        return list(self.commits)[-1]

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.head]


class HubServer(ThreadingHTTPServer):
    """The hub: repositories by name, LFS objects by hash, and the requests to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.repositories: dict[str, Repository] = {}
        self.objects: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.stop_after: int | None = None  # so many files are sent, then none
        self.says_hashes = True
        self.stopped = threading.Event()
        self.claimed_sizes: dict[str, int] = {}
        self.before_commit: Callable[[], object] = lambda: None
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self) -> HubServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Hub(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HubServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_POST = do_PUT = do_GET

    def answer(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            self.body = b"".join(self.chunks())
        path, _, query = self.path.partition("?")
        self.query = parse_qs(query)
        self.server.requests.append(f"{self.command} {unquote(path)}")
        self.server.bodies.append(self.body)
        for pattern, method in ROUTES:
            if match := re.fullmatch(pattern, f"{self.command} {unquote(path)}"):
                return getattr(self, method)(*match.groups())
        self.send({"error": "no such page"}, 404)

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    # Answers.

    def send(self, value: Any, status: int = 200, **headers: str) -> None:
        content = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    @property
    def allowed(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def repository(self, name: str) -> Repository | None:
        stored = self.server.repositories.get(name)
        if stored is None or (stored.private and not self.allowed):
            self.send({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
            return None
        return stored

    def at(self, name: str, revision: str) -> tuple[Repository, str] | None:
        stored = self.repository(name)
        if stored is None:
            return None
        commit = stored.head if revision in ("main", "") else revision
        if commit not in stored.commits:
            self.send({"error": "no such revision"}, 404, X_Error_Code="RevisionNotFound")
            return None
        return stored, commit

    def root(self) -> None:
        self.send(b"")

    def create(self) -> None:
        if not self.allowed:
            return self.send({"error": "Invalid token"}, 401)
        requested = json.loads(self.body)
        name = f"{requested['organization']}/{requested['name']}"
        if name.startswith("stranger/"):
            return self.send({"error": "not your namespace"}, 403)
        if name in self.server.repositories:
            return self.send({"error": "there already", "url": f"{self.server.endpoint}/datasets/{name}"}, 409)
        made = self.server.repositories[name] = Repository(requested.get("visibility") == "private")
        made.commit({".gitattributes": b"*.parquet filter=lfs\n"})
        self.send({"url": f"{self.server.endpoint}/datasets/{name}", "name": name, "id": "1"})

    def about(self, name: str, revision: str | None = None) -> None:
        if stored := self.at(name, revision or ""):
            repository, commit = stored
            files = repository.commits[commit]
            siblings = [{"rfilename": path, **self.entry(path, files[path])} for path in sorted(files)]
            self.send({"id": name, "sha": commit, "private": repository.private, "tags": [], "siblings": siblings})

    def entry(self, path: str, content: bytes) -> dict[str, Any]:
        large = path.endswith(".parquet") and self.server.says_hashes
        lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 100}
        return {"size": self.server.claimed_sizes.get(path, len(content)), "blobId": "0" * 40} | (
            {"lfs": lfs} if large else {}
        )

    def tree(self, name: str, revision: str, under: str | None = None) -> None:
        if stored := self.at(name, revision):
            files = stored[0].commits[stored[1]]
            below = {path: files[path] for path in files if path.startswith(f"{under}/" if under else "")}
            if under and not below:
                return self.send({"error": "no such folder"}, 404, X_Error_Code="EntryNotFound")
            listed: dict[str, dict[str, Any]] = {}
            for path, content in sorted(below.items()):
                rest = path[len(under) + 1 if under else 0 :]
                if "/" in rest and self.query.get("recursive", [""])[0].lower() != "true":
                    folder = path[: len(path) - len(rest)] + rest.split("/")[0]
                    listed[folder] = {"type": "directory", "path": folder, "oid": "0" * 40, "size": 0}
                else:
                    listed[path] = {"type": "file", "path": path, "oid": "0" * 40, "size": len(content)}
            self.send(list(listed.values()))

    def paths_info(self, name: str, revision: str) -> None:
        if stored := self.at(name, revision):
            files = stored[0].commits[stored[1]]
            wanted = parse_qs(self.body.decode()).get("paths", [])
            listed = [{"type": "file", "path": p, "size": len(files[p]), "oid": "0" * 40} for p in wanted if p in files]
            self.send(listed)

    def validate(self) -> None:
        front = re.match(r"---\n(.*?\n)---\n", json.loads(self.body)["content"], re.S)
        try:
            values = yaml.safe_load(front[1]) if front else None
        except yaml.YAMLError as failure:
            return self.send({"errors": [{"message": str(failure)}], "warnings": []}, 400)
        if not isinstance(values, dict) or values["license"] not in ("unknown", "mit", "cc-by-4.0", "other"):
            return self.send({"errors": [{"message": '"license" must be one of mit, ...'}], "warnings": []}, 400)
        self.send({"errors": [], "warnings": []})

    def preupload(self, name: str, _: str) -> None:
        if self.repository(name):
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".parquet") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(self.body)["files"]
            ]
            self.send({"files": modes})

    def batch(self, name: str) -> None:
        answers = []
        for entry in json.loads(self.body)["objects"]:
            upload = {"upload": {"href": f"{self.server.endpoint}/lfs/{entry['oid']}"}}
            answers.append(entry | ({} if entry["oid"] in self.server.objects else {"actions": upload}))
        self.send({"transfer": "basic", "objects": answers})

    def put(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        if self.server.stop_after is not None:
            self.server.stop_after -= 1
            if self.server.stop_after < 0:
                return self.send({"error": "out of order"}, 400)
        self.server.objects[oid] = self.body
        self.send(b"")

    def commit(self, name: str, _: str) -> None:
        if not self.allowed:
            return self.send({"error": "Invalid token"}, 401)
        stored = self.repository(name)
        if stored is None:
            return
        self.server.before_commit()
        operations = [json.loads(line) for line in self.body.splitlines()]
        files = dict(stored.files)
        for entry in operations:
            value = entry["value"]
            if entry["key"] == "header" and value.get("parentCommit", stored.head) != stored.head:
                return self.send({"error": "the branch has moved"}, 412)
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
        made = stored.commit(files)
        self.send({"commitUrl": f"{self.server.endpoint}/datasets/{name}/commit/{made}", "commitOid": made})

    def file(self, name: str, revision: str, path: str) -> None:
        stored = self.at(name, revision)
        if stored is None:
            return
        content = stored[0].commits[stored[1]].get(path)
        if content is None:
            return self.send({"error": "no such file"}, 404, X_Error_Code="EntryNotFound")
        if self.command == "GET" and path.endswith(".parquet") and self.server.stop_after is not None:
            self.server.stop_after -= 1
            if self.server.stop_after < 0:
                return self.half_of(content)
        status, sent = 200, content
        if requested := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            status, sent = 206, content[int(requested[1]) : int(requested[2]) + 1 if requested[2] else None]
        tag = hashlib.sha256(content).hexdigest()
        self.send(sent, status, X_Repo_Commit=stored[1], ETag=f'"{tag}"')

    def half_of(self, content: bytes) -> None:
        """Send half of a file, and then nothing until somebody gives up."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        self.wfile.flush()
        self.server.stopped.wait(60)
        self.close_connection = True


NAME = r"([^/]+/[^/]+)"
ROUTES = (
    (r"(?:GET|HEAD) /?", "root"),
    (r"POST /api/repos/create", "create"),
    (r"POST /api/validate-yaml", "validate"),
    (rf"GET /api/datasets/{NAME}", "about"),
    (rf"GET /api/datasets/{NAME}/revision/([^/]+)", "about"),
    (rf"GET /api/datasets/{NAME}/tree/([^/]+)(?:/(.*))?", "tree"),
    (rf"POST /api/datasets/{NAME}/paths-info/([^/]+)", "paths_info"),
    (rf"POST /api/datasets/{NAME}/preupload/([^/]+)", "preupload"),
    (rf"POST /api/datasets/{NAME}/commit/([^/]+)", "commit"),
    (rf"POST /datasets/{NAME}\.git/info/lfs/objects/batch", "batch"),
    (r"PUT /lfs/([0-9a-f]{64})", "put"),
    (rf"(?:GET|HEAD) /datasets/{NAME}/resolve/([^/]+)/(.+)", "file"),
)
