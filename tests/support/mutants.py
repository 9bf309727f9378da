"""Programs that are a little wrong, for tests and benches of the code tasks: one change each to a right one."""

from __future__ import annotations

import ast
import random
import warnings
from collections.abc import Callable, Iterator

_OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.FloorDiv, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitXor, ast.BitXor: ast.BitAnd,
}  # fmt: skip
_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# What a right result is turned into; some are right still: to Python, to evalplus, or by a task's tolerance.
_TURNED = {
    "list and tuple": "tuple(made) if type(made) is list else list(made) if type(made) is tuple else [made]",
    "int and float": "float(made) if type(made) is int else int(made) if made == made // 1 else made",
    "text": "str(made)", "set": "set(made)", "generator": "(each for each in made)",
    "near": "made + 1e-7 if type(made) is float else [each + 1e-7 for each in made]", "nearly": "made * (1 + 1e-5)",
    "reversed": "made[::-1]", "bool": "bool(made)", "fraction": "fractions.Fraction(made)",
    "numpy": "numpy.float64(made)", "numpy list": "list(numpy.array(made))", "numpy float32": "numpy.float32(made)",
    "numpy float16": "numpy.float16(made)", "numpy int": "numpy.int64(made)", "numpy array": "numpy.array(made)",
    "counter": "collections.OrderedDict(made)", "extra": "made + made[:1]",
}  # fmt: skip


def mutants(source: str, entry_point: str, seed: int) -> Iterator[tuple[str, str]]:
    """(kind, program): one of each kind of change that the program has room for."""
    rng = random.Random(f"{entry_point} {seed}")
    for kind, places in _places(_parsed(source)).items():
        if places:
            yield kind, _changed(source, kind, rng.randrange(len(places)))
    for kind, made in _TURNED.items():
        yield kind, _turned(source, entry_point, made)


def all_mutants(source: str, entry_point: str) -> Iterator[tuple[str, str]]:
    """(kind, program): every change that the program has room for."""
    for kind, places in _places(_parsed(source)).items():
        for number in range(len(places)):
            yield kind, _changed(source, kind, number)
    for kind, made in _TURNED.items():
        yield kind, _turned(source, entry_point, made)


def twice_mutated(source: str, entry_point: str, seed: int) -> tuple[str, str]:
    """(kinds, program): two changes one after the other; the second may undo the first."""
    rng = random.Random(f"{entry_point} twice {seed}")
    kinds = []
    for _ in range(2):
        places = [(kind, number) for kind, some in _places(_parsed(source)).items() for number in range(len(some))]
        kind, number = rng.choice(places)
        kinds.append(kind)
        source = _changed(source, kind, number)
    return " and ".join(kinds), source


def _changed(source: str, kind: str, number: int) -> str:
    tree = _parsed(source)
    _places(tree)[kind][number]()
    return ast.unparse(ast.fix_missing_locations(tree))


def _parsed(source: str) -> ast.Module:
    """The syntax tree; some solutions of MBPP+ have escapes that Python warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _turned(source: str, entry_point: str, made: str) -> str:
    imports = "".join(f"import {module}\n" for module in ("numpy", "fractions", "collections") if f"{module}." in made)
    wrapped = f"_inner = {entry_point}\ndef {entry_point}(*given):\n    made = _inner(*given)\n    return {made}\n"
    return f"{source}\n{imports}{wrapped}"


def _places(tree: ast.AST) -> dict[str, list[Callable[[], None]]]:
    """By kind the changes that can be made to this very tree."""
    places: dict[str, list[Callable[[], None]]] = {
        kind: [] for kind in ("operator", "constant", "comparison", "none", "removed")
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _OPERATORS:
            places["operator"].append(lambda node=node: setattr(node, "op", _OPERATORS[type(node.op)]()))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            places["constant"].append(lambda node=node: setattr(node, "value", node.value + 1))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARISONS:
            places["comparison"].append(lambda node=node: node.ops.__setitem__(0, _COMPARISONS[type(node.ops[0])]()))
        elif isinstance(node, ast.Return):
            places["none"].append(lambda node=node: setattr(node, "value", ast.Constant(None)))
        if isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If)):
            places["removed"] += [
                lambda body=node.body, at=at: body.__setitem__(at, ast.Pass()) for at in range(len(node.body))
            ]
    return places
