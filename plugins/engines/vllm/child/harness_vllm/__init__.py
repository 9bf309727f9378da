"""What runs in vLLM's environment: the engine's child and what vLLM loads of ours in its own processes.

It is found by PYTHONPATH and imports nothing of the harness, which need not be installed there; the harness imports
`wire` alone.
"""
