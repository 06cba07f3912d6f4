"""The C++ rules with the flags that Weir's sources need, also in a workspace that depends on @weir and has flags of its own."""

# Position-independent code serves programs and libweir.so alike, so that every file is compiled once. Calls within
# Weir stay direct: nobody replaces its functions one by one.
_COPTS = [
    "-std=c++20",
    "-fPIC",
    "-fno-semantic-interposition",
]

# Static libraries only: without this, naming a library's folder compiles every file twice, the second time for a
# shared library that nobody wants.
_FEATURES = [
    "-supports_pic",
    "-supports_dynamic_linker",
]

def cc_library(copts = [], features = [], **kwargs):
    native.cc_library(copts = _COPTS + copts, features = _FEATURES + features, **kwargs)

def cc_binary(copts = [], features = [], **kwargs):
    native.cc_binary(copts = _COPTS + copts, features = _FEATURES + features, **kwargs)

def cc_test(copts = [], features = [], **kwargs):
    native.cc_test(copts = _COPTS + copts, features = _FEATURES + features, **kwargs)
