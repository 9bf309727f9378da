"""What the tests share. Fixtures that several files use are in conftest.py.

- helpers: `paths`, `processes`, `refusals`, `stores`, `json_lines`, `environments`, `distributions`, `report_page`,
  `documents`, `choosing`
- plugins: `toy`, `broken_plugins` (made of `broken` and four more), `hostile_plugins`, `loud_plugin`, `never_ending`,
  `counting_trainer`, `verl_recording`
- models and pools: `tiny_checkpoints`, `tiny_proteins`, `training_runs`, `selector_pools`, `vector_pools`
- oracles: `exact_sampling`, `repexp_features`, `paper_scheme`, `evalplus_verdicts`, `mutants`, `hostile_code`
- the sandbox and the code tasks: `sandboxes`, `canonical_values`, `evalplus_problems`
- oracles: `exact_sampling`, `paper_scheme`, `evalplus_verdicts`, `mutants`, `hostile_code`
- servers: `openai_server`, `hub_server`; programs that run as processes: `ray_nodes`, `verl_hidden_states`
  `documents`
- plugins: `toy`, `broken_plugins`, `hostile_plugins`, `never_ending`, `gated_engine`, `counting_trainer`,
  `verl_recording`
- models and pools: `tiny_checkpoints`, `tiny_proteins`, `training_runs`, `selector_pools`, `vector_pools`
- oracles: `exact_sampling`, `repexp_features`, `paper_scheme`, `evalplus_verdicts`, `mutants`, `hostile_code`
- servers: `openai_server` with its `openai_client`, `hub_server`
- programs that run as processes: `ray_nodes`, `command_session`, `verl_hidden_states`
"""
