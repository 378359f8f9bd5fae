// ContainerClient: one more simulated client, besides those of the workload. It creates containers,
// writes into them, reads them and destroys them. After a restart it reports what is wrong with
// them.
//
// It does one thing at a time, except that an update may race the destruction of its container. So
// a crash leaves at most one creation open, or one update and one destruction. Their result is read
// from the store, and the oracle (object::MemoryStore) follows.
//
// Checked
// - Acknowledged containers exist, with the properties and the time that were returned. Destroyed
//   containers do not exist. An open creation or destruction either happened or did not. There are
//   no other containers.
// - A container holds every acknowledged update, and an open update completely or not at all.
// - A label is used once at a time; a destroyed container is not found.
#pragma once
#include <optional>
#include <vector>

#include "history.h"
#include "workload.h"

namespace ros2s::sim {

class ContainerClient {
  public:
    ContainerClient(Reactor& reactor, uint64_t seed, History& history);

    // Works until the run crashes or winds down, or `requests` are done.
    Task<> work(Run& run, uint64_t requests);
    // After a restart, while no client works. Returns the bytes that its containers use.
    Task<uint64_t> check(object::ObjectStore& store, object::ContainerId main);

    // True while a container is being created or destroyed, or if it was when the machine crashed.
    [[nodiscard]] bool is_changing() const { return creating_ || destroying_; }
    // The number of creations that it has begun.
    [[nodiscard]] uint64_t made() const { return labels_; }

  private:
    struct Container {
        object::ContainerRecord record;
        object::ContainerId oracle{};
    };
    struct Update {
        object::ContainerId container{};
        Batch batch;
        bool happened = false;  // the oracle has it already
    };

    Task<> resolve_pending(object::ObjectStore& store, object::ContainerId main);
    Task<> adopt(const object::ContainerRecord& record);
    Task<> forget(object::ContainerId id);
    Task<> create(Run& run);
    Task<> create_again(Run& run);
    Task<> destroy(Run& run);
    Task<> update(Run& run);
    Task<> read(Run& run);
    Task<> look_for_the_dead(Run& run, object::ContainerId id);
    Task<> apply_update();
    Task<bool> matches(object::ObjectStore& store, const Container& container, uint64_t& used);

    [[nodiscard]] Batch make_batch();
    [[nodiscard]] AkeyAddress place();
    [[nodiscard]] Container* find(object::ContainerId id);
    [[nodiscard]] Container& any() { return containers_[random_.below(containers_.size())]; }

    Random random_;
    History& history_;
    object::MemoryStore oracle_;
    Uuid id_;
    uint64_t sequence_ = 0;
    // Its updates have update names. False if few replies are kept: a repetition writes the same.
    bool is_named_ = true;
    uint64_t labels_ = 0;
    std::vector<Container> containers_;
    // The operations in progress.
    std::optional<object::ContainerProperties> creating_;
    std::optional<object::ContainerId> destroying_;
    std::optional<Update> updating_;
};

}  // namespace ros2s::sim
