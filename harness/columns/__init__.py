"""A pool is a table, and every stage adds a column: what columns are, how they are kept, and the loop that makes them.

Read `column` (a column is a frozen dataclass), `store` (a file for each column and problem) and `make` (the loop); then
`responses`, `vectors`, `verdicts` and `orders`, which are the columns of a run. Nothing here knows of commands, plans
or tables of results.
"""
