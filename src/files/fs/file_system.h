// FileSystem: POSIX, as Linux applications use it, with nodes (inodes) and names. ARCHITECTURE.md
// lists the implementations and decorators. They pass one contract suite (fs/contract).
//
// Callers resolve working directories. read_many() checks permissions itself. walk() and
// open_path() take paths and follow symbolic links; names of read_many() may contain '/'. FUSE does
// not need walk(), because the kernel walks paths.
//
// Thread rule: called on the core on which the file system was opened. Ownership: names, windows
// and spans belong to the caller until the task is done. Errors are named by their code. The usual
// ones are not repeated at each function: not_found, not_directory, exists, no_space, read_only,
// io, corrupt, cancelled, deadline, stale (the node or handle is gone).
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/fs/leases.h"
#include "ros2s/object/vocabulary.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/task.h"

namespace ros2s::object {
class ObjectStore;
struct FetchItem;
}  // namespace ros2s::object

namespace ros2s::fs {

using object::Window;

inline constexpr NodeId root_node{1};

struct FileHandle {
    uint64_t value = 0;
    friend auto operator<=>(const FileHandle&, const FileHandle&) = default;
};

inline constexpr size_t name_bytes_max = 255;
inline constexpr size_t attribute_value_bytes_max = 64 * 1024;
// Maximum total size of the names of a node's extended attributes, each with its NUL. Linux lists
// no more (XATTR_LIST_MAX).
inline constexpr size_t xattr_list_bytes_max = 64 * 1024;
inline constexpr size_t link_target_bytes_max = 4095;

// The check of names that all file systems share. lookup accepts two more names: "." is the node
// itself, with one more reference, and ".." is the directory above. Errors: invalid for these two,
// "", '/' and NUL; name_too_long.
[[nodiscard]] Result<> check_name(std::string_view name);

// For file systems without stored replies: the result of an update that was sent before is unknown.
// Errors: stale.
[[nodiscard]] Result<> check_first(const Call& call);

// Of a mode: permissions, set-id bits and the sticky bit.
inline constexpr mode_t permission_bits = 07777;

// Flags of a node, as of chattr(1). They hold for every user, also for root, and not for what is
// open already; what they forbid is EPERM.
namespace node_flags {
// A file gets bytes at its end only, a directory new names only; other attributes than times stay.
inline constexpr uint32_t append_only = 1;
// Neither contents nor attributes change, and no name of it is made or removed.
inline constexpr uint32_t immutable = 2;
inline constexpr uint32_t all = append_only | immutable;
// What the file system says of a node, and nobody sets (acl.h): it has an access list, a default
// list, and file capabilities.
inline constexpr uint32_t has_access_acl = 8;
inline constexpr uint32_t has_default_acl = 16;
inline constexpr uint32_t has_capabilities = 32;
inline constexpr uint32_t told = has_access_acl | has_default_acl | has_capabilities;
}  // namespace node_flags

// The mark of overlayfs for a removed name: a character device 0:0, which no driver has. As in
// Linux, every user may make it.
inline constexpr mode_t whiteout_mode = S_IFCHR;
[[nodiscard]] inline bool is_whiteout(mode_t mode, dev_t device) {
    return S_ISCHR(mode) && device == 0;
}

struct Attributes {
    NodeId node{};
    mode_t mode = 0;  // type and permissions, as in st_mode
    uint32_t links = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    uint64_t size = 0;        // bytes
    uint64_t bytes_used = 0;  // st_blocks * 512
    dev_t device = 0;         // st_rdev of character and block devices
    WallTime accessed{}, modified{}, changed{};
    WallTime created{};  // the epoch if the file system does not know it
    uint32_t flags = 0;  // node_flags
};

// The owner of new nodes: their creator.
struct Owner {
    uid_t uid = 0;
    gid_t gid = 0;
    // Permission bits that their modes lose, unless their directory has a default list. File
    // systems without such lists may ignore it.
    mode_t umask = 0;
};

struct SetAttributes {
    std::optional<mode_t> mode;  // permission bits and set-id bits only
    std::optional<uid_t> uid;
    std::optional<gid_t> gid;
    std::optional<uint64_t> size;  // regular files: truncate
    std::optional<WallTime> accessed, modified;
    std::optional<uint32_t> flags;  // node_flags; the old ones do not forbid new ones
    // A new owner clears set-id bits of files, and so does a new size without `keeps_set_ids` (see
    // OpenFlags). `clears_set_ids`: they are cleared as if the owner was set again.
    bool keeps_set_ids = false;
    bool clears_set_ids = false;
};

struct DirectoryEntry {
    std::string name;
    NodeId node{};
    mode_t type = 0;      // the S_IFMT bits
    uint64_t cookie = 0;  // readdir with this cookie continues after this entry
};

// An entry, and the attributes of its node.
struct ListedEntry {
    DirectoryEntry entry;
    Result<Attributes> attributes{};
};

// Maximum number of names in one call of a function for many names.
inline constexpr size_t names_together_max = 256;

struct FileSystemSpace {
    uint64_t total_bytes = 0, free_bytes = 0;
    uint64_t files = 0;      // 0: not counted
    uint64_t files_max = 0;  // 0: only space limits them
};

struct OpenFlags {
    bool read = true;
    bool write = false;
    bool append = false;  // each write goes to the current end of the file, atomically
    bool truncate = false;
    bool sync = false;       // each write is durable when it returns
    bool exclusive = false;  // create only: `exists` if the name is taken
    // Of create(), which needs `write` and an empty name: the new file has no name. It ends with
    // its last handle, unless link() gives it a name. With `exclusive` that is not_found.
    bool nameless = false;
    // With `read`: the bytes are read to run them, which needs the right to execute the file and
    // none to read it.
    bool execute = false;
    // Writes, punches and truncations by this handle keep set-id bits, as for a user with
    // CAP_FSETID. Otherwise they clear S_ISUID, and S_ISGID if the group may execute the file or
    // the user of the call is not in the group (fs/caller.h). Views for users grant it to root
    // only.
    bool keeps_set_ids = false;
    // Of open() of a regular file for reading only: the caller has a lease of the node, and calls
    // hold() before it gives the lease back. It needs no request.
    bool leased = false;
};

struct Opened {
    FileHandle handle{};
    Attributes attributes;
};

// One name of a read_many call. Names are relative to `directory` and may contain '/'. Symbolic
// links in them are not followed (`loop`).
struct ReadManyItem {
    std::string name;
    Window window{};  // the destination of the file's first window.length bytes
    // Set by the file system.
    Result<> status{};
    uint64_t bytes = 0;  // bytes in the window
    uint64_t size = 0;   // of the file; more than `bytes` if the window was too small
};
// A block of a cache (object/blocks.h) in a call of blocks().
struct BlockItem {
    std::string_view key;
    Window window{};  // of a put: the bytes, which nobody changes
    // Of their pieces (object/checksum.h), if the caller knows them.
    object::Checksums checksums{};
    Result<> status{};  // set by the file system
};
enum class BlockWork : uint8_t {
    put,     // stores it whole; `exists`: it is there with other bytes, which stay
    look,    // not_found: it is not there
    touch,   // the same, and counts as a use
    pin,     // the same, and keeps it: all that are there, or none (over_cap)
    unpin,   // ends this file system's pin
    remove,  // the same as look, and then removes it
};
[[nodiscard]] constexpr bool changes_blocks(BlockWork work) {
    return work != BlockWork::look && work != BlockWork::touch;
}
// Maximum number of blocks in one call.
inline constexpr size_t blocks_together_max = 1024;

// For file systems that read into local windows only. Sets the item's status. True: it can be read.
[[nodiscard]] bool begin_read(ReadManyItem& item);

// The path that one open file's I/O takes, and its amount, as users can see it.
struct PathReport {
    std::string path;  // "embedded engine, io_uring O_DIRECT, 1 device"
    uint64_t reads = 0, read_bytes = 0, writes = 0, written_bytes = 0;
    uint64_t staged = 0;  // operations that needed one more copy (unaligned)
};

// without_set_group: any, and an access list clears S_ISGID, as for a user who is neither in the
// node's group nor root.
enum class SetXattr : uint8_t { any, create, replace, without_set_group };

// The treatment of a path's last name by walk(): it follows a symbolic link, returns the link
// itself, or does not look the name up at all (unless the path ends in '/').
enum class LastLink : uint8_t { follow, keep, unasked };

inline constexpr int links_followed_max = 40;
// The names of a path and of the links in it. Without this limit, 40 links of 4 KiB would cause
// 80,000 look-ups.
inline constexpr size_t names_walked_max = 4096;

// The result of a walk. The last name need not exist: then, or if it was not looked up, there are
// no attributes, and (parent, name) is where to create it.
struct Walked {
    NodeId parent{};   // 0 if there is no name
    std::string name;  // empty if the path is the root's or ends in ".."
    std::optional<Attributes> attributes;
};

// The way in which open_path() opens the file at the end of a path.
struct PathOpen {
    OpenFlags flags{};
    bool creates = false;  // with flags.exclusive: the last name must not exist
    bool follows = true;   // a symbolic link at the end; otherwise that is `loop`
    mode_t mode = 0;       // permission bits of a new file
    Owner owner{};         // of a new file
};

// The names and attributes of a file system, and opening and closing: the part that can use another
// transport than the bytes of files.
class Namespace {
  public:
    virtual ~Namespace() = default;

    // ---- names. Errors also: name_too_long; invalid for "", ".", ".." and names with '/' or NUL.
    virtual Task<Result<Attributes>> lookup(const Call&, NodeId parent, std::string_view name) = 0;
    virtual Task<Result<Attributes>> mkdir(const Call&, NodeId parent, std::string_view name,
                                           mode_t mode, Owner owner) = 0;
    // A FIFO, socket, device or empty regular file, according to the type bits of `mode`.
    virtual Task<Result<Attributes>> mknod(const Call&, NodeId parent, std::string_view name,
                                           mode_t mode, dev_t device, Owner owner) = 0;
    virtual Task<Result<Attributes>> symlink(const Call&, NodeId parent, std::string_view name,
                                             std::string_view target, Owner owner) = 0;
    // Errors also: denied for a directory.
    virtual Task<Result<Attributes>> link(const Call&, NodeId node, NodeId parent,
                                          std::string_view name) = 0;
    // Errors also: is_directory. An open file exists until it is closed. A node that lost its last
    // name, also by rename() or rmdir(), stays usable for at least 2 s if space is not short: its
    // caller may have looked the name up before.
    virtual Task<Result<>> unlink(const Call&, NodeId parent, std::string_view name) = 0;
    // Errors also: not_empty.
    virtual Task<Result<>> rmdir(const Call&, NodeId parent, std::string_view name) = 0;

    struct RenameFlags {
        bool no_replace = false;  // `exists` if the new name is taken
        bool exchange = false;    // swap the two names; both must exist
        bool whiteout = false;    // the old name becomes a whiteout of this owner, in one step
        Owner owner{};
    };
    // As rename(2): over an existing file or empty directory, across directories. Errors also: loop
    // (a directory into itself: EINVAL to POSIX callers), not_empty, is_directory; invalid
    // (`exchange` with another flag).
    virtual Task<Result<>> rename(const Call&, NodeId parent, std::string_view name,
                                  NodeId new_parent, std::string_view new_name,
                                  RenameFlags flags) = 0;
    virtual Task<Result<std::string>> readlink(const Call&, NodeId node) = 0;

    // The node at the end of a path. If it does not exist: its parent and name. Paths and absolute
    // targets of links start at the root, and ".." of the root is the root. A path with a trailing
    // slash names a directory; if something else exists there, it is an error. Each node of the
    // result except the root counts as looked up; path_walk.h releases them. Errors also: loop
    // (more than links_followed_max links, or names_walked_max names); not_found and not_directory
    // are about a directory of the path. Adds the names that it took to Call::names_walked, also if
    // it fails.
    //
    // Unless a file system overrides it, or look_up_names(), each name is one lookup and each link
    // one readlink.
    virtual Task<Result<Walked>> walk(const Call&, std::string_view path, LastLink last);

    // True if an earlier execution of this repeated call is known to have removed or moved the
    // name. Before refusing a repeated call, check this: the conflict may be the call's own earlier
    // effect.
    virtual Task<Result<bool>> was_done(const Call&) { co_return false; }

    // ---- many names of one directory. At most names_together_max; they belong to the caller until
    // the task is done. The results are those of single calls, in the order of the names. Of equal
    // names in one call, one is created or removed.
    virtual Task<std::vector<Result<Attributes>>> lookup_many(
        const Call&, NodeId parent, std::span<const std::string_view> names);
    // Regular files, empty and not open. Their nodes do not count as looked up.
    virtual Task<std::vector<Result<>>> create_many(const Call&, NodeId parent,
                                                    std::span<const std::string_view> names,
                                                    mode_t mode, Owner owner);
    virtual Task<std::vector<Result<>>> unlink_many(const Call&, NodeId parent,
                                                    std::span<const std::string_view> names);
    // readdir() of a handle of `node`, and lookup_many() of what it returned: at most
    // names_together_max entries. An entry whose name was removed meanwhile is not_found.
    virtual Task<Result<std::vector<ListedEntry>>> readdir_many(const Call&, NodeId node,
                                                                FileHandle handle, uint64_t cookie,
                                                                size_t limit);

    // ---- attributes
    virtual Task<Result<Attributes>> get_attributes(const Call&, NodeId node) = 0;
    virtual Task<Result<Attributes>> set_attributes(const Call&, NodeId node,
                                                    const SetAttributes& changes) = 0;
    // Errors also: no_attribute, too_large. A list of acl.h is `unsupported` where nothing respects
    // it. It changes with the mode, and the mode with it.
    virtual Task<Result<std::string>> get_xattr(const Call&, NodeId node,
                                                std::string_view name) = 0;
    virtual Task<Result<>> set_xattr(const Call&, NodeId node, std::string_view name,
                                     ConstBytes value, SetXattr how) = 0;
    virtual Task<Result<>> remove_xattr(const Call&, NodeId node, std::string_view name) = 0;
    virtual Task<Result<std::vector<std::string>>> list_xattrs(const Call&, NodeId node) = 0;

    // ---- files
    // Opens a file that exists, or a directory for readdir.
    virtual Task<Result<Opened>> open(const Call&, NodeId node, OpenFlags flags) = 0;
    // Opens the file that has the name, or creates it. Errors also: is_directory, loop (a symbolic
    // link has the name), invalid (so has a FIFO, socket or device), unsupported (it has no
    // nameless files).
    virtual Task<Result<Opened>> create(const Call&, NodeId parent, std::string_view name,
                                        mode_t mode, OpenFlags flags, Owner owner) = 0;
    // As open(2): walk(), and open() or create(). The node counts as looked up. Errors also: loop,
    // is_directory; unsupported (neither a regular file nor a directory).
    virtual Task<Result<Opened>> open_path(const Call&, std::string_view path, PathOpen how);
    // The caller must not use the handle any more, also after an error. The handle may end a little
    // later.
    virtual Task<Result<>> close(const Call&, FileHandle handle) = 0;
    // Names after `cookie` (0: from the start), at most `limit`, without "." and "..". An entry
    // that exists during the whole walk is returned exactly once, whatever happens to other
    // entries. Empty at the end.
    virtual Task<Result<std::vector<DirectoryEntry>>> readdir(const Call&, FileHandle handle,
                                                              uint64_t cookie, size_t limit) = 0;
    virtual Task<Result<FileSystemSpace>> space(const Call&) = 0;

    // The caller drops `count` of the references that lookups and creations gave it (FUSE's
    // forget). A file system that does not count references ignores it.
    virtual void forget(NodeId node, uint64_t count) = 0;

    // For walk(): looks up the first name in `parent`, and as many others as one request finds,
    // each in the node of the one before. All but the last result are directories. Only a result
    // for the last of `names` needs all attributes; the others need node, mode, owner and
    // node_flags::told. Each result counts as looked up.
    virtual Task<std::vector<Result<Attributes>>> look_up_names(
        const Call&, NodeId parent, std::span<const std::string_view> names);

  protected:
    // The same for directories on the way of a path: also of the last one only node, mode and owner
    // are needed.
    virtual Task<std::vector<Result<Attributes>>> look_up_way(
        const Call& call, NodeId parent, std::span<const std::string_view> names) {
        return look_up_names(call, parent, names);
    }
    // For walk(), which needs no look-up for "..". Errors: denied.
    virtual Task<Result<>> may_search(const Call&, NodeId /*directory*/) { co_return Result<>{}; }
};

// test: changes nothing. now: does not wait. now_waiting: likewise, for a process that waits and
// asks again, and tests when it waits no longer. wait: until no other lock is in the way.
// wait_or_deadlock: likewise, for a range and an owner that is a process.
enum class LockHow : uint8_t { test, now, now_waiting, wait, wait_or_deadlock };
[[nodiscard]] constexpr bool waits(LockHow how) { return how >= LockHow::wait; }

// Most bytes of one call of FileSystem::allocate().
inline constexpr uint64_t allocated_bytes_max = uint64_t{64} << 20;

enum class SeekFor : uint8_t { data = 0, hole = 1 };

// Where the bytes of a read are.
struct LocatedRead {
    object::ObjectStore& store;
    object::ContainerId container;
};

class FileSystem : public Namespace {
  public:
    // Closes handles that are still open. Then the file system may be destroyed. Must be called.
    virtual Task<> close_all() = 0;

    // The leases that its replies come with (Call::leases). Null: it has none, and nothing that it
    // returns may be kept.
    [[nodiscard]] virtual LeaseSet* leases() { return nullptr; }

    // ---- the bytes of files
    // The caller loses the lease with which the handle was opened (OpenFlags::leased). From now on
    // the file stays while the handle is open, as with any other.
    virtual Task<Result<>> hold(const Call&, FileHandle /*handle*/) { co_return Result<>{}; }
    // Bytes read: less than the window only at the end of the file. If the call has checksums
    // (payload_checksums.h), its caller passes the bytes on to a process that verifies them. If the
    // store has their checksums, `whole` is computed from these, and this side does not verify the
    // bytes. Otherwise `whole` stays empty.
    virtual Task<Result<uint64_t>> pread(const Call&, FileHandle handle, Window into,
                                         uint64_t offset) = 0;
    // For a read that is one extent of a store, without a request: sets the item, whose bytes are
    // forwarded and whose window has no address. The caller posts it (object::PostedFetch). Without
    // a value, or if that fails: pread().
    [[nodiscard]] virtual std::optional<LocatedRead> locate(FileHandle /*handle*/,
                                                            uint64_t /*offset*/,
                                                            uint64_t /*length*/,
                                                            object::FetchItem& /*item*/) {
        return std::nullopt;
    }
    // The item was fetched. True: it has all that pread() would return, and the read is counted.
    [[nodiscard]] virtual bool finish_located(FileHandle /*handle*/,
                                              const object::FetchItem& /*item*/) {
        return false;
    }
    // All or nothing per chunk. Returns the bytes written: less than the window only if the rest
    // failed after the beginning was written. A call with the rest returns its error. Durable on
    // return, if the file system promises that (LocalDirectory, or is_deferred(): on fsync). If the
    // call has checksums, another process sent the bytes with them. Bytes that differ from them are
    // refused
    // (`corrupt`): by the store, which compares its copy, or else here.
    virtual Task<Result<uint64_t>> pwrite(const Call&, FileHandle handle, Window from,
                                          uint64_t offset) = 0;
    // Makes everything durable that was acknowledged for this file, and the file's creation; if
    // is_deferred(), everything that was acknowledged. Errors also: io (some of it is lost).
    virtual Task<Result<>> fsync(const Call&, FileHandle handle) = 0;
    // Changes are acknowledged before they are durable (durability=fsync). Until fsync(), or for a
    // second, a loss of power takes back the last of them.
    [[nodiscard]] virtual bool is_deferred() const { return false; }
    // The range becomes a hole and reads as zeros (trim). The size does not change.
    virtual Task<Result<>> punch_hole(const Call&, FileHandle handle, uint64_t offset,
                                      uint64_t length) = 0;
    // Gives space to the range: holes become data, which reads as zeros. A later write into the
    // range finds space also if there is none for others. The file becomes as long as the range; if
    // it `keeps_size`, the range must be in the file. What was done before an error stays. Errors
    // also: unsupported (by the server, or behind the end of the file), too_large (more than
    // allocated_bytes_max).
    virtual Task<Result<>> allocate(const Call&, FileHandle /*handle*/, uint64_t /*offset*/,
                                    uint64_t /*length*/, bool /*keeps_size*/) {
        co_return fail(Code::unsupported);
    }
    // The first byte at or behind `offset` that is in data, or in a hole. A hole reads as zeros; so
    // may data. The end of the file counts as a hole. Errors: ENXIO (`offset` is not in the file,
    // or there is no data behind it), unsupported (by the server).
    virtual Task<Result<uint64_t>> seek(const Call&, FileHandle handle, uint64_t offset,
                                        SeekFor what) = 0;
    // Locks, unlocks or tests a range of an open file, or the whole of it (LockSpace::flock), for
    // one of the caller's owners. The lock in the way is returned, for `wait` never; its process is
    // 0 if it is not a caller's of this file system. Locks hold against all mounts of the container
    // and end when the handle through which they were set is closed. A waiting call ends with its
    // stop token or deadline. Errors also: invalid, busy (not `wait`: the store was
    // just opened; ask again, see lock_wait.h), no_memory (a limit of locks), unsupported, io
    // (an owner that has lost a lock of this file, until it unlocks all of it), EDEADLK
    // (wait_or_deadlock: processes wait for each other, also those of other clients).
    virtual Task<Result<std::optional<object::Lock>>> lock(const Call&, FileHandle,
                                                           const object::Lock&, LockHow) {
        co_return fail(Code::unsupported);
    }
    virtual Result<PathReport> path_report(FileHandle handle) const = 0;

    // Opens, reads and closes many files in one call, concurrently. If the call has a caller, it
    // needs the right to search the directories in the names, and to read the files (`denied`).
    virtual Task<Result<>> read_many(const Call&, NodeId directory,
                                     std::span<ReadManyItem> items) = 0;
    // Works on blocks of a cache, at most blocks_together_max. A pin ends after `pinned_for`, when
    // the file system ends, or when the store is opened anew. Errors also: unsupported (there are
    // no blocks). Those of an item also: invalid (its key), over_cap (no room; pins would keep more
    // than half of the budget), too_large.
    virtual Task<Result<>> blocks(const Call&, BlockWork, std::span<BlockItem> /*items*/,
                                  Duration /*pinned_for*/) {
        co_return fail(Code::unsupported);
    }
};

}  // namespace ros2s::fs
