"""Sample the rollouts of a policy in training with the harness' engine, each from its own random stream.

TRL's `generate` call would use the global random state: a resumed run, or one with another batch size, would then
sample other responses. The engine also drops rows that have ended, which is faster on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness import HarnessError, Message, Responses, Sampler
from harness.records import Problem, SampleRequest

from ..engines.transformers.engine import Transformers

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TRAIN, DEV, ORDER, SHUFFLE = range(4)  # what a random stream is used for

Chats = Sequence[tuple[Problem, Sequence[Message]]]


def stream(seed: int, *place: int) -> int:
    """Return a 64-bit seed that depends only on the run's seed and a place in the run, e.g. (TRAIN, step, group)."""
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0])


def batch_of(problems: int, batch: int, seed: int, step: int) -> list[int]:
    """Return the indices of the `batch` problems of a step (steps count from 1), of `problems` problems in all.

    Every epoch has its own order; problems left over after the last whole batch are skipped.
    """
    epoch, place = divmod(step - 1, problems // batch)
    order = np.random.default_rng(stream(seed, ORDER, epoch)).permutation(problems)
    return [int(i) for i in order[place * batch : (place + 1) * batch]]


class PolicyEngine(Transformers):
    """An engine that samples with the same module whose weights the trainer updates."""

    @property
    def policy(self) -> PreTrainedModel:
        """The model, loaded at the first use."""
        return self._checkpoint.model

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer."""
        return self._checkpoint.tokenizer

    def within(self, chats: Chats, max_prompt: int) -> list[tuple[Problem, Sequence[Message]]]:
        """Return the problems, with their prompts, whose prompts have at most `max_prompt` tokens."""
        return [chat for chat in chats if len(self._checkpoint.prompt_ids(chat[1])) <= max_prompt]

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return a prompt's token ids."""
        return self._checkpoint.prompt_ids(messages)

    def sample_prompts(
        self,
        prompts: Sequence[Sequence[Message]],
        n: int,
        temperature: float,
        max_tokens: int,
        seeds: Sequence[int],
        states: Sequence[str] = (),
    ) -> list[Responses]:
        """Sample n responses to each prompt; return one `Responses` per prompt.

        seeds    one per prompt, for its random streams
        states   names of the hidden states to return too, e.g. "mean"

        As many prompts as fill one batch of the engine are sampled at once.
        """
        responses: list[Responses] = []
        per_call = self.problems_per_call(n)
        with self._evaluating():
            for start in range(0, len(prompts), per_call):
                part = slice(start, start + per_call)
                sampler = Sampler(temperature=temperature)
                responses += self.sample(SampleRequest(prompts[part], n, sampler, max_tokens, seeds[part], states))
        return responses

    def save(self, folder: Path) -> None:
        """Write policy and tokenizer as a Hugging Face folder, with the initial model's decoding defaults if any."""
        from transformers import GenerationConfig

        self.policy.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        defaults = folder / "generation_config.json"
        defaults.unlink(missing_ok=True)  # the engine's, which has no end-of-sequence tokens
        try:
            GenerationConfig.from_pretrained(self._checkpoint.location.source).to_json_file(defaults)
        except OSError:  # the initial model has none
            return

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.policy.training
        self.policy.eval()
        try:
            yield
        finally:
            self.policy.train(training)


def hidden_means(engine: Transformers, prompts: Sequence[Sequence[Message]], pools: Sequence[Responses]) -> Any:
    """Return each response's mean over its tokens of the last hidden state, (responses, d) float32.

    `pools[i]` holds the responses to `prompts[i]`; the rows come in this order. HarnessError if a state is not finite.
    """
    parts = [
        engine.encode(prompt, responses, ("mean",))["mean"] for prompt, responses in zip(prompts, pools, strict=True)
    ]
    if not np.isfinite(states := np.concatenate(parts)).all():
        raise HarnessError(f"{engine.name}: its hidden states are not finite")
    return states
