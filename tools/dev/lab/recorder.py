"""Records a disk with a volatile cache: an NBD server behind QEMU's emulated NVMe. It notes when each write
and each flush arrived and when it was answered, for all its disks in one order. Afterwards after_power_loss()
computes what a loss of power would have left.

QEMU's own blklogwrites does not record when a write was answered. A flush sent too early would seem to cover
it."""

import os
import selectors
import socket
import struct
import time
from dataclasses import dataclass, field

OPTION_MAGIC, REPLY_MAGIC = 0x49484156454F5054, 0x3E889045565A9
REQUEST_MAGIC, SIMPLE_REPLY_MAGIC = 0x25609513, 0x67446698
EXPORT_NAME, GO = 1, 7
ACK, INFORMATION, UNSUPPORTED = 1, 3, (1 << 31) + 1
HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM = 1, 4, 8, 32
READ, WRITE, DISCONNECT, FLUSH, TRIM = range(5)
FUA = 1
# A write is answered after this many further events, so that later requests overtake it.
ANSWERED_AFTER = 2
# A flush takes so long that a writer that does not wait for it acknowledges before the flush ends.
FLUSH_SECONDS = 0.01


@dataclass
class Write:
    disk: int
    offset: int
    data: bytes
    began: int          # position in the record
    ended: int = -1     # when it was answered; -1: not yet
    durable: int = -1   # when a flush that covers it was answered; -1: never


@dataclass
class Record:
    """The recorded events. Positions count all requests, of all disks, and the ends of flushes."""
    writes: list = field(default_factory=list)
    flushes: list = field(default_factory=list)  # (position where it came, disk)
    acknowledged: list = field(default_factory=list)  # (position, bytes)
    position: int = 0


class Disk:
    """One connection of QEMU, from its greeting on."""

    def __init__(self, record, number, size, connection):
        self.record, self.number, self.connection = record, number, connection
        self.image = bytearray(size)
        self.unanswered = []   # (answer when the position is, write, handle)
        self.uncovered = []    # writes that no flush covers yet
        self.flushing = []     # (answer when the clock says, writes that it covers, handle)
        self.greet()

    def receive(self, size):
        data = bytearray()
        while len(data) < size:
            piece = self.connection.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def greet(self):
        flags = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM
        self.connection.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTION_MAGIC, 1))
        self.receive(4)
        while True:
            _, option, length = struct.unpack(">QII", self.receive(16))
            self.receive(length)
            if option == EXPORT_NAME:
                self.connection.sendall(struct.pack(">QH124x", len(self.image), flags))
                return
            if option == GO:
                self.reply(option, INFORMATION, struct.pack(">HQH", 0, len(self.image), flags))
                self.reply(option, ACK, b"")
                return
            self.reply(option, UNSUPPORTED, b"")

    def reply(self, option, kind, data):
        self.connection.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)

    def answer(self, handle, data=b""):
        self.connection.sendall(struct.pack(">IIQ", SIMPLE_REPLY_MAGIC, 0, handle) + data)

    def serve(self):
        """Serves one request. Returns False if it was the last."""
        magic, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", self.receive(28))
        if magic != REQUEST_MAGIC or kind == DISCONNECT:
            return False
        self.record.position += 1
        if kind == READ:
            self.answer(handle, self.image[offset:offset + length])
        elif kind == WRITE:
            self.write(flags, handle, offset, self.receive(length))
        elif kind == FLUSH:
            self.flush(handle)
        else:
            self.answer(handle)   # a trim: the bytes stay, as they may
        return True

    def write(self, flags, handle, offset, data):
        write = Write(self.number, offset, data, self.record.position)
        self.record.writes.append(write)
        self.image[offset:offset + len(data)] = data
        if flags & FUA:
            write.ended = write.durable = self.record.position
            self.answer(handle)
        else:
            self.uncovered.append(write)
            self.unanswered.append((self.record.position + ANSWERED_AFTER, write, handle))

    def flush(self, handle):
        """Covers the writes that were answered before the flush arrived, from the end of the flush on."""
        self.record.flushes.append((self.record.position, self.number))
        covered = [write for write in self.uncovered if write.ended >= 0]
        self.uncovered = [write for write in self.uncovered if write.ended < 0]
        self.flushing.append((time.monotonic() + FLUSH_SECONDS, covered, handle))

    def is_busy(self):
        return bool(self.unanswered or self.flushing)

    def answer_what_is_due(self, idle):
        """Answers flushes and writes whose time has come. If nothing else happens, answers all writes."""
        while self.unanswered and (idle or self.unanswered[0][0] <= self.record.position):
            _, write, handle = self.unanswered.pop(0)
            write.ended = self.record.position
            self.answer(handle)
        while self.flushing and self.flushing[0][0] <= time.monotonic():
            _, covered, handle = self.flushing.pop(0)
            self.record.position += 1
            for write in covered:
                write.durable = self.record.position
            self.answer(handle)


def listen(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)
    return listener


def record(folder, sizes, ended):
    """Serves FOLDER/disk-0 … and receives acknowledgements from FOLDER/acknowledged until the disks'
    connections are gone, or `ended` is set. Returns the Record."""
    result = Record()
    chosen = selectors.DefaultSelector()
    for number, size in enumerate(sizes):
        chosen.register(listen(folder / f"disk-{number}"), selectors.EVENT_READ, ("disk", number, size))
    chosen.register(listen(folder / "acknowledged"), selectors.EVENT_READ, ("acknowledged", 0, 0))
    disks = []
    gone = 0
    while gone < len(sizes) and not ended.is_set():
        busy = any(disk.is_busy() for disk in disks)
        ready = chosen.select(0.0005 if busy else 0.2)
        for key, _ in ready:
            gone += handle_event(chosen, key, result, disks)
        for disk in disks:
            disk.answer_what_is_due(not ready)
    for key in list(chosen.get_map().values()):
        key.fileobj.close()
    return result


def handle_event(chosen, key, result, disks):
    """Handles one event of a socket. Returns 1 if a disk is gone."""
    what = key.data
    if isinstance(what, Disk):
        try:
            if what.serve():
                return 0
        except (EOFError, OSError):
            pass
        chosen.unregister(key.fileobj)
        what.unanswered, what.flushing = [], []
        return 1
    if what == "acknowledgements":
        data = os.read(key.fd, 1 << 16)
        if data:
            result.acknowledged.append((result.position, data))
        else:
            chosen.unregister(key.fileobj)
        return 0
    connection, _ = key.fileobj.accept()
    chosen.unregister(key.fileobj)
    key.fileobj.close()
    kind, number, size = what
    if kind == "disk":
        disks.append(Disk(result, number, size, connection))
        chosen.register(connection, selectors.EVENT_READ, disks[-1])
    else:
        chosen.register(connection, selectors.EVENT_READ, "acknowledgements")
    return 0


def after_power_loss(recorded, disk, size, position, random, unit):
    """Returns the disk's bytes after a loss of power at `position`: all writes that a flush covers, and a
    random part of the others, in pieces of `unit` bytes. An older write never replaces a newer one."""
    image = bytearray(size)
    share = random.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    for write in recorded.writes:
        if write.disk != disk or write.began > position:
            continue
        if 0 <= write.durable <= position:
            image[write.offset:write.offset + len(write.data)] = write.data
            continue
        for at in range(0, len(write.data), unit):
            if random.random() < share:
                piece = write.data[at:at + unit]
                image[write.offset + at:write.offset + at + len(piece)] = piece
    return image
