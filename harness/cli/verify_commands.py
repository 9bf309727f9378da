"""`harness verify`: let the harness verify its picks, or take the outcomes from you."""

from __future__ import annotations

from typing import Any

from harness.plugin_system.command_options import Json, Yes, resumable, show, takes
from harness.verifying.config import VerifyConfig

from .app import app


@app.command()
@takes(VerifyConfig, without=("verified",))
def verify(given: dict[str, Any], yes: Yes = False, as_json: Json = False) -> None:
    """Pick, verify, write the outcome down, pick again: until each problem is solved or the budget is used up."""
    from harness.system.progress import Progress
    from harness.verifying import asking, loop, summary
    from harness.verifying.command import CommandVerifier

    from . import verify_tables

    config, progress = VerifyConfig(**given), Progress(asks=not yes)
    with resumable(f"every outcome is in {config.journal}; run the same command again to go on"):
        if config.ask:
            is_asked = not (as_json or config.answers or config.sheet)
            out = asking.ask(
                config, progress, verify_tables.picks, verify_tables.answering(config) if is_asked else None
            )
            show(out, as_json, verify_tables.asked)
        else:
            ended = loop.verify(config, progress, CommandVerifier(config))
            show(summary.summary(ended), as_json, lambda value: verify_tables.ended(ended, value))
