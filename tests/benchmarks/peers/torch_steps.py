#!/usr/bin/env python3
"""The training steps that tools/gpu_check measures, in PyTorch: one JSON line a metric, under weir_bench's names.

    python3 torch_steps.py [--device=cuda|cpu] [--minutes=N] [--rehearsal]

A batch of random numbers is fed from the host in each step and the loss is fetched, as Weir's step does it. "_compile" are
the same with torch.compile. On GPUs "fp32" is computed without TF32, and "tf32" with it. --rehearsal runs each once, on two
examples, and compiles nothing. After --minutes it ends with what there is.

Needs torch.
"""
import argparse
import functools
import json
import signal
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional


def mlp():
    return nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 100), nn.ReLU(), nn.Linear(100, 10))


class Block(nn.Module):
    """Two convolutions beside a shortcut, each with batch normalization; at half the resolution where channels double."""

    def __init__(self, channels, filters):
        super().__init__()
        stride = 1 if channels == filters else 2
        self.body = nn.Sequential(nn.Conv2d(channels, filters, 3, stride, 1, bias=False), nn.BatchNorm2d(filters), nn.ReLU(),
                                  nn.Conv2d(filters, filters, 3, 1, 1, bias=False), nn.BatchNorm2d(filters))
        self.shortcut = nn.Identity() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, filters, 1, stride, bias=False), nn.BatchNorm2d(filters))

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet20():
    widths = [16] * 4 + [32] * 3 + [64] * 3
    return nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                         *[Block(*pair) for pair in zip(widths, widths[1:])],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Bench:

    def __init__(self, device, is_rehearsal):
        self.device = torch.device(device)
        self.is_rehearsal = is_rehearsal

    def batch(self, size):
        return 2 if self.is_rehearsal else size

    def seconds_of(self, step, seconds, rounds=7):
        """Of one step: the median of the rounds."""
        if self.is_rehearsal:
            rounds, seconds = 1, 0
        else:
            for _ in range(10):
                step()
        begin = time.perf_counter()
        step()
        count = max(1, int(seconds / rounds / (time.perf_counter() - begin)))
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            for _ in range(count):
                step()
            times.append((time.perf_counter() - begin) / count)
        return statistics.median(times)

    def step_of(self, net, optimizer, loss_of, images, labels, dtype=None):
        """Copies the batch there, and the loss back: nothing of a step is left to do when it returns."""
        if self.device.type == "cuda":
            images, labels = images.pin_memory(), labels.pin_memory()

        def step():
            x, y = images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self.device.type, dtype=dtype, enabled=dtype is not None):
                loss = loss_of(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    def emit(self, metric, value, unit, batch, seconds):
        print(json.dumps({"peer": "torch " + torch.__version__, "metric": metric, "value": float("%.5g" % value), "unit": unit,
                          "detail": {"samples_per_s": float("%.5g" % (batch / seconds))}}), flush=True)

    def mlp_step(self, suffix, compiled):
        batch = self.batch(32)
        net = mlp().to(self.device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01, foreach=True)
        step = self.step_of(torch.compile(net) if compiled else net, optimizer, functional.cross_entropy,
                            torch.rand(batch, 784), torch.randint(0, 10, (batch,)))
        seconds = self.seconds_of(step, 2)
        self.emit("mlp_b%d_step%s" % (batch, suffix), seconds * 1e6, "us", batch, seconds)

    def resnet20_step(self, numbers, suffix, compiled):
        batch = self.batch(128)
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = numbers == "tf32"
        torch.backends.cudnn.benchmark = True
        net = resnet20().to(self.device, memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True)
        images = torch.rand(batch, 3, 32, 32).contiguous(memory_format=torch.channels_last)
        step = self.step_of(torch.compile(net) if compiled else net, optimizer, functional.cross_entropy, images,
                            torch.randint(0, 10, (batch,)), torch.bfloat16 if numbers == "bf16" else None)
        seconds = self.seconds_of(step, 8, rounds=5)
        self.emit("resnet20_b%d_%s%s" % (batch, numbers, suffix), 1 / seconds, "steps/s", batch, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--rehearsal", action="store_true")
    flags = parser.parse_args()
    if flags.minutes > 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # not Python's: a compiler may be at work
        signal.setitimer(signal.ITIMER_REAL, 60 * flags.minutes)
    torch.manual_seed(0)
    bench = Bench(flags.device, flags.rehearsal)
    numbers = ["fp32", "tf32", "bf16"] if flags.device == "cuda" else ["fp32", "bf16"]
    runs = []
    # The slow ones, which compile, come last: a time limit takes those.
    for suffix, compiled in (("", False), ("_compile", True))[:1 if flags.rehearsal else 2]:
        runs.append(functools.partial(bench.mlp_step, suffix, compiled))
        runs += [functools.partial(bench.resnet20_step, name, suffix, compiled) for name in numbers]
    failures = 0
    for run in runs:
        try:
            run()
        except Exception as error:  # a compiler that is missing, for example: the others are measured
            failures += 1
            print("%s%s: %s" % (run.func.__name__, run.args, str(error).splitlines()[0] if str(error) else error),
                  file=sys.stderr, flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
