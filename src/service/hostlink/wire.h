// This header declares the methods of the host link, and the bodies of requests and replies about
// the bytes of files, nodes and directories (docs/formats/rpc.md). names_wire.h has those about
// names, fields.h has the fields.
//
// encode_…() replaces the contents of a buffer that its owner reuses, and returns a view of it.
// decode_…() accepts any bytes; a decoded value is within the limits below. Errors of every
// decoder: corrupt. Payload: the bytes of a write, or the data of a read; for read_many see below.
#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/fs/caller.h"
#include "ros2s/fs/file_system.h"
#include "ros2s/object/blocks.h"
#include "ros2s/rpc/body.h"
#include "ros2s/session/mounts.h"

namespace ros2s::hostlink {

// The service number in a hello for a LinkServer. 2: requests had no user. 3: openings had no flag
// `execute`. 4: nothing said whether set-id bits are kept. 5: attributes had no
// time of creation and no flags. 6: replies had no leases. 7: creations had no umask.
// 8: replies did not say when a directory had changed.
inline constexpr uint32_t file_service = 9;

enum class Method : uint16_t {
    read = 1,
    write = 2,
    sync = 3,
    punch_hole = 4,
    lookup = 5,
    get_attributes = 6,
    readdir = 7,
    read_many = 8,
    make_directory = 9,
    make_node = 10,
    symlink = 11,
    link = 12,
    unlink = 13,
    remove_directory = 14,
    rename = 15,
    read_link = 16,
    set_attributes = 17,
    get_xattr = 18,
    set_xattr = 19,
    remove_xattr = 20,
    list_xattrs = 21,
    open = 22,
    create = 23,
    close = 24,
    forget = 25,
    space = 26,
    walk = 27,
    open_path = 28,
    lookup_many = 29,
    create_many = 30,
    unlink_many = 31,
    readdir_many = 32,
    write_pieces = 33,
    seek = 34,
    lock = 35,
    allocate = 36,
    allocate_inside = 37,
    look_up_names = 38,
    listen = 39,
    read_node = 40,
    blocks = 41,
};
inline constexpr size_t method_count = 41;  // their numbers begin with 1

using rpc::Buffer;

// read: the range; the length is the one of the request's sink. write: the offset of the payload.
// sync: only the handle. punch_hole, allocate, allocate_inside: all but the CRC. seek: the offset;
// the length is an fs::SeekFor. write_pieces: mount, handle and offset, with the checksums of the
// payload's pieces (object/checksum.h), which the store compares.
struct FileBody {
    session::MountId mount{};
    fs::FileHandle handle{};
    uint64_t offset = 0;
    uint64_t length = 0;
    uint32_t crc = 0;  // CRC32C of the payload
    friend bool operator==(const FileBody&, const FileBody&) = default;
};

// read_node: reads a file that is not open at the server. The reply is that of a read.
struct NodeReadBody {
    session::MountId mount{};
    fs::NodeId node{};
    uint64_t offset = 0;
};

// Sets or tests a lock of an open file. `lock.mount` is the server's to set. The reply is the lock
// in the way, if there is one.
struct LockBody {
    session::MountId mount{};
    fs::FileHandle handle{};
    fs::LockHow how{};  // not `wait`
    object::Lock lock;
};

// The reply to each of the requests of a FileBody: the number of bytes moved (seek: the byte
// found), and the CRC32C of the data that was read.
struct MovedBody {
    uint64_t bytes = 0;
    uint32_t crc = 0;
};
inline constexpr size_t moved_bytes = sizeof(uint64_t) + sizeof(uint32_t);
// A call in every build: tests kill a daemon that enters it (tests/daemons/strike.h).
[[gnu::noinline]] ConstBytes encode_moved(Buffer& buffer, MovedBody body);

// With a name: lookup, unlink, remove_directory; get_xattr and remove_xattr, which have the name of
// the attribute. Without one: get_attributes, read_link, list_xattrs.
struct NodeBody {
    session::MountId mount{};
    fs::NodeId node{};
    std::string_view name;  // after reading, a view into the request's body
};

struct ReaddirBody {
    session::MountId mount{};
    fs::FileHandle handle{};
    uint64_t cookie = 0;
    uint32_t limit = 0;
};
inline constexpr uint32_t readdir_entries_max = 4096;
// As many entries as fit into `bytes_max`, but at least one if there is one.
ConstBytes encode_entries(Buffer& buffer, std::span<const fs::DirectoryEntry> entries,
                          size_t bytes_max);

// listen: for news of the leases that the mount lends (session::MountLeases).
struct ListenBody {
    session::MountId mount{};
    session::Listening listening;
};
// Of one reply. Further ones are left out.
inline constexpr size_t leases_max = 2048;

// References to a node that the host drops.
struct Forgotten {
    fs::NodeId node{};
    uint64_t count = 0;
};
inline constexpr size_t forgets_max = 1024;  // of one request

// read_many. The sink is the items' windows, one after the other. Payload of the reply: the data of
// each item, either inline, one after the other, or at the beginning of its window.
inline constexpr size_t read_many_items_max = 4096;
inline constexpr size_t read_many_name_bytes_max = 4095;
struct ReadManyBody {
    session::MountId mount{};
    fs::NodeId directory{};
};
// Windows get their lengths and no address.
[[nodiscard]] Result<ReadManyBody> decode_read_many(ConstBytes body, fs::UserClaim& user,
                                                    std::vector<fs::ReadManyItem>& items);
// Bytes of an item in the request, and in the reply.
[[nodiscard]] uint64_t read_many_request_bytes(const fs::ReadManyItem& item);
inline constexpr uint64_t read_many_answer_bytes = 34;
// Statuses and sizes, each with the CRC32C of the item's payload.
ConstBytes encode_read_answers(Buffer& buffer, std::span<const fs::ReadManyItem> items,
                               std::span<const uint32_t> crcs);
// Errors also: corrupt if an item claims more than its window.
[[nodiscard]] Result<> decode_read_answers(ConstBytes body, std::span<fs::ReadManyItem> items,
                                           std::vector<uint32_t>& crcs);

// blocks: work on blocks of a cache. Payload: the bytes of all blocks of a put, one after the
// other. The reply has a code for each block, or none if all are fine.
struct BlocksBody {
    session::MountId mount{};
    fs::BlockWork work{};
    uint64_t pinned_for_ns = 0;
};
// A key that is too long is still too long when it is cut here.
inline constexpr size_t block_key_text_max = object::block_key_bytes_max + 1;
struct SentBlock {
    std::string_view key;  // after reading, a view into the request's body
    uint64_t length = 0;   // of a put
    uint32_t crc = 0;      // CRC32C of its bytes
};

}  // namespace ros2s::hostlink
