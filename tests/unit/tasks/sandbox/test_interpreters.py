"""The folders that a confined interpreter may read."""

from harness_tasks.sandbox import interpreters


def test_of_library_folders_only_the_outermost_outside_the_systems_are_named(tmp_path):
    (tmp_path / "lib" / "inner").mkdir(parents=True)
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "library").mkdir()
    mapped = [str(tmp_path / "lib" / "inner" / "a.so"), str(tmp_path / "library" / "b.so"), "/usr/lib/c.so"]
    folders = list(interpreters._library_folders([str(tmp_path), str(tmp_path / "missing")], mapped))
    assert folders == [str(tmp_path / "lib"), str(tmp_path / "library")]
