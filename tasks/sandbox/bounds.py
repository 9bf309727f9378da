"""Limits that both sides of the sandbox use: the trusted side, and the fork server, to which this file is sent."""

from __future__ import annotations

KEPT_SUITES = 8  # suites that a fork server keeps

# Wall time of a whole run: IDLE_S, and WALL_PER_CPU for each second of CPU time that the program has used so far. So an
# honest program on a busy machine may take long, and a program that sleeps may not.
IDLE_S, WALL_PER_CPU = 20.0, 20.0

# Wall time of one test: TEST_WALL_PER_CPU for each second of its CPU limit, and at least LEAST_TEST_WALL_S.
TEST_WALL_PER_CPU, LEAST_TEST_WALL_S = 20.0, 5.0

IMPORT_CPU_S = 2.0  # to define a program, unless its first test may take longer
ENCODE_CPU_S = 10.0  # to encode a result, in addition to the test's limit
SPARE_CPU_S = 0.5  # in addition to all these; then the process is killed from outside
PARSE_CPU_S = 2.0  # to bring one program into normal form

THREADS = 256  # of a program: an attack started 13,000 in 1.4 s, and a machine may allow 32,768
