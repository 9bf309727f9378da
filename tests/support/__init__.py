"""What the tests share: toy and broken plugins, servers, tiny models, and small helpers."""
