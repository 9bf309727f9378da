"""Options of `harness rl train` that are refused, each with how the error line begins."""

COMMAND = (
    (("--set", "bach=3"), "rl: no setting 'bach' (did you mean 'batch'?"),
    (("--set", "rollouts=1"), "rl: rollouts must be at least 2"),
    (("--set", "rollouts=many"), "rl: rollouts must be a valid integer, unable to parse"),
    (("--set", "batch"), "rl: --set is written KEY=VALUE, got 'batch'"),
    (("--set", "batch=8"), "rl: --set batch is given twice"),
    (("--bonus", "repexp:lam=0"), "repexp: lam must be > 0, got 0"),
    (("--bonus", "repexp:beta=-1"), "repexp: beta must be >= 0, got -1.0"),
    (("--bonus", "repexp:spread=0"), "repexp: spread must be > 0, got 0.0"),
    (("--bonus", "repexp:gate=some"), "repexp: gate must be a valid boolean, unable to interpret input or 'mixed'"),
    (("--set", "hours=0"), "rl: hours must be > 0, got 0.0"),
    (("--preset", "bold"), "rl: --preset must be paper or exploring, got 'bold'"),
    (("--bonus", "novelty"), "unknown bonus 'novelty'"),
    (("--trainer", "verls"), "unknown trainer 'verls' (did you mean 'verl'?"),
    (("--data", "nope=x"), "rl: --data is FILE or SPLIT=FILE"),
    (("--seeds", "1", "1"), "rl train: a seed is given twice: 1 1"),
    (("--seeds", "one"), "rl train: --seeds takes whole numbers, got 'one'"),
    (("--seeds", "1,2", "--out", "x"), "rl train: --out is one run's folder: leave it out with several seeds"),
    (("optimiser",), "rl: the trainer's own options are written key=value, got 'optimiser'"),
    (("--limit", "0"), "rl: --limit must be at least 1, got 0"),
    (("--limit", "3"), "rl: 3 problems to train on, fewer than a batch of 4: --set batch=N"),
    (("--task", "aime24"), "rl: task 'aime24' says no train split to train with"),
    (("--task", "gsm8k", "--reward", "kind"), "rl: --reward must be strict or lenient, got 'kind'"),
)

SETTINGS = (
    ({"rollouts": 1}, "rl: rollouts must be at least 2, got 1"),
    ({"batch": 10, "mini_batch": 4}, "rl: batch must be a multiple of mini_batch, got 10 and 4"),
    ({"learning_rate": 0.0}, "rl: learning_rate must be > 0, got 0.0"),
    ({"save_every": 0}, "rl: save_every must be at least 1, got 0"),
    ({"tensor_parallel": 0}, "rl: tensor_parallel must be at least 1, got 0"),
    ({"steps": 0}, "rl: steps must be at least 1, got 0"), ({"keep": 0}, "rl: keep must be at least 1, got 0"),
    ({"hours": float("inf")}, "rl: hours must be > 0, got inf"),
)  # fmt: skip

TRL = (
    ("wieght_decay=0", "trl: no option 'wieght_decay' (did you mean 'weight_decay'?"),
    ("max_steps=3", "trl: no option 'max_steps'"),
    ("weight_decay=much", "trl: weight_decay must be a valid number, unable to parse"),
    ("activation_checkpointing=maybe", "trl: activation_checkpointing must be a valid boolean, unable to interpret"),
    ("loss_type=dapoo", "trl: loss_type must be 'dapo', 'grpo', 'bnpo' or 'dr_grpo', got 'dapoo'"),
)
