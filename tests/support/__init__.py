"""What the tests share. Fixtures that several files use are in conftest.py.

- helpers: `paths`, `processes`, `refusals`, `stores`, `json_lines`, `environments`, `distributions`, `report_page`,
  `documents`
- plugins: `toy`, `broken_plugins`, `hostile_plugins`, `never_ending`, `counting_trainer`, `recording_bonus`
- models and pools: `tiny_checkpoints`, `tiny_proteins`, `training_runs`, `recorded_steps`, `selector_pools`,
  `vector_pools`
- oracles: `exact_sampling`, `rollouts`, `repexp_features`, `paper_scheme`, `evalplus_verdicts`, `mutants`,
  `hostile_code`
- servers: `openai_server`, `hub_server`; programs that run as processes: `ray_nodes`, `inside_verl`,
  `verl_hidden_states`
"""
