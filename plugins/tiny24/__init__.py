"""The embedded model: small Llamas trained by this project on Game of 24 (see train.py)."""
