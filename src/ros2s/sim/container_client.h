// ContainerClient: one more simulated client, beside those of the workload: it makes containers,
// writes into them, reads them and destroys them, and says after a restart what is wrong with them.
//
// It does one thing at a time, but for an update that may race the destruction of its container. So
// a crash leaves at most one creation open, or one update and one destruction; what became of them
// is read off the store, and the oracle (object::MemoryStore) follows.
//
// Judged
// - The containers that were acknowledged are there, with the properties and the time that their
//   makers were told; those destroyed are not; what was open is the one or the other; none else is.
// - A container holds what was acknowledged, and what was open whole or not at all.
// - A label is given once at a time; a container that is gone is not found.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "history.h"
#include "workload.h"

namespace ros2s::sim {

class ContainerClient {
  public:
    ContainerClient(Reactor& reactor, uint64_t seed, History& history);

    // Works until the run is crashed or winds down, or `requests` are done.
    Task<> work(Run& run, uint64_t requests);
    // After a restart, while nothing runs. Returns the bytes that its containers use.
    Task<uint64_t> check(object::ObjectStore& store, object::ContainerId main);

    // A container is being made or destroyed, or was when the machine crashed.
    [[nodiscard]] bool is_changing() const { return creating_ || destroying_; }
    // How many it began to make.
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

    Task<> settle(object::ObjectStore& store, object::ContainerId main);
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
    [[nodiscard]] Place place();
    [[nodiscard]] Container* find(object::ContainerId id);
    [[nodiscard]] Container& any() { return containers_[random_.below(containers_.size())]; }

    Random random_;
    History& history_;
    object::MemoryStore oracle_;
    Uuid id_;
    uint64_t sequence_ = 0;
    // Its updates have operation ids. Not where replies are few: done again they write the same.
    bool is_named_ = true;
    uint64_t labels_ = 0;
    std::vector<Container> containers_;
    // What is open.
    std::optional<object::ContainerProperties> creating_;
    std::optional<object::ContainerId> destroying_;
    std::optional<Update> updating_;
};

}  // namespace ros2s::sim
