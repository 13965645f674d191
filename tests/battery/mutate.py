"""Mutations of files: bytes flipped, cut, doubled, shuffled; the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

Mutation = Callable[[bytes, random.Random], bytes]


def _flip(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(1 + len(changed) // 500):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _flip_early(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(3):
        changed[chance.randrange(min(64, len(changed)))] = chance.randrange(256)
    return bytes(changed)


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


def _drop(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    return content[:begin] + content[begin + 1 + chance.randrange(len(content)) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    return content[:begin] + chance.randbytes(1 + chance.randrange(200)) + content[begin:]


def _zero(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    length = min(len(content) - begin, 1 + chance.randrange(4096))
    return content[:begin] + bytes(length) + content[begin + length :]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    part = content[begin : begin + 1 + chance.randrange(300)]
    return content[:begin] + part * 20 + content[begin:]


def _numbers(content: bytes, chance: random.Random) -> bytes:
    """Digits become others, or a number out of all range."""
    places = [place for place, byte in enumerate(content) if chr(byte).isdigit()]
    if not places:
        return _flip(content, chance)
    place = chance.choice(places)
    value = chance.choice([b"-1", b"1e999", b"99999999999999999999", b"nan", b"", b'"x"', b"null"])
    return content[:place] + value + content[place + 1 :]


MUTATIONS: dict[str, Mutation] = {
    "flip": _flip,
    "flip early": _flip_early,
    "cut": _cut,
    "drop": _drop,
    "insert": _insert,
    "zero": _zero,
    "repeat": _repeat,
    "numbers": _numbers,
}


def mutants(
    content: bytes, count: int, seed: str, kinds: tuple[str, ...] = tuple(MUTATIONS)
) -> Iterator[tuple[str, bytes]]:
    """Names and contents of ``count`` mutants, by turns of every kind."""
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield f"{kind} {number}", MUTATIONS[kind](content, random.Random(f"{seed}/{kind}/{number}"))
