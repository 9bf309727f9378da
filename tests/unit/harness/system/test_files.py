"""A file is written whole or not at all."""

from support.refusals import refusal_of

from harness.system.files import write_atomically


def test_what_cannot_be_put_in_its_place_is_one_line_and_leaves_nothing(tmp_path):
    (tmp_path / "taken").mkdir()
    refusal = refusal_of(lambda: write_atomically(tmp_path / "taken", b"x"))
    assert refusal == f"store: cannot write {tmp_path / 'taken'}: Is a directory; choose another --store"
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
