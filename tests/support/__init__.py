"""What the tests share. Fixtures that several files use are in conftest.py.

- helpers: `paths`, `processes`, `refusals`, `stores`, `json_lines`, `environments`, `distributions`, `report_page`,
  `documents`, `figure_cells`
- plugins: `toy`, `broken_plugins`, `hostile_plugins`, `never_ending`, `counting_trainer`, `verl_recording`
- models and pools: `tiny_checkpoints`, `tiny_proteins`, `training_runs`, `selector_pools`, `vector_pools`
- oracles: `exact_sampling`, `repexp_features`, `paper_scheme`, `evalplus_verdicts`, `mutants`, `hostile_code`
- servers: `openai_server`, `hub_server`; programs that run as processes: `ray_nodes`, `verl_hidden_states`
"""
