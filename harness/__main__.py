"""`python -m harness`: the same as the `harness` command."""

from harness.cli import main

if __name__ == "__main__":  # worker processes import this file too
    main()
