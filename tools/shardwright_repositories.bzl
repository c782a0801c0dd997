"""The repositories that a workspace needs to build Shardwright: system packages and LibTorch, nothing downloaded."""

load("@shardwright//third_party/torch:torch.bzl", "torch_repository")

def shardwright_repositories():
    """Declares @torch unless the workspace has its own."""
    if "torch" not in native.existing_rules():
        torch_repository(name = "torch")
