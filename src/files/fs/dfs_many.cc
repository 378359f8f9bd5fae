// Many names of one directory in a call. Look-ups share chains. Creations, and removals, that can
// all be done share a transaction. If some of them cannot, each name is done by itself, side by
// side, and the transaction of each shows what became of it.
//
// Of a repeated call (dfs_exactly_once.cc), a group whose transaction was done before is done.
// Otherwise its names may have been done one by one, and are.
#include <algorithm>

#include "dfs_mount.h"
#include "part_of_call.h"

namespace ros2s::fs {
namespace {

// Two items for the name and three for its node, in one chain.
constexpr size_t group_names_max = object::chain_items_max / 5;
static_assert((names_together_max + group_names_max - 1) / group_names_max == name_groups_max);

// The transaction is too much for the store, and smaller ones may not be.
bool is_too_much(const Error& error) {
    return error.code == Code::too_large || error.code == Code::no_memory ||
           error.code == Code::no_space || error.code == Code::over_cap;
}

bool all_valid(std::span<const std::string_view> names) {
    return std::ranges::all_of(names,
                               [](std::string_view name) { return check_name(name).has_value(); });
}
bool all_valid_and_different(std::span<const std::string_view> names) {
    std::vector<std::string_view> sorted(names.begin(), names.end());
    std::ranges::sort(sorted);
    return std::ranges::adjacent_find(sorted) == sorted.end() && all_valid(names);
}

Task<> look_up_one(Namespace& fs, const Call& call, NodeId parent, std::string_view name,
                   Result<Attributes>& result) {
    result = co_await fs.lookup(call, parent, name);
}

Task<> create_one(Namespace& fs, const Call& whole, NodeId parent, std::string_view name,
                  mode_t mode, Owner owner, uint32_t part, Result<>& result) {
    const PartOfCall call(whole, part);
    const auto made = co_await fs.mknod(call, parent, name, mode, 0, owner);
    // `stale`: an earlier execution created it, and others have changed the name since.
    const bool was_made = !made && made.error().code == Code::stale;
    result = made || was_made ? Result<>() : fail(made.error());
}

Task<> unlink_one(Namespace& fs, const Call& whole, NodeId parent, std::string_view name,
                  uint32_t part, Result<>& result) {
    const PartOfCall call(whole, part);
    result = co_await fs.unlink(call, parent, name);
}

}  // namespace

// The records of names and of their nodes, in one chain.
struct DfsMount::ManyNames {
    ManyNames(NodeId parent, std::span<const std::string_view> wanted)
        : names(wanted.size()), nodes(wanted.size()) {
        for (size_t i = 0; i < wanted.size(); ++i) {
            chain.add({.node = parent}, wanted[i], names[i]);
            chain.add(names[i].node(), nodes[i]);
        }
    }
    [[nodiscard]] Result<EntryAndNode> found(size_t i) const {
        return found_in(chain, names[i], nodes[i]);
    }

    RecordChain chain;
    std::vector<ChainName> names;
    std::vector<ChainWhole> nodes;
};

// ---- look-up --------------------------------------------------------------------------------

Task<std::vector<Result<Attributes>>> DfsMount::lookup_many(
    const Call& call, NodeId parent, std::span<const std::string_view> names) {
    std::vector<Result<Attributes>> results(names.size());
    Nursery nursery(reactor_, options_.fan_out);
    for (size_t begin = 0; begin < names.size(); begin += group_names_max) {
        const size_t count = std::min(group_names_max, names.size() - begin);
        co_await nursery.spawn(look_up_group(*this, call, parent, names.subspan(begin, count),
                                             std::span(results).subspan(begin, count)));
    }
    co_await nursery.join();
    co_return results;
}

Task<> DfsMount::look_up_group(DfsMount& self, const Call& call, NodeId parent,
                               std::span<const std::string_view> names,
                               std::span<Result<Attributes>> results) {
    if (!all_valid(names)) {
        for (size_t i = 0; i < names.size(); ++i) {
            co_await look_up_one(self, call, parent, names[i], results[i]);
        }
        co_return;
    }
    ManyNames many(parent, names);
    const auto fetched = co_await self.fetch(call, many.chain);
    for (size_t i = 0; i < names.size(); ++i) {
        const auto found = fetched ? many.found(i) : fail(fetched.error());
        if (!found) {
            results[i] = fail(found.error());
        } else if (!found->named.entry.exists()) {
            results[i] = fail(Code::not_found);
        } else if (!found->node && found->node.error().code == Code::stale) {
            // It was removed between the two reads.
            co_await look_up_one(self, call, parent, names[i], results[i]);
        } else if (!found->node) {
            results[i] = fail(found->node.error());
        } else {
            results[i] = attributes_of(found->named.entry.node(), found->node->inode.record,
                                       found->node->contents, self.chunk_bytes_);
        }
    }
}

// ---- creation -------------------------------------------------------------------------------

Task<std::vector<Result<>>> DfsMount::create_many(const Call& call, NodeId parent,
                                                  std::span<const std::string_view> names,
                                                  mode_t mode, Owner owner) {
    ROS2S_CHECK(names.size() <= names_together_max);
    std::vector<Result<>> results(names.size());
    mode = S_IFREG | (mode & permission_bits);
    const auto together = co_await create_together(call, parent, names, mode, owner);
    if (!together) std::ranges::fill(results, Result<>(fail(together.error())));
    if (!together || *together) co_return results;
    Nursery nursery(reactor_, options_.fan_out);
    for (size_t i = 0; i < names.size(); ++i) {
        co_await nursery.spawn(
            create_one(*this, call, parent, names[i], mode, owner, part_of_name(i), results[i]));
    }
    co_await nursery.join();
    co_return results;
}

Task<Result<bool>> DfsMount::create_together(const Call& call, NodeId parent,
                                             std::span<const std::string_view> names, mode_t mode,
                                             Owner owner) {
    if (names.empty()) co_return true;
    if (!all_valid_and_different(names)) co_return false;
    if (call.repeated) {
        ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call));
        co_return before.has_value();
    }
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        std::vector<EntryRecord> entries(names.size());
        InodeRecord directory;
        std::vector<FetchItem> items;
        items.reserve(names.size() + 1);
        items.push_back(record_item(object_of(parent), record_dkey(), inode_akey(), directory));
        for (size_t i = 0; i < names.size(); ++i) {
            items.push_back(
                record_item(object_of(parent), name_dkey(names[i]), entry_akey(), entries[i]));
        }
        ROS2S_CO_TRY(co_await store_.fetch(call, container_, items));
        ROS2S_CO_TRY_ASSIGN(directory, record_of(items.front(), directory));
        if (!S_ISDIR(directory.mode)) co_return fail(Code::not_directory);
        if (directory.links == 0) co_return fail(Code::not_found);
        const auto is_free = [](const FetchItem& item) {
            return !item.status && item.status.error().code == Code::not_found;
        };
        if (!std::ranges::all_of(std::span(items).subspan(1), is_free)) co_return false;
        ROS2S_CO_TRY(check_may_add(directory));
        if (inherits_acl(directory, mode)) co_return false;

        const InodeRecord inode = new_inode(parent, directory, mode, owner);
        std::vector<NodeId> nodes(names.size());
        for (size_t i = 0; i < names.size(); ++i) {
            ROS2S_CO_TRY_ASSIGN(nodes[i], co_await next_node(call));
            entries[i] = EntryRecord::of(nodes[i], mode);
        }
        co_await slots_.wait();
        auto slot = slots_.take();
        slot.require(inode_is(parent, items.front().epoch));
        for (size_t i = 0; i < names.size(); ++i) {
            slot.require(entry_is(parent, names[i], Epoch{}));
            slot.add(put(object_of(parent), name_dkey(names[i]), entry_akey(), entries[i]));
            slot.add(put_inode(nodes[i], inode));
        }
        const auto done = co_await commit_named(call, slot);
        if (done) co_return true;
        if (is_too_much(done.error())) co_return false;
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

// ---- removal --------------------------------------------------------------------------------

Task<std::vector<Result<>>> DfsMount::unlink_many(const Call& call, NodeId parent,
                                                  std::span<const std::string_view> names) {
    ROS2S_CHECK(names.size() <= names_together_max);
    std::vector<Result<>> results(names.size());
    Nursery nursery(reactor_, options_.fan_out);
    for (size_t begin = 0; begin < names.size(); begin += group_names_max) {
        const size_t count = std::min(group_names_max, names.size() - begin);
        co_await nursery.spawn(unlink_group(*this, call, parent, names, begin,
                                            std::span(results).subspan(begin, count)));
    }
    co_await nursery.join();
    co_return results;
}

Task<> DfsMount::unlink_group(DfsMount& self, const Call& call, NodeId parent,
                              std::span<const std::string_view> all, size_t begin,
                              std::span<Result<>> results) {
    const auto names = all.subspan(begin, results.size());
    const auto part = static_cast<uint32_t>(begin / group_names_max);
    const auto together = co_await self.unlink_together(call, parent, names, part);
    if (!together) std::ranges::fill(results, Result<>(fail(together.error())));
    if (!together || *together) co_return;
    for (size_t i = 0; i < names.size(); ++i) {
        co_await unlink_one(self, call, parent, names[i], part_of_name(begin + i), results[i]);
    }
}

struct DfsMount::ManyRemovals {
    struct Each {
        std::string_view name;
        EntryAndNode found;
        Removal removal;
    };
    std::vector<Each> each;

    // False if one transaction cannot remove all of them.
    [[nodiscard]] bool set(const ManyNames& many, std::span<const std::string_view> names) {
        for (size_t i = 0; i < names.size(); ++i) {
            const auto found = many.found(i);
            if (!found || !found->named.entry.exists() || !found->node) return false;
            if (found->named.entry.record.is_directory()) return false;
            const auto may =
                check_may_remove(found->named.parent.record, found->node->inode.record);
            if (!may) return false;
            each.push_back({.name = names[i], .found = *found, .removal = {}});
        }
        const auto node = [](const Each& one) { return one.found.named.entry.node(); };
        std::ranges::sort(each, {}, node);
        const bool two_names_of_one = std::ranges::adjacent_find(each, {}, node) != each.end();
        return !two_names_of_one;
    }
};

Task<Result<bool>> DfsMount::unlink_together(const Call& call, NodeId parent,
                                             std::span<const std::string_view> names,
                                             uint32_t part) {
    if (!all_valid_and_different(names)) co_return false;
    if (call.repeated) {
        ROS2S_CO_TRY_ASSIGN(const auto before, co_await done_before(call, part));
        // Only the store has the record of whether the first time left orphans.
        if (before) sweep_later();
        co_return before.has_value();
    }
    for (int attempt = 0; attempt < attempts_max; ++attempt) {
        ManyNames many(parent, names);
        ROS2S_CO_TRY(co_await fetch(call, many.chain));
        ManyRemovals removals;
        if (!removals.set(many, names)) co_return false;
        for (auto& [name, found, removal] : removals.each) {
            removal = plan_removal(parent, found.named.entry, *found.node);
        }
        Result<Commit> done;
        {
            co_await slots_.wait();
            auto slot = slots_.take();
            for (auto& [name, found, removal] : removals.each) {
                slot.require(entry_is(parent, name, found.named.entry.epoch));
                add_removal(slot, removal);
                slot.add(punch_entry(parent, name));
            }
            done = co_await commit_named(call, slot, part);
        }
        if (done && !done->replayed) {
            for (const auto& each : removals.each) co_await finish_removal(call, each.removal);
        }
        if (done ? done->replayed : may_run_on(done.error().code)) sweep_later();
        if (done) co_return true;
        if (is_too_much(done.error())) co_return false;
        if (!co_await conflicted(done.error(), attempt)) co_return fail(done.error());
    }
    co_return fail(Code::busy);
}

}  // namespace ros2s::fs
