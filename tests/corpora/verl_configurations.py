"""Overrides of verl's configuration: with what they are refused, and layouts of the hidden states."""

F = "actor_rollout_ref"
LINES = {
    f"{F}.actor.use_kl_loss=False": "hidden=ref needs the reference to run",
    f"{F}.model.lora_rank=8": "take hidden=policy", f"{F}.actor.ulysses_sequence_parallel_size=2": "cuts rows apart",
    "trainer.use_v1=False": "V1 trainer", "trainer.nnodes=1": "taken",
}  # fmt: skip
MICRO = f"{F}.ref.log_prob_micro_batch_size_per_gpu=4"
LAYOUTS = {
    "in bfloat16, as on GPUs": ("ref", MICRO, f"++{F}.ref.fsdp_config.mixed_precision.param_dtype=bf16"),
    "packed, in batches by tokens": (
        "ref", f"{F}.ref.log_prob_use_dynamic_bsz=True", f"{F}.ref.log_prob_max_token_len_per_gpu=64",
        f"{F}.model.use_remove_padding=True",
    ),
    "of the policy, packed": (
        "actor", f"{F}.model.use_remove_padding=True", f"{F}.rollout.log_prob_micro_batch_size_per_gpu=4",
    ),
    "of the policy with an adapter": (
        "actor", f"{F}.model.lora_rank=4", f"{F}.rollout.log_prob_micro_batch_size_per_gpu=4",
    ),
}  # fmt: skip
