// Context: a UCX context and its one worker. It has the settings that select() made and no others:
// active messages and wake-ups, no one-sided operations.
#pragma once
#include <string>
#include <vector>

#include "selection.h"
#include "ucx_library.h"

namespace ros2s::fabric::ucx {

class Context {
  public:
    // Loads UCX if the process has none. Errors: unsupported, no_memory, io; the report says why.
    [[nodiscard]] static Result<Context> open(const Options& options, const Settings& settings,
                                              Report& report);
    Context(Context&& other) noexcept;
    Context& operator=(Context&&) = delete;
    // After every endpoint of the worker is closed.
    ~Context();
    [[nodiscard]] const UcxLibrary& ucx() const noexcept { return ucx_; }
    [[nodiscard]] ucp_worker_h worker() const noexcept { return worker_; }
    // Readable when an armed worker has something to do.
    [[nodiscard]] int event_descriptor() const noexcept { return event_; }
    // The address by which a peer reaches the worker.
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept { return address_; }

  private:
    explicit Context(const UcxLibrary& ucx) : ucx_(ucx) {}
    ucs_status_t create(const Settings& settings);
    ucs_status_t create_worker();
    const UcxLibrary& ucx_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    int event_ = -1;
    std::vector<std::byte> address_;
    std::vector<char*> environment_;  // the environment at UCX's start
};

}  // namespace ros2s::fabric::ucx
