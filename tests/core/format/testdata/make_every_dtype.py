"""Writes library/every_dtype.safetensors with the safetensors package (0.8.0): every element type that a checkpoint can hold.

    pip install safetensors numpy && python make_every_dtype.py library/every_dtype.safetensors
"""

import sys

import numpy
from safetensors import TensorSpec, serialize

ITEM_SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "float8_e8m0fnu": 1, "complex64": 8, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
}  # fmt: skip


def main(path):
    buffers = {name: ((2, 3), numpy.arange(6 * size, dtype=numpy.uint8)) for name, size in ITEM_SIZES.items()}
    buffers["bool"] = ((2, 3), numpy.array([1, 0, 1, 1, 0, 0], dtype=numpy.uint8))
    specs = {name: (name, shape, data) for name, (shape, data) in buffers.items()}
    specs["empty"] = ("float32", (0, 7), numpy.zeros(0, dtype=numpy.uint8))
    specs["scalar"] = ("int64", (), numpy.array([7], dtype=numpy.int64))
    specs['uni\u00e9\U0001f600"\\'] = ("uint8", (3,), numpy.array([1, 2, 3], dtype=numpy.uint8))
    tensors = {
        key: TensorSpec(dtype=dtype, shape=shape, data_ptr=data.ctypes.data, data_len=data.nbytes)
        for key, (dtype, shape, data) in specs.items()
    }
    with open(path, "wb") as file:
        file.write(serialize(tensors, metadata={"format": "pt", "note": "caf\u00e9"}))


main(sys.argv[1])
