"""Adapters in PEFT's format (LoRA and others that can be merged): find one, know it by its content, apply it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from harness import HarnessError

from .location import ADAPTER_CONFIG, Location, content_hash, one_line_errors, read_json

WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")


@dataclass(frozen=True)
class Adapter:
    """The folder of an adapter; HarnessError if it is none. `engine` begins messages."""

    engine: str
    folder: Path

    def __post_init__(self) -> None:
        for names in ((ADAPTER_CONFIG,), WEIGHTS):
            if not any((self.folder / name).is_file() for name in names):
                what = f"has no {' or '.join(names)}" if self.folder.is_dir() else "is no folder"
                raise self._error(f"{what}: give what PEFT's save_pretrained() wrote")

    def _error(self, reason: str) -> HarnessError:
        return HarnessError(f"{self.engine}: adapter {self.folder} {reason}")

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def revision(self) -> str:
        return content_hash(self.folder)

    @cached_property
    def rank(self) -> int:
        """The largest rank of a LoRA's matrices; HarnessError for an adapter of another kind."""
        config = read_json(self.folder / ADAPTER_CONFIG, f"{self.engine}: adapter")
        if config.get("peft_type") != "LORA":
            raise self._error(f"is {config.get('peft_type')}, and not LORA")
        return max([int(config["r"]), *map(int, (config.get("rank_pattern") or {}).values())])

    @property
    def modules(self) -> list[str] | None:
        """The names of the layers that are changed, such as "q_proj"; None if the config has only a pattern."""
        named = read_json(self.folder / ADAPTER_CONFIG, f"{self.engine}: adapter").get("target_modules")
        return sorted({name.rpartition(".")[2] for name in named}) if isinstance(named, list) else None

    def require_fit(self, config: Any, base: str) -> None:
        """Raise HarnessError unless the adapter fits each layer of a model with that config. Loads no model."""
        import torch
        from transformers import AutoModelForCausalLM

        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        self.applied(model, base, merge=False)

    def applied(self, model: Any, base: str, merge: bool) -> Any:
        """Return the model with the adapter's change in its weights or, without `merge`, beside them in its layers.

        HarnessError if the adapter does not fit the model; `base` is the model's name in messages.
        """
        from peft import PeftConfig, PeftModel

        def refuse(reason: str) -> NoReturn:
            raise self._error(f"does not fit model {base}: {reason}")

        with one_line_errors(Location(self.name, self.folder)), warnings.catch_warnings(action="ignore"):
            config = PeftConfig.from_pretrained(str(self.folder))
            config.inference_mode = True
            if config.is_prompt_learning:
                raise self._error(f"is {config.peft_type.value}, not in weights")
            try:
                adapted = PeftModel(model, config)
                device = "cpu" if model.device.type == "meta" else str(model.device)
                loaded = adapted.load_adapter(str(self.folder), "default", torch_device=device)
            except (RuntimeError, ValueError) as failure:
                refuse(" ".join(str(failure).split())[:200])
        for what, names in (("lacks", loaded.missing_keys), ("has more than the model:", loaded.unexpected_keys)):
            if names:
                refuse(f"it {what} {', '.join(sorted(names)[:2])}")
        return adapted.merge_and_unload() if merge else adapted.get_base_model()
