"""Reads the golden sealed stores with the package `cryptography`, from the text of core/FORMAT.md alone, and checks every tag in them."""

import struct
from pathlib import Path

from cryptography.exceptions import InvalidTag
from specification import MASK, TAG, bind, cipher, crc32c, derive, mac

KEY = bytes([7] * 32)
# What the tape of `pipkin-tape` leaves in its small size: the number of records, and the sum of their hashes.
TAPE = (454, 4_653_220_641_456_000_876)
# The same of the store with compressed values.
COMPRESSED = (703, 13_024_810_490_968_067_397)
HEADER, TRAILER = 704, 31
NAMES = 0xFFFF_FFFF
def xxh3(text):
    """Of 9 to 16 bytes."""
    word = lambda at: number(text, at, 8)
    low = word(0) ^ 0x1F67B3B7A4A44072 ^ 0x78E5C0CC4EE679CB
    high = word(len(text) - 8) ^ 0x2172FFCC7DD05A82 ^ 0x8E2443F7744608B8
    product = low * high
    total = len(text) + int.from_bytes(low.to_bytes(8, "little"), "big") + high + ((product ^ product >> 64) & MASK)
    total &= MASK
    total = (total ^ total >> 37) * 0x165667919E3779F9 & MASK
    return total ^ total >> 32


def number(bytes, at, width):
    return int.from_bytes(bytes[at : at + width], "little")


class Reader:
    """Takes values from the front of some bytes."""

    def __init__(self, bytes, at=0):
        self.bytes, self.at = bytes, at

    def take(self, length):
        assert self.at + length <= len(self.bytes)
        self.at += length
        return self.bytes[self.at - length : self.at]

    def fixed(self, width):
        return int.from_bytes(self.take(width), "little")

    def varint(self):
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value


class Compressed:
    """A value that says nothing of its lengths in front of what is sealed."""

    def __init__(self, codec, dictionary, plain_length, stored):
        assert (codec, plain_length) == (3, 0), "the codec of sealed stores"
        self.dictionary, self.stored = dictionary, stored

    def plain(self, dictionaries):
        reader = Reader(self.stored)
        length, block = reader.fixed(4), Reader(reader.take(reader.fixed(4)))
        exponent = reader.at.bit_length() - 1
        step = max(32, 1 << exponent - exponent.bit_length())
        assert len(self.stored) == -(-reader.at // step) * step and not any(reader.take(len(self.stored) - reader.at))
        sum, before = (block.fixed(4), dictionaries[self.dictionary]) if self.dictionary else (None, b"")
        plain = unpacked(block, before)
        assert len(plain) == length and sum in (None, crc32c(plain))
        return plain


def unpacked(block, before):
    """A block of LZ4 with a dictionary in front of it."""
    out = bytearray(before)

    while True:
        (token,) = block.take(1)
        out += block.take(extended(block, token >> 4))
        if block.at == len(block.bytes):
            return bytes(out[len(before) :])
        distance = block.fixed(2)
        for _ in range(4 + extended(block, token & 15)):
            out.append(out[-distance])


def extended(block, length):
    """A length that goes on in further bytes if its half of the token is full."""
    more = 255 if length == 15 else 0
    while more == 255:
        (more,) = block.take(1)
        length += more
    return length


class Store:
    def __init__(self, file):
        self.file = file
        slots = [slot for slot in (0, 4096) if self.is_summed(slot, 508, bind(0, slot))]
        self.slot = max(slots, key=lambda slot: number(file, slot + 48, 8))
        self.front = file[self.slot : self.slot + 512]
        assert self.front[:8] == b"PIPKIN\x1a\n" and number(self.front, 16, 8) == 1
        self.id = self.front[32:48]
        self.unlock()
        tag = mac(self.key("superblock"), struct.pack("<Q", self.slot) + self.front[:480])
        assert tag == self.front[480:496], "the tag of the superblock"
        self.find_headers()

    def is_summed(self, at, length, binding):
        return crc32c(self.file[at : at + length]) ^ binding == number(self.file, at + length, 4)

    def key(self, what):
        return derive(self.data, self.id, b"pipkin 1 " + what.encode())

    def unlock(self):
        version = number(self.front, 192, 8)
        for at in (1024, 5120, 12_288):
            page = self.file[at : at + 3072]
            if page[:8] == b"PIPKEYS\x1a" and self.is_summed(at, 3068, bind(0, at)) and number(page, 8, 8) == version:
                break
        else:
            raise AssertionError("no page of keys")
        self.suite, key_id = page[16], page[24:32]
        self.is_begun = any(page[32 + 128 * place] == 4 for place in range(page[17]))
        self.is_ending = any(page[32 + 128 * place] == 5 for place in range(page[17]))
        for place in range(page[17]):
            slot = page[32 + 128 * place : 160 + 128 * place]
            wrapping = derive(KEY, slot[16:32], b"pipkin 1 wrap" + self.id)
            associated = b"pipkin 1 slot" + self.id + bytes([place, self.suite]) + key_id + slot[:48]
            try:
                self.data = cipher(1, wrapping).decrypt(slot[32:44], slot[48:96], associated)
                break
            except InvalidTag:
                continue
        assert derive(self.data, self.id, b"pipkin 1 key id", 8) == key_id
        assert mac(self.key("key page"), self.id + page[:3052]) == page[3052:3068], "the tag of the page of keys"

    def extents(self):
        full, size = number(self.front, 64, 4), number(self.front, 68, 4)
        at = 16_384
        while at < len(self.file):
            yield at
            at, size = at + size, min(size * 2, full)
        # The last segment may have more extents than the file has bytes.
        for _ in range(64):
            yield at
            at, size = at + size, min(size * 2, full)

    def find_headers(self):
        """Every header in the file, by its salt, and checks its tag."""
        self.starts = list(self.extents())
        self.headers = {}
        binding = xxh3(self.id)
        for extent, start in enumerate(self.starts[:-1]):
            copies = [at for at in (start, start + 512) if self.is_summed(at, 188, bind(binding, at))]
            if not copies:
                continue
            header = self.file[copies[0] : copies[0] + 192]
            if self.is_begun and header[80:152] == bytes(72):
                continue
            is_behind = self.is_ending and number(header, 8, 8) >= number(self.front, 200, 8)
            assert is_behind == (header[80:152] == bytes(72)), "a header on the wrong side of the border"
            if is_behind:
                self.add(header, start, extent, None)
                continue
            tag = mac(self.key("header"), struct.pack("<Q", start) + header[:136])
            assert tag == header[136:152], "the tag of a header"
            info = b"pipkin 1 session" + bytes([self.suite]) + self.id + header[64:72]
            session = derive(self.data, header[88:120], info)
            self.add(header, start, extent, cipher(self.suite, session))

    def add(self, header, start, extent, cipher):
        self.headers[number(header, 0, 8)] = {
            "start": start,
            "base": number(header, 8, 8),
            "kind": header[20],
            "behind": self.starts[extent + number(header, 24, 4)],
            "before": (number(header, 32, 8), number(header, 40, 8)),
            "chain": header[120:136],
            "cipher": cipher,
        }

    def frames(self, salt, to, at=None):
        """Kind, namespace, key, value and tag of each frame of a segment, opened, from `at` or the first one on; `to` is where they end."""
        header = self.headers[salt]
        at = at or header["start"] + HEADER
        is_plain = header["cipher"] is None
        # Fewer bytes than a pad takes are zeros.
        while to - at >= (7 if is_plain else 23):
            reader = Reader(self.file, at + 4)
            head = reader.fixed(1)
            assert (head & 0x80 == 0) == is_plain, "a frame on the wrong side of the border"
            kind, flags = head & 15, reader.fixed(1) if head & 0x40 else 0
            key, value = reader.varint(), reader.varint()
            namespace = reader.varint() if flags & 1 else 0
            assert flags & ~5 == 0, "the stores have no other fields"
            codec = (reader.fixed(1), reader.varint(), reader.varint()) if flags & 4 else None
            text_at, end = reader.at, reader.at + key + value
            assert crc32c(self.file[at + 4 : end]) ^ bind(salt, at) == number(self.file, at, 4)
            if is_plain:
                yield kind, namespace, self.file[text_at : text_at + key], self.file[text_at + key : end], bytes(TAG)
                at = end
                continue
            is_control = kind in (3, 4, 5, 6, 8, 10, 11)
            tags = self.tags(value, is_control)
            plain = value - TAG * tags
            position = header["base"] + at - header["start"]
            associated = self.id + struct.pack("<QQ", position, salt) + self.file[at + 4 : text_at]
            text, tags = self.file[text_at : end - TAG * tags], self.file[end - TAG * tags : end]
            if is_control:
                associated += b"" if kind == 6 else text
                header["cipher"].decrypt(self.nonce(0, position), tags, associated)
            else:
                text = self.opened(header["cipher"], position, associated, text, tags, key)
            stored = text[key : key + plain]
            yield kind, namespace, text[:key], Compressed(*codec, stored) if codec else stored, tags[-TAG:]
            at = end

    @staticmethod
    def nonce(chunk, position):
        return bytes([1]) + chunk.to_bytes(3, "little") + struct.pack("<Q", position)

    @staticmethod
    def tags(stored, is_control):
        if is_control:
            return 1
        return next(tags for tags in range(1, stored) if max(1, -(-(stored - TAG * tags) // 65_536)) == tags)

    def opened(self, cipher, position, associated, text, tags, key):
        out, at = b"", 0
        for chunk in range(len(tags) // TAG):
            end = min(len(text), key + 65_536 * (chunk + 1))
            sealed = text[at:end] + tags[TAG * chunk : TAG * (chunk + 1)]
            out += cipher.decrypt(self.nonce(chunk, position), sealed, associated)
            at = end
        return out

    def listed(self):
        """Base, salt, end, flag of history, first extent, extents and seal of each listed segment."""
        base, salt, offset = struct.unpack_from("<QQQ", self.front, 72)
        frame = next(self.frames(salt, self.headers[salt]["behind"], offset))
        assert frame[0] == 4
        reader = Reader(frame[3])
        # In a plain segment it is a plain one.
        version = 1 if self.headers[salt]["cipher"] is None else 2
        assert reader.varint() == version
        count, *_ = [reader.varint() for _ in range(4)]
        listed, base = [], 0
        for _ in range(count):
            salt, step, extent, extents, rest, flags, *_ = [reader.fixed(8)] + [reader.varint() for _ in range(10)]
            base += step
            listed.append((base, salt, self.starts[extent + extents] - TRAILER - rest, flags & 1, extent, extents))
        listed = [(*segment, reader.take(48) if version == 2 else b"") for segment in listed]
        assert reader.at == len(frame[3])
        return listed

    def check_plain(self):
        """Compares the listed segments that are plain with their digests; returns how many there are."""
        count, key, border = 0, self.key("plain segment"), number(self.front, 200, 8)
        for base, salt, end, _, extent, extents, seal in self.listed():
            if seal[:8] == bytes(8):
                start = self.starts[extent]
                fields = struct.pack("<QQQII", base, salt, end - start, extent, extents)
                text = self.file[start:end].ljust(end - start, b"\0")
                assert seal[8:] == mac(key, self.id + fields + text) + bytes(24), "the digest of a plain segment"
                assert self.is_begun and base < border and number(text, 0, 8) == salt
                count += 1
        return count

    def log(self):
        """Salts and ends of the segments that count, in log order: those of the list, and what follows it."""
        listed = self.listed()
        yield from ((salt, end) for _, salt, end, is_history, *_ in listed[:-1] if not is_history)
        before, end = listed[-1][:2], number(self.front, 120, 8)
        while True:
            header = self.headers[before[1]]
            last = header["base"] <= end <= header["base"] + header["behind"] - header["start"]
            limit = header["behind"] - TRAILER
            yield before[1], min(limit, end - header["base"] + header["start"]) if last else limit
            following = [salt for salt, other in self.headers.items() if other["kind"] == 1 and other["before"] == before]
            if last or not following:
                return
            before = (self.headers[following[0]]["base"], following[0])

    def records(self):
        """The records by the names of their namespaces; and how many keys there were at the newest checkpoint, those of dropped namespaces included."""
        segments = [(salt, list(self.frames(salt, end))) for salt, end in self.log()]
        retired = {number(value, 0, 8) for _, frames in segments for kind, _, _, value, _ in frames if kind == 5}
        for (before, frames), (salt, _) in zip(segments, segments[1:]):
            if self.headers[salt]["before"][1] == before and self.headers[salt]["cipher"]:
                tag = frames[-1][4] if frames else bytes(TAG)
                assert self.headers[salt]["chain"] == tag, "the chain of a header"
        then, keys = {}, 0
        for _, frames in segments:
            for frame in frames:
                keys = len(then) if frame[0] == 4 else keys
                self.apply(then, frame)
        newest = {}
        for salt, frames in segments:
            if self.headers[salt]["base"] not in retired:
                for frame in frames:
                    self.apply(newest, frame)
        names = {number(value, 0, 4): key for (namespace, key), value in newest.items() if namespace == NAMES}
        names.setdefault(0, b"")
        named = {(names[space], key): value for (space, key), value in newest.items() if space != NAMES and space in names}
        return named, keys

    @staticmethod
    def apply(records, frame):
        kind, namespace, key, value, _ = frame
        if kind == 1:
            records[namespace, key] = value
        elif kind == 2:
            records.pop((namespace, key), None)

    def snapshot(self):
        """The number of slots in the shards of the index snapshot, of which every chunk is opened."""
        offset, length, salt = struct.unpack_from("<QQQ", self.front, 96)
        directory = Reader(self.chunk(offset, salt))
        assert offset > 0 and length == 8 + number(self.file, offset, 4) and directory.varint() == 1
        segments = []
        for _ in range(directory.varint()):
            segments.append((directory.fixed(8), *(directory.varint() for _ in range(3))))
        place = lambda: (directory.varint(), directory.varint())
        self.part(segments, place())
        slots = 0
        for _ in range(directory.varint()):
            shard, parts = directory.fixed(1), directory.varint()
            assert parts == 1, "the tape ends with a whole snapshot"
            reader = Reader(self.part(segments, place()))
            assert (reader.fixed(1), reader.fixed(1)) == (shard, 0)
            for _ in range(reader.varint()):
                reader.fixed(4), reader.varint()
            reader.fixed(1)
            slots += reader.varint()
        return slots

    def part(self, segments, place):
        salt, extent, *_ = segments[place[0]]
        return self.chunk(self.starts[extent] + place[1], salt)

    def chunk(self, at, salt):
        length = number(self.file, at, 4)
        body = self.file[at + 8 : at + 8 + length]
        assert crc32c(body) ^ bind(salt, at) == number(self.file, at + 4, 4)
        header = self.headers[salt]
        assert header["kind"] == 2 and header["chain"] == bytes(16)
        nonce = bytes([2, 0, 0, 0]) + struct.pack("<Q", at)
        return header["cipher"].decrypt(nonce, body, self.id + struct.pack("<QQ", at, salt))


def digest(records):
    """FNV-1a over namespace, key and value, each behind its length."""
    total = 0
    for (space, key), value in records.items():
        hash = 0xCBF29CE484222325
        for field in (space, key, value):
            for byte in struct.pack("<Q", len(field)) + field:
                hash = (hash ^ byte) * 0x100000001B3 & MASK
        total += hash
    return len(records), total & MASK


def check_compressed(path):
    """Values that are compressed, with a dictionary and without."""
    records, _ = Store(path.read_bytes()).records()
    numbered = {key: value for (space, key), value in records.items() if space == b"\0dictionaries"}
    dictionaries = {number(key, 0, 4): value[8:] for key, value in numbered.items() if key[:4] != bytes(4)}
    own = {place: value for place, value in records.items() if not place[0].startswith(b"\0")}
    packed = sum(isinstance(value, Compressed) for value in own.values())
    plain = {place: value.plain(dictionaries) if isinstance(value, Compressed) else value for place, value in own.items()}
    assert digest(plain) == COMPRESSED, f"{path.name} holds {digest(plain)}"
    assert packed > 690
    print(f"{path.name}: {len(plain)} records, {packed} compressed, {len(dictionaries)} dictionary")


begun = Store((Path(__file__).parent / "golden" / "enabling" / "begun.pipkin").read_bytes())
plain = begun.check_plain()
assert plain > 5
print(f"begun.pipkin: {plain} plain segments as their digests say")
ending = Store((Path(__file__).parent / "golden" / "disabling" / "begun.pipkin").read_bytes())
sides = [header["cipher"] is None for header in ending.headers.values() if header["kind"] == 1]
assert ending.is_ending and digest(ending.records()[0]) == TAPE and {True, False} == set(sides)
print(f"begun.pipkin: {len(sides)} segments, {sum(sides)} of them plain, hold the same as the tape")
check_compressed(Path(__file__).parent / "golden" / "compressed" / "sealed.pipkin")
for path in sorted((Path(__file__).parent / "golden" / "sealed").glob("*.pipkin")):
    store = Store(path.read_bytes())
    records, keys = store.records()
    assert digest(records) == TAPE, f"{path.name} holds {digest(records)}"
    slots = store.snapshot()
    assert slots == keys, f"{path.name} has {slots} slots for {keys} keys"
    print(f"{path.name}: suite {store.suite}, {len(records)} records, {slots} slots")
