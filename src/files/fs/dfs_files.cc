// Handles: open, create, close, readdir, and the path report of an open file.
#include "dfs_mount.h"

namespace ros2s::fs {

Task<Result<Opened>> DfsMount::open_pinned(const Call& call, NodeState& state, OpenFlags flags) {
    ROS2S_CO_TRY_ASSIGN(InodeAndContents whole, co_await hold(call, state));
    InodeRecord& inode = whole.inode.record;
    const mode_t mode = inode.mode;
    if (S_ISLNK(mode)) co_return fail(Code::loop);
    if (!S_ISREG(mode) && !S_ISDIR(mode)) co_return fail(Code::invalid);
    const bool writes = flags.write || flags.append || flags.truncate;
    if (S_ISDIR(mode) && writes) co_return fail(Code::is_directory);
    if (writes) ROS2S_CO_TRY(check_flags(inode, node_flags::immutable));
    const bool only_appends = flags.append && !flags.truncate;
    if (writes && !only_appends) ROS2S_CO_TRY(check_flags(inode, node_flags::append_only));
    state.flags = inode.flags;
    state.set_id_mode = mode;
    // Found before it lost its name, or opened again by a client that had it open. It is
    // removed after it is closed.
    if (inode.links == 0) {
        state.orphaned = true;
        // Other clients of an earlier mount may open it again.
        state.spared_until = std::max(spared_until(inode), grace_until_);
    }
    if (S_ISDIR(mode)) state.directory = std::make_unique<InodeRecord>(inode);
    if (flags.truncate) {
        ROS2S_CO_TRY(co_await set_size(call, state.node, 0, 1));
        const SetIds cleared =
            flags.keeps_set_ids ? SetIds::none : cleared_by_writer(call.caller, inode.gid);
        if (state.may_have(cleared)) {
            ROS2S_CO_TRY(co_await clear_set_ids(call, state, cleared));
            inode.mode &= ~set_ids_of(mode, cleared);
            inode.flags &= ~node_flags::has_capabilities;
        }
        ROS2S_CO_TRY_ASSIGN(whole.contents, co_await query_contents(call, state.node, mode));
    }
    co_return add_handle(call, state, flags,
                         attributes_of(state.node, inode, whole.contents, chunk_bytes_));
}

Result<Opened> DfsMount::add_handle(const Call& call, NodeState& state, OpenFlags flags,
                                    const Attributes& attributes) {
    if (handles_.full()) return fail(Code::no_memory);
    auto file = std::make_unique<OpenFile>(reactor_, state, flags, attributes.mode, listings_);
    file->clears =
        flags.keeps_set_ids ? SetIds::none : cleared_by_writer(call.caller, attributes.gid);
    file->known_end = attributes.size;
    // If nobody knows of a loss yet, the next user does (as errseq_t of Linux).
    file->losses_told = loss_told_;
    ++state.handles;
    return Opened{.handle = handles_.add(std::move(file)), .attributes = attributes};
}

Task<Result<Opened>> DfsMount::open(const Call& call, NodeId node, OpenFlags flags) {
    NodeState& state = co_await pin(node);
    auto opened =
        flags.leased ? open_leased(call, state, flags) : co_await open_pinned(call, state, flags);
    if (!opened) co_await unpin(state);  // otherwise the handle has the pin
    co_return opened;
}

// The lease keeps the file as a pin in the store would.
Result<Opened> DfsMount::open_leased(const Call& call, NodeState& state, OpenFlags flags) {
    if (!state.held && state.handles == 0) state.era = store_.pins_era();
    return add_handle(call, state, flags, {.node = state.node, .mode = S_IFREG});
}

Task<Result<>> DfsMount::hold(const Call& call, FileHandle handle) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (!file->node.held) ROS2S_CO_TRY(co_await hold(call, file->node));
    co_return Result<>{};
}

Task<Result<Opened>> DfsMount::create_nameless(const Call& call, NodeId parent, mode_t mode,
                                               OpenFlags flags, Owner owner) {
    NewNode wanted{.mode = S_IFREG | (mode & permission_bits),
                   .owner = owner,
                   .opens = true,
                   .nameless = true,
                   .linkable = !flags.exclusive};
    ROS2S_CO_TRY_ASSIGN(const Attributes made, co_await add_new_node(call, parent, wanted));
    const auto opened = add_handle(call, *wanted.state, flags, made);
    if (!opened) co_await unpin(*wanted.state);
    co_return opened;
}

Task<Result<Opened>> DfsMount::create(const Call& call, NodeId parent, std::string_view name,
                                      mode_t mode, OpenFlags flags, Owner owner) {
    if (flags.nameless) {
        if (!name.empty() || !flags.write) co_return fail(Code::invalid);
        co_return co_await create_nameless(call, parent, mode, flags, owner);
    }
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        NewNode wanted{.name = name,
                       .mode = S_IFREG | (mode & permission_bits),
                       .owner = owner,
                       .opens = true};
        const auto made = co_await add_node(call, parent, wanted);
        if (!made && (made.error().code != Code::exists || flags.exclusive)) {
            co_return fail(made.error());
        }
        if (wanted.state != nullptr) {
            const auto opened = add_handle(call, *wanted.state, flags, *made);
            if (!opened) co_await unpin(*wanted.state);
            co_return opened;
        }
        // It was made by an earlier execution of this call, or by others.
        OpenFlags how = flags;
        if (made) how.truncate = false;  // a new file is empty
        if (!made && wanted.existing.record.is_directory()) co_return fail(Code::is_directory);
        auto opened = co_await open(call, made ? made->node : wanted.existing.node(), how);
        const bool removed = !opened && opened.error().code == Code::stale;
        if (!removed) co_return opened;
    }
    co_return fail(Code::busy);
}

Task<Result<>> DfsMount::close(const Call&, FileHandle handle) {
    const std::unique_ptr<OpenFile> file = handles_.remove(handle);
    if (file == nullptr) co_return fail(Code::stale);
    while (file->in_flight > 0) co_await file->idle;
    NodeState& state = file->node;
    if (!file->lock_owners.empty()) co_await release_locks(*file);
    const Result<> told = file->flags.write ? tell_loss(*file) : Result<>();
    --state.handles;
    if (store_.pins_era() == 0 || state.orphaned) {
        co_await unpin(state);
    } else {
        // The caller does not wait for the store's reply. A call that opens the node again waits.
        co_await unpinning_.spawn(unpin_later(*this, state));
    }
    co_return told;
}

// Makes everything durable, in one flush: of names that lead to the file, and of a rename over it.
Task<Result<>> DfsMount::fsync(const Call& call, FileHandle handle) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    const Result<> synced = co_await sync(call);
    ROS2S_CO_TRY(tell_loss(*file));
    co_return synced;
}

Task<Result<>> DfsMount::sync(const Call& call) {
    if (deferred_) co_return co_await deferred_->make_durable(call);
    // Another client of this process may have deferred what this one has read. A store in another
    // process shows only what is durable.
    if (!store_.features().deferred || store_.pins_era() != 0) co_return Result<>();
    ROS2S_CO_TRY(co_await store_.sync(call, container_, holder_, {}));
    co_return Result<>();
}

Result<> DfsMount::tell_loss(OpenFile& file) {
    if (!deferred_ || file.losses_told == deferred_->losses()) return {};
    loss_told_ = file.losses_told = deferred_->losses();
    return fail(Code::io);
}

Task<Result<std::vector<DirectoryEntry>>> DfsMount::readdir(const Call& call, FileHandle handle,
                                                            uint64_t cookie, size_t limit) {
    const FileUse file(handles_.find(handle));
    if (!file) co_return fail(Code::stale);
    if (!file->is_directory) co_return fail(Code::not_directory);
    if (file->cookies.is_behind_end(cookie)) co_return std::vector<DirectoryEntry>{};
    // The number is not one that this handle has returned: a seek behind the end, or a cookie of
    // another handle. Reading on distinguishes them. Each list checks the deadline; a call that is
    // repeated goes on where it ended.
    while (file->cookies.last() < cookie) {
        ROS2S_CO_TRY(
            co_await read_names(call, *file, file->cookies.last(), object::fetch_items_max));
        if (file->cookies.is_behind_end(cookie)) co_return std::vector<DirectoryEntry>{};
    }
    if (limit == 0) co_return std::vector<DirectoryEntry>{};
    co_return co_await read_names(call, *file, cookie, limit);
}

Task<Result<std::vector<DirectoryEntry>>> DfsMount::read_names(const Call& call, OpenFile& file,
                                                               uint64_t cookie, size_t limit) {
    Listing listing{
        {.what = object::ListRequest::What::dkeys,
         .object = object_of(file.node.node),
         .akey = entry_akey(),
         .limit = static_cast<uint32_t>(std::clamp<size_t>(limit, 1, object::fetch_items_max))}};
    if (cookie != 0) {
        auto name = file.cookies.find(cookie);
        if (!name) co_return fail(Code::invalid);
        listing.request.after = std::move(*name);
    }
    std::vector<DirectoryEntry> entries;
    // A page may have nothing but keys that are no names.
    while (entries.empty() && listing.more) {
        ROS2S_CO_TRY_ASSIGN(const auto page, co_await next_page(call, listing));
        for (const object::ListEntry& listed : page) {
            if (is_no_entry(listed)) continue;  // the directory's names stay usable
            ROS2S_CO_TRY_ASSIGN(const auto record, decode<EntryRecord>(as_bytes(listed.value)));
            entries.push_back(
                {.name = listed.key, .node = {record.node}, .type = record.type_bits()});
        }
    }
    file.cookies.begin(cookie, call.tenant);
    for (DirectoryEntry& entry : entries) entry.cookie = file.cookies.add(entry.name);
    if (!listing.more) file.cookies.reached_end();
    file.cookies.end();
    co_return entries;
}

Result<PathReport> DfsMount::path_report(FileHandle handle) const {
    const OpenFile* file = handles_.find(handle);
    if (file == nullptr) return fail(Code::stale);
    return PathReport{.path = store_.path() + (is_deferred_ ? ", durable at fsync" : ""),
                      .reads = file->reads.value(),
                      .read_bytes = file->read_bytes.value(),
                      .writes = file->writes.value(),
                      .written_bytes = file->written_bytes.value()};
}

}  // namespace ros2s::fs
