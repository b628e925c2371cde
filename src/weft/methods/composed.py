"""Several methods at once: `method: [lora, bitfit]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

from weft.errors import WeftError
from weft.methods.method import Method
from weft.utils.seeding import derived

if TYPE_CHECKING:
    from weft.adapters.adapter import Adapter
    from weft.encoder.sites import Site, Sites


def _flat(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """Flatten nested compositions: adapters refer to their part by its index in the whole."""
    return tuple(part for method in methods for part in method.parts)


class Composed(Method):
    """All adapters of all parts; the encoder parameters that any part trains are trained."""

    name = "composed"
    methods: Annotated[tuple[Method, ...], AfterValidator(_flat)]

    def model_post_init(self, context: Any) -> None:
        """Raise an error for methods that cannot be combined with others."""
        if not self.methods:
            raise WeftError("method: an empty list; expected at least one method")
        for method in self.methods:
            if method.separate and len(self.methods) > 1:
                raise WeftError(
                    f"method {method.name!r} gives each task a whole encoder "
                    "and cannot be combined with other methods"
                )

    @property
    def starts_at_base(self) -> bool:  # type: ignore[override]
        """Whether every part does."""
        return all(m.starts_at_base for m in self.methods)

    @property
    def default_lr(self) -> float:  # type: ignore[override]
        """The smallest learning rate of the parts."""
        return min(m.default_lr for m in self.methods)

    @property
    def parts(self) -> tuple[Method, ...]:
        """The parts, in their order."""
        return self.methods

    def weave(self, sites: Sites, tasks: Sequence[str], seed: int) -> Iterator[tuple[Site, Adapter]]:
        """The parts' adapters, in the parts' order.

        A per-task copy of a module (`replaces`) is made once, even if several parts request it.
        """
        copies: dict[Site, Adapter] = {}
        for number, method in enumerate(self.methods):
            # parts with equal initial values would get equal gradients forever
            for site, adapter in method.weave(sites, tasks, derived(seed, str(number)) if number else seed):
                if adapter.replaces:
                    first = copies.setdefault(site, adapter)
                    if first.stacks != adapter.stacks:
                        raise WeftError(
                            f"method: two parts give tasks copies of {site.key!r}, but share them differently"
                        )
                    if first is not adapter:
                        continue
                adapter.part = number
                yield site, adapter

    def with_ranks(self, patterns: Sequence[Mapping[str, Mapping[str, int]]]) -> Method:
        """Each part with its own ranks."""
        return Composed(methods=tuple(m.with_ranks([p]) for m, p in zip(self.methods, patterns, strict=True)))

    def settings(self) -> list[dict[str, Any]]:
        """The parts' settings, as a list."""
        return [m.settings() for m in self.parts]
