"""Rows in chunks that fit into memory: where one does not, it is halved and the work goes on."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from harness import HarnessError

Row = TypeVar("Row")
Result = TypeVar("Result")

# What torch says on a CPU and in cuBLAS; torch.OutOfMemoryError is known by its type.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


class Chunks:
    """Chunks of at most `size` rows. A smaller size that was found by halving is kept for what comes later."""

    def __init__(self, size: int, who: str = "transformers") -> None:
        self.size, self.who = size, who

    def over(
        self, rows: Sequence[Row], work: Callable[[Sequence[Row]], Result], most: int | None = None
    ) -> Iterator[tuple[Sequence[Row], Result]]:
        """Yield (chunk, work(chunk)) until all rows are done; a row that does not fit alone is a HarnessError.

        most   rows of a chunk, where fewer than `size` are wanted
        """
        done = 0
        while done < len(rows):
            chunk = rows[done : done + min(self.size, most or self.size)]
            try:
                result = work(chunk)
            except (MemoryError, RuntimeError) as failure:
                if not out_of_memory(failure):
                    raise
                if len(chunk) == 1:
                    raise HarnessError(f"{self.who}: not even one response at a time fits into memory") from failure
                self.size = len(chunk) // 2
            else:
                done += len(chunk)
                yield chunk, result
                continue
            release()  # here, not in the `except`: the failure's traceback holds the tensors until it ends


def out_of_memory(failure: BaseException) -> bool:
    """Whether an exception says that memory ran out, on a GPU or a CPU."""
    import torch

    known = isinstance(failure, (MemoryError, torch.OutOfMemoryError))
    return known or any(words in str(failure) for words in OUT_OF_MEMORY)


def release() -> None:
    """Give memory back that a failed attempt held."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
