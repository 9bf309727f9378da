"""An engine of the old form, `sample(prompts, n=...)`, is given the parts of a request that it takes."""

from __future__ import annotations

from support.toy import Parrot

from harness.plugin_system.older_engines import with_request
from harness.records import Sampler, SampleRequest


class Older(Parrot):
    def sample(self, prompts, *, n, sampler, max_tokens, seeds, states=(), report=lambda rows: None):
        return super().sample(SampleRequest(prompts, n, sampler, max_tokens, seeds, states, report=report))


def test_an_engine_of_the_old_form_gives_the_responses_of_the_new(capsys):
    reported = []
    request = SampleRequest([[], []], 3, Sampler(), 8, [1, 2], ("mean",), report=reported.append)
    older = with_request(Older("macaw"))
    assert "engine Older: sample(prompts, n=..., ...) is the old form" in capsys.readouterr().err
    assert [each.texts for each in older.sample(request)] == [each.texts for each in Parrot().sample(request)]
    assert (reported, older.name) == ([3, 3, 3, 3], "macaw")
    assert with_request(new := Parrot()) is new
