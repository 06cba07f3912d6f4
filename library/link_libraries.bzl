"""What programs that use libweir are linked with: the one list for library/BUILD, weir.pc and WeirConfig.cmake.

tools/install reads it too: a list begins at `NAME = [` or `NAME = {` and has one entry a line.
"""

# Abseil's libraries that the public headers use, by their names in CMake (absl::strings) and pkg-config (absl_strings).
ABSL_OF_HEADERS = [
    "any_invocable",
    "core_headers",
    "flat_hash_map",
    "function_ref",
    "inlined_vector",
    "optional",
    "span",
    "status",
    "statusor",
    "strings",
    "synchronization",
    "time",
]

# What libweir.a uses of Abseil beside these; pkg-config finds it by itself.
ABSL_WITHIN = [
    "cord",
    "cordz_info",
    "hash",
    "raw_hash_set",
    "raw_logging_internal",
    "str_format",
    "throw_delegate",
]

# The others, as the linker calls them after -l, and the package of pkg-config that names each; "" where there is none.
SYSTEM_LIBRARIES = {
    "grpc++": "grpc++",
    "grpc": "grpc++",
    "gpr": "grpc++",
    "protobuf": "protobuf",
    "dnnl": "",
    ":libgomp.so.1": "",
    "hwy": "libhwy",
    "ssl": "libssl",
    "crypto": "libcrypto",
    "farmhash": "",
    "re2": "re2",
    "snappy": "",
    "sqlite3": "sqlite3",
    "png16": "libpng",
    "jpeg": "libjpeg",
    "gif": "",
    "z": "zlib",
}
