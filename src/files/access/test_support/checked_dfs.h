// A Dfs in memory behind CheckedFileSystem, for tests. It counts the requests to the store.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "checked_file_system.h"
#include "ros2s/fs/contract/contract.h"
#include "ros2s/fs/contract/new_dfs.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/memory_store.h"

namespace ros2s::access {

using fs::Caller;

class CountingStore final : public object::ForwardingStore {
  public:
    explicit CountingStore(object::ObjectStore& below) : ForwardingStore(below) {}
    uint64_t requests = 0;

    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override {
        ++requests;
        return below().fetch(call, container, items);
    }
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override {
        ++requests;
        return below().fetch_chain(call, container, holder, items, links);
    }
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override {
        ++requests;
        return below().pin(call, container, holder, item);
    }
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        ++requests;
        return below().update(call, container, transaction);
    }
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override {
        ++requests;
        return below().query(call, container, object, akey);
    }
};

class CheckedDfs final : public fs::contract::Subject {
  public:
    explicit CheckedDfs(uint64_t seed, std::optional<Caller> caller = {},
                        fs::Owner owner_of_root = {})
        : world_(seed), store_(world_.core(), {}), caller_(caller) {
        checked_ = std::make_unique<CheckedFileSystem>(
            world_.core(),
            world_.run(fs::contract::new_dfs(counting_, world_.core(), owner_of_root)));
    }
    CheckedDfs& operator=(CheckedDfs&&) = delete;
    ~CheckedDfs() override {
        world_.run(checked_->close_all());
    }  // ends its work in the background
    fs::FileSystem& file_system() override { return *checked_; }
    sim::World& world() override { return world_; }
    [[nodiscard]] const Caller* caller() const override { return caller_ ? &*caller_ : nullptr; }
    [[nodiscard]] uint64_t requests() const { return counting_.requests; }

  private:
    sim::World world_;
    object::MemoryStore store_;
    CountingStore counting_{store_};
    std::optional<Caller> caller_;
    std::unique_ptr<CheckedFileSystem> checked_;
};

constexpr Caller as_user(uint32_t uid) {
    return {.uid = uid,
            .gid = uid,
            .may_make_devices = true,
            .may_set_ids = true,
            .may_change_privileged = true};
}

}  // namespace ros2s::access
