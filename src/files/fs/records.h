// This header declares the object ids, keys and records of DFS in a container. docs/formats/dfs.md
// documents them. records_test.cc checks the bytes.
//
// Invariants
// - Records are little-endian, fixed in size, and begin with a magic and a version byte. They have
//   no CRC of their own: they are single values, and a store never returns bytes that fail their
//   checksum.
// - Node ids are never reused. Ids below `first_free_node` are reserved.
// - In a directory's object a dkey is a name, so "." is free for the node's own records. In a
//   file's object a chunk's dkey is 8 bytes that begin with a zero, so all chunks sort before ".".
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

#include "file_system.h"
#include "ros2s/object/object_store.h"

namespace ros2s::fs {

using object::Akey;
using object::Dkey;
using object::Epoch;
using object::FetchItem;
using object::ObjectId;

// "DFS" and the version of this mapping. Other users of a container use another high word.
inline constexpr uint64_t object_class = 0x44465301;
inline constexpr NodeId orphan_node{2};   // open files without a name
inline constexpr NodeId counter_node{3};  // has the next node id
inline constexpr uint64_t first_free_node = 1024;

inline constexpr uint8_t record_version = 1;
inline constexpr uint32_t format_version = 1;
// A chunk and the tags of its blocks fit in one transaction.
inline constexpr uint64_t encrypted_chunk_bytes_max = object::transaction_bytes_max / 2;
inline constexpr uint64_t file_bytes_max = INT64_MAX;  // off_t

[[nodiscard]] inline ObjectId object_of(NodeId node) {
    return {.high = object_class, .low = node.value};
}
[[nodiscard]] inline Dkey record_dkey() { return {"."}; }
[[nodiscard]] inline Dkey name_dkey(std::string_view name) { return {std::string(name)}; }
[[nodiscard]] inline Dkey chunk_dkey(uint64_t chunk) { return Dkey::integer(chunk); }
// Greater than every chunk's dkey, smaller than the records'.
[[nodiscard]] inline Dkey chunks_end() { return {"\x01"}; }

// Under record_dkey(). An akey with a '.' is an extended attribute ("user.origin"), also an access
// control list; our own names have none.
[[nodiscard]] inline Akey inode_akey() { return {"inode"}; }
[[nodiscard]] inline Akey target_akey() { return {"target"}; }          // of a symbolic link
[[nodiscard]] inline Akey superblock_akey() { return {"superblock"}; }  // root only
[[nodiscard]] inline Akey rename_akey() { return {"rename"}; }          // root only
[[nodiscard]] inline Akey counter_akey() { return {"next"}; }           // counter_node only
// Under a name, a chunk, and (orphan_node only) the node id as an integer dkey.
[[nodiscard]] inline Akey entry_akey() { return {"entry"}; }
[[nodiscard]] inline Akey data_akey() { return {"data"}; }
[[nodiscard]] inline Akey orphan_akey() { return {"orphan"}; }

struct Superblock {
    // The arrays are encrypted (docs/formats/cipher.md).
    static constexpr uint32_t needs_decryption = 1;
    // A node has node_flags, or had. Programs that do not know them would not enforce them.
    static constexpr uint32_t has_node_flags = 2;
    // The same for access control lists.
    static constexpr uint32_t has_acls = 4;
    // durability=fsync: changes need to be durable only at fsync. A program that does not know it
    // would not say so.
    static constexpr uint32_t durable_on_fsync = 8;
    // It has blocks instead of files (block_files.h). Dfs does not mount it.
    static constexpr uint32_t is_cache = 16;
    // A file has capabilities, or had. Programs that do not know them would not drop them.
    static constexpr uint32_t has_capabilities = 32;
    static constexpr uint32_t known =
        needs_decryption | has_node_flags | has_acls | durable_on_fsync | has_capabilities;
    static constexpr uint8_t kind = 'S';
    uint8_t magic = kind;
    uint8_t version = record_version;
    char name[6] = {'R', 'O', 'S', '2', 'F', 'S'};
    uint32_t format = format_version;
    uint32_t features_needed = 0;  // bits that a program must support to mount at all
    uint64_t chunk_bytes = 0;
    int64_t created_ns = 0;
    uint8_t reserved[32] = {};
};
static_assert(sizeof(Superblock) == 64);

struct EntryRecord {
    static constexpr uint8_t kind = 'E';
    uint8_t magic = kind;
    uint8_t version = record_version;
    uint8_t type = 0;  // the S_IFMT bits, shifted down by 12
    uint8_t reserved[5] = {};
    uint64_t node = 0;

    [[nodiscard]] mode_t type_bits() const { return static_cast<mode_t>(type) << 12; }
    [[nodiscard]] bool is_directory() const { return S_ISDIR(type_bits()); }
    [[nodiscard]] static EntryRecord of(NodeId node, mode_t mode) {
        return {.type = static_cast<uint8_t>((mode & S_IFMT) >> 12), .node = node.value};
    }
};
static_assert(sizeof(EntryRecord) == 16);

// Times are nanoseconds since 1970. `modified` and `changed` are valid until the contents (a file's
// "data", a directory's "entry" akeys) get an update with an epoch greater than the one next to the
// time. After that the time of that update is valid. A write therefore does not change the inode.
struct InodeRecord {
    // It was made without a name, and may get one (OpenFlags::nameless).
    static constexpr uint32_t linkable = 4;  // beside node_flags
    static constexpr uint8_t kind = 'I';
    uint8_t magic = kind;
    uint8_t version = record_version;
    uint16_t target_bytes = 0;  // symbolic links: length of the target
    uint32_t mode = 0;
    uint32_t links = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t flags = 0;
    uint64_t device = 0;  // character and block devices
    uint64_t parent = 0;  // the directory that holds its name, or one of them; 0: not known
    int64_t created_ns = 0;
    int64_t accessed_ns = 0;
    int64_t modified_ns = 0;
    uint64_t modified_epoch = 0;
    int64_t changed_ns = 0;
    uint64_t changed_epoch = 0;
    uint64_t reserved2[2] = {};
};
static_assert(sizeof(InodeRecord) == 104);

// A number under a key of its own: the next free node id, or how many renames moved a directory.
struct NumberRecord {
    static constexpr uint8_t kind = 'N';
    uint8_t magic = kind;
    uint8_t version = record_version;
    uint8_t reserved[6] = {};
    uint64_t number = 0;
};
static_assert(sizeof(NumberRecord) == 16);

// Under orphan_node, with the node id as the dkey: a node without a name that must still be
// punched. With its key it is not larger than the entry of the shortest name, because a container
// at its cap must be able to replace one by the other. Earlier builds appended the node id.
struct OrphanRecord {
    static constexpr uint8_t kind = 'O';
    uint8_t magic = kind;
    uint8_t version = record_version;
    uint8_t reserved[6] = {};
};
static_assert(sizeof(OrphanRecord) == 8);

// Errors: corrupt (not such a record), bad_version.
template <class Record>
[[nodiscard]] Result<Record> decode(ConstBytes bytes) {
    Record record;
    if (bytes.size() != sizeof(Record)) return fail(Code::corrupt);
    std::memcpy(&record, bytes.data(), sizeof(Record));
    if (record.magic != Record::kind || record.version == 0) return fail(Code::corrupt);
    if (record.version != record_version) return fail(Code::bad_version, record.version);
    return record;
}

// The fetch of one record into `into`.
template <class Record>
[[nodiscard]] FetchItem record_item(ObjectId object, Dkey dkey, Akey akey, Record& into) {
    return {.object = object,
            .dkey = std::move(dkey),
            .akey = std::move(akey),
            .extent = {.offset = 0, .length = sizeof(Record)},
            .window = Window::local(std::as_writable_bytes(std::span(&into, 1)))};
}
// The result of that fetch. Errors: the item's; corrupt, bad_version.
template <class Record>
[[nodiscard]] Result<Record> record_of(const FetchItem& item, const Record& fetched) {
    if (!item.status) {
        const bool oversized = item.status.error().code == Code::too_small;
        return oversized ? fail(Code::corrupt) : fail(item.status.error());
    }
    return decode<Record>(object_bytes(fetched).first(std::min(item.size, sizeof(Record))));
}

[[nodiscard]] inline int64_t to_ns(WallTime time) { return time.time_since_epoch().count(); }
[[nodiscard]] inline WallTime from_ns(int64_t ns) { return WallTime{Duration{ns}}; }

// Times and size for stat, from the record and the store's query of the contents.
[[nodiscard]] Attributes attributes_of(NodeId node, const InodeRecord& inode,
                                       const object::QueryReply& contents, uint64_t chunk_bytes);
// The size of a file, from the query of its "data" akeys.
[[nodiscard]] inline uint64_t file_size(const object::QueryReply& contents, uint64_t chunk_bytes) {
    return contents.exists ? contents.highest_dkey.number() * chunk_bytes + contents.size : 0;
}

}  // namespace ros2s::fs
