"""Puzzles with worked solutions by exhaustive search, and the tokenizer that writes them, for the embedded models.

A puzzle is four numbers from 1 to 13 and a target. One worked solution of `4 5 6 10`:

    5 * 4 = 20, left 6 10 20
    10 - 6 = 4, left 4 20
    20 + 4 = 24
    Answer: 5 * 4 + 10 - 6

Sums and products have the larger number first, no number is negative, and remaining numbers ascend.

The tokenizer has a fixed list of whole words, and bytes for everything else. ` make 24. Write` becomes ` make`, ` 24`,
`.`, ` Write`: text is cut into words, whole numbers and single signs, each with the space before it; a piece that is in
the list is one token. Any other piece becomes its bytes, so every text can be decoded exactly. No merges are learnt.
The special tokens hold a fullwidth bar: no ASCII text contains one.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from harness_tasks.game24 import PROMPT, TARGET, puzzle_id, split_of

LARGEST_VALUE = 400  # the largest number that is one token
LARGEST_DENOMINATOR = 13
PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
ATOM = 3

PAD, BOS, EOS = "<｜pad｜>", "<｜bos｜>", "<｜eos｜>"
ROLES = ("<｜system｜>", "<｜user｜>", "<｜assistant｜>")
CONTEXT = 1024
PIECES = r" ?[A-Za-z]+:?| ?[0-9]+| ?[^\sA-Za-z0-9]|\s"
RESPONSE_WORDS = ", left = ( + - * / Answer:"
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<｜' + message['role'] + '｜>' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜assistant｜>' }}{% endif %}"
)

Value = int | Fraction
Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Term:
    """A number still in play: its value, its expression, and the precedence of the expression's last operation."""

    value: Value
    expression: str
    precedence: int = ATOM


@dataclass(frozen=True)
class Puzzle:
    """Numbers (ascending), a target, and distinct worked solutions."""

    numbers: Numbers
    target: int
    responses: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The prompt of task game24 for these numbers; a target other than 24 replaces the 24 in it."""
        prompt = PROMPT.format(numbers=", ".join(map(str, self.numbers)))
        return prompt.replace(f"make {TARGET}", f"make {self.target}")


def all_numbers() -> list[Numbers]:
    """Return the 1,820 multisets of four numbers from 1 to 13, in order."""
    return list(combinations_with_replacement(range(1, 14), 4))


def solve(numbers: Numbers, targets: Iterable[int]) -> dict[int, list[str]]:
    """Return {target: its distinct worked solutions}, without the targets that have none. About 10 ms.

    Solutions with fractions are left out if the target has others. Intermediate results over 400 are not searched, nor
    denominators over 13.
    """
    whole: defaultdict[int, dict[str, None]] = defaultdict(dict)  # dicts as ordered sets
    fractional: defaultdict[int, dict[str, None]] = defaultdict(dict)
    terms = [Term(n, str(n)) for n in sorted(numbers)]
    for steps, result, has_fraction in _search(terms, [], False, frozenset(targets)):
        solutions = fractional if has_fraction else whole
        solutions[int(result.value)]["\n".join([*steps, f"Answer: {result.expression}"])] = None
    return {target: list(whole.get(target) or fractional[target]) for target in sorted({*whole, *fractional})}


def training_puzzles(quadruples: Iterable[Numbers], largest_target: int, keep: int, seed: int) -> list[Puzzle]:
    """Return every solvable puzzle with a target up to `largest_target`; for 24 only numbers of the split "train".

    Puzzles for 24 keep all their solutions, others at most `keep`, chosen at random by (seed, numbers).
    """
    puzzles = []
    for numbers in quadruples:
        rng = random.Random(f"{seed} {puzzle_id(numbers)}")
        for target, responses in solve(numbers, range(1, largest_target + 1)).items():
            if target != TARGET and len(responses) > keep:
                responses = rng.sample(responses, keep)
            if target != TARGET or split_of(puzzle_id(numbers)) == "train":
                puzzles.append(Puzzle(numbers, target, tuple(responses)))
    return puzzles


def _search(
    terms: Sequence[Term], steps: list[str], has_fraction: bool, targets: frozenset[int]
) -> Iterator[tuple[list[str], Term, bool]]:
    """Search all pairs and operations depth first; yield the steps' lines, the result, and if it used fractions."""
    for i, j in combinations(range(len(terms)), 2):
        others = [term for k, term in enumerate(terms) if k not in (i, j)]
        for operator, left, right, value in _results(terms[i], terms[j]):
            fractional = has_fraction or isinstance(value, Fraction)
            if not others:
                if not isinstance(value, Fraction) and value in targets:
                    term = _combined(operator, left, right, value)
                    yield [*steps, f"{left.value} {operator} {right.value} = {value}"], term, fractional
                continue
            remaining = sorted([*others, _combined(operator, left, right, value)], key=lambda term: term.value)
            shown = " ".join(str(term.value) for term in remaining)
            step = f"{left.value} {operator} {right.value} = {value}, left {shown}"
            yield from _search(remaining, [*steps, step], fractional, targets)


def _results(a: Term, b: Term) -> Iterator[tuple[str, Term, Term, Value]]:
    """Yield the results of one operation on two terms, within the limits, as (operator, left, right, value)."""
    small, large = (a, b) if a.value <= b.value else (b, a)
    operations: list[tuple[str, Term, Term, Value]] = [
        ("+", large, small, large.value + small.value),
        ("-", large, small, large.value - small.value),
        ("*", large, small, large.value * small.value),
    ]
    if small.value:
        operations.append(("/", large, small, Fraction(large.value) / small.value))
    if large.value:
        operations.append(("/", small, large, Fraction(small.value) / large.value))
    for operator, left, right, value in operations:
        if value <= LARGEST_VALUE and value.denominator <= LARGEST_DENOMINATOR:
            yield operator, left, right, int(value) if value.denominator == 1 else value


def _combined(operator: str, left: Term, right: Term, value: Value) -> Term:
    """Return the term of one operation, with brackets only if they are needed."""
    binds = PRECEDENCE[operator]
    bracket_right = right.precedence < binds or (right.precedence == binds and operator in "-/")
    expression = f"{_bracketed(left, left.precedence < binds)} {operator} {_bracketed(right, bracket_right)}"
    return Term(value, expression, binds)


def _bracketed(term: Term, needed: bool) -> str:
    return f"({term.expression})" if needed else term.expression


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer with 1,086 tokens; it adds no special token by itself, the chat template writes them."""
    splitter = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer = Tokenizer(models.BPE(vocab=_vocabulary(splitter), merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        additional_special_tokens=list(ROLES),
        chat_template=CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def _vocabulary(splitter: pre_tokenizers.PreTokenizer) -> dict[str, int]:
    """Return token -> id: special tokens, the 256 bytes, then numbers and words with and without a space before."""
    texts = [PROMPT, RESPONSE_WORDS, *(f"{n} {n}" for n in range(LARGEST_VALUE + 1))]
    pieces = [piece for text in texts for piece, _ in splitter.pre_tokenize_str(text)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return {token: i for i, token in enumerate(dict.fromkeys([PAD, BOS, EOS, *ROLES, *alphabet, *pieces]))}
