"""Code that runs in vLLM's environment: the engine's child, and the extensions that vLLM loads in its processes.

It is found by PYTHONPATH and imports nothing of the harness, which need not be installed in that environment. The
harness itself imports only `protocol`.
"""
