"""What mkdocs does besides the pages (mkdocs.yml): it adds the references that Bazel has built, and drops links out of docs/.

A link to a source, or to a README beside one, works on GitHub and in a checkout. The site has no such files: there only the
text of the link is left.
"""

import glob
import os
import re

from mkdocs.structure.files import File

OUTWARD = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]*)\)")


def built_pages(config):
    """Paths below bazel-bin/docs."""
    folder = os.path.join(os.path.dirname(config["config_file_path"]), "bazel-bin", "docs")
    found = glob.glob(os.path.join(folder, "*.md")) + glob.glob(os.path.join(folder, "api", "*.md"))
    return folder, sorted(os.path.relpath(path, folder) for path in found)


def on_config(config):
    _, paths = built_pages(config)
    titles = {path: "All ops" if path == "ops.md" else "weir/%s.h" % os.path.basename(path)[:-len(".md")] for path in paths}
    if paths:
        config["nav"].append({"Reference": [{titles[path]: path} for path in paths]})
    return config


def on_files(files, config):
    for file in list(files):
        if os.path.basename(file.src_path) == "BUILD" or file.src_path.endswith(".py"):
            files.remove(file)
    folder, paths = built_pages(config)
    for path in paths:
        files.append(File(path, folder, config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    folder = os.path.dirname(page.file.src_path)

    def kept_or_text(match):
        target = os.path.normpath(os.path.join(folder, match[2].partition("#")[0]))
        return match[1] if target.startswith("..") else match[0]

    return OUTWARD.sub(kept_or_text, markdown)
