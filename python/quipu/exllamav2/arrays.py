"""Tensors: torch's where torch can be imported, numpy's otherwise; lists of numbers are taken too."""
from __future__ import annotations

from typing import Any, List

_torch: Any = None
_has_looked = False


def torch_or_none() -> Any:
    global _torch, _has_looked
    if not _has_looked:
        try:
            import torch

            _torch = torch
        except ImportError:
            _torch = None
        _has_looked = True
    return _torch


def from_numpy(array: Any) -> Any:
    torch = torch_or_none()
    return torch.from_numpy(array) if torch is not None else array


def ids_array(rows: List[List[int]]) -> Any:
    """[rows, n] of int64."""
    import numpy

    return from_numpy(numpy.array(rows, dtype=numpy.int64).reshape(len(rows), -1))


def floats_array(values: Any) -> Any:
    import numpy

    return from_numpy(numpy.asarray(values, dtype=numpy.float32))


def to_numpy(tensor: Any) -> Any:
    """Of a torch tensor, an array or nested lists."""
    import numpy

    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().numpy()
    return numpy.asarray(tensor)


def to_rows(tensor: Any, what: str = "input_ids") -> List[List[int]]:
    """Ids of shape [n] or [rows, n] as lists."""
    values = tensor.tolist() if hasattr(tensor, "tolist") else list(tensor)
    rows = values if values and isinstance(values[0], list) else [values]
    for row in rows:
        for id in row:
            if not isinstance(id, int):
                raise TypeError(f"{what} holds {id!r}: ids are whole numbers, of shape [n] or [rows, n]")
    return rows


def to_row(tensor: Any, what: str = "input_ids") -> List[int]:
    """One sequence: of shape [n] or [1, n]."""
    rows = to_rows(tensor, what)
    if len(rows) != 1:
        raise ValueError(f"{what} has {len(rows)} rows, one is wanted")
    return rows[0]
