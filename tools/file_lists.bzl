"""Names of functions from names of files, for the lists that the build writes."""

def camel_case(words):
    """"strided_slice" becomes "StridedSlice"."""
    return "".join([word.capitalize() for word in words.split("_")])
