// ClientCall: a copy of a call that says which client of a store asks. It must not move while the
// call is used.
#pragma once
#include "ros2s/runtime/call.h"

namespace ros2s::object {

class ClientCall {
  public:
    ClientCall(const Call& call, const StoreClient& client) : client_(client), call_(call) {
        call_.client = &client_;
    }
    ClientCall& operator=(ClientCall&&) = delete;
    [[nodiscard]] const Call& call() const { return call_; }

  private:
    const StoreClient client_;
    Call call_;
};

}  // namespace ros2s::object
