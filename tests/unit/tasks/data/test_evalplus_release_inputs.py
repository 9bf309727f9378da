"""The types of MBPP+'s arguments: as evalplus converts them, over its whole release."""

import pytest

from harness_tasks.evalplus_tasks import MbppPlus, converted
from harness_tasks.programs import evalplus_oracle


def test_arguments_get_the_types_that_json_cannot_hold():
    assert converted("Mbpp/2", [[[3, 4], [5]]]) == [[(3, 4), (5,)]]
    assert converted("Mbpp/252", [["1j"]]) == [[1j]]
    assert converted("Mbpp/615", [[[[1, [2]]]]]) == [(((1, (2,)),),)]
    assert converted("Mbpp/3", [[[3, 4]]]) == [[[3, 4]]]


def test_arguments_are_those_of_evalplus_in_every_problem(shared_data):
    theirs = pytest.importorskip("evalplus.data.mbpp").mbpp_deserialize_inputs
    differing = []
    for problem in MbppPlus(str(shared_data / "tasks" / "MbppPlus-v0.2.0.jsonl.gz")).problems("test"):
        inputs = problem.meta["base_input"] + problem.meta["plus_input"]
        if repr(converted(problem.id, inputs)) != repr(theirs(problem.id, inputs)):
            differing.append(problem.id)
    assert differing == []


def test_constants_and_formulas_are_those_of_evalplus():
    theirs = pytest.importorskip("evalplus.eval._special_oracle")
    assert list(evalplus_oracle.SETS) == theirs.MBPP_OUTPUT_SET_EQ_TASKS
    assert list(evalplus_oracle.NOT_NONE) == theirs.MBPP_OUTPUT_NOT_NONE_TASKS
    for a in (1, 2, 15, 208, 99_991):
        for b in (1, 3, 77, 1_000):
            assert evalplus_oracle.pyramid_surface(a, b) == theirs._surface_Area(a, b)
            assert evalplus_oracle.digit_distance(a, b) == theirs._digit_distance_nums(a, b)
            assert evalplus_oracle.polynomial([a, -b, 3], 0.3 * b) == theirs._poly([a, -b, 3], 0.3 * b)
