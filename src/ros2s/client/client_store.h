// ClientStore: what every user of a store goes through, wherever the store is: it sees to the
// checksums of what is sent and of what comes back (promise P4), counts (P8), and leaves a trace. A
// decorator: itself an ObjectStore over another one. What a lost connection left unanswered is
// repeated below, by rpc's channel.
//
// A store that is elsewhere gets checksums along with the bytes, and what it answers is verified
// against its checksums. A store in this process works on the caller's own memory: it verifies
// after the media has written there, and checksums its copy of what it is given. There is nothing
// between the two that a second pass over the bytes could find out.
//
// Corrupt bytes: an item that fails its checksum, or that the store below calls corrupt, gets the
// status `corrupt`, and its extent of the window is filled with zeros: a caller that forgets to
// look at the status sees nothing that could pass for data. What is found here is logged with
// object, dkey, akey and extent (the first `corrupt_lines_max` of them; all are counted).
//
// Owned by who composes; the store below outlives it. Used on that store's core.
//
// Invariants
// - A fetch whose items keep their memory, and an update, allocate nothing in the steady state.
// - Checksums that the caller brings are passed on as they are: they cover more of the way.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "ros2s/base/log.h"
#include "ros2s/client/client_metrics.h"
#include "ros2s/object/object_store.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::client {

class ClientStore final : public object::ObjectStore {
  public:
    static constexpr uint64_t corrupt_lines_max = 100;
    enum class Store : uint8_t { elsewhere, in_this_process };

    ClientStore(Reactor& reactor, object::ObjectStore& below, Log log = {},
                Store where = Store::elsewhere);
    ~ClientStore() override;

    [[nodiscard]] const ClientMetrics& metrics() const { return metrics_; }

    [[nodiscard]] object::Features features() const override { return below_.features(); }
    [[nodiscard]] std::string path() const override { return below_.path(); }
    Task<Result<>> fetch(const Call& call, object::ContainerId container,
                         std::span<object::FetchItem> items) override;
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
    Task<Result<object::PoolSpace>> space(const Call& call) override;
    Task<Result<>> pin(const Call& call, object::ContainerId container,
                       const object::Holder& holder, object::FetchItem& item) override;
    Task<Result<bool>> unpin(const Call& call, object::ContainerId container,
                             const object::Holder& holder, object::ObjectId object) override;
    [[nodiscard]] uint64_t pins_era() const override { return below_.pins_era(); }
    void session_ended(uint64_t session) override { below_.session_ended(session); }

  private:
    // A request that fetches items.
    Task<Result<>> verified(const Call& call, object::ContainerId container,
                            std::span<object::FetchItem> items, Task<Result<>> request);
    // Counts and traces a request that carries no payload.
    template <class T>
    Task<Result<T>> counted(const Call& call, std::string_view name, RequestMetrics& metrics,
                            Task<Result<T>> request);
    // Takes back what is corrupt; `bad` does not match.
    void check(object::ContainerId container, object::FetchItem& item,
               std::optional<object::Extent> bad);
    // What of its bytes does not match, where it can be told.
    [[nodiscard]] std::optional<object::Extent> mismatch(const object::FetchItem& item) const;
    // The same of more than a slice, in slices. Errors: cancelled, deadline.
    Task<Result<std::optional<object::Extent>>> long_mismatch(const Call& call,
                                                              const object::FetchItem& item) const;
    Task<Result<>> check_all(const Call& call, object::ContainerId container,
                             std::span<object::FetchItem> items);
    Task<Result<>> read_again(const Call& call, object::ContainerId container,
                              object::FetchItem& item);
    void withhold(object::FetchItem& item, uint64_t detail);
    void say_corrupt(object::ContainerId container, const object::FetchItem& item,
                     object::Extent bad) const;
    [[nodiscard]] std::unique_ptr<object::Transaction> take_copy(
        const object::Transaction& transaction);
    // In slices. Errors: cancelled, deadline.
    Task<Result<>> add_checksums(const Call& call, object::Transaction& transaction) const;
    void give_back(std::unique_ptr<object::Transaction> copy);

    Reactor& reactor_;
    object::ObjectStore& below_;
    Log log_;
    bool is_elsewhere_;
    bool verifies_;
    ClientMetrics metrics_;
    // Copies of transactions, kept for the memory of their keys and vectors.
    std::vector<std::unique_ptr<object::Transaction>> copies_;
};

}  // namespace ros2s::client
