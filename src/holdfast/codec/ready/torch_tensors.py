"""torch: tensors and parameters, as raw bytes. They come back on the CPU."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy
import torch

from holdfast.codec.paths import Misplaced
from holdfast.codec.registry import add_ready

_DTYPES: Final = {
    name: getattr(torch, name)
    for name in (
        *("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"),
        *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
    )
    if hasattr(torch, name)
}
_NAMES: Final = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_DIMS: Final = 64


def _tensor_data(tensor: torch.Tensor) -> dict[str, Any]:
    name = _NAMES.get(tensor.dtype)
    if name is None or tensor.layout is not torch.strided or tensor.is_nested:
        kind = f"{tensor.layout} tensor of {tensor.dtype}"
        raise Misplaced(f"a {kind} can't be stored; store it dense (to_dense, dequantize) instead")
    if tensor.device.type == "meta":
        raise Misplaced("a tensor on the device meta has no data to store")
    plain = tensor.detach().resolve_conj().resolve_neg().to("cpu")
    # As torch itself copies a tensor: dense ones keep their order in memory, others lose it.
    kept = torch.empty_like(plain, memory_format=torch.preserve_format).copy_(plain)
    order = _order(kept)
    straight = kept.permute(order).contiguous() if kept.dim() else kept
    raw = straight.reshape(-1).view(torch.uint8).numpy().tobytes() if kept.numel() else b""
    return {
        "dtype": name,
        "shape": list(kept.shape),
        "order": None if order == list(range(kept.dim())) else order,
        "requires_grad": tensor.requires_grad,
        "bytes": raw,
    }


def _order(tensor: torch.Tensor) -> list[int]:
    """The dimensions from the slowest to the fastest, as they lie in memory."""
    strides = tensor.stride()
    return sorted(range(tensor.dim()), key=lambda dim: (-strides[dim], dim))


def _tensor(data: Any) -> torch.Tensor:
    dtype = _DTYPES[data["dtype"]]
    shape, raw = data["shape"], data["bytes"]
    order = data["order"] if data["order"] is not None else list(range(len(shape)))
    if len(shape) > _MAX_DIMS or not all(type(dim) is int and dim >= 0 for dim in shape):
        raise ValueError("a tensor of malformed shape")
    if sorted(order) != list(range(len(shape))):
        raise ValueError("a tensor whose dimensions have no order")
    if type(raw) is not bytes or math.prod(shape) * dtype.itemsize != len(raw):
        raise ValueError("a tensor whose shape does not fit its bytes")
    if dtype is torch.bool and raw.strip(b"\x00\x01"):
        raise ValueError("a tensor of bool that holds other bytes")
    flat = torch.empty(math.prod(shape), dtype=dtype)
    if raw:
        flat.view(torch.uint8).numpy()[:] = numpy.frombuffer(raw, numpy.uint8)
    straight = flat.reshape([shape[dim] for dim in order])
    tensor = straight.permute([order.index(dim) for dim in range(len(shape))])
    return tensor.requires_grad_(bool(data["requires_grad"]))


def _parameter(data: Any) -> torch.nn.Parameter:
    tensor = _tensor(data)
    return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)


add_ready("torch.Tensor", (torch.Tensor,), _tensor_data, _tensor)
add_ready("torch.Parameter", (torch.nn.Parameter,), _tensor_data, _parameter)
