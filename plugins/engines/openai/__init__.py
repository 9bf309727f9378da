"""The engine that asks an OpenAI-compatible server."""
