"""Process rows in chunks that fit into memory; a chunk that does not fit is halved and tried again."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from harness import HarnessError

Row = TypeVar("Row")
Result = TypeVar("Result")

# Messages of torch on a CPU and of cuBLAS; torch.OutOfMemoryError is recognized by its type.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


class Chunks:
    """Process rows in chunks of at most `size`; if memory runs out, `size` becomes half of the chunk's rows for good.

    component   the first word of error messages
    """

    def __init__(self, size: int, component: str = "transformers") -> None:
        self.size, self.component = size, component

    def over(
        self, rows: Sequence[Row], work: Callable[[Sequence[Row]], Result], most: int | None = None
    ) -> Iterator[tuple[Sequence[Row], Result]]:
        """Yield (chunk, work(chunk)) until all rows are done; HarnessError if a single row does not fit into memory.

        most   an upper limit of rows in a chunk, if below `size`
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
                    reason = "not even one response at a time fits into memory"
                    raise HarnessError(f"{self.component}: {reason}") from failure
                self.size = len(chunk) // 2
            else:
                done += len(chunk)
                yield chunk, result
                continue
            release()  # after the `except`, not in it: there the exception's traceback still holds the tensors


def out_of_memory(failure: BaseException) -> bool:
    """Return whether an exception means that memory ran out, on a GPU or a CPU."""
    import torch

    if isinstance(failure, (MemoryError, torch.OutOfMemoryError)):
        return True
    return any(message in str(failure) for message in OUT_OF_MEMORY)


def release() -> None:
    """Free the memory that a failed attempt held."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
