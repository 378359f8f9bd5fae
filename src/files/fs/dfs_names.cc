// Names: look-up and creation. Removal is in dfs_removal.cc.
#include <array>

#include "dfs_mount.h"

namespace ros2s::fs {

Task<Result<DfsMount::ParentAndEntry>> DfsMount::find(const Call& call, NodeId parent,
                                                      std::string_view name) {
    ROS2S_CO_TRY(check_name(name));
    RecordChain chain;
    ChainName wanted;
    chain.add({.node = parent}, name, wanted);
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, chain.items()));
    co_return named_of(chain, wanted);
}

Task<Result<DfsMount::EntryAndNode>> DfsMount::find_node(const Call& call, NodeId parent,
                                                         std::string_view name) {
    ROS2S_CO_TRY(check_name(name));
    RecordChain chain;
    ChainName wanted;
    ChainWhole node;
    chain.add({.node = parent}, name, wanted);
    chain.add(wanted.node(), node);
    ROS2S_CO_TRY(co_await fetch(call, chain));
    co_return found_in(chain, wanted, node);
}

Result<DfsMount::EntryAndNode> DfsMount::found_in(const RecordChain& chain, const ChainName& name,
                                                  const ChainWhole& node) {
    ROS2S_TRY_ASSIGN(const ParentAndEntry named, named_of(chain, name));
    return EntryAndNode{.named = named, .node = whole_of(chain, node)};
}

Result<DfsMount::ParentAndEntry> DfsMount::named_of(const RecordChain& chain,
                                                    const ChainName& name) {
    ParentAndEntry named;
    ROS2S_TRY_ASSIGN(named.parent.record, record_of(chain.item(name.at), name.parent));
    named.parent.epoch = chain.item(name.at).epoch;
    if (!S_ISDIR(named.parent.record.mode)) return fail(Code::not_directory);
    if (named.parent.record.links == 0) return fail(Code::not_found);  // an orphan
    const FetchItem& item = chain.item(name.at + 1);
    const auto found = record_of(item, name.entry);
    if (found) {
        named.entry = {.record = *found, .epoch = item.epoch};
    } else if (found.error().code != Code::not_found) {
        return fail(found.error());
    }
    return named;
}

Task<Result<Attributes>> DfsMount::lookup(const Call& call, NodeId parent, std::string_view name) {
    if (name == ".") co_return co_await get_attributes(call, parent);
    if (name == "..") {
        ROS2S_CO_TRY_ASSIGN(const Inode inode, co_await fetch_inode(call, parent));
        if (inode.record.parent == 0) co_return fail(Code::stale);  // a file: see plan_removal()
        co_return co_await get_attributes(call, NodeId{inode.record.parent});
    }
    co_return (co_await look_up_names(call, parent, {&name, 1})).back();
}

Task<std::vector<Result<Attributes>>> DfsMount::look_up_names(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    constexpr size_t names_max =
        (object::chain_items_max - RecordChain::whole_items) / RecordChain::name_items;
    size_t count = 0;
    while (count < std::min(names.size(), names_max) && check_name(names[count])) ++count;
    std::vector<Result<Attributes>> found;
    if (count == 0) found.emplace_back(fail(check_name(names[0]).error()));
    for (int attempt = 0; found.empty(); ++attempt) {
        RecordChain chain(count * RecordChain::name_items + RecordChain::whole_items);
        std::vector<ChainName> wanted(count);
        ChainWhole last;
        for (size_t i = 0; i < count; ++i) {
            const ChainNode directory = i == 0 ? ChainNode{.node = parent} : wanted[i - 1].node();
            chain.add(directory, names[i], wanted[i]);
        }
        chain.add(wanted.back().node(), last);
        const Result<> done = co_await fetch(call, chain);
        if (!done) {
            found.emplace_back(fail(done.error()));
            break;
        }
        found = nodes_in(chain, parent, wanted, last);
        const bool gone = !found.back() && found.back().error().code == Code::stale;
        if (!gone) break;
        // It was unlinked between the two reads: look again.
        found.clear();
        if (attempt == attempts_max) found.emplace_back(fail(Code::corrupt));
        co_await yield(reactor_);
    }
    co_return found;
}

std::vector<Result<Attributes>> DfsMount::nodes_in(const RecordChain& chain, NodeId parent,
                                                   std::span<const ChainName> names,
                                                   const ChainWhole& last) {
    std::vector<Result<Attributes>> found;
    found.reserve(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
        const auto named = named_of(chain, names[i]);
        if (named) remember(i == 0 ? parent : found.back()->node, named->parent);
        if (!named || !named->entry.exists()) {
            found.emplace_back(named ? fail(Code::not_found) : fail(named.error()));
            break;
        }
        const NodeId node = named->entry.node();
        if (i + 1 == names.size()) {
            const auto whole = whole_of(chain, last);
            if (whole && S_ISDIR(whole->inode.record.mode)) remember(node, whole->inode);
            found.push_back(whole ? Result<Attributes>(attributes_of(node, whole->inode.record,
                                                                     whole->contents, chunk_bytes_))
                                  : fail(whole.error()));
            break;
        }
        // It was fetched as the directory of the next name.
        const auto inode = record_of(chain.item(names[i + 1].at), names[i + 1].parent);
        if (!inode) {
            const bool gone = inode.error().code == Code::not_found;
            found.emplace_back(gone ? fail(Code::stale) : fail(inode.error()));
            break;
        }
        found.emplace_back(Attributes{.node = node,
                                      .mode = inode->mode,
                                      .uid = inode->uid,
                                      .gid = inode->gid,
                                      .flags = inode->flags & node_flags::told});
        if (!S_ISDIR(inode->mode)) break;
    }
    return found;
}

void DfsMount::remember(NodeId directory, const Inode& inode) {
    // It was removed, and nothing can be added to it.
    if (inode.record.links == 0) {
        directories_.erase(directory.value);
        return;
    }
    if (directories_.size() >= directories_max) directories_.clear();
    directories_[directory.value] = inode;
}

// As Linux in a set-group directory: new nodes inherit the group, and new directories also the bit.
InodeRecord DfsMount::new_inode(NodeId directory, const InodeRecord& parent, mode_t mode,
                                Owner owner) const {
    const int64_t now = now_ns();
    InodeRecord record{.mode = mode,
                       .links = 1,
                       .uid = owner.uid,
                       .gid = owner.gid,
                       .parent = directory.value,
                       .created_ns = now,
                       .accessed_ns = now,
                       .modified_ns = now,
                       .changed_ns = now};
    if ((parent.mode & S_ISGID) != 0) {
        record.gid = parent.gid;
        if (S_ISDIR(mode)) record.mode |= S_ISGID;
    }
    if (!inherits_acl(parent, mode) && !S_ISLNK(mode)) record.mode &= ~(owner.umask & access_bits);
    return record;
}

// The directory's list is the one of its record: the transaction has the condition that the record
// has not changed.
Task<Result<>> DfsMount::inherit_acl(const Call& call, NodeId directory, InodeRecord& record,
                                     NewNode& wanted) {
    ROS2S_CO_TRY_ASSIGN(Acl list, co_await fetch_acl(call, directory, default_acl_name));
    if (S_ISDIR(record.mode)) {
        record.flags |= node_flags::has_default_acl;
        wanted.default_acl = list.encode();
    }
    record.mode = (record.mode & ~access_bits) | list.inherit(record.mode);
    if (!list.is_mode()) {
        record.flags |= node_flags::has_access_acl;
        wanted.access_acl = list.encode();
    }
    co_return Result<>();
}

Task<Result<Attributes>> DfsMount::add_node(const Call& call, NodeId parent, NewNode& wanted) {
    auto added = co_await add_new_node(call, parent, wanted);
    if (added) co_return added;
    ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call));
    if (!before) co_return added;
    co_return co_await node_added_at(call, parent, wanted.name, before->epoch);
}

Task<Result<Attributes>> DfsMount::node_added_at(const Call& call, NodeId parent,
                                                 std::string_view name, Epoch epoch) {
    ROS2S_CO_TRY_ASSIGN(const ParentAndEntry named, co_await find(call, parent, name));
    if (named.entry.epoch != epoch) co_return fail(Code::stale);
    co_return co_await get_attributes(call, named.entry.node());
}

Task<Result<Attributes>> DfsMount::add_new_node(const Call& call, NodeId parent, NewNode& wanted) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        if (!wanted.nameless) ROS2S_CO_TRY(check_name(wanted.name));
        const auto known = directories_.find(parent.value);
        Inode directory;
        const bool is_known = known != directories_.end() && check_may_add(known->second.record);
        if (attempt == 0 && is_known) {
            directory = known->second;
        } else if (wanted.nameless) {
            ROS2S_CO_TRY_ASSIGN(directory, co_await fetch_inode(call, parent));
            if (!S_ISDIR(directory.record.mode)) co_return fail(Code::not_directory);
            if (directory.record.links == 0) co_return fail(Code::not_found);
            remember(parent, directory);
        } else {
            ROS2S_CO_TRY_ASSIGN(const ParentAndEntry named,
                                co_await find(call, parent, wanted.name));
            wanted.existing = named.entry;
            if (named.entry.exists()) co_return fail(Code::exists);
            directory = named.parent;
            remember(parent, directory);
        }
        ROS2S_CO_TRY(check_may_add(directory.record));
        ROS2S_CO_TRY_ASSIGN(const NodeId node, co_await next_node(call));
        InodeRecord record = new_inode(parent, directory.record, wanted.mode, wanted.owner);
        record.device = wanted.device;
        record.target_bytes = static_cast<uint16_t>(wanted.target.size());
        if (wanted.nameless) record.links = 0;
        if (wanted.linkable) record.flags = InodeRecord::linkable;
        wanted.access_acl.clear();
        wanted.default_acl.clear();
        if (inherits_acl(directory.record, wanted.mode)) {
            const auto inherited = co_await inherit_acl(call, parent, record, wanted);
            const bool is_old = !inherited && (inherited.error().code == Code::no_attribute ||
                                               inherited.error().code == Code::stale);
            if (is_old) directories_.erase(parent.value);
            if (is_old) continue;
            ROS2S_CO_TRY(inherited);
        }
        const auto done =
            co_await commit_new_node(call, parent, directory.epoch, node, record, wanted);
        if (done && done->replayed && wanted.nameless) continue;  // nobody has that one
        if (done && done->replayed)
            co_return co_await node_added_at(call, parent, wanted.name, done->epoch);
        if (done) co_return attributes_of(node, record, {}, chunk_bytes_);
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

Task<Result<Commit>> DfsMount::commit_new_node(const Call& call, NodeId parent, Epoch epoch,
                                               NodeId node, const InodeRecord& record,
                                               NewNode& wanted) {
    const EntryRecord entry = EntryRecord::of(node, record.mode);
    const OrphanRecord orphan;
    NodeState* state = nullptr;
    if (wanted.opens) state = &(co_await pin(node)).get();
    const uint64_t era = store_.pins_era();
    const Leased directory = lease_of(call, parent);
    const uint64_t lease_era = !wanted.nameless && wants_update_leases(call) ? leases_.era() : 0;
    Result<Commit> done;
    {
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(parent, epoch));
        if (!wanted.nameless) slot.require(entry_is(parent, wanted.name, Epoch{}));
        if (wanted.opens) {
            slot.require({.kind = Condition::Kind::pin, .object = object_of(node)});
        }
        if (lease_era != 0) {
            slot.require({.kind = Condition::Kind::lease, .object = object_of(node)});
        }
        if (wanted.nameless) {
            slot.add(put(object_of(orphan_node), Dkey::integer(node.value), orphan_akey(), orphan));
        } else {
            slot.add(put(object_of(parent), name_dkey(wanted.name), entry_akey(), entry));
        }
        slot.add(put_inode(node, record));
        if (S_ISLNK(record.mode)) {
            slot.add({.kind = Operation::Kind::put,
                      .object = object_of(node),
                      .dkey = record_dkey(),
                      .akey = target_akey(),
                      .window = Window::local(as_bytes(wanted.target))});
        }
        if (!wanted.access_acl.empty()) slot.add(put_acl(node, access_acl_name, wanted.access_acl));
        if (!wanted.default_acl.empty()) {
            slot.add(put_acl(node, default_acl_name, wanted.default_acl));
        }
        // A repetition makes another file: the one of the first execution is lost with its handle.
        done = co_await (wanted.nameless ? commit(call, slot) : commit_named(call, slot));
    }
    if (done && lease_era != 0) take_lease(call, lease_era, {node.value, done->lease, done->time});
    if (!wanted.nameless) note_changed(call, directory, done);
    if (state == nullptr) co_return done;
    const bool is_pinned = done && !done->replayed;
    // Without an answer, the object may be pinned all the same. So it may if a repetition finds the
    // request done.
    state->held = done || done.error().code != Code::condition_failed;
    state->era = era;
    state->set_id_mode = record.mode;
    state->orphaned = wanted.nameless;
    if (is_pinned) {
        wanted.state = state;
    } else {
        // The caller does not wait for the store's reply, which may take as long as the first one.
        co_await unpinning_.spawn(unpin_later(*this, *state));
    }
    co_return done;
}

Task<Result<Attributes>> DfsMount::mkdir(const Call& call, NodeId parent, std::string_view name,
                                         mode_t mode, Owner owner) {
    NewNode wanted{.name = name, .mode = S_IFDIR | (mode & permission_bits), .owner = owner};
    co_return co_await add_node(call, parent, wanted);
}

Task<Result<Attributes>> DfsMount::mknod(const Call& call, NodeId parent, std::string_view name,
                                         mode_t mode, dev_t device, Owner owner) {
    const bool is_device = S_ISCHR(mode) || S_ISBLK(mode);
    const bool known = is_device || S_ISREG(mode) || S_ISFIFO(mode) || S_ISSOCK(mode);
    if (!known) co_return fail(Code::invalid);
    NewNode wanted{.name = name,
                   .mode = mode & (S_IFMT | permission_bits),
                   .device = is_device ? device : 0,
                   .owner = owner};
    co_return co_await add_node(call, parent, wanted);
}

Task<Result<Attributes>> DfsMount::symlink(const Call& call, NodeId parent, std::string_view name,
                                           std::string_view target, Owner owner) {
    if (target.size() > link_target_bytes_max) {
        co_return fail(Code::name_too_long, link_target_bytes_max);
    }
    if (target.empty()) co_return fail(Code::not_found);  // ENOENT, as in Linux
    if (target.find('\0') != target.npos) co_return fail(Code::invalid);
    NewNode wanted{.name = name, .mode = S_IFLNK | 0777, .target = target, .owner = owner};
    co_return co_await add_node(call, parent, wanted);
}

Task<Result<std::string>> DfsMount::readlink(const Call& call, NodeId node) {
    InodeRecord inode;
    std::string target(link_target_bytes_max, '\0');
    std::array items{record_item(object_of(node), record_dkey(), inode_akey(), inode),
                     FetchItem{.object = object_of(node),
                               .dkey = record_dkey(),
                               .akey = target_akey(),
                               .extent = {.offset = 0, .length = target.size()},
                               .window = Window::local(std::as_writable_bytes(std::span(target)))}};
    ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
    const auto gone_or = [](const Error& error) {
        return error.code == Code::not_found ? fail(Code::stale) : fail(error);
    };
    const auto record = record_of(items[0], inode);
    if (!record) co_return gone_or(record.error());
    if (!S_ISLNK(record->mode)) co_return fail(Code::invalid);
    if (!items[1].status) co_return gone_or(items[1].status.error());
    if (items[1].size != record->target_bytes) co_return fail(Code::corrupt);
    target.resize(record->target_bytes);
    co_return target;
}

Task<Result<Attributes>> DfsMount::link(const Call& call, NodeId node, NodeId parent,
                                        std::string_view name) {
    auto added = co_await add_link(call, node, parent, name);
    if (added) co_return added;
    ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call));
    if (!before) co_return added;
    co_return co_await get_attributes(call, node);
}

Task<Result<Attributes>> DfsMount::add_link(const Call& call, NodeId node, NodeId parent,
                                            std::string_view name) {
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ROS2S_CO_TRY(check_name(name));
        RecordChain chain;
        ChainWhole linked;
        ChainName wanted;
        chain.add({.node = node}, linked);
        chain.add({.node = parent}, name, wanted);
        ROS2S_CO_TRY(co_await fetch(call, chain));
        ROS2S_CO_TRY_ASSIGN(InodeAndContents whole, whole_of(chain, linked));
        auto& [inode, contents] = whole;
        if (S_ISDIR(inode.record.mode)) co_return fail(Code::denied);
        ROS2S_CO_TRY_ASSIGN(const ParentAndEntry named, named_of(chain, wanted));
        if (named.entry.exists()) co_return fail(Code::exists);
        ROS2S_CO_TRY(check_may_add(named.parent.record));
        ROS2S_CO_TRY(check_flags(inode.record, node_flags::all));
        // The caller found the node by a name that was removed since. As in Linux, an open file
        // that lost its name gets no new one.
        const bool has_no_name = inode.record.links == 0;
        const bool is_linkable = (inode.record.flags & InodeRecord::linkable) != 0;
        const NodeState* const used = has_no_name ? nodes_.find(node) : nullptr;
        if (used != nullptr && used->handles > 0 && !is_linkable) co_return fail(Code::not_found);
        inode.record.flags &= ~InodeRecord::linkable;
        ++inode.record.links;
        if (has_no_name || inode.record.parent == 0) inode.record.parent = parent.value;
        stamp_changed(inode.record, contents);
        const EntryRecord entry = EntryRecord::of(node, inode.record.mode);

        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(parent, named.parent.epoch));
        slot.require(entry_is(parent, name, Epoch{}));
        slot.require(inode_is(node, inode.epoch));
        slot.add(put(object_of(parent), name_dkey(name), entry_akey(), entry));
        slot.add(put_inode(node, inode.record));
        if (has_no_name) {
            slot.require(is_orphan(node));
            slot.add(punch_orphan_record(node));
        }
        const Leased directory = lease_of(call, parent);
        const auto done = co_await commit_named(call, slot);
        note_changed(call, directory, done);
        if (NodeState* const open = nodes_.find(node); done && !done->replayed && open != nullptr) {
            open->orphaned = false;
        }
        if (done && done->replayed) co_return co_await get_attributes(call, node);
        if (done) co_return attributes_of(node, inode.record, contents, chunk_bytes_);
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

}  // namespace ros2s::fs
