"""What third_party/torch/find_torch.py finds, for repository rules."""

CUDART = "libcudart.so.13"

def find_torch(ctx):
    """Returns (key -> value as find_torch.py prints them, reason if there is no fitting torch)."""
    python = ctx.which("python3")
    if not python:
        return {}, "no python3 on PATH to look for LibTorch with\n"
    result = ctx.execute([python, ctx.path(Label("@shardwright//third_party/torch:find_torch.py"))])
    lines = [line.split("=", 1) for line in result.stdout.splitlines() if "=" in line]
    return {pair[0]: pair[1] for pair in lines}, result.stderr
