"""The repositories that a workspace needs to build Shardwright. Nothing is downloaded: they are Debian's packages, LibTorch of
a Python wheel, the CUDA toolkit where a build asks for it (--define=cuda=true), and folders of this project.

An outside workspace writes no more than

    local_repository(name = "shardwright", path = ".../shardwright")
    load("@shardwright//tools:shardwright_repositories.bzl", "shardwright_repositories")
    shardwright_repositories()

A repository that the workspace has declared itself before is left as it is.
"""

load("@shardwright//third_party/cuda:cuda.bzl", "cuda_repository")
load("@shardwright//third_party/torch:torch.bzl", "torch_repository")

# Bazel's own rules ask for these by name and would download them.
_DEBIAN_REPOSITORIES = {
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
}
_PROJECT_REPOSITORIES = {
    "rules_cc": "third_party/rules_cc",
    "remote_coverage_tools": "third_party/remote_coverage_tools",
}

def _project_folder_impl(ctx):
    project = ctx.path(Label("@shardwright//:WORKSPACE")).dirname
    for child in ctx.path("%s/%s" % (project, ctx.attr.folder)).readdir():
        ctx.symlink(child, child.basename)

# A folder of the project as a repository of its own, wherever the project lies.
_project_folder = repository_rule(
    implementation = _project_folder_impl,
    attrs = {"folder": attr.string(mandatory = True)},
    local = True,
)

def shardwright_repositories():
    """Declares what is not declared yet."""
    existing = native.existing_rules()
    for name, path in _DEBIAN_REPOSITORIES.items():
        if name not in existing:
            native.local_repository(name = name, path = path)
    for name, folder in _PROJECT_REPOSITORIES.items():
        if name not in existing:
            _project_folder(name = name, folder = folder)
    if "cuda" not in existing:
        cuda_repository(name = "cuda")
    if "torch" not in existing:
        torch_repository(name = "torch")
