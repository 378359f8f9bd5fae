// A Dfs on a MemoryStore whose requests are counted, for tests of this module.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dfs_mount.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/sim/world.h"

namespace ros2s::fs {

// Counts requests, and can claim fewer features than the store below has.
class CountingStore final : public object::ForwardingStore {
  public:
    CountingStore(Reactor& reactor, object::ObjectStore& below)
        : ForwardingStore(below), reactor_(reactor) {}
    object::Features claimed{.multi_object_transactions = true, .conditions = true, .chains = true};
    uint64_t fetches = 0, items = 0, chains = 0, updates = 0, operations = 0, conditions = 0,
             queries = 0, lists = 0, operations_most = 0;
    uint64_t deferred = 0, syncs = 0;  // of the updates
    std::optional<uint64_t> full_at;   // no space for this chunk of any file
    Code full_code = Code::no_space;
    uint64_t punched_objects_max = UINT64_MAX;  // of one request; no memory for more
    Duration trip{};                            // the time of each request
    void reset() {
        fetches = items = chains = updates = operations = conditions = 0;
        queries = lists = operations_most = 0;
    }

    std::set<Uuid> owners;  // in the updates' names

    // Before the update with this number, another client makes an update under the same name.
    uint64_t robbed = 0;

    object::Features features() const override { return claimed; }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<FetchItem> wanted) override {
        ++fetches;
        items += wanted.size();
        co_await pass();
        co_return co_await below().fetch(call, container, wanted);
    }
    Task<Result<Commit>> update(const Call& call, object::ContainerId container,
                                const object::Transaction& transaction) override {
        ++updates;
        deferred += transaction.deferred ? 1 : 0;
        co_await pass();
        if (!transaction.id.client.is_nil()) owners.insert(transaction.id.owner);
        operations += transaction.operations.size();
        conditions += transaction.conditions.size();
        operations_most = std::max<uint64_t>(operations_most, transaction.operations.size());
        const auto punches = std::ranges::count(transaction.operations,
                                                Operation::Kind::punch_object, &Operation::kind);
        if (static_cast<uint64_t>(punches) > punched_objects_max) co_return fail(Code::no_memory);
        for (const Operation& operation : transaction.operations) {
            const bool data = operation.kind == Operation::Kind::write;
            if (data && full_at && operation.dkey.number() == *full_at) {
                co_return fail(full_code);
            }
        }
        if (robbed != 0 && transaction.id.sequence == robbed) {
            object::Transaction theirs{.id = transaction.id, .is_new = true};
            theirs.id.digest = 0;
            EXPECT_TRUE(co_await below().update(call, container, theirs));
        }
        co_return co_await below().update(call, container, transaction);
    }
    Task<Result<uint64_t>> sync(const Call& call, object::ContainerId container,
                                const object::Holder& holder,
                                const object::Acknowledged& known) override {
        ++syncs;
        return below().sync(call, container, holder, known);
    }
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override {
        ++lists;
        return below().list(call, container, request);
    }
    Task<Result<QueryReply>> query(const Call& call, object::ContainerId container, ObjectId object,
                                   const Akey& akey) override {
        ++queries;
        co_await pass();
        co_return co_await below().query(call, container, object, akey);
    }

    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<FetchItem> wanted,
                               std::span<object::Link> links) override {
        ++chains;
        co_await pass();
        co_return co_await below().fetch_chain(call, container, holder, wanted, links);
    }

  private:
    Task<> pass() {
        if (trip > Duration{}) co_await sleep_for(reactor_, trip);
    }
    Reactor& reactor_;
};

class DfsMounts : public testing::Test {
  protected:
    using Outcome = std::optional<Code>;
    void SetUp() override { world_.run(make_container()); }
    Task<> make_container() {
        container_ =
            (co_await store_.create_container(call_, {.label = "c", .chunk_bytes = 8192}))->id;
    }
    Outcome format() {
        report_ = {};
        return outcome_of(world_.run(
            Dfs::format(call_, store_, container_, world_.core(), {.uid = 7, .gid = 8}, report_)));
    }
    template <class T>
    static Outcome outcome_of(const Result<T>& result) {
        return result ? Outcome{} : Outcome{result.error().code};
    }
    Outcome mount(DfsOptions options = {}) {
        report_ = {};
        auto mounted =
            world_.run(Dfs::mount(call_, store_, container_, world_.core(), options, report_));
        if (mounted) fs_ = std::move(*mounted);
        return outcome_of(mounted);
    }
    void unmount() {
        world_.run(fs_->close_all());
        fs_.reset();
    }
    void start(DfsOptions options = {}) {
        ASSERT_EQ(format(), std::nullopt);
        ASSERT_EQ(mount(options), std::nullopt);
    }
    template <class Record>
    void put_record(NodeId node, Akey akey, const Record& record) {
        object::Transaction transaction;
        transaction.operations.push_back(put(object_of(node), record_dkey(), akey, record));
        ASSERT_TRUE(world_.run(store_.update(call_, container_, transaction)).has_value());
    }
    Opened create(std::string name) {
        return *world_.run(
            fs_->create(call_, root_node, name, 0644, {.read = true, .write = true}, {}));
    }
    void write(FileHandle handle, uint64_t bytes, uint64_t offset) {
        const std::string text(bytes, 'x');
        ASSERT_TRUE(world_.run(fs_->pwrite(call_, handle, Window::local(as_bytes(text)), offset)));
    }
    uint64_t read(FileHandle handle, uint64_t bytes, uint64_t offset) {
        std::string text(bytes, '?');
        return *world_.run(fs_->pread(
            call_, handle, Window::local(std::as_writable_bytes(std::span(text))), offset));
    }

    // After this time an orphan is removed.
    static constexpr Duration removed_after = std::chrono::seconds(4);
    Task<> pass(Duration duration) { co_await sleep_for(world_.core(), duration); }

    sim::World world_{1};
    object::MemoryStore memory_{world_.core()};
    CountingStore store_{world_.core(), memory_};
    object::ContainerId container_;
    Call call_;
    Report report_;
    std::unique_ptr<Dfs> fs_;
};

}  // namespace ros2s::fs
