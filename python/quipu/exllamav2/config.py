"""ExLlamaV2Config: which model, and how long its context is."""
from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional

from ..errors import Unsupported
from ..model import inspect


class CompatWarning(UserWarning):
    """An option of ExLlamaV2 that means nothing here, for example where tensors lie on which GPU."""


def tell(what: str) -> None:
    """About an option that has no meaning here."""
    warnings.warn(what, CompatWarning, stacklevel=3)


def refuse(what: str) -> Unsupported:
    return Unsupported(what, "unsupported", 0)


class ExLlamaV2Config:
    """Attributes as in ExLlamaV2. `prepare()` reads the model's headers; giving `model_dir` at once does it too."""

    def __init__(self, model_dir: Optional[str] = None) -> None:
        self.model_dir = model_dir
        self.max_batch_size = 1
        self.max_input_len = 2048
        self.max_attention_size = 2048**2
        self.max_output_len: Optional[int] = None
        self.max_seq_len = 2048
        self.scale_pos_emb = 1.0
        self.scale_alpha_value = 1.0
        self.scale_long_factor = 1.0
        # Which kernels run is chosen by what the machine has; these are here to be set.
        self.no_flash_attn = False
        self.no_xformers = False
        self.no_sdpa = False
        self.no_graphs = False
        self.fasttensors = False
        self.load_in_q4 = False
        self.threads = 0  # quipu: 0 is one for each core
        self.precision = "fast"  # quipu: or "exact"
        self.architecture = ""
        self.vocab_size = 0
        self.bos_token_id: Optional[int] = None
        self.eos_token_id: Optional[int] = None
        self.eos_token_ids: List[int] = []
        self.details: Dict[str, Any] = {}
        if model_dir is not None:
            self.prepare()

    def prepare(self, no_tensors: bool = False) -> None:
        if self.model_dir is None:
            raise ValueError("set model_dir first")
        found = self.details = inspect(self.model_dir)
        shape = found["shape"]
        self.architecture = found["architecture"]
        self.vocab_size = shape["vocabulary"]
        self.num_hidden_layers = shape["layers"]
        self.hidden_size = shape["hidden"]
        self.intermediate_size = shape["ffn"]
        self.num_attention_heads = shape["heads"]
        self.num_key_value_heads = shape["kv_heads"]
        self.num_key_value_groups = max(1, self.num_attention_heads // max(1, self.num_key_value_heads))
        self.head_dim = shape["head_dim"]
        self.max_seq_len = found["trained_context"]
        self.original_max_seq_len = found["trained_context"]
        bos = found.get("bos", -1)
        self.bos_token_id = bos if bos is not None and bos >= 0 else None
        self.eos_token_ids = list(found.get("eos", []))
        self.eos_token_id = self.eos_token_ids[0] if self.eos_token_ids else None

    def arch_compat_overrides(self, quiet: bool = False, warn_only: bool = False) -> None:
        """Nothing is to be overridden: every kernel serves every architecture."""

    def no_quant_fp16(self) -> bool:
        return False

    def set_low_mem(self) -> None:
        """Shorter prompt chunks."""
        self.max_input_len = 1024
        self.max_attention_size = 1024**2
