"""Tensors in files of the safetensors format, without the package of that name.

    tensors = ros2store.safetensors.load(fs, "model.safetensors")
    ros2store.safetensors.save(fs, "copy.safetensors", tensors)

A file is read by one read into memory of the process, and the tensors share that memory. Nothing is mapped: a block
that fails its checksum is an OSError here, and no signal later. Tensors are those of torch, or arrays of numpy with
`framework="numpy"`."""
import contextlib
import errno
import importlib
import json
import math
import mmap
import os
import secrets

from ros2store.files import text_of

HEADER_BYTES_MAX = 100_000_000  # of the format
DIMENSIONS_MAX = 64  # of a tensor of torch
SCAN_BYTES = 1 << 20
DTYPES = {  # the name in torch and numpy, and the bytes of an element
    "F64": ("float64", 8), "F32": ("float32", 4), "F16": ("float16", 2), "BF16": ("bfloat16", 2),
    "F8_E4M3": ("float8_e4m3fn", 1), "F8_E5M2": ("float8_e5m2", 1),
    "I64": ("int64", 8), "I32": ("int32", 4), "I16": ("int16", 2), "I8": ("int8", 1),
    "U64": ("uint64", 8), "U32": ("uint32", 4), "U16": ("uint16", 2), "U8": ("uint8", 1), "BOOL": ("bool", 1)}


def load(fs, path, framework="torch"):
    """Returns {name: tensor}. The tensors may be written to; the file does not change.

    ValueError: the file is truncated or wrong, with its name and the offset in it. OSError(EIO): a block fails its
    checksum. TypeError: the framework has no such type."""
    tensors, _ = load_with_metadata(fs, path, framework)
    return tensors


def load_with_metadata(fs, path, framework="torch"):
    """As load(), and the dict of str that the file has as "__metadata__"."""
    library = importlib.import_module(framework)
    memory = read_file(fs, path, library)
    view = memoryview(_array(memory))
    entries, metadata = parse(text_of(path), len(memory), lambda begin, end: bytes(view[begin:end]))
    return {name: tensor_of(library, memory, *entry) for name, entry in entries.items()}, metadata


def save(fs, path, tensors, metadata=None):
    """Writes {name: tensor} and a dict of str. The name appears when the file is complete and durable; a file of this
    name is replaced. TypeError: the format has no such type, or the names or metadata are not str."""
    write_file(fs, path, pack(tensors, metadata)[0])


def pack(tensors, metadata=None, memory_of=None):
    """Returns a file with these tensors as memory, and {name: (offset, bytes)}. memory_of(bytes) provides the memory.

    Tensors may be on any device, and of any strides: this is the only copy."""
    types = {name: type_of(tensor) for name, tensor in tensors.items()}
    order = sorted(tensors, key=lambda name: -DTYPES[types[name]][1])  # so that each is aligned
    header, at = {}, 0
    if metadata:
        if not all(isinstance(each, str) for pair in metadata.items() for each in pair):
            raise TypeError("safetensors: the metadata is no dict of str")
        header["__metadata__"] = dict(metadata)
    for name in order:
        if not isinstance(name, str) or name == "__metadata__":
            raise TypeError(f"safetensors: {name!r} is no name of a tensor")
        end = at + math.prod(tensors[name].shape) * DTYPES[types[name]][1]
        header[name] = {"dtype": types[name], "shape": list(tensors[name].shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    if len(text) > HEADER_BYTES_MAX:
        raise ValueError(f"safetensors: the header would have {len(text)} bytes, more than {HEADER_BYTES_MAX}")
    library = importlib.import_module(_framework_of(next(iter(tensors.values()), None)))
    base = 8 + len(text)
    memory = memory_of(base + at) if memory_of else new_memory(library, base + at)
    memoryview(_array(memory))[:base] = len(text).to_bytes(8, "little") + text
    places = {}
    for name in order:
        begin, end = (base + offset for offset in header[name]["data_offsets"])
        tensor = tensors[name].detach() if hasattr(tensors[name], "detach") else tensors[name]
        memory[begin:end].view(tensor.dtype).reshape(tensor.shape)[...] = tensor
        places[name] = begin, end - begin
    return memory, places


def parse(name, size, read):
    """Checks a header. `read` returns the bytes of a range. Returns {name: (dtype, shape, begin, end)} with offsets in
    the file, and the metadata."""
    def wrong(offset, why):
        return ValueError(f"safetensors '{name}': offset {offset}: {why}")

    if size < 8:
        raise wrong(0, f"the file has {size} bytes, fewer than the 8 of the header's length")
    length = int.from_bytes(read(0, 8), "little")
    if length > HEADER_BYTES_MAX:
        raise wrong(0, f"the header has {length} bytes, more than {HEADER_BYTES_MAX}")
    base = 8 + length
    if base > size:
        raise wrong(size, f"the file ends in its header, which has {length} bytes")
    text = read(8, base)
    if not text.startswith(b"{"):
        raise wrong(8, "the header does not begin with '{'")

    def unique(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name is twice in the header")
        return found

    try:
        header = json.loads(text.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise wrong(8, f"the header is not JSON of the format: {error}") from None
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise wrong(8, "__metadata__ is no object of strings")
    entries = {}
    for key, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise wrong(8, f"'{key}' has not just dtype, shape and data_offsets")
        dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise wrong(8, f"'{key}' has the unknown dtype {dtype!r}")
        if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
            raise wrong(8, f"'{key}' has a shape or data_offsets that are no lists of sizes")
        begin, end = (base + offset for offset in offsets)
        if end < begin or end > size:
            raise wrong(begin, f"'{key}' is at {offsets}, and the file has {size - base} bytes of data")
        if math.prod(shape) * DTYPES[dtype][1] != end - begin:
            raise wrong(begin, f"'{key}' has {end - begin} bytes, which is not {dtype} of shape {shape}")
        entries[key] = dtype, shape, begin, end
    at = base
    for key, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != at:
            raise wrong(begin, f"'{key}' overlaps what is before it, or leaves a hole: expected offset {at}")
        at = end
    if at != size:
        raise wrong(at, f"the tensors end here, and the file has {size} bytes")
    return entries, metadata


def new_memory(library, size):
    """Memory in huge pages, where the kernel has them: to touch a new small page costs more than to fill it."""
    if size == 0:
        return library.empty(0, dtype=library.uint8)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return library.frombuffer(memory, dtype=library.uint8)


def read_file(fs, path, library):
    """A file in new memory, by one read."""
    with fs.open(path, "rb", 0) as file:
        memory = new_memory(library, file.size())
        read_range(file, memory, 0)
    return memory


def read_range(file, memory, offset):
    """Fills the memory. OSError names the file and the offset of what cannot be read. ValueError: the file is too
    short."""
    name, size = os.fsdecode(file.name), len(memory)
    try:
        got = file.readinto(memory, offset)
    except OSError as error:
        if error.errno == errno.EIO:
            raise OSError(errno.EIO, f"read '{name}': {_first_bad(file, offset, size)}: {error.strerror}") from error
        raise
    if got != size:
        raise ValueError(f"'{name}': offset {offset + got}: the file ends, and {size - got} more bytes are expected")


def _first_bad(file, offset, size):
    """Where the part of SCAN_BYTES and then of 4 KiB is that cannot be read."""
    for step in SCAN_BYTES, 4096:
        for begin in range(offset, offset + size, step):
            try:
                file.pread(min(step, offset + size - begin), begin)
            except OSError:
                offset, size = begin, min(step, offset + size - begin)
                break
    return f"offset {offset}"


def write_file(fs, path, memory):
    """Writes a file whose name appears when it is complete and durable."""
    directory, name = os.path.split(text_of(path))
    hidden = os.path.join(directory, f".{name}.{secrets.token_hex(4)}.part")
    try:
        with fs.open(hidden, "xb", 0) as file:
            file.pwrite(memory, 0)
            file.fsync()
        fs.rename(hidden, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error counts
            fs.unlink(hidden)
        raise


def _are_sizes(value):
    return (isinstance(value, list) and len(value) <= DIMENSIONS_MAX and
            all(type(each) is int and 0 <= each < 1 << 63 for each in value))


def _array(memory):
    return memory.numpy() if hasattr(memory, "numpy") else memory


def _framework_of(tensor):
    return "torch" if tensor is None or hasattr(tensor, "data_ptr") else "numpy"


def type_of(tensor):
    name = str(tensor.dtype).removeprefix("torch.")
    for dtype, (theirs, _) in DTYPES.items():
        if theirs == name:
            return dtype
    raise TypeError(f"safetensors: the format has no type {tensor.dtype}")


def tensor_of(library, memory, dtype, shape, begin, end):
    name, size = DTYPES[dtype]
    kind = getattr(library, "bool_" if name == "bool" and library.__name__ == "numpy" else name, None)
    if kind is None:
        raise TypeError(f"safetensors: {library.__name__} has no type {name}")
    part = memory[begin:end]
    if begin % size and library.__name__ == "torch":
        part = part.clone()  # the file does not align it
    return part.view(kind).reshape(shape)
