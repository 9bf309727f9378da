"""A source text with much of Python's syntax, and edits of it that change a component's key or do not."""

SOURCE = '''"""A module."""
from __future__ import annotations
import numpy as np, os.path
from . import vectors
from .far import near as here
from typing import TYPE_CHECKING, ClassVar
if TYPE_CHECKING:
    from .types import Only

# a comment
LIMIT: int = 1_000

@decorated(deep=True)
class Picks(Base, metaclass=Meta):
    """Picks."""
    kind: ClassVar[str] = "picks"
    lam: float = 1e-3

    async def rank(self, pool: Pool, /, *rest, rng: Rng = None, **more) -> Iterator[int]:
        """Ranks."""
        seen: set[int] = set()
        text = f"a{{b}} {pool!r:>{self.lam}} {rng = }" "tail \\N{LATIN SMALL LETTER SHARP S}"
        async with pool as one, rest[0]:
            yield {**more, "x": [*seen, -1, 2j, b"\\xff", ..., None, True], 1: x if (y := 3) else lambda a, b=2: a @ b}
        try:
            del seen[1:2, ::3]
        except* ValueError as failure:
            raise KeyError from failure
        match pool:
            case {"a": [1, *others], **rest} | Point(x=0) if others:
                return
            case _:
                global LIMIT
'''
GOLDEN = "888d4f4e6710632db3d26b913281fb800f80a2a0b1d0db2962fb8af62182e9f1"  # of SOURCE, whatever the version of Python

NO_CHANGE = [
    ('"""A module."""', '"""Another module."""'),
    ('"""Ranks."""', ""),
    ("# a comment", "# another\n\n"),
    ("LIMIT: int", "LIMIT"),
    ("pool: Pool,", "pool,"),
    (" -> Iterator[int]", ""),
    ("seen: set[int]", "seen"),
    (
        "import numpy as np, os.path\nfrom . import vectors\n",
        "from . import vectors\nimport numpy as np, os.path\n",
    ),
    ("    from .types import Only", "    from .types import Other"),
    ("1_000", "1000"),
    ('"tail', "f'tail"[0:0] + '"tail'),
]
CHANGE = [
    ("1_000", "1_001"),
    ("kind: ClassVar[str]", "kind: str"),
    ("lam: float", "lam: InitVar[float]"),
    ("rng: Rng = None", "rng: Rng = 0"),
    ("[1:2, ::3]", "[1:2, ::4]"),
    ("deep=True", "deep=1"),
    ("near as here", "far as here"),
    ("async with", "with"),
    ("!r:>", "!s:>"),
    ("global LIMIT", "nonlocal LIMIT"),
    ("except*", "except"),
]
