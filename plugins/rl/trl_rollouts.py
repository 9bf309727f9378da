"""What a policy in training says: responses drawn by the harness' engine, each from a stream of its own.

TRL's own `generate` call would draw from the global random state, so that a resumed run, or one with another batch
size, would draw otherwise; and the engine goes on without the rows that have ended, which on a CPU is faster.
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

TRAIN, DEV, ORDER, SHUFFLE = range(4)  # what a stream is drawn for

Asked = Sequence[tuple[Problem, Sequence[Message]]]


def stream(seed: int, *place: int) -> int:
    """A seed of 64 bits for one place in a run, from the run's seed and the place alone."""
    return int(np.random.SeedSequence([seed, *place]).generate_state(1, np.uint64)[0])


def batch_of(problems: int, batch: int, seed: int, step: int) -> list[int]:
    """The places of a step's problems (steps count from 1): every epoch in an order of its own, its rest left out."""
    epoch, place = divmod(step - 1, problems // batch)
    order = np.random.default_rng(stream(seed, ORDER, epoch)).permutation(problems)
    return [int(i) for i in order[place * batch : (place + 1) * batch]]


class PolicyEngine(Transformers):
    """The engine on weights that are being trained: it samples with the very module that the trainer updates."""

    @property
    def policy(self) -> PreTrainedModel:
        """The model; loaded when it is first asked for."""
        return self._checkpoint.model

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer."""
        return self._checkpoint.tokenizer

    def within(self, asked: Asked, max_prompt: int) -> list[tuple[Problem, Sequence[Message]]]:
        """Those whose prompts have at most so many tokens."""
        return [one for one in asked if len(self._checkpoint.prompt_ids(one[1])) <= max_prompt]

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """A prompt's tokens."""
        return self._checkpoint.prompt_ids(messages)

    def draw(
        self,
        prompts: Sequence[Sequence[Message]],
        n: int,
        temperature: float,
        max_tokens: int,
        seeds: Sequence[int],
        states: Sequence[str] = (),
    ) -> list[Responses]:
        """n responses to each prompt, as many prompts at once as the engine takes best."""
        drawn: list[Responses] = []
        many = self.problems_per_call(n)
        with self._evaluating():
            for start in range(0, len(prompts), many):
                part = slice(start, start + many)
                sampler = Sampler(temperature=temperature)
                drawn += self.sample(SampleRequest(prompts[part], n, sampler, max_tokens, seeds[part], states))
        return drawn

    def save(self, folder: Path) -> None:
        """Write policy and tokenizer as a Hugging Face folder, with the decoding defaults that the model came with."""
        from transformers import GenerationConfig

        self.policy.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        kept = folder / "generation_config.json"
        kept.unlink(missing_ok=True)  # the engine's, which has no end-of-sequence tokens
        try:
            GenerationConfig.from_pretrained(self._checkpoint.location.source).to_json_file(kept)
        except OSError:  # it came with none
            return

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.policy.training
        self.policy.eval()
        try:
            yield
        finally:
            self.policy.train(training)


def hidden_means(engine: Transformers, prompts: Sequence[Sequence[Message]], drawn: Sequence[Responses]) -> Any:
    """(responses, d) float32 of all prompts' responses: the mean of the last hidden state over a response's tokens."""
    parts = [
        engine.encode(prompt, responses, ("mean",))["mean"] for prompt, responses in zip(prompts, drawn, strict=True)
    ]
    if not np.isfinite(found := np.concatenate(parts)).all():
        raise HarnessError(f"{engine.name}: its hidden states are not finite")
    return found
