"""The CUDA toolkit of this machine as the repository @cuda, which is empty where there is none: Weir is built without it then.

It is looked for in $CUDA_HOME, or in /usr/local/cuda where that is not set. `--@cuda//:enabled=false` leaves it alone.
"""

_DEFAULT_HOME = "/usr/local/cuda"

# nvcc takes C++20 from here on.
_OLDEST = 13

# What a part of Weir that needs the toolkit asks for, in a select().
_BUILD = """\
load(":toolkit.bzl", "switch")

package(default_visibility = ["//visibility:public"])

switch(
    name = "enabled",
    build_setting_default = {found},
)

config_setting(
    name = "available",
    flag_values = {{":enabled": "True"}},
)

# cuDNN's headers are a package of their own.
switch(
    name = "has_cudnn",
    build_setting_default = {has_cudnn},
)

config_setting(
    name = "with_cudnn",
    flag_values = {{
        ":enabled": "True",
        ":has_cudnn": "True",
    }},
)

cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/crt/*.h", "include/crt/*.hpp"]),
    includes = ["include"],
)

cc_library(
    name = "cudart",
    srcs = glob(["lib/libcudart_static.a"]),
    linkopts = {linkopts},
    deps = [":headers"],
)
"""

_TOOLKIT = """\
# The folder of the toolkit and nvcc's version; both are None where there is no toolkit.
CUDA_HOME = {home}
NVCC_VERSION = {version}

def _switch_impl(ctx):
    if ctx.build_setting_value and not CUDA_HOME:
        fail("--@cuda//:%s: there is no CUDA toolkit here: {reason}" % ctx.label.name)
    return []

switch = rule(
    implementation = _switch_impl,
    build_setting = config.bool(flag = True),
)
"""

def _version_of(context, nvcc):
    """What nvcc calls itself ("V13.0.88"); None when it does not run."""
    result = context.execute([nvcc, "--version"])
    words = result.stdout.replace("\n", " ").split(" ") if result.return_code == 0 else []
    versions = [word for word in words if word.startswith("V") and word[1:].replace(".", "").isdigit()]
    return versions[0] if versions else None

def _cuda_repository_impl(context):
    home = context.os.environ.get("CUDA_HOME") or _DEFAULT_HOME
    nvcc = context.path(home + "/bin/nvcc")
    version = _version_of(context, nvcc) if nvcc.exists else None
    needed = [context.path(home + "/" + path) for path in ["include/cuda_runtime_api.h", "lib64/libcudart_static.a"]]
    missing = [str(path) for path in needed if not path.exists]
    reason = ""
    if not nvcc.exists:
        reason = "%s does not exist (CUDA_HOME names another folder)" % nvcc
    elif not version:
        reason = "%s does not run" % nvcc
    elif int(version[1:].split(".")[0]) < _OLDEST:
        reason = "%s is %s, and CUDA %d is needed" % (nvcc, version, _OLDEST)
    elif missing:
        reason = "%s does not exist" % missing[0]
    found = not reason
    if found:
        context.symlink(home + "/include", "include")
        context.file("lib/README", "")
        context.symlink(home + "/lib64/libcudart_static.a", "lib/libcudart_static.a")
    else:
        context.file("README", "Weir is built without CUDA: %s.\n" % reason)
    context.file("BUILD", _BUILD.format(
        found = found,
        has_cudnn = found and context.path(home + "/include/cudnn_graph.h").exists,
        linkopts = repr(["-ldl", "-lrt", "-pthread"] if found else []),
    ))
    context.file("toolkit.bzl", _TOOLKIT.format(
        home = repr(home) if found else None,
        version = repr(version) if found else None,
        reason = reason,
    ))

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    environ = ["CUDA_HOME"],
    local = True,
    doc = "@cuda: the toolkit's headers, cudart to link statically, and the setting `available`.",
)
