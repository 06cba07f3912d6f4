"""Lists that the build writes from the files of a folder, so that a new file is named nowhere."""

def camel_case(words):
    """"strided_slice" becomes "StridedSlice"."""
    return "".join([word.capitalize() for word in words.split("_")])

def files_without_header(exclude):
    """The folder's .cc files that no header declares: what they define is in a list."""
    with_header = [header[:-len("h")] + "cc" for header in native.glob(["*.h"])]
    return native.glob(["*.cc"], exclude = with_header + exclude)

def write_source(name, out, lines):
    """A target that writes the source file `out`."""
    native.genrule(
        name = name,
        outs = [out],
        cmd = "cat > $@ <<'END'\n%s\nEND" % "\n".join(lines),
    )
