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
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote

import yaml

TOKEN = "hf_" + "x" * 30
BLOB = "0" * 40


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
        self.stopped = threading.Event()
        self.claimed_sizes: dict[str, int] = {}
        self.before_commit = lambda: None
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def stops(self) -> bool:
        """Whether a file more is one too many."""
        if self.stop_after is not None:
            self.stop_after -= 1
        return self.stop_after is not None and self.stop_after < 0


class Refused(Exception):
    """The answer to a request that cannot be: a reason, an HTTP status, the hub's name for it."""


class Hub(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HubServer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                self.body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path, _, query = self.path.partition("?")
        self.query = parse_qs(query)
        request = f"{self.command} {unquote(path)}"
        self.server.requests.append(request)
        self.server.bodies.append(self.body)
        try:
            for pattern, method in ROUTES:
                if match := re.fullmatch(pattern, request):
                    return getattr(self, method)(*match.groups())
            raise Refused("no such page", 404)
        except Refused as refused:
            reason, status, *name = refused.args
            self.send({"error": reason}, status, **({"X_Error_Code": name[0]} if name else {}))

    do_HEAD = do_POST = do_PUT = do_GET

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

    def at(self, name: str, revision: str = "main") -> tuple[Repository, str, dict[str, bytes]]:
        """A repository that the asker may see, the commit, and its files."""
        stored = self.server.repositories.get(name)
        if stored is None or (stored.private and not self.allowed):
            raise Refused("Repository not found", 404, "RepoNotFound")
        commit = stored.head if revision == "main" else revision
        if commit not in stored.commits:
            raise Refused("no such revision", 404, "RevisionNotFound")
        return stored, commit, stored.commits[commit]

    def root(self) -> None:
        self.send(b"")

    def create(self) -> None:
        if not self.allowed:
            raise Refused("Invalid token", 401)
        requested = json.loads(self.body)
        name = f"{requested['organization']}/{requested['name']}"
        if name.startswith("stranger/"):
            raise Refused("not your namespace", 403)
        url = f"{self.server.endpoint}/datasets/{name}"
        if name in self.server.repositories:
            return self.send({"error": "there already", "url": url}, 409)
        made = self.server.repositories[name] = Repository(requested.get("visibility") == "private")
        made.commit({".gitattributes": b"*.parquet filter=lfs\n"})
        self.send({"url": url, "name": name, "id": "1"})

    def about(self, name: str, revision: str | None) -> None:
        repository, commit, files = self.at(name, revision or "main")
        siblings = []
        for path, content in sorted(files.items()):
            entry = {"rfilename": path, "size": self.server.claimed_sizes.get(path, len(content)), "blobId": BLOB}
            if path.endswith(".parquet") and path not in self.server.claimed_sizes:
                sha256 = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": sha256, "size": len(content), "pointerSize": 100}
            siblings.append(entry)
        self.send({"id": name, "sha": commit, "private": repository.private, "tags": [], "siblings": siblings})

    def tree(self, name: str, revision: str, under: str | None = None) -> None:
        before = f"{under}/" if under else ""
        files = {path: content for path, content in self.at(name, revision)[2].items() if path.startswith(before)}
        if under and not files:
            raise Refused("no such folder", 404, "EntryNotFound")
        listed: dict[str, dict[str, Any]] = {}
        for path, content in sorted(files.items()):
            first, *below = path.removeprefix(before).split("/")
            if below and self.query.get("recursive", [""])[0].lower() != "true":
                folder = before + first
                listed[folder] = {"type": "directory", "path": folder, "oid": BLOB, "size": 0}
            else:
                listed[path] = {"type": "file", "path": path, "oid": BLOB, "size": len(content)}
        self.send(list(listed.values()))

    def paths_info(self, name: str, revision: str) -> None:
        files = self.at(name, revision)[2]
        wanted = [path for path in parse_qs(self.body.decode()).get("paths", []) if path in files]
        self.send([{"type": "file", "path": path, "size": len(files[path]), "oid": BLOB} for path in wanted])

    def validate(self) -> None:
        front, message = re.match(r"---\n(.*?\n)---\n", json.loads(self.body)["content"], re.S), ""
        try:
            values = yaml.safe_load(front[1]) if front else {}
            if values.get("license") not in ("unknown", "mit", "cc-by-4.0", "other"):
                message = '"license" must be one of mit, ...'
        except yaml.YAMLError as failure:
            message = str(failure)
        errors = [{"message": message}] if message else []
        self.send({"errors": errors, "warnings": []}, 400 if errors else 200)

    def preupload(self, name: str, _: str) -> None:
        self.at(name)
        modes = [
            {"path": path, "uploadMode": "lfs" if path.endswith(".parquet") else "regular", "shouldIgnore": False}
            for path in (file["path"] for file in json.loads(self.body)["files"])
        ]
        self.send({"files": modes})

    def batch(self, _: str) -> None:
        answers = json.loads(self.body)["objects"]
        for entry in answers:
            if entry["oid"] not in self.server.objects:
                entry["actions"] = {"upload": {"href": f"{self.server.endpoint}/lfs/{entry['oid']}"}}
        self.send({"transfer": "basic", "objects": answers})

    def put(self, oid: str) -> None:
        assert hashlib.sha256(self.body).hexdigest() == oid
        if self.server.stops():
            raise Refused("out of order", 400)
        self.server.objects[oid] = self.body
        self.send(b"")

    def commit(self, name: str, _: str) -> None:
        if not self.allowed:
            raise Refused("Invalid token", 401)
        stored, _, _ = self.at(name)
        self.server.before_commit()
        files = dict(stored.files)
        for entry in map(json.loads, self.body.splitlines()):
            value = entry["value"]
            if entry["key"] == "header" and value.get("parentCommit", stored.head) != stored.head:
                raise Refused("the branch has moved", 412)
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.server.objects[value["oid"]]
            elif entry["key"] == "deletedFile":
                del files[value["path"]]
        made = stored.commit(files)
        self.send({"commitUrl": f"{self.server.endpoint}/datasets/{name}/commit/{made}", "commitOid": made})

    def file(self, name: str, revision: str, path: str) -> None:
        _, commit, files = self.at(name, revision)
        if path not in files:
            raise Refused("no such file", 404, "EntryNotFound")
        status, content = 200, files[path]
        if self.command == "GET" and path.endswith(".parquet") and self.server.stops():
            self.send_response(200)  # half of it, and then nothing until somebody gives up
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            self.server.stopped.wait(60)
            self.close_connection = True
            return
        tag = hashlib.sha256(content).hexdigest()
        if requested := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            status, content = 206, content[int(requested[1]) : int(requested[2]) + 1 if requested[2] else None]
        self.send(content, status, X_Repo_Commit=commit, ETag=f'"{tag}"')


NAME = r"([^/]+/[^/]+)"
ROUTES = (
    (r"(?:GET|HEAD) /?", "root"),
    (r"POST /api/repos/create", "create"),
    (r"POST /api/validate-yaml", "validate"),
    (rf"GET /api/datasets/{NAME}(?:/revision/([^/]+))?", "about"),
    (rf"GET /api/datasets/{NAME}/tree/([^/]+)(?:/(.*))?", "tree"),
    (rf"POST /api/datasets/{NAME}/paths-info/([^/]+)", "paths_info"),
    (rf"POST /api/datasets/{NAME}/preupload/([^/]+)", "preupload"),
    (rf"POST /api/datasets/{NAME}/commit/([^/]+)", "commit"),
    (rf"POST /datasets/{NAME}\.git/info/lfs/objects/batch", "batch"),
    (r"PUT /lfs/([0-9a-f]{64})", "put"),
    (rf"(?:GET|HEAD) /datasets/{NAME}/resolve/([^/]+)/(.+)", "file"),
)
