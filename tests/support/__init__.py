"""What several test files share: the first line of each file says what. Fixtures stand in a conftest.py.

- plugin files: toy, gated_engine, hostile_plugins, loud_plugin, never_ending, broken_plugins and the files that it is
  made of, counting_trainer
- servers on loopback: hub_server, openai_server
- oracles, written independently of the source: exact_sampling, paper_scheme, evalplus_verdicts, mutants, esm_reference
"""
