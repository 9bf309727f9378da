"""Build a component from a spec such as `repexp:lam=0.1,first=max`, and say what it is: parameters, code, weights."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib.util
import inspect
import re
import secrets
import sys
import typing
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, Lacking, contained, did_you_mean, error_text
from harness.records import Weights

from .registry import Registration, Registry

CORE = "harness"  # the package whose code is in no key


@dataclass(frozen=True)
class Spec:
    """A component's name and the parameters given, still as text."""

    name: str
    params: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        written = ",".join(f"{key}={_quoted(value)}" for key, value in self.params.items())
        return f"{self.name}:{written}" if written else self.name


# A parameter: its key, and its value up to the next comma, or in quotes.
_PARAMETER = re.compile(r"""(?P<key>[^=,]*)=(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<plain>[^,]*))(?:,|$)""")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_NEXT_NAME = re.compile(r",(?=\s*[A-Za-z][^=,:]*(?:[:,]|$))")


def names_in(text: str) -> list[str]:
    """The specs that a text holds which are separated by commas; [text] for one: a comma then separates parameters."""
    masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    cuts = [match.start() for match in _NEXT_NAME.finditer(masked)]
    return [text[a:b].strip(", ") for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def parse_spec(text: str) -> Spec:
    """The spec that a text `name` or `name:key=value,key=value` describes; HarnessError if it is malformed.

    A value with commas stands in quotes: `name:key='a,b'`.
    """
    name, colon, rest = text.partition(":")
    if "," in name:
        more = name.partition(",")[2].strip()
        raise HarnessError(f"{text!r}: one name is wanted, and a comma separates parameters, got {more!r} too")
    params: dict[str, str] = {}
    place = 0
    while colon and (place < len(rest) or rest[-1:] in ("", ",")):
        match = _PARAMETER.match(rest, place)
        key = match["key"].strip() if match else ""
        if match is None or not key or key in params:
            part = rest[place:].partition(",")[0]
            raise HarnessError(f"{text!r}: parameters are written name:key=value,key=value, got {part!r}")
        params[key] = next(value for value in match.group("single", "double", "plain") if value is not None).strip()
        place = match.end()
    if not name:
        raise HarnessError(f"{text!r}: a name is missing before ':'")
    return Spec(name, params)


def _quoted(value: str) -> str:
    """The value as `parse_spec` reads it."""
    quote = '"' if "'" in value else "'"
    return f"{quote}{value}{quote}" if "," in value or value[:1] in ("'", '"') else value


def build(registry: Registry, kind: str, spec: Spec | str, **context: Any) -> Any:
    """Build and return the component of a spec; parameters are converted to the types that its factory declares.

    context   what the harness passes to every factory of a kind (a task's `data`, an engine's `model`)

    HarnessError if the component is unknown, a parameter does not fit, or the factory fails.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    registration = registry.find(kind, spec.name)
    factory = registration.load()
    arguments = _converted(registration, factory, spec.params, forbidden=set(context))
    try:
        with contained():
            return factory(**arguments, **context)
    except HarnessError:
        raise
    except TypeError as failure:
        raise HarnessError(f"{kind} {spec.name!r} from {registration.origin} cannot be built: {failure}") from failure
    except Exception as failure:
        raise HarnessError(
            f"{kind} {spec.name!r} from {registration.origin} cannot be built: {error_text(failure)}"
        ) from failure


def _converted(
    registration: Registration, factory: Any, params: Mapping[str, str], forbidden: set[str]
) -> dict[str, Any]:
    accepted = {name: hint for name, hint in signature(factory).items() if name not in forbidden}
    converted = {}
    for name, text in params.items():
        if name not in accepted:
            takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
            guess = did_you_mean(name, accepted)
            guess = f"{guess.split('?')[0].lstrip('(')}? " if "?" in guess else ""
            raise HarnessError(f"{registration.name}: no parameter {name!r} ({guess}{takes})")
        converted[name] = _value(registration.name, name, text, accepted[name])
    return converted


def signature(factory: Any) -> dict[str, Any]:
    """The parameters of a factory: name -> type (str if it declares none)."""
    target = factory.__init__ if inspect.isclass(factory) else factory
    try:
        hints = typing.get_type_hints(target)
    except Exception:
        hints = {}
    hints = {name: hint.type if isinstance(hint, dataclasses.InitVar) else hint for name, hint in hints.items()}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {p.name: hints.get(p.name, str) for p in inspect.signature(factory).parameters.values() if p.kind in kinds}


def _value(component: str, name: str, text: str, hint: Any) -> Any:
    from pydantic import TypeAdapter, ValidationError  # 0.2 s to import, and most commands need none

    try:
        is_none = text == "none" and type(None) in typing.get_args(hint)
        return TypeAdapter(hint).validate_python(None if is_none else text)
    except ValidationError as failure:
        reasons = (each["msg"].removeprefix("Input should be ") for each in failure.errors())
        reason = " or ".join(dict.fromkeys(reasons))
        raise HarnessError(f"{component}: {name} must be {reason}, got {text!r}") from None


def parameters(component: Any) -> dict[str, Any]:
    """Return the component's parameters, as recorded with results: name -> value, for the fields of its dataclass.

    Fields that are not arguments of the constructor are left out. A component that is no dataclass has none.
    """
    if not dataclasses.is_dataclass(component) or isinstance(component, type):
        return {}
    return {f.name: getattr(component, f.name) for f in dataclasses.fields(component) if f.init}


def described(registration: Registration, component: Any) -> dict[str, Any]:
    """Return what fixes a component's behaviour.

    name    as registered
    params  the component's parameters, name -> value
    dist    the distribution that registered it
    code    the hash of its code (`source_hash`)
    """
    if registration.described is not None:
        return dict(registration.described)
    return {
        "name": registration.name,
        "params": parameters(component),
        "dist": registration.origin.dist,
        "code": source_hash(component, registration),
    }


# Code.

SESSION_CODE = f"session-{secrets.token_hex(8)}"  # in place of the hash of code that no file holds


def source_hash(component: Any, registration: Registration | None = None) -> str:
    """The hash of the files of a component's code, 16 hex digits.

    They are the file of its class, that of its factory, and all .py files of the same top package that these import, at
    any depth, in functions too; for a single file (of --plugin, or a script) those beside it in place of a package.
    Files count whole, comments too, and not by their names. Other packages do not count, nor does the core: "" if all
    is of the core. Code without a file has another text in each process.
    """
    modules = {type(component).__module__, getattr(registration and registration.load(), "__module__", None)}
    hashes: set[str] = set()
    for module in {name for name in modules if name and name.partition(".")[0] != CORE}:
        files = code_files(module)
        hashes |= {hashlib.sha256(file.read_bytes()).hexdigest() for file in files} or {SESSION_CODE}
    return hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()[:16] if hashes else ""


def code_files(module: str) -> set[Path]:
    """The files of a loaded module's code, as in `source_hash`; none if the module has no file."""
    path = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    if not path.is_file():
        return set()
    spec = getattr(sys.modules[module], "__spec__", None)
    name = spec.name if spec else module  # `python -m package.module` calls it __main__
    top = name.partition(".")[0]
    try:
        found = importlib.util.find_spec(top)  # imports nothing, as the name has no dot
    except ValueError:  # a module made by hand has no spec
        found = None
    package = [Path(folder) for folder in (found and found.submodule_search_locations) or ()]
    beside = [] if {"site-packages", "dist-packages"} & set(path.parts) else [path.parent]
    files, todo = {path}, [(path, name)]
    while todo:
        path, name = todo.pop()
        for imported in _imports(path.read_bytes(), name if path.stem == "__init__" else name.rpartition(".")[0]):
            first, *rest = imported.split(".")
            if package and first == top:
                places = [folder.joinpath(*rest) for folder in package]
            elif not package and first != CORE:
                places = [folder.joinpath(first, *rest) for folder in beside]
            else:
                continue
            candidates = (file for place in places for file in (place / "__init__.py", place.with_suffix(".py")))
            file = next((file for file in candidates if file.is_file()), None)
            if file and file not in files:
                files.add(file)
                todo.append((file, imported))
    return files


_FILE = re.compile(r"\w+\.py")


@functools.lru_cache(maxsize=1024)
def _imports(source: bytes, package: str) -> Sequence[str]:
    """The dotted names that a file of the package imports; those taken from a module too, which may be submodules.

    A text that is the name of a file counts as its import: so code is sent into a sandbox.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on invalid escapes in strings
            nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # of another version of Python, or no source at all
        return ()
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: 1 - node.level or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _FILE.fullmatch(node.value):
            names.append(f"{package}.{node.value.removesuffix('.py')}")
    return names


# Weights: components that use weights name them (`contracts`), with their owners and licences.


def weights_of(components: Iterable[Any]) -> list[Weights]:
    """The weights that the components name, without repeats."""
    naming = [component for component in components if hasattr(component, "weights")]
    return list(dict.fromkeys(weights for component in naming for weights in component.weights()))


def require_weights(weights: Sequence[Weights]) -> None:
    """Raise Lacking, one line with all weights that are not on this machine (`fetch`) and how to get each."""
    missing = [model for model in weights if model.fetch]
    if missing:
        listed = "; ".join(f"{model}: {model.fetch}" for model in missing)
        are = "are" if len(missing) > 1 else "is"
        raise Lacking(f"{len(missing)} of {len(weights)} sets of weights {are} not on this machine: {listed}")


def weights_remark(weights: Sequence[Weights]) -> str:
    """Return the line in which a run shows these weights; "" if there are none."""
    return f"weights: {'; '.join(map(str, weights))}" if weights else ""
