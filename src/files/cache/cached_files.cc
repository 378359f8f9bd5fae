// Open files.
#include "cached_file_system.h"
#include "ros2s/runtime/nursery.h"

namespace ros2s::cache {

// ---- opening --------------------------------------------------------------------------------

fs::FileHandle CachedFileSystem::open_here(const Call& call, NodeId node, fs::OpenFlags flags) {
    auto file = std::make_shared<CachedOpen>(reactor_);
    file->node = node;
    file->flags = flags;
    file->tenant = call.tenant;
    if (call.caller != nullptr) {
        file->groups.assign(call.caller->groups.begin(), call.caller->groups.end());
        file->caller = *call.caller;
        file->caller->groups = file->groups;
    }
    const FileHandle handle{cached_open_bit | ++last_cached_open_};
    ++given_[node.value];
    unopened_.emplace(node.value, file);
    cached_opens_.emplace(handle.value, std::move(file));
    metrics_.opens.add();
    return handle;
}

CachedFileSystem::OpenedTask CachedFileSystem::open(const Call& call, NodeId node,
                                                    fs::OpenFlags flags) {
    const Node* const kept = only_reads(flags) ? known(node) : nullptr;
    if (kept != nullptr && (S_ISREG(kept->attributes.mode) || S_ISDIR(kept->attributes.mode)) &&
        permits(call, *kept, fs::Wanted::read) && unopened_.size() < unopened_max) {
        cover(call, *kept);
        co_return fs::Opened{.handle = open_here(call, node, flags),
                             .attributes = kept->attributes};
    }
    Request request(*this, call);
    std::optional<Change> change;
    if (flags.truncate) {
        change.emplace(changes_);
        touch(*change, node);
        change->sent();
    }
    auto opened = co_await below_.open(request.call(), node, flags);
    if (change) {
        change->end(is_certain(opened));
        request.of(*change);
    }
    if (!opened) co_return opened;
    keep(request, opened->attributes, true);
    opened_[opened->handle.value] = {node, flags.write || flags.append};
    co_return opened;
}

CachedFileSystem::OpenedTask CachedFileSystem::create(const Call& call, NodeId parent,
                                                      std::string_view name, mode_t mode,
                                                      fs::OpenFlags flags, fs::Owner owner) {
    Request request(*this, call);
    Change change(changes_);
    const Directory directory = flags.nameless ? Directory{} : directory_of(parent);
    if (!flags.nameless) {
        const Old old = old_of(parent, name);
        touch(change, parent, name);
        if (flags.truncate && !flags.exclusive) touch(change, old);
    }
    change.sent();
    auto opened = co_await below_.create(request.call(), parent, name, mode, flags, owner);
    change.end(is_certain(opened));
    request.of(change);
    if (!opened) co_return opened;
    if (!flags.nameless) {
        keep_found(request, parent, name, opened->attributes, true);
        renew(request, directory, name);
    }
    opened_[opened->handle.value] = {opened->attributes.node, flags.write || flags.append};
    co_return opened;
}

// ---- files that are open only here ----------------------------------------------------------

// With the rights of the caller that opened it. Others wait for the result.
Task<Result<fs::FileHandle>> CachedFileSystem::open_below(const Call& call, CachedOpenPointer file,
                                                          Opening how) {
    using State = CachedOpen::State;
    ROS2S_CO_TRY(co_await file->opening.acquire_for(call));
    const SemaphoreHold turn(file->opening);
    if (file->state == State::lost) co_return fail(file->error);
    if (file->state == State::open) co_return file->below;
    const bool is_held = leases_->holds({file->node.value, file->lease});
    if (file->state == State::leased && how == Opening::by_lease && is_held) co_return file->below;
    if (file->state == State::leased) {
        const auto held = co_await hold_below(call, *file);
        if (file->state != State::leased) erase_unopened(file);
        co_return held;
    }
    const Call opening{.deadline = call.deadline,
                       .stop = call.stop,
                       .tenant = file->tenant,
                       .trace = call.trace,
                       .caller = file->caller ? &*file->caller : nullptr};
    const Node* const kept = how == Opening::by_lease ? held(file->node) : nullptr;
    fs::OpenFlags flags = file->flags;
    flags.leased = kept != nullptr && kept->has_attributes && S_ISREG(kept->attributes.mode) &&
                   kept->attributes.size <= leased_bytes_max;
    if (flags.leased) file->lease = kept->lease;
    const auto opened = co_await below_.open(opening, file->node, flags);
    if (opened) {
        file->state = flags.leased ? State::leased : State::open;
        file->below = opened->handle;
        metrics_.opened.add();
    } else if (opened.error().code == Code::stale || opened.error().code == Code::not_found) {
        file->state = State::lost;
        file->error = Error{Code::stale};
    }
    if (file->state == State::open || file->state == State::lost) erase_unopened(file);
    if (opened) co_return opened->handle;
    co_return fail(opened.error());
}

Task<Result<fs::FileHandle>> CachedFileSystem::hold_below(const Call& call, CachedOpen& file) {
    const auto held = co_await below_.hold(call, file.below);
    if (held) {
        file.state = CachedOpen::State::open;
        co_return file.below;
    }
    if (held.error().code == Code::stale) {
        file.state = CachedOpen::State::lost;
        file.error = Error{Code::stale};
        (void)co_await below_.close(call, file.below);
    }
    co_return fail(held.error());
}

Task<> CachedFileSystem::open_one(CachedFileSystem& self, Call call, CachedOpenPointer file,
                                  Opening how, Result<>& first) {
    const auto opened = co_await self.open_below(call, std::move(file), how);
    if (!opened && first && may_run_on(opened.error().code)) first = fail(opened.error());
}

Task<Result<>> CachedFileSystem::open_all(const Call& call, std::vector<CachedOpenPointer> files,
                                          Opening how) {
    constexpr size_t opens_at_once = 16;
    Result<> first;
    Nursery nursery(reactor_, opens_at_once);
    for (CachedOpenPointer& file : files) {
        co_await nursery.spawn(open_one(*this, call, std::move(file), how, first));
    }
    co_await nursery.join();
    co_return first;
}

Task<Result<>> CachedFileSystem::open_first(const Call& call, Old old) {
    if (unopened_.empty()) co_return Result<>{};
    co_return co_await open_all(call, old.is_known ? unopened(old.node) : unopened(),
                                Opening::by_lease);
}

std::vector<CachedFileSystem::CachedOpenPointer> CachedFileSystem::unopened(NodeId node) const {
    std::vector<CachedOpenPointer> files;
    const auto [first, last] = unopened_.equal_range(node.value);
    for (auto each = first; each != last; ++each) files.push_back(each->second);
    return files;
}

std::vector<CachedFileSystem::CachedOpenPointer> CachedFileSystem::unopened() const {
    std::vector<CachedOpenPointer> files;
    files.reserve(unopened_.size());
    for (const auto& [node, file] : unopened_) files.push_back(file);
    return files;
}

void CachedFileSystem::erase_unopened(const CachedOpenPointer& file) {
    const auto [first, last] = unopened_.equal_range(file->node.value);
    for (auto each = first; each != last; ++each) {
        if (each->second != file) continue;
        unopened_.erase(each);
        return;
    }
}

Task<Result<>> CachedFileSystem::close_cached_open(const Call& call, CachedOpenPointer file) {
    co_await file->opening.acquire();
    const SemaphoreHold hold(file->opening);
    const bool is_open =
        file->state == CachedOpen::State::open || file->state == CachedOpen::State::leased;
    file->state = CachedOpen::State::lost;
    file->error = Error{Code::stale};
    erase_unopened(file);
    forget(file->node, 1);
    if (is_open) co_return co_await below_.close(call, file->below);
    co_return Result<>{};
}

Task<Result<>> CachedFileSystem::close(const Call& call, FileHandle handle) {
    if (const auto found = cached_opens_.find(handle.value); found != cached_opens_.end()) {
        CachedOpenPointer file = std::move(found->second);
        cached_opens_.erase(found);
        end_locks(file->node, handle);
        return close_cached_open(call, std::move(file));
    }
    if (const auto found = opened_.find(handle.value); found != opened_.end()) {
        end_locks(found->second.node, handle);
        opened_.erase(found);
    }
    return below_.close(call, handle);
}

template <class Work>
auto CachedFileSystem::with_cached_open(const Call& call, CachedOpenPointer file, Work work)
    -> decltype(work(FileHandle{})) {
    ROS2S_CO_TRY_ASSIGN(const FileHandle below,
                        co_await open_below(call, std::move(file), Opening::whole));
    co_return co_await work(below);
}

template <class Work>
auto CachedFileSystem::with(const Call& call, FileHandle handle, Work work)
    -> decltype(work(handle)) {
    if ((handle.value & cached_open_bit) == 0) return work(handle);
    const auto found = cached_opens_.find(handle.value);
    if (found == cached_opens_.end()) return work(handle);
    if (found->second->state == CachedOpen::State::open) return work(found->second->below);
    return with_cached_open(call, found->second, std::move(work));
}

// ---- bytes ----------------------------------------------------------------------------------

template <class Work>
auto CachedFileSystem::change_file(const Call& call, FileHandle handle, Work work)
    -> decltype(work(handle)) {
    const auto found = opened_.find(handle.value);
    if (found == opened_.end() || !found->second.writes) return with(call, handle, std::move(work));
    return change_node(found->second.node, [work, handle] { return work(handle); });
}

// The lease says where the file ends: there is nothing to ask for behind it.
Task<Result<uint64_t>> CachedFileSystem::read_cached_open(const Call& call, CachedOpenPointer file,
                                                          Window into, uint64_t offset) {
    if (const Node* const kept = known(file->node); kept != nullptr) {
        if (S_ISDIR(kept->attributes.mode)) co_return fail(Code::is_directory);
        if (offset >= kept->attributes.size) co_return uint64_t{0};
        into = into.slice(0, std::min(into.length, kept->attributes.size - offset));
    }
    const bool is_often = ++file->leased_reads > leased_reads_max;
    for (;;) {
        ROS2S_CO_TRY_ASSIGN(
            const FileHandle below,
            co_await open_below(call, file, is_often ? Opening::whole : Opening::by_lease));
        const auto read = co_await below_.pread(call, below, into, offset);
        const bool is_safe = file->state != CachedOpen::State::leased ||
                             leases_->holds({file->node.value, file->lease});
        if (is_safe) co_return read;
        // Without the lease the file may have been removed meanwhile.
        ROS2S_CO_TRY(co_await open_below(call, file, Opening::whole));
    }
}

Task<Result<uint64_t>> CachedFileSystem::pread(const Call& call, FileHandle handle, Window into,
                                               uint64_t offset) {
    if (const auto found = cached_opens_.find(handle.value);
        found != cached_opens_.end() && found->second->state != CachedOpen::State::open) {
        return read_cached_open(call, found->second, into, offset);
    }
    return with(call, handle, [this, &call, into, offset](FileHandle below) {
        return below_.pread(call, below, into, offset);
    });
}

Task<Result<uint64_t>> CachedFileSystem::pwrite(const Call& call, FileHandle handle, Window from,
                                                uint64_t offset) {
    return change_file(call, handle, [this, &call, from, offset](FileHandle below) {
        return below_.pwrite(call, below, from, offset);
    });
}

Task<Result<>> CachedFileSystem::fsync(const Call& call, FileHandle handle) {
    return with(call, handle,
                [this, &call](FileHandle below) { return below_.fsync(call, below); });
}

Task<Result<>> CachedFileSystem::punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                                            uint64_t length) {
    return change_file(call, handle, [this, &call, offset, length](FileHandle below) {
        return below_.punch_hole(call, below, offset, length);
    });
}

Task<Result<>> CachedFileSystem::allocate(const Call& call, FileHandle handle, uint64_t offset,
                                          uint64_t length, bool keeps_size) {
    return change_file(call, handle, [this, &call, offset, length, keeps_size](FileHandle below) {
        return below_.allocate(call, below, offset, length, keeps_size);
    });
}

Task<Result<uint64_t>> CachedFileSystem::seek(const Call& call, FileHandle handle, uint64_t offset,
                                              fs::SeekFor what) {
    return with(call, handle, [this, &call, offset, what](FileHandle below) {
        return below_.seek(call, below, offset, what);
    });
}

// ---- locks ----------------------------------------------------------------------------------

fs::NodeId CachedFileSystem::node_of(FileHandle handle) const {
    if (const auto found = cached_opens_.find(handle.value); found != cached_opens_.end())
        return found->second->node;
    const auto opened = opened_.find(handle.value);
    return opened == opened_.end() ? NodeId{} : opened->second.node;
}

void CachedFileSystem::note_lock(FileHandle handle, const object::Lock& lock) {
    const NodeId node = node_of(handle);
    any_locked_ = any_locked_ || node == NodeId{} || locks_ >= locks_max;
    if (any_locked_) return;
    const Locked entry{.handle = handle, .number = ++last_lock_};
    if (locked_[node].insert_or_assign({lock.space, lock.owner}, entry).second) ++locks_;
}

bool CachedFileSystem::may_have_lock(NodeId node, const object::Lock& lock) const {
    const auto found = locked_.find(node);
    return any_locked_ ||
           (found != locked_.end() && found->second.contains({lock.space, lock.owner}));
}

void CachedFileSystem::end_locks(NodeId node, FileHandle handle) {
    const auto found = locked_.find(node);
    if (found == locked_.end()) return;
    locks_ -= std::erase_if(found->second,
                            [&](const auto& each) { return each.second.handle == handle; });
    if (found->second.empty()) locked_.erase(found);
}

// A mount unlocks at each close. Mostly there is nothing to unlock. What there is needs no pin.
CachedFileSystem::LockTask CachedFileSystem::unlock(const Call& call, FileHandle handle,
                                                    object::Lock lock, fs::LockHow how) {
    const NodeId node = node_of(handle);
    const LockOwner owner{lock.space, lock.owner};
    const uint64_t last = last_lock_;
    const auto cached = cached_opens_.find(handle.value);
    FileHandle below = handle;
    if (cached != cached_opens_.end()) {
        if (!may_have_lock(node, lock)) co_return std::nullopt;
        ROS2S_CO_TRY_ASSIGN(below, co_await open_below(call, cached->second, Opening::by_lease));
    }
    auto done = co_await below_.lock(call, below, lock, how);
    const bool is_whole = lock.first == 0 && lock.last == UINT64_MAX;
    const auto found = locked_.find(node);
    if (!done || !is_whole || found == locked_.end()) co_return done;
    locks_ -= std::erase_if(found->second, [&](const auto& each) {
        return each.first == owner && each.second.number <= last;
    });
    if (found->second.empty()) locked_.erase(found);
    co_return done;
}

// An unlock meanwhile may have been done before it.
CachedFileSystem::LockTask CachedFileSystem::set_lock(const Call& call, FileHandle handle,
                                                      object::Lock lock, fs::LockHow how) {
    const bool sets = how != fs::LockHow::test;
    if (sets) note_lock(handle, lock);
    auto done = co_await with(call, handle, [this, &call, &lock, how](FileHandle below) {
        return below_.lock(call, below, lock, how);
    });
    if (sets && node_of(handle) != NodeId{}) note_lock(handle, lock);
    co_return done;
}

CachedFileSystem::LockTask CachedFileSystem::lock(const Call& call, FileHandle handle,
                                                  const object::Lock& lock, fs::LockHow how) {
    if (lock.mode == object::LockMode::none) return unlock(call, handle, lock, how);
    return set_lock(call, handle, lock, how);
}

Result<fs::PathReport> CachedFileSystem::path_report(FileHandle handle) const {
    const auto found = cached_opens_.find(handle.value);
    if (found == cached_opens_.end()) return below_.path_report(handle);
    const CachedOpen& file = *found->second;
    if (file.state == CachedOpen::State::open || file.state == CachedOpen::State::leased) {
        return below_.path_report(file.below);
    }
    if (file.state == CachedOpen::State::lost) return fail(file.error);
    return fs::PathReport{.path = "opened from the cache, not used yet"};
}

}  // namespace ros2s::cache
