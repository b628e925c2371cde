import numpy as np
import pytest

from weft.errors import WeftError
from weft.sampling.plan.lengths import Lengths

SIZES, NAMES = np.array([3, 2]), ["cola", "rte"]


def test_lengths_by_task_and_index():
    lengths = Lengths([[5, 6, 7], np.array([8, 9], np.uint16)], SIZES, NAMES)
    assert lengths.of(1, np.array([1, 0])).tolist() == [9, 8]
    assert lengths.of(np.array([0, 1, 0]), np.array([2, 0, 0])).tolist() == [7, 8, 5]


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([[5, 6, 7]], "expected one array per task, 2; found 1"),
        ([[5, 6, 7], [8]], "task 'rte' has 2 examples and needs as many whole numbers; found shape [1]"),
        ([[5, 6, 7], [8.0, 9.5]], "task 'rte' has 2 examples and needs as many whole numbers"),
        ([[5, -6, 7], [8, 9]], "task 'cola' has the length -6 at 1"),
    ],
)
def test_wrong_lengths_are_refused(lengths, text):
    with pytest.raises(WeftError) as error:
        Lengths(lengths, SIZES, NAMES)
    assert text in str(error.value)
