// Context: an endpoint of libfabric and the objects under it: fabric, domain, addresses of peers,
// and one queue of completions with a descriptor to wait on. For messages only, not for one-sided
// transfers.
#pragma once
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <vector>

#include "ofi_library.h"

namespace ros2s::fabric::ofi {

class Context {
  public:
    // Loads libfabric if the process has none. Errors: unsupported, no_memory, io; the report says
    // why.
    [[nodiscard]] static Result<Context> open(const Options& options, const Choice& choice,
                                              Report& report);
    Context(Context&&) = default;
    Context& operator=(Context&&) = delete;
    ~Context() = default;

    // Ends the operations in progress. The queue reports their ends.
    void close_endpoint() noexcept { endpoint_.reset(); }
    [[nodiscard]] fid_ep* endpoint() const noexcept { return endpoint_.get(); }
    [[nodiscard]] fid_cq* completions() const noexcept { return completions_.get(); }
    [[nodiscard]] fid_av* peers() const noexcept { return peers_.get(); }
    // Readable when the queue has something, after may_sleep() returned true.
    [[nodiscard]] int event_descriptor() const noexcept { return event_; }
    [[nodiscard]] bool may_sleep() const noexcept;
    // The socket address by which a peer reaches the endpoint.
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }
    [[nodiscard]] size_t peers_max() const noexcept { return peers_max_; }
    [[nodiscard]] size_t message_bytes_max() const noexcept { return message_bytes_max_; }

  private:
    Context() = default;
    int create(const OfiLibrary& ofi, const Choice& choice);
    int create_endpoint(fi_info& info);

    // In the order of their dependencies.
    std::vector<char*> environment_;  // the environment at libfabric's start
    Handle<fid_fabric> fabric_;
    Handle<fid_domain> domain_;
    Handle<fid_av> peers_;
    Handle<fid_cq> completions_;
    Handle<fid_ep> endpoint_;
    int event_ = -1;
    size_t peers_max_ = 0;
    size_t message_bytes_max_ = 0;
    std::vector<std::byte> address_;
};

}  // namespace ros2s::fabric::ofi
