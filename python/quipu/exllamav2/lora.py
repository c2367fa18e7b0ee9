"""ExLlamaV2Lora: an adapter with a scale."""
from __future__ import annotations

from typing import Any, List, Tuple

from ..model import Adapter
from .exl_model import ExLlamaV2


class ExLlamaV2Lora:
    def __init__(self, model: ExLlamaV2, lora_path: str, lora_scaling: float = 1.0) -> None:
        self.model = model
        self.lora_path = lora_path
        self.lora_scaling = lora_scaling
        self.adapter = Adapter(model.quipu, lora_path)

    @staticmethod
    def from_directory(model: ExLlamaV2, directory: str, lora_scaling: float = 1.0) -> ExLlamaV2Lora:
        return ExLlamaV2Lora(model, directory, lora_scaling)

    def unload(self) -> None:
        """The adapter goes with its last user."""


def adapter_uses(loras: Any) -> List[Tuple[Adapter, float]]:
    """What set_loras and `loras=` take: None, one, or several."""
    given = [] if loras is None else [loras] if isinstance(loras, ExLlamaV2Lora) else list(loras)
    return [(lora.adapter, float(lora.lora_scaling)) for lora in given]
