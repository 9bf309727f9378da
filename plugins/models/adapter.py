"""Adapters in PEFT's format (LoRA and others that can be merged): find one, know it by its content, apply it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import HarnessError
from harness.system.json_text import read

from .model_location import Location, content_hash, one_line_errors

CONFIG, WEIGHTS = "adapter_config.json", ("adapter_model.safetensors", "adapter_model.bin")


@dataclass(frozen=True)
class Adapter:
    """The folder of an adapter; HarnessError if it is none. `engine` begins messages."""

    engine: str
    folder: Path

    def __post_init__(self) -> None:
        lacking = [" or ".join(names) for names in ((CONFIG,), WEIGHTS) if not any(map(self._has, names))]
        if lacking:
            what = f"has no {lacking[0]}" if self.folder.is_dir() else "is no folder"
            raise HarnessError(f"{self.engine}: adapter {self.folder} {what}: give what PEFT's save_pretrained() wrote")

    def _has(self, name: str) -> bool:
        return (self.folder / name).is_file()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @property
    def revision(self) -> str:
        """A hash of the folder's content."""
        return content_hash(self.folder)

    @cached_property
    def rank(self) -> int:
        """The largest rank of a LoRA's matrices; HarnessError for an adapter of another kind."""
        config = self._config
        if config.get("peft_type") != "LORA":
            raise HarnessError(f"{self.engine}: adapter {self.folder} is {config.get('peft_type')}, and not LORA")
        patterns = config.get("rank_pattern") or {}
        return max([int(config["r"]), *map(int, patterns.values())])

    @property
    def modules(self) -> list[str] | None:
        """The names of the layers that are changed, such as "q_proj"; None if the config has only a pattern."""
        named = self._config.get("target_modules")
        return sorted({name.rpartition(".")[2] for name in named}) if isinstance(named, list) else None

    @property
    def _config(self) -> dict[str, Any]:
        config = read(self.folder / CONFIG, f"{self.engine}: adapter", lenient=True)
        return config if isinstance(config, dict) else {}

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

        with one_line_errors(Location(self.name, self.folder)), warnings.catch_warnings(action="ignore"):
            config = PeftConfig.from_pretrained(str(self.folder))
            config.inference_mode = True
            if config.is_prompt_learning:
                raise HarnessError(f"{self.engine}: adapter {self.folder} is {config.peft_type.value}, not in weights")
            try:
                adapted = PeftModel(model, config)
                device = "cpu" if model.device.type == "meta" else str(model.device)
                loaded = adapted.load_adapter(str(self.folder), "default", torch_device=device)
            except (RuntimeError, ValueError) as failure:
                self._refuse(base, " ".join(str(failure).split())[:200])
        for what, names in (("lacks", loaded.missing_keys), ("has more than the model:", loaded.unexpected_keys)):
            if names:
                self._refuse(base, f"it {what} {', '.join(sorted(names)[:2])}")
        return adapted.merge_and_unload() if merge else adapted.get_base_model()

    def _refuse(self, base: str, reason: str) -> None:
        raise HarnessError(f"{self.engine}: adapter {self.folder} does not fit model {base}: {reason}")
