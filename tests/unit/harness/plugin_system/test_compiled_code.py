"""The key of code that has no file, as in a notebook."""

from harness.plugin_system.code_hash import code_hash


def test_code_without_a_file_has_a_hash_of_its_own():
    def made(body, doc="Picks."):
        names = {"__name__": "notebook"}
        helper = f"STEP = 2\ndef helper(x):\n    return {body}\n"
        rank = f"    def rank(self, pool):\n        '{doc}'\n        return [helper(i) for i in pool]\n"
        exec(compile(f"{helper}class Picks:\n{rank}", "<cell>", "exec"), names)
        return names["Picks"]

    assert code_hash([made("x + STEP")]) == code_hash([made("x + STEP", "Other words.")])
    assert code_hash([made("x + STEP")]) != code_hash([made("x - STEP")])
