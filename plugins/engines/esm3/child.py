"""Run ESM3 in a separate process: reads requests, one JSON object a line, and answers each.

It runs in the environment that has EvolutionaryScale's `esm`, which need not have the harness: it imports nothing of
it. It ends when its input ends, so it never outlives its parent.

    {"do": "load", "weights": PATH, "device": "auto", "sizes": {...}}  ->  {"esm": "3.2.1.post1", ...}
    {"do": "sample", "prompt": "____", "rows": [[SEED, ROW], ...], "steps": 20, "temperature": 1.0, "top_p": 1.0,
     "annealing": true, "letters": "ACDE..."}   ->  {"sequences": [...], "tokens": [[...], ...], "logprobs": [...]}
    {"error": "..."}, {"out_of_memory": "..."}                           instead, if the request failed

Sampling is that of `esm.utils.generation.iterative_sampling_tokens` with strategy "random" and schedule "cosine" (Hayes
et al. 2025): each step passes the whole sequence through the model, then fills some of the masked positions, chosen at
random, with letters sampled from its logits. All rows of a batch are sampled together, each from its own random stream.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

LEAST_TEMPERATURE = 0.001  # the end of annealing, before it is squared


def schedule(steps: int, masked: int) -> list[int]:
    """Return how many positions each step fills, by the cosine schedule; at most as many steps as positions."""
    import torch

    steps = min(steps, masked)
    remaining = [
        int((torch.cos(torch.tensor((step + 1) / steps) * math.pi * 0.5) * masked + 0.1).int()) for step in range(steps)
    ]
    return [before - after for before, after in zip([masked, *remaining], remaining, strict=False)]


def annealed(step: int, steps: int, temperature: float, annealing: bool) -> float:
    """Return the temperature of step `step` of `steps`, counted from 0: the given one if not `annealing`.

    Else max(temperature - step / (steps - 1), 0.001)^2: from temperature 1 it falls with the square of the steps that
    remain, to about 0; a lower temperature is squared at the first step and reaches that earlier, a higher one never.
    """
    if not annealing:
        return temperature
    return max(temperature - step / max(1, steps - 1), LEAST_TEMPERATURE) ** 2


def nucleus(logits: Any, top_p: float) -> Any:
    """Return the logits, -inf for all but the likeliest letters with at most `top_p` in sum; the likeliest stays."""
    import torch

    if top_p >= 1:
        return logits
    ordered, places = logits.sort(-1, descending=True)
    keep = ordered.softmax(-1).cumsum(-1) <= top_p
    keep[..., 0] = True
    return torch.full_like(logits, -torch.inf).scatter(-1, places, ordered.masked_fill(~keep, -torch.inf))


def sampled_letters(logits: Any, temperature: float, valid: Any, top_p: float, uniform: Any) -> tuple[Any, Any]:
    """Sample a letter for each row and position; return its id and its log-probability at temperature 1, unfiltered.

    logits (rows, positions, vocabulary); uniform (rows, positions) in [0, 1); valid: the ids that may be sampled, of
    which all are allowed if the nucleus of `top_p` has none. The letter is the first one, in the vocabulary's order,
    whose cumulative probability exceeds the uniform number.
    """
    import torch

    logits = logits.float()
    allowed = torch.full_like(nucleus(logits, top_p), -torch.inf)
    allowed[..., valid] = nucleus(logits, top_p)[..., valid]
    none = torch.isinf(allowed).all(-1, keepdim=True)  # the nucleus holds no letter: then all letters are allowed
    allowed = torch.where(
        none & torch.isin(torch.arange(logits.shape[-1], device=logits.device), valid), logits, allowed
    )
    cumulative = (allowed.double() / temperature).softmax(-1).cumsum(-1)
    target = (uniform * cumulative[..., -1])[..., None]
    token = torch.searchsorted(cumulative, target, right=True).clamp_(max=logits.shape[-1] - 1)
    logprob = logits.double().log_softmax(-1).gather(-1, token)
    return token[..., 0], logprob[..., 0]


class Sampler:
    """A loaded ESM3 and its vocabulary."""

    def __init__(self, request: dict[str, Any]) -> None:
        import torch
        from esm.models.esm3 import ESM3

        device, weights = request["device"], request["weights"]
        self.device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        # All weights are from the file; sequences need none of its decoders, which are not loaded.
        decoders = dict.fromkeys(("structure_encoder_fn", "structure_decoder_fn", "function_decoder_fn"))
        model = ESM3(**request["sizes"], **decoders, tokenizers=_tokenizers())
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True), strict=True)
        if not all(bool(part.isfinite().all()) for part in model.parameters()):
            raise ValueError(f"{weights}: holds weights that are not finite")
        self.model = model.to(self.device).eval()
        if self.device.type == "cuda":
            self.model = self.model.to(torch.bfloat16)
        self.vocabulary = self.model.tokenizers.sequence.get_vocab()

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sample; return whole sequences as `tokens` (n, L) and as text, `sequences` (n,), with `logprobs` (n,)."""
        import torch

        prompt, rows = request["prompt"], request["rows"]
        numbers = self.vocabulary | {"_": self.vocabulary["<mask>"]}
        start = [numbers[name] for name in ("<cls>", *prompt, "<eos>")]
        tokens = torch.tensor([start] * len(rows), device=self.device)
        masked = [1 + place for place, letter in enumerate(prompt) if letter == "_"]
        # For each row the order in which its masked positions are filled, and a uniform number per filling.
        streams = [np.random.Generator(np.random.Philox(np.random.SeedSequence(row))) for row in rows]
        drawn = np.stack([stream.random((2, len(masked))) for stream in streams])
        order, uniform = np.argsort(drawn[:, 0], axis=1, kind="stable"), drawn[:, 1]
        order = torch.tensor(masked, device=self.device)[torch.as_tensor(order, device=self.device)]
        uniform = torch.as_tensor(uniform, device=self.device)
        valid = torch.tensor([self.vocabulary[letter] for letter in request["letters"]], device=self.device)
        logprobs = torch.zeros(len(rows), dtype=torch.float64, device=self.device)
        counts = schedule(request["steps"], len(masked))
        half = (
            torch.autocast(self.device.type, torch.bfloat16) if self.device.type == "cuda" else contextlib.nullcontext()
        )
        done = 0
        for step, count in enumerate(counts):
            if not count:
                continue
            places = order[:, done : done + count]
            with torch.inference_mode(), half:  # as `ESM3.logits` gives them to the sampler of `esm`
                logits = self.model(sequence_tokens=tokens).sequence_logits
            logits = logits.gather(1, places[..., None].expand(-1, -1, logits.shape[-1]))
            heat = annealed(step, len(counts), request["temperature"], request["annealing"])
            letters, likely = sampled_letters(logits, heat, valid, request["top_p"], uniform[:, done : done + count])
            tokens.scatter_(1, places, letters)
            logprobs += likely.sum(1)
            done += count
        if not logprobs.isfinite().all():
            raise ValueError("the model's probabilities are not finite")
        letter = {number: text for text, number in self.vocabulary.items()}
        filled = tokens[:, 1:-1].tolist()
        texts = ["".join(letter[number] for number in row) for row in filled]
        return {"sequences": texts, "tokens": filled, "logprobs": logprobs.tolist()}


def _tokenizers() -> Any:
    """Return what `get_esm3_model_tokenizers` returns, without its download: sequences need no annotations."""
    from esm import tokenization as t

    annotations = Path(tempfile.mkdtemp()) / "annotations.csv"
    annotations.write_text("label,label_clean,count\n")
    return t.TokenizerCollection(
        t.EsmSequenceTokenizer(),
        t.StructureTokenizer(),
        t.SecondaryStructureTokenizer(kind="ss8"),
        t.SASADiscretizingTokenizer(),
        t.InterProQuantizedTokenizer(),
        t.ResidueAnnotationsTokenizer(csv_path=str(annotations)),
    )


def main() -> None:
    """Answer requests until the input ends. The output of libraries goes to the error stream."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            if request["do"] == "load":
                sampler = Sampler(request)
                answer = {"esm": version("esm"), "device": str(sampler.device)}
            else:
                answer = sampler.sample(request)
        except Exception as failure:
            memory = ("not enough memory", "can't allocate memory")
            kind, text = type(failure).__name__, str(failure).strip()
            if kind in ("MemoryError", "OutOfMemoryError") or any(words in text for words in memory):
                answer = {"out_of_memory": text.split("\n")[0]}
            else:
                answer = {"error": f"{kind}: {text[:300]}".replace("\n", " ")}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
