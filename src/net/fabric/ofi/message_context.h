// MessageContext: what message endpoints of libfabric need: fabric, domain, a queue of completions,
// a queue of connection events, and the endpoint that listens for connections.
#pragma once
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <vector>

#include "ofi_library.h"
#include "ros2s/base/bytes.h"
#include "ros2s/fabric/socket/socket.h"

namespace ros2s::fabric::ofi {

class MessageContext {
  public:
    // Sends of one endpoint that libfabric has at a time.
    static constexpr size_t sends_max = 32;
    static constexpr size_t receives_max = 16;
    // The queue of completions has room for these. Soft-RoCE's queue ends at 32767 entries.
    static constexpr size_t endpoints_max = 16384 / (sends_max + receives_max);

    // Loads libfabric if the process has none, and listens on the device. Errors: unsupported,
    // no_memory, io; the report says why.
    [[nodiscard]] static Result<MessageContext> open(const Options& options, const Choice& choice,
                                                     Report& report);
    MessageContext(MessageContext&&) = default;
    MessageContext& operator=(MessageContext&&) = delete;
    ~MessageContext() = default;

    [[nodiscard]] fid_domain* domain() const noexcept { return domain_.get(); }
    [[nodiscard]] fid_cq* completions() const noexcept { return completions_.get(); }
    [[nodiscard]] fid_eq* events() const noexcept { return events_.get(); }
    // Returns true if the address is of the kind that this context uses.
    [[nodiscard]] bool is_of_our_kind(ConstBytes address) const noexcept;
    // An endpoint of ours, not connected yet. For an address of our kind (libfabric may then wait
    // for the network to resolve it), or for a peer that requests a connection. Null: libfabric
    // refuses.
    [[nodiscard]] Handle<fid_ep> make_endpoint(ConstBytes address);
    [[nodiscard]] Handle<fid_ep> make_endpoint(fi_info& request) { return enable(request); }
    // Frees the data of a peer's request.
    void free(fi_info* request) const noexcept { free_info_(request); }
    // Before libfabric 1.21 a rejection leaks the request's identifier, also in the kernel. So an
    // endpoint takes over the identifier. Closing that endpoint notifies the peer.
    void reject(fi_info& request) noexcept;

    // Readable when a queue has something, after may_sleep() returned true, or after signal().
    [[nodiscard]] int event_descriptor() const noexcept { return events_of_all_.get(); }
    [[nodiscard]] bool may_sleep() const noexcept;
    void signal() noexcept;
    // The socket address on which it listens.
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }

  private:
    MessageContext() = default;
    int create(const OfiLibrary& ofi, const Choice& choice);
    int create_queues();
    int listen();
    int wait_on(fid& queue);
    // Returns true if libfabric may cache registrations. Then the key of an ended registration
    // stays valid.
    [[nodiscard]] bool remembers_memory() const;
    // libfabric frees what it keeps of the request.
    void forget(const fi_info& request) noexcept;
    [[nodiscard]] Handle<fid_ep> enable(fi_info& info);

    // In the order of their dependencies.
    std::vector<char*> environment_;  // the environment at libfabric's start
    std::function<void(fi_info*)> free_info_;
    std::function<fi_info*(const fi_info*)> copy_info_;
    Info offer_;
    Descriptor signal_;
    Descriptor events_of_all_;
    Handle<fid_fabric> fabric_;
    Handle<fid_domain> domain_;
    Handle<fid_eq> events_;
    Handle<fid_cq> completions_;
    Handle<fid_pep> listening_;
    std::vector<std::byte> address_;
};

}  // namespace ros2s::fabric::ofi
