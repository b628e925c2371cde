"""What a person should know of a run before it begins."""

from __future__ import annotations

from weft.model.ownership import owned
from weft.training.optim.owners import rate_of
from weft.training.run.loop import Loop


def notes(loop: Loop) -> list[str]:
    """Settings that mean something else than one might think, in sentences."""
    told = []
    driver = loop.driver
    if driver.note is not None:
        told.append(f"train.engine is {driver.name}: {driver.note}")
    if driver.shapes is not None:
        lengths, waste = ", ".join(map(str, driver.shapes.lengths)), driver.shapes.waste
        told.append(
            f"engine {driver.name}: rows are padded to {lengths} tokens; {100 * waste.total:.1f}% of the "
            f"places hold none ({100 * waste.rounding:.1f}% by rounding up)"
        )
    if loop.training.trunk_cache:
        told += [note for note in [driver.trunk_note] if note is not None]
    if loop.chooser is not None:
        pairs = loop.chooser.told.items()
        told += [f"{task} takes the uncertainty scores of {other}" for task, other in pairs]
    merged = driver.gradients.merged
    if merged is not None and not merged.shares:
        told.append(
            f"method {loop.model.method.name!r} trains nothing that tasks share: train.conflict changes no "
            "gradient, and costs a pass a task"
        )
    roles = {rate_of(item) for item in owned(loop.model) if item.trains}
    for role, rate in loop.training.lr_of or ():
        if rate is not None and role not in roles:
            told.append(f"train.lr_of.{role}: nothing of that role trains here")
    return told
