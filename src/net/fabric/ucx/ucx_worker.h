// UcxWorker: the UCX worker of one domain. Frames are active messages.
#pragma once
#include "context.h"
#include "ros2s/fabric/lanes/worker.h"

namespace ros2s::fabric::ucx {

class UcxWorker final : public lanes::Worker {
  public:
    UcxWorker(Reactor& reactor, Counters& counters, Context context);
    [[nodiscard]] const std::vector<std::byte>& address() const noexcept override {
        return context_.address();
    }
    [[nodiscard]] Result<std::unique_ptr<lanes::Lane>> open_lane(const lanes::Ends& ends,
                                                                 lanes::LaneUser& user) override;

    [[nodiscard]] bool may_cross() const noexcept override { return true; }

  private:
    bool progress() noexcept override;
    bool arm_events() noexcept override;
    [[nodiscard]] int event_descriptor() const noexcept override {
        return context_.event_descriptor();
    }
    void signal() noexcept override;

    static ucs_status_t came(void* self, const void* header, size_t header_length, void* data,
                             size_t length, const ucp_am_recv_param_t* parameters) noexcept;
    static ucs_status_t drop_unknown(void* self, const void* header, size_t header_length,
                                     void* data, size_t length,
                                     const ucp_am_recv_param_t* parameters) noexcept;
    void set_handlers() noexcept;
    [[nodiscard]] const UcxLibrary& ucx() const noexcept { return context_.ucx(); }
    [[nodiscard]] ucp_worker_h handle() const noexcept { return context_.worker(); }

    Context context_;
    bool called_back_ = false;  // a frame arrived: a coroutine may be ready to continue
};

}  // namespace ros2s::fabric::ucx
