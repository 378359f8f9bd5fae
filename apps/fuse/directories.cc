// opendir, readdir, readdirplus, releasedir, fsyncdir.
//
// Offsets: the file system's cookies start after 0, and "." and ".." are added here, so an offset
// is the cookie plus 2; 0 is before ".", 1 before "..", 2 before the first name.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "request.h"

namespace ros2s::fuse {
namespace {

constexpr uint64_t dots = 2;

Task<> opendir_task(Server& server, fuse_req_t request, fs::NodeId node, fuse_file_info file) {
    const UserCall user(server, request);
    auto& file_system = server.file_system();
    const auto opened = co_await file_system.open(user.call, node, {});
    if (!opened) {
        reply_error(request, opened.error());
        co_return;
    }
    // The kernel's directory cache stays off: it continues one handle's walk at another's cookie,
    // but cookies belong to their handle.
    file.fh = opened->handle.value;
    if (fuse_reply_open(request, &file) != 0) {
        std::ignore = co_await file_system.close(user.call, opened->handle);
    }
}
void opendir(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    run(request, opendir_task, node_of(node), *file);
}

// One reply being filled.
class Listing {
  public:
    Listing(fuse_req_t request, size_t room, bool plus)
        : request_(request), bytes_(room, '\0'), plus_(plus) {}

    [[nodiscard]] size_t needs(const char* name) const noexcept {
        return plus_ ? fuse_add_direntry_plus(request_, nullptr, 0, name, nullptr, 0)
                     : fuse_add_direntry(request_, nullptr, 0, name, nullptr, 0);
    }
    [[nodiscard]] bool fits(size_t more) const noexcept { return used_ + more <= bytes_.size(); }
    // The entry must fit.
    void add(const char* name, const fuse_entry_param& entry, uint64_t next) noexcept {
        char* const at = bytes_.data() + used_;
        const size_t room = bytes_.size() - used_;
        const auto offset = static_cast<off_t>(next);
        used_ += plus_ ? fuse_add_direntry_plus(request_, at, room, name, &entry, offset)
                       : fuse_add_direntry(request_, at, room, name, &entry.attr, offset);
    }
    // "." and "..": the kernel uses only the name.
    bool add_dot(const char* name, fs::NodeId node, uint64_t next) noexcept {
        if (!fits(needs(name))) return false;
        fuse_entry_param entry{};
        entry.attr.st_ino = node.value;
        entry.attr.st_mode = S_IFDIR;
        add(name, entry, next);
        return true;
    }
    [[nodiscard]] bool send() const noexcept {
        return fuse_reply_buf(request_, bytes_.data(), used_) == 0;
    }

  private:
    fuse_req_t request_;
    std::string bytes_;
    size_t used_ = 0;
    bool plus_;
};

using Entries = std::vector<fs::ListedEntry>;

Task<Result<Entries>> read_names(Server& server, fs::FileHandle handle, uint64_t cookie,
                                 size_t limit) {
    const Call call;
    ROS2S_CO_TRY_ASSIGN(auto names,
                        co_await server.file_system().readdir(call, handle, cookie, limit));
    Entries entries;
    for (fs::DirectoryEntry& name : names) {
        entries.push_back({.entry = std::move(name), .attributes = fail(Code::not_found)});
    }
    co_return entries;
}

// With attributes, which `ls -l` and `find` need next: one request.
Task<Result<Entries>> read_attributes(Server& server, const UserCall& user, fs::NodeId node,
                                      fs::FileHandle handle, uint64_t cookie, size_t limit) {
    co_return co_await server.file_system().readdir_many(user.call, node, handle, cookie, limit);
}

void forget(Server& server, std::span<const fs::ListedEntry> entries) {
    for (const auto& [name, attributes] : entries) {
        if (attributes) server.file_system().forget(attributes->node, 1);
    }
}

// Long names may need more room than was reckoned with.
void drop_what_does_not_fit(Server& server, const Listing& listing, Entries& entries) {
    size_t bytes = 0;
    size_t fitting = 0;
    while (fitting < entries.size()) {
        bytes += listing.needs(entries[fitting].entry.name.c_str());
        if (!listing.fits(bytes)) break;
        ++fitting;
    }
    forget(server, std::span(entries).subspan(fitting));
    entries.resize(fitting);
}

Task<> readdir_task(Server& server, fuse_req_t request, fs::NodeId node, fs::FileHandle handle,
                    size_t room, uint64_t offset, bool plus) {
    const UserCall user(server, request);
    Listing listing(request, room, plus);
    bool full = false;
    if (offset == 0) full = !listing.add_dot(".", node, 1);
    if (offset <= 1 && !full) full = !listing.add_dot("..", {FUSE_ROOT_ID}, dots);
    Entries entries;
    if (!full) {
        const uint64_t cookie = offset <= dots ? 0 : offset - dots;
        const size_t limit = std::max<size_t>(1, room / listing.needs("12345678"));
        auto read = plus ? co_await read_attributes(server, user, node, handle, cookie, limit)
                         : co_await read_names(server, handle, cookie, limit);
        if (!read) {
            reply_error(request, read.error());
            co_return;
        }
        entries = std::move(*read);
        drop_what_does_not_fit(server, listing, entries);
    }
    for (const auto& [name, attributes] : entries) {
        fuse_entry_param entry{};
        if (attributes) {
            entry = to_entry(server, user, node, name.name, *attributes);
        } else {  // only a name; also if the node was removed meanwhile
            entry.attr.st_ino = name.node.value;
            entry.attr.st_mode = name.type;
        }
        listing.add(name.name.c_str(), entry, name.cookie + dots);
    }
    if (!listing.send()) forget(server, entries);
}
void readdir(fuse_req_t request, fuse_ino_t node, size_t room, off_t offset, fuse_file_info* file) {
    run(request, readdir_task, node_of(node), handle_of(*file), room, static_cast<uint64_t>(offset),
        false);
}
void readdirplus(fuse_req_t request, fuse_ino_t node, size_t room, off_t offset,
                 fuse_file_info* file) {
    run(request, readdir_task, node_of(node), handle_of(*file), room, static_cast<uint64_t>(offset),
        true);
}

Task<> releasedir_task(Server& server, fuse_req_t request, fs::FileHandle handle) {
    const Call call;
    reply(request, co_await server.file_system().close(call, handle));
}
void releasedir(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    run(request, releasedir_task, handle_of(*file));
}

Task<> fsyncdir_task(Server& server, fuse_req_t request, fs::FileHandle handle) {
    const Call call;
    reply(request, co_await server.file_system().fsync(call, handle));
}
void fsyncdir(fuse_req_t request, fuse_ino_t, int, fuse_file_info* file) {
    run(request, fsyncdir_task, handle_of(*file));
}

}  // namespace

void add_directory_operations(fuse_lowlevel_ops& table) noexcept {
    table.opendir = opendir;
    table.readdir = readdir;
    table.readdirplus = readdirplus;
    table.releasedir = releasedir;
    table.fsyncdir = fsyncdir;
}

}  // namespace ros2s::fuse
