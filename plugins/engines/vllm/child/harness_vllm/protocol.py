"""What passes between the harness, its child and vLLM's processes: messages, and the names of requests.

A message over the socket is a head in JSON, and arrays as safetensors. Nothing is pickled, so that no text of a
response can run code.

A request's name says what it is to the extensions in vLLM's processes. `d31x7`: request 7, sampled after a prompt of 31
tokens. `g31x7`: a given response after a prompt of 31 tokens. vLLM adds `{child}_` in front and `-{random}` at the end.
Requests with other names are ignored.
"""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from safetensors.numpy import load, save

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]
SIZES = struct.Struct(">QQ")
NAME = re.compile(r"^(?:(\d+)_)?([dg])(\d+)x(\d+)(?:-[^_]*)?$")


def send(link: socket.socket, head: Mapping[str, Any], arrays: Arrays | None = None) -> None:
    """Send one message."""
    text = json.dumps(head).encode()
    data = save({name: np.ascontiguousarray(values) for name, values in arrays.items()}) if arrays else b""
    link.sendall(SIZES.pack(len(text), len(data)) + text)
    link.sendall(data)


def receive(link: socket.socket) -> tuple[dict[str, Any], Arrays] | None:
    """Return the next message's head and arrays; None if the other side is gone."""
    sizes = _exactly(link, SIZES.size)
    if sizes is None:
        return None
    of_text, of_data = SIZES.unpack(sizes)
    text, data = _exactly(link, of_text), _exactly(link, of_data)
    if text is None or data is None:
        return None
    return json.loads(text), load(data) if data else {}


def _exactly(link: socket.socket, size: int) -> bytes | None:
    received = bytearray()
    while len(received) < size:
        try:
            part = link.recv(min(size - len(received), 2**20))
        except ConnectionError:
            return None
        if not part:
            return None
        received += part
    return bytes(received)


def packed(name: str, rows: Sequence[Sequence[int]]) -> Arrays:
    """Return rows of token ids as two arrays: all tokens (`name`), and the rows' lengths (`name`_lengths)."""
    flat = np.array([token for row in rows for token in row], np.int32)
    return {name: flat, f"{name}_lengths": np.array([len(row) for row in rows], np.int64)}


def unpacked(name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[list[int]]:
    """Return the rows that were given to `packed`."""
    ends = np.cumsum(arrays[f"{name}_lengths"])
    flat = arrays[name].tolist()
    return [flat[end - length : end] for end, length in zip(ends, arrays[f"{name}_lengths"], strict=True)]


class Name(NamedTuple):
    """Parts of a request's name: which of n children, whether it is sampled, tokens of its prompt, its number."""

    child: int
    sampled: bool
    prompt: int
    number: int


def written_name(sampled: bool, prompt: int, number: int) -> str:
    """Return the name for a request; `prompt`: the number of its prompt's tokens."""
    return f"{'d' if sampled else 'g'}{prompt}x{number}"


def read_name(name: str) -> Name | None:
    """Return the parts of a name as vLLM has it; None if the name has another form."""
    match = NAME.match(name)
    if match is None:
        return None
    child, kind, prompt, number = match.groups()
    return Name(int(child or 0), kind == "d", int(prompt), int(number))
