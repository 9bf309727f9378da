"""Jobs over the columns of a pool: run, grid, dry run, until correct, select; their options, and what they cost.

`plan` says which columns a job wants, `run` makes and scores them. A job imports columns and results, and knows of no
command line.
"""
