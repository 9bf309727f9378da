"""The plots of `harness plot`."""
