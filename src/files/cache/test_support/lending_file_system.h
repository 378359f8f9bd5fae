// LendingFileSystem: a client's view of a file system that others use too, with leases, for tests.
// It plays the server: a reply comes with leases of the nodes in it, and a change first asks the
// other clients for theirs (LeaseTable). It counts requests and references.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "ros2s/fs/file_system.h"
#include "ros2s/runtime/sync.h"

namespace ros2s::cache {

class LendingFileSystem;

// What the clients of one file system hold.
struct LeaseTable {
    explicit LeaseTable(Reactor& reactor) : turn(reactor, 1) {}
    Semaphore turn;  // of requests about names and attributes: one at a time
    std::vector<LendingFileSystem*> clients;
    uint64_t last_lease = 0;
    // Leases given, by client and node; and nodes that a client changes, or waits to change.
    std::map<std::pair<LendingFileSystem*, uint64_t>, uint64_t> given;
    std::multiset<std::pair<uint64_t, LendingFileSystem*>> changing;
    bool gives = true;
    std::function<Task<>()> changed;  // after each change, before the next request
};

class LendingFileSystem final : public fs::FileSystem {
  public:
    using Call = ros2s::Call;
    using NodeId = fs::NodeId;
    using FileHandle = fs::FileHandle;
    using Window = fs::Window;
    using Attributes = fs::Attributes;
    using AttributesTask = Task<Result<Attributes>>;
    using Names = std::span<const std::string_view>;

    static constexpr uint64_t era = 1;

    LendingFileSystem(Reactor& reactor, LeaseTable& table, fs::FileSystem& below)
        : reactor_(reactor), table_(table), below_(below), set_(reactor) {
        table_.clients.push_back(this);
    }
    // Before the first request.
    Task<> start(Duration lifetime = std::chrono::hours(1)) {
        co_await set_.begin(era);
        set_.extend(era, reactor_.now() + lifetime);
    }

    uint64_t requests = 0;
    std::map<uint64_t, int64_t> references;  // the root has none
    bool checks_references = true;           // false: the callers forget too much
    Duration delay_max{};                    // of requests and of replies
    Event* request = nullptr;                // changes wait for it before they begin
    Event* reply = nullptr;                  // replies wait for it
    Code lost_reply{};                       // changes are done, and fail with this
    bool loses_replies = false;

    fs::LeaseSet* leases() override { return &set_; }

    // ---- names
    AttributesTask lookup(const Call& call, NodeId parent, std::string_view name) override {
        return ask(
            call, [=, this](const Call& c) { return below_.lookup(c, parent, name); },
            [=, this](const auto& found) { return found_in(parent, found); });
    }
    Task<std::vector<Result<Attributes>>> lookup_many(const Call& call, NodeId parent,
                                                      Names names) override {
        return ask(
            call, [=, this](const Call& c) { return below_.lookup_many(c, parent, names); },
            [=, this](const auto& found) { return all_found_in(parent, found); });
    }
    Task<std::vector<Result<Attributes>>> look_up_names(const Call& call, NodeId parent,
                                                        Names names) override {
        return ask(
            call, [=, this](const Call& c) { return below_.look_up_names(c, parent, names); },
            [=, this](const auto& found) { return all_found_in(parent, found); });
    }
    Task<Result<std::vector<fs::ListedEntry>>> readdir_many(const Call& call, NodeId node,
                                                            FileHandle handle, uint64_t cookie,
                                                            size_t limit) override {
        return ask(
            call,
            [=, this](const Call& c) {
                return below_.readdir_many(c, node, handle, cookie, limit);
            },
            [=, this](const auto& listed) {
                std::vector<NodeId> nodes{node};
                if (!listed) return nodes;
                for (const auto& each : *listed) {
                    if (each.attributes) nodes.push_back(counted(each.attributes->node));
                }
                return nodes;
            });
    }
    AttributesTask mkdir(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         fs::Owner owner) override {
        return make(call, parent, name, {}, [=, this](const Call& c) {
            return below_.mkdir(c, parent, name, mode, owner);
        });
    }
    AttributesTask mknod(const Call& call, NodeId parent, std::string_view name, mode_t mode,
                         dev_t device, fs::Owner owner) override {
        return make(call, parent, name, {}, [=, this](const Call& c) {
            return below_.mknod(c, parent, name, mode, device, owner);
        });
    }
    AttributesTask symlink(const Call& call, NodeId parent, std::string_view name,
                           std::string_view target, fs::Owner owner) override {
        return make(call, parent, name, {}, [=, this](const Call& c) {
            return below_.symlink(c, parent, name, target, owner);
        });
    }
    AttributesTask link(const Call& call, NodeId node, NodeId parent,
                        std::string_view name) override {
        return make(call, parent, name, {node},
                    [=, this](const Call& c) { return below_.link(c, node, parent, name); });
    }
    Task<Result<>> unlink(const Call& call, NodeId parent, std::string_view name) override {
        return change(
            call, {{parent, name}}, {},
            [=, this](const Call& c) { return below_.unlink(c, parent, name); }, only(parent));
    }
    Task<Result<>> rmdir(const Call& call, NodeId parent, std::string_view name) override {
        return change(
            call, {{parent, name}}, {},
            [=, this](const Call& c) { return below_.rmdir(c, parent, name); }, only(parent));
    }
    Task<Result<>> rename(const Call& call, NodeId parent, std::string_view name, NodeId new_parent,
                          std::string_view new_name, RenameFlags flags) override {
        return change(
            call, {{parent, name}, {new_parent, new_name}}, {},
            [=, this](const Call& c) {
                return below_.rename(c, parent, name, new_parent, new_name, flags);
            },
            [=](const auto&) { return std::vector{parent, new_parent}; });
    }
    Task<Result<std::string>> readlink(const Call& call, NodeId node) override {
        return ask(call, [=, this](const Call& c) { return below_.readlink(c, node); }, only(node));
    }
    Task<Result<bool>> was_done(const Call& call) override { return below_.was_done(call); }
    Task<std::vector<Result<>>> create_many(const Call& call, NodeId parent, Names names,
                                            mode_t mode, fs::Owner owner) override {
        return change(
            call, places(parent, names), {},
            [=, this](const Call& c) { return below_.create_many(c, parent, names, mode, owner); },
            only(parent));
    }
    Task<std::vector<Result<>>> unlink_many(const Call& call, NodeId parent, Names names) override {
        return change(
            call, places(parent, names), {},
            [=, this](const Call& c) { return below_.unlink_many(c, parent, names); },
            only(parent));
    }
    void forget(NodeId node, uint64_t count) override {
        if (node != fs::root_node) references[node.value] -= static_cast<int64_t>(count);
        if (checks_references) EXPECT_GE(references[node.value], 0) << "node " << node.value;
        below_.forget(node, count);
    }

    // ---- attributes
    AttributesTask get_attributes(const Call& call, NodeId node) override {
        return ask(
            call, [=, this](const Call& c) { return below_.get_attributes(c, node); }, only(node));
    }
    AttributesTask set_attributes(const Call& call, NodeId node,
                                  const fs::SetAttributes& changes) override {
        return change(
            call, {}, {node},
            [=, this, &changes](const Call& c) { return below_.set_attributes(c, node, changes); },
            only(node));
    }
    Task<Result<std::string>> get_xattr(const Call& call, NodeId node,
                                        std::string_view name) override {
        ++requests;
        return below_.get_xattr(call, node, name);
    }
    Task<Result<>> set_xattr(const Call& call, NodeId node, std::string_view name, ConstBytes value,
                             fs::SetXattr how) override {
        return change(
            call, {}, {node},
            [=, this](const Call& c) { return below_.set_xattr(c, node, name, value, how); },
            only(node));
    }
    Task<Result<>> remove_xattr(const Call& call, NodeId node, std::string_view name) override {
        return change(
            call, {}, {node},
            [=, this](const Call& c) { return below_.remove_xattr(c, node, name); }, only(node));
    }
    Task<Result<std::vector<std::string>>> list_xattrs(const Call& call, NodeId node) override {
        ++requests;
        return below_.list_xattrs(call, node);
    }
    Task<Result<fs::FileSystemSpace>> space(const Call& call) override {
        ++requests;
        return below_.space(call);
    }

    // ---- files
    Task<Result<fs::Opened>> open(const Call& call, NodeId node, fs::OpenFlags flags) override {
        const auto work = [=, this](const Call& c) { return below_.open(c, node, flags); };
        const auto covered = [=, this](const Result<fs::Opened>& opened) {
            if (opened) files_[opened->handle.value] = node;
            return std::vector{node};
        };
        if (flags.truncate) return change(call, {}, {node}, work, covered);
        return ask(call, work, covered);
    }
    Task<Result<fs::Opened>> create(const Call& call, NodeId parent, std::string_view name,
                                    mode_t mode, fs::OpenFlags flags, fs::Owner owner) override {
        std::vector<Entry> touched;
        if (!flags.nameless) touched.push_back({parent, name});
        return change(
            call, touched, {},
            [=, this](const Call& c) { return below_.create(c, parent, name, mode, flags, owner); },
            [=, this](const Result<fs::Opened>& opened) {
                std::vector<NodeId> nodes{parent};
                if (!opened) return nodes;
                nodes.push_back(counted(opened->attributes.node));
                files_[opened->handle.value] = nodes.back();
                return nodes;
            });
    }
    Task<Result<>> close(const Call& call, FileHandle handle) override {
        ++requests;
        files_.erase(handle.value);
        return below_.close(call, handle);
    }
    Task<Result<>> hold(const Call& call, FileHandle handle) override {
        ++requests;
        return below_.hold(call, handle);
    }
    Task<Result<std::vector<fs::DirectoryEntry>>> readdir(const Call& call, FileHandle handle,
                                                          uint64_t cookie, size_t limit) override {
        ++requests;
        return below_.readdir(call, handle, cookie, limit);
    }
    Task<Result<uint64_t>> pread(const Call& call, FileHandle handle, Window into,
                                 uint64_t offset) override {
        ++requests;
        return below_.pread(call, handle, into, offset);
    }
    Task<Result<uint64_t>> pwrite(const Call& call, FileHandle handle, Window from,
                                  uint64_t offset) override {
        return change_file(call, handle, [=, this](const Call& c) {
            return below_.pwrite(c, handle, from, offset);
        });
    }
    Task<Result<>> fsync(const Call& call, FileHandle handle) override {
        ++requests;
        return below_.fsync(call, handle);
    }
    Task<Result<>> punch_hole(const Call& call, FileHandle handle, uint64_t offset,
                              uint64_t length) override {
        return change_file(call, handle, [=, this](const Call& c) {
            return below_.punch_hole(c, handle, offset, length);
        });
    }
    Task<Result<>> allocate(const Call& call, FileHandle handle, uint64_t offset, uint64_t length,
                            bool keeps_size) override {
        return change_file(call, handle, [=, this](const Call& c) {
            return below_.allocate(c, handle, offset, length, keeps_size);
        });
    }
    Task<Result<uint64_t>> seek(const Call& call, FileHandle handle, uint64_t offset,
                                fs::SeekFor what) override {
        ++requests;
        return below_.seek(call, handle, offset, what);
    }
    Task<Result<std::optional<object::Lock>>> lock(const Call& call, FileHandle handle,
                                                   const object::Lock& lock,
                                                   fs::LockHow how) override {
        ++requests;
        return below_.lock(call, handle, lock, how);
    }
    Result<fs::PathReport> path_report(FileHandle handle) const override {
        return below_.path_report(handle);
    }
    Task<Result<>> read_many(const Call& call, NodeId directory,
                             std::span<fs::ReadManyItem> items) override {
        ++requests;
        return below_.read_many(call, directory, items);
    }
    Task<> close_all() override { co_return; }  // others use the file system below

  private:
    struct Entry {
        NodeId parent{};
        std::string_view name;
    };
    static std::vector<Entry> places(NodeId parent, Names names) {
        std::vector<Entry> all;
        for (const std::string_view name : names) all.push_back({parent, name});
        return all;
    }
    // The nodes that a reply is about, for which it gets leases.
    struct Only {
        NodeId node{};
        template <class Reply>
        std::vector<NodeId> operator()(const Reply&) const {
            return {node};
        }
    };
    static Only only(NodeId node) { return {node}; }
    NodeId counted(NodeId node) {
        if (node != fs::root_node) ++references[node.value];
        return node;
    }
    std::vector<NodeId> found_in(NodeId parent, const Result<Attributes>& found) {
        std::vector<NodeId> nodes{parent};
        if (found) nodes.push_back(counted(found->node));
        return nodes;
    }
    std::vector<NodeId> all_found_in(NodeId parent, const std::vector<Result<Attributes>>& found) {
        std::vector<NodeId> nodes{parent};
        for (const auto& each : found) {
            if (each) nodes.push_back(counted(each->node));
        }
        return nodes;
    }
    template <class Work>
    AttributesTask make(const Call& call, NodeId parent, std::string_view name,
                        std::vector<NodeId> others, Work work) {
        return change(call, {{parent, name}}, std::move(others), work,
                      [=, this](const auto& found) { return found_in(parent, found); });
    }
    template <class Work>
    auto change_file(const Call& call, FileHandle handle, Work work) -> decltype(work(call)) {
        const auto file = files_.find(handle.value);
        const NodeId node = file == files_.end() ? NodeId{} : file->second;
        return change(call, {}, {node}, work, only(node));
    }

    // With the turn.
    std::vector<Leased> give(const std::vector<NodeId>& nodes) {
        std::vector<Leased> given;
        for (const NodeId node : nodes) {
            const bool is_changing = std::ranges::any_of(table_.changing, [&](const auto& each) {
                return each.first == node.value && each.second != this;
            });
            if (is_changing || !table_.gives || node == NodeId{}) continue;
            uint64_t& number = table_.given[{this, node.value}];
            if (number == 0) number = ++table_.last_lease;
            given.push_back({node.value, number});
        }
        return given;
    }
    void deliver(const Call& call, const std::vector<Leased>& given) {
        for (const Leased& each : given) {
            if (set_.take(era, each)) call.leases->push_back(each);
        }
    }
    Task<> pass() {
        if (delay_max > Duration{}) {
            const auto most = static_cast<uint64_t>(delay_max.count());
            co_await sleep_for(reactor_, Duration(reactor_.random().below(most)));
        }
    }

    template <class Work, class Covered>
    auto ask(const Call& call, Work work, Covered covered) -> decltype(work(call)) {
        ++requests;
        co_await pass();
        co_await table_.turn.acquire();
        Call plain = call;
        plain.leases = nullptr;
        auto result = co_await work(plain);
        const auto nodes = covered(result);
        std::vector<Leased> given;
        if (call.leases != nullptr) given = give(nodes);
        table_.turn.release();
        co_await pass();
        if (reply != nullptr) co_await *reply;
        deliver(call, given);
        co_return result;
    }

    // With the turn. The nodes of the names, and the others.
    Task<std::set<uint64_t>> nodes_of(const std::vector<Entry>& names,
                                      const std::vector<NodeId>& others) {
        std::set<uint64_t> nodes;
        for (const NodeId each : others) nodes.insert(each.value);
        for (const Entry& each : names) {
            nodes.insert(each.parent.value);
            const Call call;
            const auto found = co_await below_.lookup(call, each.parent, each.name);
            if (!found) continue;
            nodes.insert(found->node.value);
            below_.forget(found->node, 1);
        }
        co_return nodes;
    }
    template <class Work, class Covered>
    auto change(const Call& call, std::vector<Entry> names, std::vector<NodeId> others, Work work,
                Covered covered) -> decltype(work(call)) {
        ++requests;
        co_await pass();
        if (request != nullptr) co_await *request;
        std::set<uint64_t> marked;
        for (;;) {
            co_await table_.turn.acquire();
            bool is_new = false;
            std::map<LendingFileSystem*, std::vector<Leased>> recalled;
            for (const uint64_t node : co_await nodes_of(names, others)) {
                if (!marked.insert(node).second) continue;
                is_new = true;
                table_.changing.emplace(node, this);
                for (LendingFileSystem* const client : table_.clients) {
                    if (client == this) continue;
                    const auto given = table_.given.find({client, node});
                    if (given == table_.given.end()) continue;
                    recalled[client].push_back({node, given->second});
                    table_.given.erase(given);
                }
            }
            if (!is_new) break;
            table_.turn.release();
            for (LendingFileSystem* const client : table_.clients) {
                if (!recalled[client].empty()) co_await client->set_.recall(recalled[client]);
            }
        }
        Call plain = call;
        plain.leases = nullptr;
        auto result = co_await work(plain);
        const auto nodes = covered(result);
        std::vector<Leased> given;
        if (call.leases != nullptr) given = give(nodes);
        for (Leased& each : given) {
            const auto now = co_await below_.get_attributes(plain, {each.node});
            if (now && S_ISDIR(now->mode)) each.changed = now->modified;
        }
        for (const uint64_t node : marked)
            table_.changing.erase(table_.changing.find({node, this}));
        if (table_.changed) co_await table_.changed();
        table_.turn.release();
        co_await pass();
        if (reply != nullptr) co_await *reply;
        deliver(call, given);
        if constexpr (requires { result.error(); }) {
            if (loses_replies) co_return fail(lost_reply);
        }
        co_return result;
    }

    Reactor& reactor_;
    LeaseTable& table_;
    fs::FileSystem& below_;
    fs::LeaseSet set_;
    std::map<uint64_t, NodeId> files_;
};

}  // namespace ros2s::cache
