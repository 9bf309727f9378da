"""The selectors of this distribution, by name. A selector's module is imported when the selector is asked for."""

from __future__ import annotations

from harness import hookimpl
from harness.hookspecs import Register

SELECTORS = {
    "answer-coverage": "answer_coverage:AnswerCoverage",
    "answer-round-robin": "majority:AnswerRoundRobin",
    "dedup": "uniform:Dedup",
    "dpp-map": "dpp_map:DPPMap",
    "facility-location": "facility_location:FacilityLocation",
    "gp-thompson": "gp_ucb:GpThompson",
    "gp-ucb": "gp_ucb:GpUcb",
    "in-order": "uniform:InOrder",
    "k-dpp": "k_dpp:KDPP",
    "kcenter": "kcenter:KCenter",
    "kmeans": "kmeans:KMeans",
    "kmeans-pp": "kmeans:KMeansPP",
    "kmedoids": "kmeans:KMedoids",
    "length": "score:Length",
    "logprob": "score:Logprob",
    "majority": "majority:Majority",
    "mmr": "mmr:MMR",
    "ngram-coverage": "ngram_coverage:NgramCoverage",
    "norm": "score:Norm",
    "outcome-ucb": "outcome_ucb:OutcomeUcb",
    "outcome-ucb-seen": "outcome_ucb:OutcomeUcbSeen",
    "repexp": "repexp:RepExp",
    "rnd": "rnd:RandomNetworkDistillation",
    "score": "score:Score",
    "score-dpp": "dpp_map:ScoreDPP",
    "score-mmr": "mmr:ScoreMMR",
    "uniform": "uniform:Uniform",
    "unlikely": "score:Unlikely",
}

CONTROLS = {"norm": ["norm"], "length": ["length", "length:first=long"]}  # what stands beside selectors by vectors


@hookimpl
def register_selectors(register: Register) -> None:
    """Register them."""
    for name, place in SELECTORS.items():
        register(name, f"harness_selectors.{place}", controls=CONTROLS.get(name, ()))
