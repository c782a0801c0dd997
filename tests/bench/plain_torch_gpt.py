"""The gpt of core/models written and trained in plain PyTorch: theirs in tests/bench/train_speed.py, which starts this.

Reads counts of steps from standard input, a line each; answers "<seconds> <loss of the last step>".
"""

import argparse
import math
import pathlib
import sys
import time

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 256
INITIAL_STD = 0.02


class Attention(nn.Module):

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        batch, length, n_embd = x.shape
        heads = (t.view(batch, length, self.n_head, -1).transpose(1, 2) for t in self.c_attn(x).split(n_embd, dim=2))
        y = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, n_embd))


class Mlp(nn.Module):

    def __init__(self, n_embd):
        super().__init__()
        self.c_fc = nn.Linear(n_embd, 4 * n_embd)
        self.c_proj = nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(n_embd), Attention(n_embd, n_head)
        self.ln_2, self.mlp = nn.LayerNorm(n_embd), Mlp(n_embd)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):

    def __init__(self, n_layer, n_head, n_embd, context):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, n_embd), nn.Embedding(context, n_embd)
        self.h = nn.ModuleList(Block(n_embd, n_head) for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=INITIAL_STD / math.sqrt(2 * n_layer))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "ln_" not in name:
                nn.init.normal_(parameter, std=INITIAL_STD)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def make_optimizer(model):
    """As gpt's: weight decay for the matrices that multiply."""
    decayed = [p for name, p in model.named_parameters() if p.dim() >= 2 and not name.startswith(("wte", "wpe"))]
    plain = [p for p in model.parameters() if all(p is not d for d in decayed)]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)


def train_step(model, optimizer, tokens, clip):
    optimizer.zero_grad()
    logits = model(tokens[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    if clip > 0:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss.item()


def batches(path, samples, sample_tokens):
    """Tensors of tokens without end, each made once."""
    text = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).to(torch.int64)
    made = text[:text.numel() // (samples * sample_tokens) * samples * sample_tokens].view(-1, samples, sample_tokens)
    while True:
        yield from made


def main():
    parser = argparse.ArgumentParser()
    for option in ("n_layer", "n_head", "n_embd", "context", "batch_size"):
        parser.add_argument(f"--{option}", type=int, required=True)
    parser.add_argument("--clip", type=float, required=True)
    parser.add_argument("--data", required=True)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = Gpt(options.n_layer, options.n_head, options.n_embd, options.context)
    optimizer = make_optimizer(model)
    feed = batches(options.data, options.batch_size, options.context + 1)
    for line in sys.stdin:
        begin = time.monotonic()
        for _ in range(int(line)):
            loss = train_step(model, optimizer, next(feed), options.clip)
        print(f"{time.monotonic() - begin:.6f} {loss:.6f}", flush=True)


if __name__ == "__main__":
    main()
