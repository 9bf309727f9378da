"""Bounds that both sides of the sandbox go by: the trusted one, and the fork server, into which this file is sent."""

from __future__ import annotations

KEPT_SUITES = 8  # that a fork server remembers

# Wall time of a whole run: so much, and so much for each second of CPU time that it has used. An honest program on a
# busy machine gets a share of it; one that sleeps does not.
IDLE_S, WALL_PER_CPU = 20.0, 20.0

# Wall time of one test: so much for each second of its CPU limit, and at least
TEST_WALL_PER_CPU, LEAST_TEST_WALL_S = 20.0, 5.0

IMPORT_CPU_S = 2.0  # to define a program, if its first test has less
ENCODE_CPU_S = 10.0  # to write a result down, beside the test's own limit
SPARE_CPU_S = 0.5  # beyond these, after which a process is killed from outside
PARSE_CPU_S = 2.0  # to bring one program into normal form

THREADS = 256  # of a program: 13,000 were started in 1.4 s, and a machine may have room for 32,768
