"""Programs that are a little wrong, for tests and benches of the code tasks: one change each to a right one."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator

_OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.FloorDiv, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitXor, ast.BitXor: ast.BitAnd,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
# What a right result is turned into; some are right still: to Python, to evalplus, or by a task's tolerance.
_TURNED = {
    "list and tuple": "tuple(made) if type(made) is list else list(made) if type(made) is tuple else [made]",
    "int and float": "float(made) if type(made) is int else int(made) if made == made // 1 else made",
    "text": "str(made)", "set": "set(made)", "generator": "(each for each in made)", "bool": "bool(made)",
    "near": "made + 1e-7 if type(made) is float else [each + 1e-7 for each in made]", "nearly": "made * (1 + 1e-5)",
    "reversed": "made[::-1]", "fraction": "fractions.Fraction(made)", "counter": "collections.OrderedDict(made)",
    "numpy": "numpy.float64(made)", "numpy list": "list(numpy.array(made))", "numpy float32": "numpy.float32(made)",
    "numpy int": "numpy.int64(made)", "numpy array": "numpy.array(made)", "extra": "made + made[:1]",
}  # fmt: skip


def changes(source: str) -> Iterator[tuple[str, str]]:
    """(kind, program): every change that the program has room for."""
    for number, (kind, _) in enumerate(_changes(_parsed(source))):
        tree = _parsed(source)
        _changes(tree)[number][1]()
        yield kind, ast.unparse(ast.fix_missing_locations(tree))


def turned(source: str, entry_point: str) -> Iterator[tuple[str, str]]:
    """(kind, program): the program with its results turned into other types and numbers."""
    head = f"{source}\nimport collections, fractions, numpy\n_inner = {entry_point}\n"
    for kind, made in _TURNED.items():
        yield kind, f"{head}def {entry_point}(*given):\n    made = _inner(*given)\n    return {made}\n"


def _parsed(source: str) -> ast.Module:
    """The syntax tree; some solutions of MBPP+ have escapes that Python warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def _changes(tree: ast.AST) -> list[tuple[str, Callable[[], None]]]:
    """The changes that can be made to this very tree."""
    made: list[tuple[str, Callable[[], None]]] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _OTHER:
            made.append(("operator", lambda node=node: setattr(node, "op", _OTHER[type(node.op)]())))
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            made.append(("constant", lambda node=node: setattr(node, "value", node.value + 1)))
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
            made.append(("comparison", lambda node=node: node.ops.__setitem__(0, _OTHER[type(node.ops[0])]())))
        elif isinstance(node, ast.Return):
            made.append(("none", lambda node=node: setattr(node, "value", ast.Constant(None))))
        if isinstance(node, (ast.FunctionDef, ast.For, ast.While, ast.If)):
            for at in range(len(node.body)):
                made.append(("removed", lambda body=node.body, at=at: body.__setitem__(at, ast.Pass())))
    return made
