"""`harness gpu-check`: what of this project works on a machine's GPU, as one file to send in."""
