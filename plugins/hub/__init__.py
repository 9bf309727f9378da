"""Publish pools on the Hugging Face hub, and fetch them."""
