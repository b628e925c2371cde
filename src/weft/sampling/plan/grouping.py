"""Length grouping: batches of examples of like length, so that little is padded.

Sorting everything would bring the lengths, and with them the tasks, in order. So only a window of 64 batches
is sorted and cut into batches, which then come in a drawn order; the windows themselves stay random.
"""

from __future__ import annotations

import numpy as np

from weft.utils.counter_rng import Bits, Ints, bits
from weft.utils.permutation import permute

WINDOW = 64
"""How many batches are sorted together."""


def group_batches(lengths: Ints, batch_size: int, key: Bits) -> list[Ints]:
    """Cut a window's examples into batches of like length; a short batch stays the last.

    Args:
        lengths: of the window's examples, [m].
        batch_size: the examples of a batch, B.
        key: of the batches' order.

    Returns:
        ⌈m / B⌉ batches of places in range(m); each place is in one batch.
    """
    by_length = np.argsort(lengths, kind="stable")
    full, rest = divmod(len(lengths), batch_size)
    order_key, short_key = bits(key, np.arange(2, dtype=np.uint64))
    # the short batch is cut out between any two others: at the end, it would always have the longest
    cut = batch_size * int(permute(0, full + 1, short_key))
    short = by_length[cut : cut + rest]
    batches = np.delete(by_length, slice(cut, cut + rest)).reshape(full, batch_size)
    batches = batches[permute(np.arange(full), max(full, 1), order_key)]
    return [*batches, short] if rest else [*batches]


def group_mixed(lengths: Ints, task: Ints, epoch: Ints, batch_size: int, key: Bits) -> Ints:
    """Rearrange the draws of a window of mixed batches, so that a batch has draws of like length.

    Sorted by length and cut into batches, which come in a drawn order, every draw has a slot. But where a
    task's epoch ends within the window, all of it must come before the next. So a task's slots in time order
    are given its epochs in order, and within an epoch the shorter draw takes the slot that was sorted lower.
    Where no epoch ends, that changes nothing.

    Args:
        lengths: of the window's draws, in draw order, [m] with m a multiple of the batch size.
        task: their task ids, [m].
        epoch: their tasks' epochs, [m].
        batch_size: the draws of a batch, B.
        key: of the batches' order.

    Returns:
        The draw in each slot: a permutation of range(m), the first B being the first batch, [m].
    """
    by_length = np.argsort(lengths, kind="stable")
    task, epoch = task[by_length], epoch[by_length]
    # from here on, draws and slots go by rank, their place in the order of length
    ranks = np.arange(len(by_length)).reshape(-1, batch_size)
    slot = ranks[permute(np.arange(len(ranks)), len(ranks), key)].ravel()
    in_time = np.lexsort((slot, task))
    in_epochs = np.lexsort((epoch, task))  # stable: the lower rank first
    slot_epoch = np.empty_like(epoch)
    slot_epoch[in_time] = epoch[in_epochs]
    arranged = np.empty_like(by_length)
    arranged[slot[np.lexsort((slot_epoch, task))]] = by_length[in_epochs]
    return arranged
