"""The fixtures of `support.hub_fixtures`."""

from support.hub_fixtures import hub, pool, pull, push, pushed, repository, sampled

__all__ = ["hub", "pool", "pull", "push", "pushed", "repository", "sampled"]
