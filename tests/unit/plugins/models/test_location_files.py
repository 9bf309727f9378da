"""What is read from a checkpoint's small files: as transformers reads it, without importing it."""

import json
import shutil

import pytest
from support.processes import printed_by
from support.tiny_checkpoints import TEMPLATE, save_checkpoint
from transformers import AutoConfig, AutoTokenizer

from harness_plugins.models.checkpoint import Checkpoint
from harness_plugins.models.location import locate


def opened(folder):
    return Checkpoint(locate(str(folder)), "cpu", "auto", None)


def test_it_knows_whether_the_tokenizer_has_a_template_as_transformers_does(tmp_path):
    differing = []
    for family, template in (("gpt2", TEMPLATE), ("gpt2", None), ("llama", TEMPLATE), ("qwen2", None)):
        folder = save_checkpoint(tmp_path / f"{family}-{bool(template)}", family, template)
        if opened(folder).has_template != bool(AutoTokenizer.from_pretrained(folder).chat_template):
            differing.append((family, template))
    assert differing == []


@pytest.mark.parametrize("form", ["config", "named", "jinja"])
def test_a_template_may_stand_in_the_tokenizers_config_or_in_a_file(tmp_path, form):
    folder = save_checkpoint(tmp_path / "model", "gpt2", None)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    if form == "jinja":
        (folder / "chat_template.jinja").write_text(TEMPLATE)
    else:
        settings["chat_template"] = TEMPLATE if form == "config" else [{"name": "default", "template": TEMPLATE}]
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert AutoTokenizer.from_pretrained(folder).chat_template
    assert opened(folder).has_template


def test_the_stored_type_is_that_of_transformers(tmp_path):
    folder = save_checkpoint(tmp_path / "model", "gpt2")
    config = json.loads((folder / "config.json").read_text())
    differing = []
    for fields in ({"dtype": "bfloat16"}, {"torch_dtype": "float16"}, {"dtype": None}, {}):
        kept = {name: value for name, value in config.items() if "dtype" not in name}
        (folder / "config.json").write_text(json.dumps(kept | fields))
        theirs = AutoConfig.from_pretrained(folder).dtype
        if opened(folder).dtype_on("cuda") != str(theirs or "float32").removeprefix("torch."):
            differing.append((fields, opened(folder).dtype_on("cuda"), theirs))
    assert differing == []


def test_identity_and_prompts_form_need_neither_torch_nor_transformers(tmp_path):
    folder = save_checkpoint(tmp_path / "model", "gpt2")
    code = f"""
import sys
from harness_plugins.engines.transformers.engine import Transformers
engine = Transformers(model={str(folder)!r})
print(engine.chats, sorted(engine.identity()), sorted({{"torch", "transformers"}} & set(sys.modules)))
"""
    assert printed_by(code) == "True ['dtype', 'engine', 'model', 'revision'] []"


def test_a_config_that_is_no_json_is_one_line(tmp_path):
    folder = save_checkpoint(tmp_path / "model", "gpt2")
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(Exception, match=r"^model 'model': .*/tokenizer_config.json: not JSON \(.*\)"):
        _ = opened(folder).has_template


def test_a_model_of_the_hub_is_read_from_its_cache(tmp_path, monkeypatch):
    folder = save_checkpoint(tmp_path / "model", "gpt2", None)
    repo, commit = tmp_path / "hub" / "models--lab--small", "a" * 40
    (repo / "refs").mkdir(parents=True)
    (repo / "refs" / "main").write_text(commit)
    shutil.copytree(folder, repo / "snapshots" / commit)
    for module in ("huggingface_hub.constants.HF_HUB_CACHE", "huggingface_hub.file_download.HF_HUB_CACHE"):
        monkeypatch.setattr(module, str(tmp_path / "hub"), raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    part = Checkpoint(locate("lab/small"), "cpu", "auto", None)
    assert part.revision == commit
    assert not part.has_template
