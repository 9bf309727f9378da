"""Read the files that tasks are published in, and what they give as ground truth."""
