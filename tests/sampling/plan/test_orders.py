import numpy as np

from weft.sampling.plan.orders import Orders

SIZES = np.array([1, 2, 5, 1000])


def test_every_epoch_of_every_task_is_another_permutation():
    orders = Orders(SIZES, seed=1)
    for task, n in enumerate(SIZES):
        for epoch in range(5):
            assert sorted(orders.examples(task, epoch, np.arange(n))) == list(range(n))
    epochs = [tuple(orders.examples(3, epoch, np.arange(1000))) for epoch in range(5)]
    assert len(set(epochs)) == 5


def test_tasks_of_equal_size_and_other_seeds_have_their_own_order():
    places = np.arange(100)
    found = [Orders(np.array([100, 100]), s).examples(t, 0, places) for s in (1, 2) for t in (0, 1)]
    assert len({tuple(order) for order in found}) == 4


def test_many_tasks_and_epochs_at_once():
    orders = Orders(SIZES, seed=1)
    task, epoch = np.array([3, 0, 2, 3, 1]), np.array([0, 9, 1, 4, 2])
    place = np.array([999, 0, 3, 17, 1])
    alone = [orders.examples(task[i], epoch[i], place[i]) for i in range(len(task))]
    assert orders.examples(task, epoch, place).tolist() == alone


def test_a_task_keeps_its_order_when_another_is_added():
    places = np.arange(1000)
    few, more = Orders(SIZES, seed=1), Orders(np.append(SIZES, 7), seed=1)
    assert (few.examples(3, 2, places) == more.examples(3, 2, places)).all()
