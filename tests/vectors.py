"""Computes the vectors of sealed stores in core/FORMAT.md with the package `cryptography`, from the text of that document alone."""

import re
import struct
import sys
from pathlib import Path

from specification import bind, cipher, crc32c, derive, mac

try:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
except ImportError:
    # Older than the function: one vector is left out.
    Argon2id = None

STORE, DATA, SESSION = bytes(range(16)), bytes(range(0x20, 0x40)), bytes(range(0x40, 0x60))
SALT, OFFSET, START, BASE = 0x1122334455667788, 17088, 16384, 20480


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def session_key(suite):
    info = b"pipkin 1 session" + bytes([suite]) + STORE + struct.pack("<Q", 3)
    return derive(DATA, SESSION, info)


def frame(suite, kind, key, value, namespace=0):
    sealer = cipher(suite, session_key(suite))
    is_control = kind == 3
    chunks = [value[at : at + 65536] for at in range(0, len(value), 65536)] or [b""]
    if is_control:
        chunks = [b""]
    head = bytes([kind | 0x80 | (0x40 if namespace else 0)]) + (b"\x01" if namespace else b"")
    head += varint(len(key)) + varint(len(value) + 16 * len(chunks))
    head += varint(namespace) if namespace else b""
    position = BASE + OFFSET - START
    associated = STORE + struct.pack("<QQ", position, SALT) + head
    if is_control:
        associated += key + value
    text, tags = b"", b""
    for number, chunk in enumerate(chunks):
        nonce = bytes([1]) + number.to_bytes(3, "little") + struct.pack("<Q", position)
        plain = (key if number == 0 and not is_control else b"") + chunk
        sealed = sealer.encrypt(nonce, plain, associated)
        text, tags = text + sealed[:-16], tags + sealed[-16:]
    body = head + (key + value if is_control else text) + tags
    return struct.pack("<I", crc32c(body) ^ bind(SALT, OFFSET)) + body


def vectors():
    yield "key id", derive(DATA, STORE, b"pipkin 1 key id", 8).hex()
    yield "seed mask", derive(DATA, STORE, b"pipkin 1 seed", 16).hex()
    salt = bytes(range(0x80, 0x90))
    wrap = b"pipkin 1 wrap" + STORE
    yield "wrapping key of a key", derive(bytes(range(0x60, 0x80)), salt, wrap).hex()
    if Argon2id:
        stretched = Argon2id(salt=salt, length=32, iterations=3, lanes=1, memory_cost=65536).derive("caf\u00e9 au lait".encode())
        yield "wrapping key of a passphrase", derive(stretched, salt, wrap).hex()
    for suite in (1, 2):
        yield f"session key, suite {suite}", session_key(suite).hex()
        yield f"put of color=green, suite {suite}", frame(suite, 1, b"color", b"green").hex()
        yield f"put of nothing in namespace 300, suite {suite}", frame(suite, 1, b"", b"", 300).hex()
        yield f"mark of 16500, suite {suite}", frame(suite, 3, b"", struct.pack("<QQ", 16500, 0)).hex()
        for length in (65535, 65536, 65537):
            whole = frame(suite, 1, b"color", b"a" * length)
            what = f"{whole[:16].hex()}.. of {len(whole)} bytes, crc32c {crc32c(whole):08x}"
            yield f"put of color={length} times a, suite {suite}", what
        nonce = bytes([2, 0, 0, 0]) + struct.pack("<Q", OFFSET)
        part = cipher(suite, session_key(suite)).encrypt(nonce, b"a part", STORE + struct.pack("<QQ", OFFSET, SALT))
        yield f"part of an index snapshot, suite {suite}", part.hex()
    front = mac(derive(DATA, STORE, b"pipkin 1 superblock"), struct.pack("<Q", 4096) + b"\x77" * 480)
    yield "tag of a superblock of 480 bytes 77 in slot B", front.hex()
    header = mac(derive(DATA, STORE, b"pipkin 1 header"), struct.pack("<Q", 16384) + b"\x77" * 136)
    yield "tag of a header of 136 bytes 77 at 16384", header.hex()


text = (Path(__file__).parent.parent / "core" / "FORMAT.md").read_text()
written = re.split("<!-- vectors -->", text)[1].splitlines()
written = [line for line in written if line and not line.startswith("```")]
written = [line for line in written if Argon2id or not line.startswith("wrapping key of a passphrase")]
computed = [f"{name}: {what}" for name, what in vectors()]
if "--print" in sys.argv:
    print("\n".join(computed))
elif written != computed:
    differ = [f"{one}\n{other}" for one, other in zip(written, computed) if one != other]
    sys.exit("core/FORMAT.md has other vectors:\n" + "\n".join(differ))
else:
    print(f"{len(computed)} vectors")
