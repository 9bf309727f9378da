"""What `harness select` loads."""

import pytest
from support.choosing import of_duplicates, written
from support.processes import printed_by


@pytest.mark.slow
def test_given_vectors_load_nothing_that_they_do_not_need(tmp_path):
    vectors = written(tmp_path / "E.npz", {"a": of_duplicates(30, 4, 0)})
    heavy = {"torch", "transformers", "sklearn", "datasets", "scipy.stats", "scipy.optimize", "matplotlib"}
    code = (
        "import sys; from harness.cli import main\n"
        f"sys.argv = {['harness', 'select', '--embeddings', str(vectors), '--selector', 'repexp', '-k', '3']!r}\n"
        f"main_failed = False\ntry: main()\nexcept SystemExit as stop: main_failed = bool(stop.code)\n"
        f"print('heavy:', main_failed, sorted({heavy!r} & set(sys.modules)))"
    )
    assert printed_by(code, cwd=tmp_path).endswith("heavy: False []")
