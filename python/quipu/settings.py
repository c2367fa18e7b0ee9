"""How the next token is chosen: the fields of qp_sampling with their names."""
from __future__ import annotations

import dataclasses
import os
from typing import Any, Dict, Optional


@dataclasses.dataclass
class Settings:
    """A zero switches a stage off; all defaults together are greedy. See docs/api.md for what each stage does."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    temperature_last: bool = False
    seed: Optional[int] = None  # None: another one for each job
    repetition_penalty: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_range: int = 0
    penalty_decay: int = 0
    top_a: float = 0.0
    tfs: float = 0.0
    typical: float = 0.0
    smoothing_factor: float = 0.0
    skew: float = 0.0
    min_temperature: float = 0.0
    max_temperature: float = 0.0
    temperature_exponent: float = 0.0
    mirostat_tau: float = 0.0
    mirostat_eta: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 0.0
    dry_allowed_length: int = 0
    dry_range: int = 0
    dry_max_length: int = 0
    dry_count: bool = False
    guidance: float = 0.0

    def replace(self, **changes: Any) -> Settings:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def as_struct(self, seed: Optional[int] = None) -> Dict[str, Any]:
        """What initialises a qp_sampling; `seed` goes before the settings' own."""
        fields = dict(self.__dict__)
        chosen = self.seed if seed is None else seed
        fields["seed"] = int.from_bytes(os.urandom(8), "little") if chosen is None else chosen & 0xFFFFFFFFFFFFFFFF
        return fields


def from_struct(sampling: Any) -> Settings:
    names = [field.name for field in dataclasses.fields(Settings) if field.name != "seed"]
    fields: Dict[str, Any] = {name: getattr(sampling, name) for name in names}
    return Settings(**fields)
