"""Build a component from a spec such as `repexp:lam=0.1,first=max`, and say what it is: parameters, code, weights.

Also the options that a task's defaults and presets fill, and selectors that are objects of a Python session.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import inspect
import json
import re
import secrets
import sys
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, Lacking, contained, did_you_mean, error_text
from harness.records import Weights

from .registry import SESSION, Origin, Registration, Registry, is_own, load_registry, own_selectors

CORE = "harness"  # the package whose code is in no key
ENGINE = "transformers"  # where nothing names one
SHOWN = 30  # characters of a field's value in the name of a session's selector


@dataclass(frozen=True)
class Spec:
    """A component's name and the parameters given, still as text."""

    name: str
    params: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        def quoted(value: str) -> str:
            quote = '"' if "'" in value else "'"
            return f"{quote}{value}{quote}" if "," in value or value[:1] in ("'", '"') else value

        written = ",".join(f"{key}={quoted(value)}" for key, value in self.params.items())
        return f"{self.name}:{written}" if written else self.name


# A parameter: its key, and its value up to the next comma, or in quotes.
_PARAMETER = re.compile(
    r"""(?P<key>[^=,]*)=(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<plain>[^,]*))(?P<comma>,|$)"""
)
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
    if is_own(text):
        return Spec(text)
    name, colon, rest = text.partition(":")
    if "," in name:
        more = name.partition(",")[2].strip()
        raise HarnessError(f"{text!r}: one name is wanted, and a comma separates parameters, got {more!r} too")
    if not name:
        raise HarnessError(f"{text!r}: a name is missing before ':'")
    params: dict[str, str] = {}
    while colon:
        match = _PARAMETER.match(rest)
        key = match["key"].strip() if match else ""
        if match is None or not key or key in params:
            part = rest.partition(",")[0]
            raise HarnessError(f"{text!r}: parameters are written name:key=value,key=value, got {part!r}")
        params[key] = next(value for value in match.group("single", "double", "plain") if value is not None).strip()
        rest, colon = rest[match.end() :], match["comma"]
    return Spec(name, params)


def build(registry: Registry, kind: str, spec: Spec | str, **context: Any) -> Any:
    """Build and return the component of a spec; parameters are converted to the types that its factory declares.

    HarnessError if the component is unknown, a parameter does not fit, or the factory fails. `context`: what the
    harness passes to every factory of a kind (a task's `data`, an engine's `model`).
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    registration = registry.find(kind, spec.name)
    factory = registration.load()
    accepted = {name: hint for name, hint in signature(factory).items() if name not in context}
    if unknown := [name for name in spec.params if name not in accepted]:
        takes = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
        guess = did_you_mean(unknown[0], accepted, "")
        raise HarnessError(f"{registration.name}: no parameter {unknown[0]!r} ({guess}{' ' * bool(guess)}{takes})")
    arguments = {name: _value(registration.name, name, text, accepted[name]) for name, text in spec.params.items()}
    try:
        with contained():
            return factory(**arguments, **context)
    except HarnessError:
        raise
    except Exception as failure:
        reason = str(failure) if isinstance(failure, TypeError) else error_text(failure)
        raise HarnessError(f"{kind} {spec.name!r} from {registration.origin} cannot be built: {reason}") from failure


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
    """Return what fixes a component's behaviour: name, parameters, distribution, and the hash of its code."""
    if registration.described is not None:
        return dict(registration.described)
    return {
        "name": registration.name,
        "params": parameters(component),
        "dist": registration.origin.dist,
        "code": source_hash(component, registration),
    }


# Options that the user did not give, from a task's `defaults` and from its named presets (`--preset`).


def filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `harness run`, as fields of `RunConfig`, completed from the task's defaults and preset.

    Options that the user gave stay; a value of the preset replaces the task's default. The engine is `transformers` if
    nothing names one. With given vectors (`embeddings`) no embedder is filled in.
    """
    options, values, preset = dict(given), {}, given["preset"]
    if preset and not options["task"]:
        raise HarnessError("run: --preset goes with --task: it names settings of a task")
    if options["task"]:
        name = parse_spec(options["task"]).name
        factory = load_registry(options["plugin_files"]).find("task", name).load()
        presets = getattr(factory, "presets", {})
        if preset and preset not in presets:
            raise HarnessError(f"task {name!r}: no preset {preset!r}; it has {', '.join(presets) or 'none'}")
        values = {**getattr(factory, "defaults", {}), **(presets[preset] if preset else {})}
    for option, value in values.items():
        name = "selectors" if option == "selector" else option
        if name == "model":  # for engines that load it: `Context.engine`
            continue
        if not options.get(name) and not (name == "embedder" and options["embeddings"]):
            options[name] = value
    return {**options, "engine": options["engine"] or ENGINE}


def graded_as_the_paper(registry: Registry, task: str) -> str:
    """Return the task's spec with the parameters of `--paper` and RL (`Task.paper["task"]`) added to those in `task`.

    All are in the spec, hence in labels, in the record of an RL run, and in verdicts' keys.
    """
    spec = parse_spec(task)
    papers = getattr(registry.find("task", spec.name).load(), "paper", {}).get("task", {})
    return str(Spec(spec.name, {**papers, **spec.params}))


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
    depth = name.count(".") + (path.stem == "__init__")  # in its top package; 0: a single file
    top, folder = name.partition(".")[0] if depth else "", path.parents[max(depth - 1, 0)]
    files, todo = {path}, [(path, name)]
    if not depth and {"site-packages", "dist-packages"} & set(path.parts):
        return files
    while todo:
        path, name = todo.pop()
        for imported in _imports(path.read_bytes(), name if path.stem == "__init__" else name.rpartition(".")[0]):
            first, *rest = imported.split(".")
            if first != top if top else first == CORE:
                continue
            place = folder.joinpath(*([] if top else [first]), *rest)
            file = next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()), None)
            if file and file not in files:
                files.add(file)
                todo.append((file, imported))
    return files


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
        elif isinstance(node, ast.Constant) and re.fullmatch(r"\w+\.py", str(node.value)):
            names.append(f"{package}.{str(node.value).removesuffix('.py')}")
    return names


# Weights: components that use weights name them (`contracts`), with their owners and licences.


def weights_of(components: Iterable[Any]) -> list[Weights]:
    """The weights that the components name, without repeats."""
    return list(dict.fromkeys(each for named in components if hasattr(named, "weights") for each in named.weights()))


def require_weights(weights: Sequence[Weights]) -> None:
    """Raise Lacking, one line with all weights that are not on this machine (`fetch`) and how to get each."""
    if missing := [f"{model}: {model.fetch}" for model in weights if model.fetch]:
        are = "are" if len(missing) > 1 else "is"
        listed = "; ".join(missing)
        raise Lacking(f"{len(missing)} of {len(weights)} sets of weights {are} not on this machine: {listed}")


def weights_remark(weights: Sequence[Weights]) -> str:
    """Return the line in which a run shows these weights; "" if there are none."""
    return f"weights: {'; '.join(map(str, weights))}" if weights else ""


# Selectors that are objects of a Python session: a class in a notebook's cell is raced without a plugin file.
#
# They are registered while `harness.run` or `harness.select` works, and rank in this process: no other one could build
# them. Their keys hold the class's name, the object's fields and the hash of the file of its code. What no file tells,
# a class of a notebook and a field that JSON cannot hold, has another key in each call.


@contextmanager
def registered(selectors: Sequence[Any]) -> Iterator[tuple[str, ...]]:
    """Register inside the selectors that are objects (or classes, which are then built), and yield all as specs.

    HarnessError for what is no selector, and for two of one name.
    """
    own = {place: _registration(each) for place, each in enumerate(selectors) if not isinstance(each, str)}
    names = [registration.name for registration in own.values()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise HarnessError(f"two selectors are called {twice[0]!r}: give their classes different names")
    token = own_selectors.set(tuple(own.values()))
    try:
        yield tuple(own[place].name if place in own else each for place, each in enumerate(selectors))
    finally:
        own_selectors.reset(token)


def _registration(given: Any) -> Registration:
    if isinstance(given, type):
        try:
            given = given()
        except Exception as failure:
            raise HarnessError(f"selector {given.__name__} cannot be built: {error_text(failure)}") from failure
    if not (hasattr(given, "rank") or hasattr(given, "select")):
        raise HarnessError(
            f"a selector is a spec such as 'repexp:lam=0.1', or an object with rank(pool, rng), got {given!r:.60}"
        )
    cls = type(given)
    fields = parameters(given) or dict(getattr(given, "__dict__", {"slots": given}))
    defaults = {name: field.default for name, field in getattr(cls, "__dataclass_fields__", {}).items()}
    texts = {
        name: repr(value)
        for name, value in fields.items()
        if isinstance(value, (bool, int, float, str)) and value != defaults.get(name)
    }
    shown = [f"{name}={text}" for name, text in texts.items() if len(text) <= SHOWN and ":" not in text]
    module = sys.modules.get(cls.__module__)
    is_in_file = hasattr(module, "__file__") and hasattr(module, cls.__qualname__.partition(".")[0])
    code = source_hash(given) if is_in_file else secrets.token_hex(8)
    try:
        json.dumps(fields, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        fields, code = {}, secrets.token_hex(8)
    about = {"name": cls.__name__, "params": fields, "dist": SESSION, "code": code}
    name = f"{cls.__name__}({', '.join(shown)})" if shown else cls.__name__
    return Registration("selector", name, lambda: given, Origin(SESSION, "", cls.__name__), about)
