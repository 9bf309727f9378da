"""Load the parts of a causal language model, each at its first use: config, tokenizer, weights."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from functools import cached_property
from io import StringIO
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness import HarnessError, Message, Responses
from harness.system.extras import hub_is_out_of_reach

from .gguf_file import GgufFiles
from .model_files import ModelFiles, device_kind
from .model_location import Location, content_hash, one_line_errors

if TYPE_CHECKING:
    import torch

    from .adapter import Adapter

# A template that prints today's date would change the prompt every day; without a clock it prints this date.
TEMPLATE_DATE = "26 Jul 2024"


class Checkpoint:
    """A model in a folder, in a GGUF file or on the hub. Nothing is loaded, downloaded or imported before it is needed.

    device            "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
    dtype             "auto" or the name of a type, such as "float32"
    revision          of a hub model: branch, tag or commit; None: the branch main
    adapter           of PEFT, which changes the weights; tokenizer and chat template stay the model's
    elsewhere         whether another program loads the weights, and decides which quantized ones it can read
    """

    def __init__(
        self,
        location: Location,
        device: str,
        dtype: str,
        revision: str | None,
        adapter: Adapter | None = None,
        elsewhere: bool = False,
    ) -> None:
        self.location, self.adapter, self._elsewhere = location, adapter, elsewhere
        self.name = f"{location.name}+{adapter.name}" if adapter else location.name
        self._requested_device, self._requested_dtype, self._requested_revision = device, dtype, revision

    @cached_property
    def device(self) -> torch.device:
        """The device that the model runs on."""
        return find_device(self._requested_device)

    @cached_property
    def revision(self) -> str | None:
        """The hub's commit, or a hash of the content of folder or file."""
        content = self.location.content
        return self._commit if content is None else content_hash(content)

    @property
    def identity(self) -> dict[str, Any]:
        """What fixes the weights and the tokenizer, as it stands in keys."""
        adapter = {"adapter": self.adapter.revision} if self.adapter else {}
        return {"model": self.name, "revision": self.revision, **adapter}

    def require_adapter_fits(self) -> None:
        """Raise HarnessError if there is an adapter that does not fit the model; loads no weights of the model."""
        if self.adapter:
            self.adapter.require_fit(self.config, self.location.name)

    @property
    def libraries(self) -> list[str]:
        """The libraries, beside torch and transformers, that read the model's format."""
        return [*(("gguf", "accelerate") if self.location.gguf else ()), *(("peft",) if self.adapter else ())]

    @property
    def chats(self) -> bool:
        """Whether the tokenizer has a chat template; those of base models have none."""
        return self._files.has_template

    def to_fetch(self) -> str:
        """Return what has to be downloaded first; "" if nothing."""
        return "" if self._files.is_here or self.local else f"the weights of {self.name}"

    @property
    def parameter_count(self) -> float | None:
        """About how many parameters the model has, before its weights are there; None: unknown."""
        return self._files.parameter_count

    @cached_property
    def _files(self) -> ModelFiles | GgufFiles:
        if self.location.gguf is not None:
            return GgufFiles(self.location.gguf)
        return ModelFiles(self.location, self._requested_revision or "main", self.local)

    @property
    def _commit(self) -> str | None:
        try:
            return self._files.commit
        except OSError:
            return self.config._commit_hash  # transformers finds what is wrong

    @property
    def dtype(self) -> str:
        """Return the name of the weights' type; "auto" is float32 on a CPU and the checkpoint's type on a GPU."""
        return self._requested_dtype if self._requested_dtype != "auto" else self.dtype_on(self.device_kind)

    @property
    def device_kind(self) -> str:
        """The kind of device that the model runs on: "cpu", "cuda", ..."""
        return device_kind(self._requested_device)

    def dtype_on(self, device: str) -> str:
        """Return the name of the type that dtype "auto" means on a kind of device ("cpu", "cuda")."""
        return "float32" if device == "cpu" else self._files.dtype or "float32"

    @cached_property
    def config(self) -> Any:
        """The model's config; HarnessError if the model is no causal language model, or quantized and not readable."""
        from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

        with self._source() as (source, options):
            config = AutoConfig.from_pretrained(
                source,
                **options,
                revision=self._requested_revision or "main",
                trust_remote_code=False,
                local_files_only=self.local,
            )
        architectures = config.architectures or ["CausalLM"]
        causal = any(name.endswith(("CausalLM", "LMHeadModel", "ConditionalGeneration")) for name in architectures)
        if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING or not causal or config.is_encoder_decoder:
            raise HarnessError(f"model {self.name!r} ({', '.join(architectures)}) is not a causal language model")
        self._require_readable(config)
        return config

    def _require_readable(self, config: Any) -> None:
        """Ask transformers whether all is here to read quantized weights; it names the library that is missing."""
        quantized = getattr(config, "quantization_config", None)
        if quantized is None or self._elsewhere:
            return
        from transformers.quantizers import AutoHfQuantizer

        options = quantized if isinstance(quantized, dict) else vars(quantized)
        method = getattr(options.get("quant_method"), "value", options.get("quant_method")) or "some method"
        try:
            with quiet():
                quantizer = AutoHfQuantizer.from_config(quantized, pre_quantized=True)
                quantizer.validate_environment(device_map={"": self.device})
        except (ImportError, RuntimeError, ValueError) as failure:
            raise HarnessError(
                f"model {self.name!r} is quantized ({method}), which cannot be read here: "
                f"{' '.join(str(failure).split())} (or give the unquantized model, or use --engine vllm)"
            ) from failure

    @property
    def context(self) -> float:
        """Return the maximum number of tokens of prompt and response together; infinite if the config has none."""
        return getattr(self.config.get_text_config(), "max_position_embeddings", None) or math.inf

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        from transformers import AutoTokenizer

        with self._source() as (source, options):
            return AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options, **self._pinned)

    @cached_property
    def model(self) -> Any:
        """The model, ready to generate, without the decoding defaults of its checkpoint (temperature, top_k, ...)."""
        import torch
        from transformers import AutoModelForCausalLM, GenerationConfig

        auto: Any = AutoModelForCausalLM
        packed = getattr(self.config, "quantization_config", None) is not None
        with self._source() as (source, options):
            model, loading = auto.from_pretrained(
                source,
                dtype=getattr(torch, self.dtype),
                trust_remote_code=False,
                output_loading_info=True,
                **({"device_map": {"": self.device}} if packed else {}),  # such weights are packed where they run
                **(_dequantized() if self.location.gguf else {}),
                **options,
                **self._pinned,
            )
        if loading["missing_keys"]:
            missing = ", ".join(sorted(loading["missing_keys"])[:3])
            raise HarnessError(f"model {self.name!r}: its weights lack {missing}: not a whole causal language model")
        model = _in_one_type(model, getattr(torch, self.dtype)) if packed else model.to(self.device)
        if self.adapter:
            model = self.adapter.applied(model, self.location.name, merge=not packed)
        model.generation_config = GenerationConfig(pad_token_id=self.filler, use_cache=True)
        return model.eval()

    @cached_property
    def decoder(self) -> torch.nn.Module:
        """The model's module that gives the last hidden state after the final norm."""
        from ..engines.transformers.capture import final_decoder

        return final_decoder(self.model, self.name)

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
        """Return the token for padding (left of a prompt, after an end); it is masked or not counted."""
        return self.eos[0] if self.eos else 0

    @contextmanager
    def _source(self) -> Iterator[tuple[str, dict[str, str]]]:
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
        """Return arguments of `from_pretrained` so that all parts of a hub model come from one commit."""
        if self.location.folder is not None:
            return {}
        return {"revision": self.config._commit_hash, "local_files_only": self.local}

    @cached_property
    def local(self) -> bool:
        """Whether only files on this disk can be used: the model is a folder, or the hub cannot be reached."""
        return self.location.folder is not None or hub_is_out_of_reach()

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return a prompt's token ids; HarnessError if there are none, or if the chat template refuses the prompt.

        The messages are rendered with the tokenizer's chat template; without one they are joined by blank lines.
        """
        if not self.tokenizer.chat_template:
            ids = self.tokenizer("\n\n".join(message["content"] for message in messages))["input_ids"]
        else:
            ids = self._templated(messages)
        if not ids:
            raise HarnessError(f"{self.name}: a prompt of no token: there is nothing to go on from")
        return ids

    def _templated(self, messages: Sequence[Message]) -> list[int]:
        from jinja2 import TemplateError

        try:
            chat = self.tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, return_dict=True, date_string=TEMPLATE_DATE
            )
        except TemplateError as refusal:
            raise HarnessError(f"{self.name}: its chat template refuses the prompt: {refusal}") from refusal
        return chat["input_ids"]

    def response_ids(self, text: str, ended: bool) -> list[int]:
        """Return a given response's tokens, with the end-of-sequence token if it had ended."""
        ids = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return [*ids, *self.eos[:1]] if ended else ids

    def rows(self, responses: Responses) -> list[list[int]]:
        """Return the tokens of given responses; computed from their texts if the tokens are not known."""
        if responses.token_ids is not None:
            return [list(ids) for ids in responses.token_ids]
        ended = [finish == "stop" for finish in responses.finish]
        return [self.response_ids(text, end) for text, end in zip(responses.texts, ended, strict=True)]

    def text(self, ids: Sequence[int]) -> str:
        """Return a response's text, without special tokens."""
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def find_device(name: str) -> torch.device:
    """Return the device of that name ("auto": a GPU if there is one, else the CPU); HarnessError if it is unusable."""
    import torch

    name = device_kind(name) if name == "auto" else name
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as failure:
        reason = str(failure).strip().split("\n")[0]
        raise HarnessError(f"transformers: device {name!r} cannot be used: {reason}") from failure
    return device


def _in_one_type(model: Any, dtype: torch.dtype) -> Any:
    """The model; if all its weights were dequantized (fp8 on a CPU), those that never were quantized get their type."""
    import torch

    parameters = list(model.parameters())
    if {each.dtype for each in (*parameters, *model.buffers())} <= {torch.float32, torch.bfloat16, torch.float16}:
        for each in parameters:
            each.data = each.data.to(dtype)
    return model


def _dequantized() -> dict[str, Any]:
    """The argument by which newer versions of transformers dequantize a GGUF file; older ones always do."""
    try:
        from transformers import GgufConfig
    except ImportError:
        return {}
    return {"quantization_config": GgufConfig(dequantize=True)}


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
