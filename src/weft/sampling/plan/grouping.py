"""Length bucketing: batches of examples with similar lengths, to reduce padding.

Sorting everything would order the training by length, and thereby by task. So only a window of 64 batches is
sorted and divided into batches, which are then shuffled; the windows stay random.
"""

from __future__ import annotations

import numpy as np

from weft.utils.counter_rng import Bits, Ints, bits
from weft.utils.permutation import permute

WINDOW = 64
"""The number of batches that are sorted together."""


def group_batches(lengths: Ints, batch_size: int, key: Bits) -> list[Ints]:
    """Divide a window's examples into batches of similar length; a short batch comes last.

    Args:
        lengths: the lengths of the window's examples, [m].
        batch_size: the number of examples of a batch, B.
        key: the random key of the order of batches.

    Returns:
        ⌈m / B⌉ batches of indices in range(m); each index is in one batch.
    """
    by_length = np.argsort(lengths, kind="stable")
    full, rest = divmod(len(lengths), batch_size)
    order_key, short_key = bits(key, np.arange(2, dtype=np.uint64))
    # the short batch is taken from a random position: from the end, it would always have the longest
    cut = batch_size * int(permute(0, full + 1, short_key))
    short = by_length[cut : cut + rest]
    batches = np.delete(by_length, slice(cut, cut + rest)).reshape(full, batch_size)
    batches = batches[permute(np.arange(full), max(full, 1), order_key)]
    return [*batches, short] if rest else [*batches]


def group_mixed(lengths: Ints, task: Ints, epoch: Ints, batch_size: int, key: Bits) -> Ints:
    """Rearrange the draws of a window of mixed batches, so that a batch has draws of similar length.

    The draws are sorted by length and divided into batches, which are shuffled; so every draw has a slot.
    But if a task's epoch ends within the window, all of its draws must come before the next epoch's. So the
    slots of a task, in time order, are assigned to its epochs in order, and within an epoch the shorter draw
    takes the slot of lower rank. If no epoch ends in the window, this changes nothing.

    Args:
        lengths: the lengths of the window's draws in draw order, [m] with m a multiple of the batch size.
        task: their task ids, [m].
        epoch: their tasks' epochs, [m].
        batch_size: the number of draws of a batch, B.
        key: the random key of the order of batches.

    Returns:
        The draw in each slot: a permutation of range(m), the first B being the first batch, [m].
    """
    by_length = np.argsort(lengths, kind="stable")
    task, epoch = task[by_length], epoch[by_length]
    # from here on, draws and slots are numbered by rank, their position in the order of length
    ranks = np.arange(len(by_length)).reshape(-1, batch_size)
    slot = ranks[permute(np.arange(len(ranks)), len(ranks), key)].ravel()
    in_time = np.lexsort((slot, task))
    in_epochs = np.lexsort((epoch, task))  # stable: the lower rank first
    slot_epoch = np.empty_like(epoch)
    slot_epoch[in_time] = epoch[in_epochs]
    arranged = np.empty_like(by_length)
    arranged[slot[np.lexsort((slot_epoch, task))]] = by_length[in_epochs]
    return arranged
