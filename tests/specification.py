"""What core/FORMAT.md says of checksums, keys and tags, over the package `cryptography`: for the programs that read and compute sealed stores."""

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

MASK = 2**64 - 1
TAG = 16
TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
    TABLE.append(number)


def derive(key, salt, info, length=32):
    return HKDF(hashes.SHA256(), length, salt, info).derive(key)


def mac(key, text):
    tag = hmac.HMAC(key, hashes.SHA256())
    tag.update(text)
    return tag.finalize()[:TAG]


def cipher(suite, key):
    return (AESGCM if suite == 1 else ChaCha20Poly1305)(key)


def crc32c(text):
    total = 0xFFFFFFFF
    for byte in text:
        total = total >> 8 ^ TABLE[(total ^ byte) & 255]
    return total ^ 0xFFFFFFFF


def bind(a, b):
    x = a ^ b * 0x9E3779B97F4A7C15 & MASK
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK
    return x >> 32
