"""Compiler flags of kernels."""

# Elementwise loops are left to the compiler to vectorise; the flags change no result.
VECTOR_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
]
