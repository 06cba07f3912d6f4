"""The C++ rules with the flags that Weir's sources need, also in a workspace that depends on @weir and has flags of its own."""

# Position-independent code serves programs and libweir.so alike, so that every file is compiled once. Calls within
# Weir stay direct: nobody replaces its functions one by one.
COPTS = [
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

# The precompiled header (tools/precompiled_header.bzl) is made with the flags above. It serves a target with flags of its
# own only if these define no macros, as another -O does not: the target says so with precompiled = True.
def _precompiled_copts(header):
    return select({
        "//tools:without_precompiled_headers": [],
        "//conditions:default": ["-include", "tools/%s.h" % header, "-Winvalid-pch"],
    })

def _precompiled_deps(header):
    return select({
        "//tools:without_precompiled_headers": [],
        "//conditions:default": ["//tools:" + header],
    })

def _with_flags(header, precompiled, copts, features, deps):
    if precompiled == None:
        precompiled = not copts
    return {
        "copts": COPTS + copts + (_precompiled_copts(header) if precompiled else []),
        "deps": deps + (_precompiled_deps(header) if precompiled else []),
        "features": _FEATURES + features,
    }

def cc_library(precompiled = None, copts = [], features = [], deps = [], **kwargs):
    native.cc_library(**dict(kwargs, **_with_flags("precompiled", precompiled, copts, features, deps)))

def cc_binary(precompiled = None, copts = [], features = [], deps = [], **kwargs):
    native.cc_binary(**dict(kwargs, **_with_flags("precompiled", precompiled, copts, features, deps)))

def cc_test(precompiled = None, copts = [], features = [], deps = [], **kwargs):
    native.cc_test(**dict(kwargs, **_with_flags("precompiled_for_tests", precompiled, copts, features, deps)))
