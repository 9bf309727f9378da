"""Load the parts of a causal language model, each at its first use: config, tokenizer, weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness import HarnessError, Message, Responses
from harness.records import Weights
from harness.system.extras import hub_is_out_of_reach

from . import smollm2
from .location import (
    CONFIG,
    TEMPLATES,
    TOKENIZER_CONFIG,
    Location,
    content_hash,
    device_kind,
    hub_file,
    one_line_errors,
    read_json,
)

if TYPE_CHECKING:
    import torch

    from .adapter import Adapter

# A template that prints today's date would change the prompt every day; without a clock it prints this date.
TEMPLATE_DATE = "26 Jul 2024"


@dataclass(eq=False)
class Checkpoint:
    """A model in a folder, in a GGUF file or on the hub. Nothing is loaded, downloaded or imported before it is needed.

    requested_device    "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
    requested_dtype     "auto" or the name of a type, such as "float32"
    requested_revision  of a hub model: branch, tag or commit; None: the branch main
    adapter             of PEFT, which changes the weights; tokenizer and chat template stay the model's
    """

    location: Location
    requested_device: str
    requested_dtype: str
    requested_revision: str | None
    adapter: Adapter | None = None

    @property
    def name(self) -> str:
        return f"{self.location.name}+{self.adapter.name}" if self.adapter else self.location.name

    @cached_property
    def local(self) -> bool:
        """Whether only files on this disk can be used: the model is a folder, or the hub cannot be reached."""
        return self.location.folder is not None or hub_is_out_of_reach()

    @cached_property
    def revision(self) -> str | None:
        """The hub's commit, or a hash of the content of folder or file."""
        content = self.location.gguf or self.location.folder
        if content is not None:
            return content_hash(content)
        try:
            return hub_file(self.location.name, CONFIG, self.requested_revision or "main", self.local).parent.name
        except OSError:
            return self.config._commit_hash  # transformers finds what is wrong

    @property
    def identity(self) -> dict[str, Any]:
        """What fixes the weights and the tokenizer, as it stands in keys."""
        adapter = {"adapter": self.adapter.revision} if self.adapter else {}
        return {"model": self.name, "revision": self.revision, **adapter}

    @property
    def libraries(self) -> list[str]:
        """The libraries, beside torch and transformers, that read the model's format."""
        return [*(("gguf", "accelerate") if self.location.gguf else ()), *(("peft",) if self.adapter else ())]

    @property
    def dtype(self) -> str:
        """The name of the weights' type; "auto" is float32 on a CPU and the checkpoint's type on a GPU."""
        wanted = self.requested_dtype
        return wanted if wanted != "auto" else self.dtype_on(device_kind(self.requested_device))

    def dtype_on(self, device: str) -> str:
        """Return the name of the type that dtype "auto" means on a kind of device ("cpu", "cuda").

        Weights of a GGUF file are dequantized: on a GPU to bfloat16, which has the range of float32.
        """
        if device == "cpu":
            return "float32"
        if self.location.gguf:
            return "bfloat16"
        whole = self._json(CONFIG)
        config = next((whole[name] for name in ("text_config", "llm_config") if whole.get(name)), whole)
        stored = config.get("dtype") or config.get("torch_dtype") or whole.get("torch_dtype")
        return str(stored).removeprefix("torch.") if stored else "float32"

    @cached_property
    def has_template(self) -> bool:
        """Whether the tokenizer has a chat template; those of base models have none. Only for GGUF it is loaded."""
        if self.location.gguf:
            return bool(self.tokenizer.chat_template)
        return bool(self._json(TOKENIZER_CONFIG).get("chat_template")) or any(map(self._path, TEMPLATES))

    def _json(self, name: str) -> dict[str, Any]:
        path = self._path(name)
        return read_json(path, f"model {self.location.name!r}:") if path else {}

    def _path(self, name: str) -> Path | None:
        """The model's file of that name, without transformers; None if it has none."""
        if self.location.folder:
            path = self.location.folder / name
            return path if path.is_file() else None
        try:
            return hub_file(self.location.name, name, self.revision or "main", self.local)
        except OSError:
            return None

    @cached_property
    def device(self) -> torch.device:
        return find_device(self.requested_device)

    @cached_property
    def config(self) -> Any:
        """The model's config; HarnessError if the model is of another kind."""
        from transformers import AutoConfig

        with self._source() as (source, options):
            options |= {"revision": self.requested_revision or "main", "local_files_only": self.local}
            config = AutoConfig.from_pretrained(source, trust_remote_code=False, **options)
        self.require_kind(config)
        return config

    def require_kind(self, config: Any) -> None:
        """Raise HarnessError unless the config is that of a causal language model."""
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

        architectures = config.architectures or ["CausalLM"]
        causal = any(name.endswith(("CausalLM", "LMHeadModel", "ConditionalGeneration")) for name in architectures)
        if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or not causal or config.is_encoder_decoder:
            raise HarnessError(f"model {self.name!r} ({', '.join(architectures)}) is not a causal language model")

    @property
    def context(self) -> float:
        """The maximum number of tokens of prompt and response together; infinite if the config has none."""
        return getattr(self.config.get_text_config(), "max_position_embeddings", None) or math.inf

    @cached_property
    def tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        with self._source() as (source, options):
            return AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options, **self._pinned)

    @cached_property
    def model(self) -> Any:
        """The model, ready to generate, without the decoding defaults of its checkpoint (temperature, top_k, ...)."""
        from transformers import GenerationConfig

        model = self.whole("AutoModelForCausalLM", "causal language model")
        if self.adapter:
            packed = getattr(self.config, "quantization_config", None) is not None
            model = self.adapter.applied(model, self.location.name, merge=not packed)
        model.generation_config = GenerationConfig(pad_token_id=self.filler, use_cache=True)
        return model.eval()

    def whole(self, factory: str, kind: str) -> Any:
        """Return the model that this class of transformers reads; HarnessError if its weights lack a part of it."""
        import torch
        import transformers

        dtype = getattr(torch, self.dtype)
        packed = getattr(self.config, "quantization_config", None) is not None
        with self._source() as (source, options):
            if packed:  # such weights are packed where they run
                options["device_map"] = {"": self.device}
            if self.location.gguf and hasattr(transformers, "GgufConfig"):  # older versions always dequantize
                options["quantization_config"] = transformers.GgufConfig(dequantize=True)
            model, loading = getattr(transformers, factory).from_pretrained(
                source, dtype=dtype, trust_remote_code=False, output_loading_info=True, **options, **self._pinned
            )
        if loading["missing_keys"]:
            missing = ", ".join(sorted(loading["missing_keys"])[:3])
            raise HarnessError(f"model {self.name!r}: its weights lack {missing}: not a whole {kind}")
        readable = {torch.float32, torch.bfloat16, torch.float16}
        if not packed:
            model.to(self.device)
        elif {each.dtype for each in (*model.parameters(), *model.buffers())} <= readable:
            for each in model.parameters():  # all were dequantized (fp8 on a CPU): the others get their type
                each.data = each.data.to(dtype)
        return model

    @cached_property
    def decoder(self) -> torch.nn.Module:
        """The model's module whose output is the last hidden state after the final norm.

        It is compared with `output_hidden_states[-1]` on a few tokens; HarnessError for a model with another structure.
        """
        import torch

        few = torch.arange(4, device=self.model.device)[None]
        for module in (self.model.get_decoder(), self.model.base_model):
            outputs: list[torch.Tensor] = []
            hook = module.register_forward_hook(lambda module, args, output, outputs=outputs: outputs.append(output[0]))
            try:
                expected = self.model(few, output_hidden_states=True, use_cache=False).hidden_states[-1]
            finally:
                hook.remove()
            if module is not self.model and len(outputs) == 1 and torch.equal(outputs[0], expected):
                return module
        kind = type(self.model).__name__
        raise HarnessError(f"{self.name}: cannot find where {kind} gives its last hidden state after the final norm")

    @cached_property
    def eos(self) -> list[int]:
        """The tokens that end a response: the tokenizer's first, then the generation config's (one or several)."""
        from transformers import GenerationConfig

        with self._source() as (source, options):
            try:
                config = GenerationConfig.from_pretrained(source, **options, **self._pinned)
            except OSError:  # the checkpoint has none: take the model's config
                config = GenerationConfig.from_model_config(self.config)
        listed = config.eos_token_id if isinstance(config.eos_token_id, (list, tuple)) else [config.eos_token_id]
        size = self.config.get_text_config().vocab_size  # a tokenizer may know more tokens than the model
        ends = dict.fromkeys((self.tokenizer.eos_token_id, *listed))
        return [token for token in ends if token is not None and token < size]

    @property
    def filler(self) -> int:
        """The token for padding (left of a prompt, after an end); it is masked or not counted."""
        return self.eos[0] if self.eos else 0

    @contextmanager
    def _source(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the first argument of `from_pretrained` and those that name a GGUF file; its errors become one line.

        A GGUF file is read from an empty folder, so that a tokenizer or template beside it, which is in no key, counts
        for nothing.
        """
        with quiet(), one_line_errors(self.location):
            if self.location.gguf is None:
                yield self.location.source, {}
                return
            with TemporaryDirectory() as empty, redirect_stderr(StringIO()):  # it has a bar that nothing turns off
                yield empty, {"gguf_file": str(self.location.gguf.absolute())}

    @property
    def _pinned(self) -> dict[str, Any]:
        """Arguments of `from_pretrained` so that all parts of a hub model come from one commit."""
        if self.location.folder is not None:
            return {}
        return {"revision": self.config._commit_hash, "local_files_only": self.local}

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return a prompt's token ids; HarnessError if there are none, or if the chat template refuses the prompt.

        The messages are rendered with the tokenizer's chat template; without one they are joined by blank lines.
        """
        from jinja2 import TemplateError

        try:
            if self.tokenizer.chat_template:
                options = {"add_generation_prompt": True, "return_dict": True, "date_string": TEMPLATE_DATE}
                ids = self.tokenizer.apply_chat_template(list(messages), **options)["input_ids"]
            else:
                ids = self.tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"]
        except TemplateError as refusal:
            raise HarnessError(f"{self.name}: its chat template refuses the prompt: {refusal}") from refusal
        if not ids:
            raise HarnessError(f"{self.name}: a prompt of no token: there is nothing to go on from")
        return ids

    def rows(self, responses: Responses) -> list[list[int]]:
        """Return the tokens of given responses.

        If they are not known, they are those of the texts, and the end-of-sequence token of a response that had ended.
        """
        if responses.token_ids is not None:
            return [list(ids) for ids in responses.token_ids]
        return [
            self.tokenizer(text, add_special_tokens=False)["input_ids"] + (self.eos[:1] if finish == "stop" else [])
            for text, finish in zip(responses.texts, responses.finish, strict=True)
        ]

    def text(self, ids: Sequence[int], stop: Sequence[str] = ()) -> str:
        """Return the text of tokens, which ends before the first of the stop strings in it."""
        text = self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text[: min((text.find(each) for each in stop if each in text), default=len(text))]


class OnCheckpoint:
    """The base class of engines with a checkpoint; no member loads weights."""

    _checkpoint: Checkpoint
    states: Sequence[str] = ("mean", "last", "penultimate")

    @property
    def name(self) -> str:
        return self._checkpoint.name

    @property
    def chats(self) -> bool:
        return self._checkpoint.has_template

    @property
    def width(self) -> int:
        """The width of its states, by the model's config."""
        return int(self._checkpoint.config.get_text_config().hidden_size)

    def weights(self) -> list[Weights]:
        """What a run shows of the owner and licence of weights that the harness fetched; else empty."""
        place = self._checkpoint.location
        return [smollm2.WEIGHTS] if place.name == smollm2.NAME and place.folder == smollm2.folder() else []

    def to_fetch(self) -> str:
        """Return what has to be downloaded before sampling; "" if nothing, or if the hub cannot be reached."""
        part = self._checkpoint
        if part.location.folder is not None:
            return ""
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(part.location.name, CONFIG, revision=part.requested_revision or "main")
        return "" if isinstance(cached, str) or part.local else f"the weights of {self.name}"

    def _require_states(self, states: Sequence[str]) -> None:
        """Raise HarnessError if one of the requested kinds of states is not known."""
        for state in states:
            if state not in self.states:
                raise HarnessError(f"{type(self).__name__.lower()}: no state {state!r}, only {', '.join(self.states)}")


def find_device(name: str) -> torch.device:
    """Return the device of that name ("auto": a GPU if there is one, else the CPU); HarnessError if it is unusable."""
    import torch

    try:
        device = torch.device(device_kind(name) if name == "auto" else name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as failure:
        reason = str(failure).strip().split("\n")[0]
        raise HarnessError(f"transformers: device {name!r} cannot be used: {reason}") from failure
    return device


@contextmanager
def quiet() -> Iterator[None]:
    """Turn off warnings and progress bars of transformers inside the block."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
