"""The modules that the key of a built-in component holds, as a reader of its imports finds them."""

VECTORS, SOURCES = "harness_selectors.numerics.vectors", "harness_tasks.data.sources"
MATH = [f"harness_tasks.math_answers{name}" for name in (
    "", ".checker", ".equality", ".extraction", ".math_task", ".normal_form", ".structure", ".values",
)] + ["harness_tasks.graders.strict_rules"] + [
    f"harness_tasks.sandbox.{name}" for name in ("confinement", "forked", "syscalls")
]  # fmt: skip

ROWS = [
    ("selector", "uniform", ["harness_selectors.uniform"]),
    (
        "selector",
        "repexp",
        [
            "harness_selectors.repexp",
            "harness_selectors.numerics.elliptical",
            "harness_selectors.numerics.elliptical_batch",
            "harness_selectors.numerics.elliptical_bounds",
            VECTORS,
        ],
    ),
    ("selector", "kcenter", ["harness_selectors.kcenter", "harness_selectors.numerics.nearest_pick", VECTORS]),
    ("selector", "outcome-ucb", ["harness_selectors.outcome_ucb", "harness_selectors.answer_round_robin"]),
    ("task", "game24", ["harness_tasks.game24", "harness_tasks.arithmetic", "harness_tasks.data.hands", SOURCES]),
    ("task", "gsm8k", ["harness_tasks.gsm8k", SOURCES, *MATH]),
    ("task", "math500", ["harness_tasks.competition_math", "harness_tasks.data.math_rows", SOURCES, *MATH]),
    ("embedder", "hidden-mean", ["harness_plugins.embedders.hidden_states"]),
    (
        "sampler",
        "repexp-guided",
        [
            "harness_plugins.samplers.guided",
            "harness_plugins.samplers.guided.covariance",
            "harness_plugins.samplers.plain",
        ],
    ),
]
