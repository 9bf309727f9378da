"""Inputs for a program, from nothing but the problem's prompt: the examples in it, and mutations of these.

The examples are calls of the entry point with literal arguments (`assert f([1, 2]) == 3`, `>>> f([1, 2])`); where there
are none, values of its parameters (`For lst = [1, 2] ...`); where there are none of these either, values of the
parameters' annotated types. What an example should return is never read.

Mutations stay close to the examples, so that most of them are inputs that the problem allows. Types and signs stay, and
numbers change a little. Containers, words of a sentence and characters of a word lose, repeat or swap an item. Tuples
in a container and the rows of a matrix keep their length, and an argument that is the length of another stays so.

Mutated examples as inputs are from Li et al. 2022 (AlphaCode, arXiv:2203.07814; they also train a model that writes
inputs), and type-aware mutation from Liu et al. 2023 (evalplus, arXiv:2305.01210, who start from hidden tests).

Example: for Mbpp/17 the prompt gives (10,); six inputs are 10 and five numbers near it.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

Arguments = tuple[Any, ...]

LONGEST = 4000  # characters of an example's arguments
UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)  # what text that is no literal raises
ATTEMPTS = 50  # mutations tried for each input that is still missing
MOST_CHANGES = 3  # in one mutation

# Values for a parameter by its annotation, where the prompt has no example; of the first key that the annotation begins
# with. "" is for a parameter without one.
_VALUES: dict[str, tuple[Any, ...]] = {
    "str": ("abcab", "hello"),
    "int": (5, 12),
    "float": (2.5, 10.0),
    "bool": (True, False),
    "List[str]": (["ab", "c", "abc"], ["b", "a"]),
    "List[float]": ([1.5, 2.0, 0.5], [3.0, 1.0]),
    "": ([3, 1, 2, 4], "abcab", 5),
}


def example_inputs(prompt: str, entry_point: str, count: int) -> list[Arguments]:
    """Return at most `count` distinct inputs, the examples of the prompt first; the same ones each time.

    Fewer if the examples allow no more mutations (`f()` has one input). None if the prompt has no example and no
    function.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python, on backslashes in the prompt
        examples = list({repr(arguments): arguments for arguments in _examples(prompt, entry_point)}.values())
    inputs = {repr(arguments): arguments for arguments in examples[:count]}
    rng = random.Random(f"{entry_point} {examples!r}")
    for attempt in range(ATTEMPTS * count if examples else 0):
        if len(inputs) == count:
            break
        mutation = _mutated_arguments(examples[attempt % len(examples)], rng)
        inputs.setdefault(repr(mutation), mutation)
    return list(inputs.values())


# Examples


def _examples(prompt: str, entry_point: str) -> Iterator[Arguments]:
    parameters = _parameters(prompt, entry_point)
    calls = [call for call in _calls(prompt, entry_point) if not parameters or len(call) == len(parameters)]
    yield from calls or list(_assigned(prompt, list(parameters))) or _by_type(list(parameters.values()))


def _calls(prompt: str, entry_point: str) -> Iterator[Arguments]:
    """Yield the arguments of each call of the entry point in the text, if all of them are literals."""
    for match in re.finditer(rf"(?<![\w.]){re.escape(entry_point)}[ \t]*\(", prompt):
        start = match.start()
        ends = (start + end.end() for end in re.finditer(r"\)", prompt[start : start + LONGEST]))
        call = next((call for end in ends if isinstance(call := _parsed(prompt[start:end]), ast.Call)), None)
        if call is not None and not call.keywords:
            with suppress(*UNREADABLE):
                yield tuple(map(ast.literal_eval, call.args))


def _parsed(text: str) -> ast.expr | None:
    with suppress(*UNREADABLE):
        return ast.parse(text.strip(), mode="eval").body
    return None


def _parameters(prompt: str, entry_point: str) -> dict[str, str]:
    """Return the function's parameters with their annotations, "" for none; {} if the prompt has no such function."""
    with suppress(*UNREADABLE):
        for node in ast.walk(ast.parse(f"{prompt}\n    pass\n")):
            if isinstance(node, ast.FunctionDef) and node.name == entry_point:
                return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in node.args.args}
    return {}


def _assigned(prompt: str, names: Sequence[str]) -> Iterator[Arguments]:
    """Yield values that the text gives all parameters, in the order of the function: `arr = [1, 2], k = 1`.

    `Input: 3` is the value of an only parameter, and `bucket_capacity : 3` that of `capacity`.
    """
    values: dict[str, Any] = {}
    known = {name: name for name in names} | ({"Input": names[0]} if len(names) == 1 else {})
    pattern = rf"(?<![^\W_])({'|'.join(map(re.escape, known))})[ \t]*[=:]"
    for match in re.finditer(pattern, prompt) if names else ():
        line = prompt[match.end() : match.end() + LONGEST].split("\n")[0]
        with suppress(LookupError):
            values[known[match[1]]] = _longest_literal(line)
        if len(values) == len(names):
            yield tuple(values.pop(name) for name in names)


def _longest_literal(line: str) -> Any:
    """Return the value of the longest literal that begins the line. Raises LookupError if there is none."""
    for end in range(len(line), 0, -1):
        if line[end - 1] not in " ,.":
            with suppress(*UNREADABLE):
                return ast.literal_eval(line[:end].strip())
    raise LookupError


def _by_type(annotations: Sequence[str]) -> Iterator[Arguments]:
    columns = [next(values for name, values in _VALUES.items() if each.startswith(name)) for each in annotations]
    for row in range(max(map(len, columns), default=0)):
        yield tuple(column[row % len(column)] for column in columns)


# Mutations


def _mutated_arguments(arguments: Arguments, rng: random.Random) -> Arguments:
    changed = list(arguments)
    for _ in range(rng.randint(1, MOST_CHANGES) if changed else 0):
        place = rng.randrange(len(changed))
        changed[place] = mutated(changed[place], rng)
    for place, number in enumerate(arguments):  # of a list or string before it, whose length it stays
        for sized, value in enumerate(arguments[:place]):
            if type(number) is int and isinstance(value, list | tuple | str) and len(value) == number:
                changed[place] = len(changed[sized])
    return tuple(changed)


def mutated(value: Any, rng: random.Random) -> Any:
    """Return a value of the same type that is near; the same value if its type is none of these."""
    kind = type(value)
    if kind is bool:
        return not value
    if kind in (int, float):  # of the same sign: one or two more, one less, or half; a larger one could take too long
        near = [value + 1, value + 2, value - 1, value // 2 if kind is int else value / 2]
        return rng.choice([other for other in near if (other < 0) == (value < 0)])
    if kind is str:
        words = value.split(" ")
        if len(words) > 1:
            return " ".join(_items(words, rng, lambda word: _word(word, words, rng)))
        return "".join(_items(list(value), rng, lambda char: _character(char, value, rng)))
    if kind in (list, tuple):
        is_matrix = len(value) > 1 and all(type(row) is list for row in value) and len(set(map(len, value))) == 1
        keeps = (tuple, list) if is_matrix else (tuple,)
        return kind(_items(list(value), rng, lambda item: _member(item, keeps, rng)))
    if kind in (set, frozenset):
        return kind(_items(sorted(value, key=repr), rng, lambda item: mutated(item, rng)))
    if kind is dict:
        return dict(_items(list(value.items()), rng, lambda item: (item[0], mutated(item[1], rng))))
    return value


def _word(word: str, words: Sequence[str], rng: random.Random) -> str:
    """Return another word of the sentence, or a number that is near."""
    return str(mutated(int(word), rng)) if word.isascii() and word.isdigit() else rng.choice(words)


def _character(char: str, text: str, rng: random.Random) -> str:
    """Return another character of the text, or the next of the alphabet or of the digits."""
    near = {"z": "a", "Z": "A", "9": "0"}.get(char, chr(ord(char) + 1)) if char.isalnum() and char.isascii() else char
    return rng.choice([near, rng.choice(text)])


def _member(item: Any, keeps: tuple[type, ...], rng: random.Random) -> Any:
    """Return a mutated item, of the same length if its type is one of `keeps`."""
    if type(item) not in keeps or not item:
        return mutated(item, rng)
    place = rng.randrange(len(item))
    changed = list(item)
    changed[place] = _member(item[place], keeps, rng)
    return type(item)(changed)


def _items(items: list[Any], rng: random.Random, change: Callable[[Any], Any]) -> list[Any]:
    """Return the items with one changed, left out, repeated, or swapped with another."""
    if not items:
        return items
    i, j, way = rng.randrange(len(items)), rng.randrange(len(items)), rng.randrange(5)
    if way == 0 and len(items) > 1:
        del items[i]
    elif way == 1:
        items.insert(j, items[i])
    elif way == 2:
        items[i], items[j] = items[j], items[i]
    else:
        items[i] = change(items[i])
    return items
