"""The library as others see it: its headers in one tree, its objects in one archive."""

def _headers_impl(context):
    headers = depset(transitive = [dep[CcInfo].compilation_context.headers for dep in context.attr.deps])
    tree = context.actions.declare_directory(context.attr.name)
    arguments = context.actions.args()
    arguments.add("--out", tree.path)
    arguments.add("--root", context.label.workspace_root)
    arguments.add("--root", context.bin_dir.path + "/" + context.label.workspace_root)
    arguments.add_all(context.files.public)
    context.actions.run(
        executable = context.executable._publish,
        arguments = [arguments],
        inputs = depset(context.files.public, transitive = [headers]),
        outputs = [tree],
        mnemonic = "PublishHeaders",
    )
    compilation = cc_common.create_compilation_context(
        headers = depset([tree]),
        system_includes = depset([tree.path]),
    )
    linking = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in context.attr.deps]).linking_context
    return [
        DefaultInfo(files = depset([tree])),
        CcInfo(compilation_context = compilation, linking_context = linking),
    ]

published_library = rule(
    implementation = _headers_impl,
    attrs = {
        "public": attr.label_list(allow_files = [".h"], doc = "The headers that users include, as weir/NAME."),
        "deps": attr.label_list(providers = [CcInfo], doc = "What the headers declare."),
        "_publish": attr.label(default = "//library:publish_headers", executable = True, cfg = "host"),
    },
    doc = "A library with no headers but those of `public`, and, below weir/internal, those that they include.",
)

def _archive_impl(context):
    archive = context.actions.declare_file("lib%s.a" % context.attr.name)
    infos = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in context.attr.deps])
    parts = []
    for linker_input in infos.linking_context.linker_inputs.to_list():
        for library in linker_input.libraries:
            part = library.static_library or library.pic_static_library
            if part and part not in parts:
                parts.append(part)
    script = context.actions.declare_file(context.attr.name + ".ar")
    lines = ["create %s" % archive.path] + ["addlib %s" % part.path for part in parts] + ["save", "end"]
    context.actions.write(script, "\n".join(lines) + "\n")
    context.actions.run_shell(
        command = "ar -M < %s && ranlib -D %s" % (script.path, archive.path),
        inputs = parts + [script],
        outputs = [archive],
        mnemonic = "JoinArchives",
    )
    return [DefaultInfo(files = depset([archive]))]

joined_archive = rule(
    implementation = _archive_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    doc = "lib<name>.a with the objects of deps and of all they depend on, but for the system's libraries.",
)
