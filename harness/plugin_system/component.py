"""Build a component from a spec such as `repexp:lam=0.1,first=max`; read back its parameters; hash its code."""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from harness.errors import HarnessError, contained, did_you_mean, error_text

from .code_hash import code_hash
from .older_engines import with_request
from .registry import Registration, Registry

# Kind -> class members that are left out of the code's hash: what a run uses of `paper` and `presets` is in the pool's
# key by value, and the others change no verdict.
UNHASHED = {"task": frozenset({"paper", "presets", "rl", "sizes"})}


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
            component = factory(**arguments, **context)
            return with_request(component) if kind == "engine" else component
    except HarnessError:
        raise
    except TypeError as failure:
        raise HarnessError(f"{kind} {spec.name!r} from {registration.origin} cannot be built: {failure}") from failure
    except Exception as failure:
        raise HarnessError(
            f"{kind} {spec.name!r} from {registration.origin} cannot be built: {error_text(failure)}"
        ) from failure


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
    code    the hash of its code
    """
    if registration.described is not None:
        return dict(registration.described)
    return {
        "name": registration.name,
        "params": parameters(component),
        "dist": registration.origin.dist,
        "code": source_hash(component, registration),
    }


def source_hash(component: Any, registration: Registration | None = None) -> str:
    """The hash of the component's code (`code_hash`), and of its factory's if that is in another module.

    `registration` tells factory, kind and distribution; None: the class alone, of no known distribution.
    """
    cls = type(component)
    factory = registration.load() if registration else cls
    is_elsewhere = isinstance(factory, (type, FunctionType)) and factory.__module__ != cls.__module__
    return code_hash(
        [cls, factory] if is_elsewhere else [cls],
        dist=registration.origin.dist if registration else "",
        without=UNHASHED.get(registration.kind if registration else "", frozenset()),
    )


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
        return TypeAdapter(hint).validate_python(None if text == "none" and _optional(hint) else text)
    except ValidationError as failure:
        reasons = (each["msg"].removeprefix("Input should be ") for each in failure.errors())
        reason = " or ".join(dict.fromkeys(reasons))
        raise HarnessError(f"{component}: {name} must be {reason}, got {text!r}") from None


def _optional(hint: Any) -> bool:
    return type(None) in typing.get_args(hint)
