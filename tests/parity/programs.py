"""Four training programs, each written once against a name `torch` that may be either library.

A program has modules by name and a step that trains on the batch of that number and returns its losses; data are drawn by NumPy,
so that both libraries see the same. Modules are built in float32 after `manual_seed`, then moved to the dtype asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Step = Callable[[int], dict[str, Any]]


@dataclass
class Program:
    modules: dict[str, Any]
    step: Step

    def parameters(self) -> dict[str, Any]:
        """Every parameter, by the names of its module and of itself."""
        return {
            f"{name}.{key}": value for name, module in self.modules.items() for key, value in module.named_parameters()
        }


def resnet18(torch: Any, dtype: Any, *, width: int = 64, batch: int = 4, size: int = 32) -> Program:
    """ResNet-18 as CIFAR-10 is trained on: a 3 by 3 stem, four stages, SGD with momentum and weight decay, cosine schedule."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, channels: int, planes: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, planes, 3, stride=stride, padding=1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.shortcut = nn.Sequential()
            if stride != 1 or channels != planes:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(channels, planes, 1, stride=stride, bias=False), nn.BatchNorm2d(planes)
                )

        def forward(self, x: Any) -> Any:
            out = functional.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += self.shortcut(x)
            return functional.relu(out)

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
            channels, stages = width, []
            for planes, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
                stages += [Block(channels, planes, stride), Block(planes, planes, 1)]
                channels = planes
            self.stages = nn.Sequential(*stages)
            self.head = nn.Linear(channels, 10)

        def forward(self, x: Any) -> Any:
            out = self.stages(self.stem(x))
            out = functional.avg_pool2d(out, out.shape[-1])
            return self.head(out.view(out.size(0), -1))

    torch.manual_seed(0)
    model = ResNet().to(dtype)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)

    def step(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        images = torch.from_numpy(rng.standard_normal((batch, 3, size, size))).to(dtype)
        labels = torch.from_numpy(rng.integers(0, 10, batch))
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return {"loss": loss.item()}

    return Program({"model": model}, step)


def lstm_language_model(
    torch: Any, dtype: Any, *, words: int = 60, width: int = 24, length: int = 12, batch: int = 5
) -> Program:
    """Two LSTM layers between an embedding and a projection, dropout, truncated backpropagation, clipped plain descent by hand."""
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.2)
            self.encoder = nn.Embedding(words, width)
            self.rnn = nn.LSTM(width, width, 2, dropout=0.2)
            self.decoder = nn.Linear(width, words)
            nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
            nn.init.zeros_(self.decoder.bias)
            nn.init.uniform_(self.decoder.weight, -0.1, 0.1)

        def forward(self, tokens: Any, state: Any) -> Any:
            out, state = self.rnn(self.drop(self.encoder(tokens)), state)
            return self.decoder(self.drop(out)).view(-1, words), state

    torch.manual_seed(0)
    model = Model().to(dtype)
    criterion = nn.CrossEntropyLoss()
    state = tuple(next(model.parameters()).new_zeros(2, batch, width) for _ in range(2))
    text = torch.from_numpy(np.random.default_rng(5).integers(0, words, (21 * length + 1, batch)))

    def step(number: int) -> dict[str, Any]:
        nonlocal state
        at = number * length
        model.zero_grad()
        state = tuple(part.detach() for part in state)
        out, state = model(text[at : at + length], state)
        loss = criterion(out, text[at + 1 : at + 1 + length].view(-1))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(parameter.grad, alpha=-5.0)
        return {"loss": loss.item()}

    return Program({"model": model}, step)


def gpt(
    torch: Any,
    dtype: Any,
    *,
    tied: bool = True,
    fused_attention: bool = False,
    words: int = 40,
    width: int = 32,
    length: int = 16,
    batch: int = 4,
) -> Program:
    """Four pre-norm blocks of causal self-attention; AdamW decays matrices only; warm-up, then cosine."""
    nn, functional = torch.nn, torch.nn.functional
    layers, heads = 4, 4

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("mask", torch.tril(torch.ones(length, length)).view(1, 1, length, length))

        def forward(self, x: Any) -> Any:
            rows, time, channels = x.size()
            query, key, value = (
                part.view(rows, time, heads, channels // heads).transpose(1, 2)
                for part in self.qkv(x).split(channels, dim=2)
            )
            if fused_attention:
                mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            else:
                scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.size(-1)))
                scores = scores.masked_fill(self.mask[:, :, :time, :time] == 0, float("-inf"))
                mixed = self.dropout(functional.softmax(scores, dim=-1)) @ value
            return self.out(mixed.transpose(1, 2).contiguous().view(rows, time, channels))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.attention, self.ln2 = nn.LayerNorm(width), Attention(), nn.LayerNorm(width)
            self.mlp = nn.ModuleDict(
                {"up": nn.Linear(width, 4 * width), "act": nn.GELU(), "down": nn.Linear(4 * width, width)}
            )

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.ln1(x))
            hidden = self.ln2(x)
            for layer in self.mlp.values():
                hidden = layer(hidden)
            return x + hidden

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.position = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, words, bias=False)
            if tied:
                self.token.weight = self.head.weight
            self.apply(self._init)

        def _init(self, module: Any) -> None:
            if isinstance(module, (nn.Linear, nn.Embedding)):
                torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                torch.nn.init.zeros_(module.bias)

        def forward(self, tokens: Any, targets: Any) -> Any:
            positions = torch.arange(0, tokens.size(1), dtype=torch.long, device=tokens.device).unsqueeze(0)
            x = self.token(tokens) + self.position(positions)
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    torch.manual_seed(0)
    model = GPT().to(dtype)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    plain = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    warm_up_and_cosine = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda at: min(1.0, (at + 1) / 5) * 0.5 * (1 + math.cos(math.pi * at / 30))
    )

    def step(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        text = rng.integers(0, words, (batch, length + 1))
        tokens, targets = torch.from_numpy(text[:, :-1].copy()), torch.from_numpy(text[:, 1:].copy())
        targets[0, :3] = -1
        loss = model(tokens, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm_up_and_cosine.step()
        return {"loss": loss.item()}

    return Program({"model": model}, step)


def dcgan(torch: Any, dtype: Any, *, width: int = 8, latent: int = 12, batch: int = 6) -> Program:
    """A generator of transposed convolutions against a discriminator of strided ones, images of 32 by 32, two Adams."""
    nn = torch.nn
    generator = nn.Sequential(
        nn.ConvTranspose2d(latent, 4 * width, 4, 1, 0, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(True),
        nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(True),
        nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    discriminator = nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(2 * width),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False),
        nn.BatchNorm2d(4 * width),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(4 * width, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )

    def weights_init(module: Any) -> None:
        name = module.__class__.__name__
        if name.find("Conv") != -1:
            torch.nn.init.normal_(module.weight, 0.0, 0.02)
        elif name.find("BatchNorm") != -1:
            torch.nn.init.normal_(module.weight, 1.0, 0.02)
            torch.nn.init.zeros_(module.bias)

    torch.manual_seed(0)
    generator.apply(weights_init).to(dtype)
    discriminator.apply(weights_init).to(dtype)
    criterion = nn.BCELoss()
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=0.0002, betas=(0.5, 0.999))
    of_generator = torch.optim.Adam(generator.parameters(), lr=0.0002, betas=(0.5, 0.999))

    def step(number: int) -> dict[str, Any]:
        rng = np.random.default_rng(number)
        real = torch.from_numpy(np.tanh(rng.standard_normal((batch, 3, 32, 32)))).to(dtype)
        noise = torch.from_numpy(rng.standard_normal((batch, latent, 1, 1))).to(dtype)
        ones, zeros = torch.full((batch,), 1.0, dtype=dtype), torch.full((batch,), 0.0, dtype=dtype)

        discriminator.zero_grad()
        on_real = criterion(discriminator(real).view(-1), ones)
        on_real.backward()
        fake = generator(noise)
        on_fake = criterion(discriminator(fake.detach()).view(-1), zeros)
        on_fake.backward()
        of_discriminator.step()

        generator.zero_grad()
        fooled = criterion(discriminator(fake).view(-1), ones)
        fooled.backward()
        of_generator.step()
        return {"real": on_real.item(), "fake": on_fake.item(), "fooled": fooled.item()}

    return Program({"generator": generator, "discriminator": discriminator}, step)
