// CountedStore: the decorator of a store in this process. It counts and traces requests. A store in
// this process works on the caller's memory: it verifies reads there, after the device has written
// them, and computes checksums of its own copy of writes. A second pass over the bytes here would
// find nothing more. VerifyingStore decorates stores elsewhere.
//
// Corrupt bytes: an item that the store below reports as corrupt has its extent of the window
// filled with zeros. A caller that ignores the status then sees nothing that looks like data.
//
// Owned by the composing code. The store below outlives it. Used on that store's core.
//
// Invariants
// - In the steady state an update allocates nothing, and neither does a fetch whose items keep
//   their memory.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "ros2s/base/metrics.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/time.h"

namespace ros2s::client {

// Requests of one kind.
struct RequestMetrics {
    // Bucket i counts latencies below 1.024 µs << 2 i. The last bucket counts the rest.
    static constexpr size_t bucket_count = 12;

    Counter requests;
    Counter errors;  // also of single items; a hole or an absent akey is not an error
    Counter bytes;   // payload that was requested or sent
    Counter latency_ns;
    std::array<Counter, bucket_count> latency;

    void finish(Duration took) noexcept {
        const auto ns = static_cast<uint64_t>(took.count());
        requests.add();
        latency_ns.add(ns);
        const size_t bucket = (static_cast<size_t>(std::bit_width(ns >> 10)) + 1) / 2;
        latency[bucket < bucket_count ? bucket : bucket_count - 1].add();
    }
};

struct ClientMetrics {
    RequestMetrics fetch, update, list, query, other;  // other: containers, space, unpin
    Counter corrupt;     // items whose bytes were withheld because they are corrupt
    Counter read_again;  // items read again because they did not match in shared memory

    // Prometheus names: ros2store_client_<kind>_…
    void visit(const MetricVisitor& visit) const;
};

class CountedStore : public object::ForwardingStore, private object::PostedFetch::Observer {
  public:
    CountedStore(Reactor& reactor, object::ObjectStore& below)
        : ForwardingStore(below), reactor_(reactor) {}

    [[nodiscard]] const ClientMetrics& metrics() const { return metrics_; }

    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
    bool post_fetch(const Call& call, object::ContainerId container, object::FetchItem& item,
                    object::PostedFetch& fetch) override;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override;
    Task<Result<object::ListReply>> list(const Call& call, object::ContainerId container,
                                         const object::ListRequest& request) override;
    Task<Result<object::QueryReply>> query(const Call& call, object::ContainerId container,
                                           object::ObjectId object,
                                           const object::Akey& akey) override;
    Task<Result<object::ContainerRecord>> create_container(
        const Call& call, const object::ContainerProperties& properties) override;
    Task<Result<>> destroy_container(const Call& call, object::ContainerId container) override;
    Task<Result<std::vector<object::ContainerRecord>>> list_containers(const Call& call) override;
    Task<Result<object::PoolSpace>> space(const Call& call, object::ContainerId container) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<>> fetch_chain(const Call& call, object::ContainerId container,
                               const object::Holder& holder, std::span<object::FetchItem> items,
                               std::span<object::Link> links) override;
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object) override;
    Task<Result<bool>> pinned_again(const Call& call, object::ContainerId container,
                                    const object::Holder& holder) override;

  protected:
    // For a derived class that verifies what was fetched.
    virtual Task<Result<>> verify(const Call&, object::ContainerId, std::span<object::FetchItem>) {
        co_return Result<>{};
    }
    Task<Result<object::Commit>> counted_update(const Call& call,
                                                const object::Transaction& transaction,
                                                Task<Result<object::Commit>> request);
    // Withholds the bytes of an item that the store below reports as corrupt.
    void check_status(object::FetchItem& item);
    void withhold(object::FetchItem& item, uint64_t detail);

    Reactor& reactor_;
    ClientMetrics metrics_;
    bool verifies_ = false;

  private:
    void fetched(uint64_t bytes, Time begun) noexcept override;
    // Awaits a request that fetches items.
    Task<Result<>> fetched(const Call& call, object::ContainerId container,
                           std::span<object::FetchItem> items, Task<Result<>> request);
    // Counts and traces a request without payload.
    template <class T>
    Task<Result<T>> counted(const Call& call, std::string_view name, RequestMetrics& metrics,
                            Task<Result<T>> request);
};

}  // namespace ros2s::client
