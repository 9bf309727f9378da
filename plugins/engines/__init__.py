"""Run language models: transformers in this process, vLLM in a child, an OpenAI-compatible server, ESM3."""
