"""vLLM's own scheduler, with one more step after the end of a response whose hidden states are wanted.

Its last token then passes the model in an ordinary decoding step, which gives its state: for the mean over all T tokens
vLLM takes T + 1 steps, and no second pass. The token sampled in the extra step is discarded.
"""

from __future__ import annotations

from functools import cache
from typing import Any

WANTS_LAST = "harness_wants_last"  # in a request's extra_args


def one_step_more(*, vllm_config: Any, **options: Any) -> Any:
    """Return the scheduler that vLLM would have made from this config, with the extra step."""
    scheduler = vllm_config.scheduler_config
    configured, scheduler.scheduler_cls = scheduler.scheduler_cls, None
    try:
        base = scheduler.get_scheduler_cls()
    finally:
        scheduler.scheduler_cls = configured
    return _later(base)(vllm_config=vllm_config, **options)


@cache
def _later(base: type) -> type:
    from vllm.v1.request import RequestStatus

    class OneStepMore(base):
        def _update_request_with_output(
            self, request: Any, new_token_ids: list[int], *more: Any, **options: Any
        ) -> tuple[list[int], bool]:
            before = request.status
            ended = getattr(request, "harness_ended", False)
            tokens, stopped = super()._update_request_with_output(request, new_token_ids, *more, **options)
            params = request.sampling_params
            if not tokens or params is None or not (params.extra_args or {}).get(WANTS_LAST):
                return tokens, stopped
            if ended and not stopped:
                request.status = RequestStatus.FINISHED_STOPPED
                return tokens, True
            # without room this was the extra step, which happened to sample an end
            room = request.num_output_tokens < request.max_tokens
            if not ended and stopped and room and request.status == RequestStatus.FINISHED_STOPPED:
                request.harness_ended = True
                request.status, request.stop_reason = before, None
                return tokens, False
            return tokens, stopped

    return OneStepMore
