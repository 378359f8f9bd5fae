// PostedFetch: a fetch of one small extent that no coroutine awaits, for a caller that passes the
// bytes on (FetchItem::forwarded). Only a store behind a connection has it.
//
//     ObjectStore::post_fetch() ─ false: fetch() has to do it
//           └─ true ─► one of: fetched() · lost() · after drop(): nothing
//
// Owned by the caller, and outlives the fetch, as the item does. Used on the store's core. It may
// be posted again when it has ended.
#pragma once
#include <utility>

#include "ros2s/base/bytes.h"
#include "ros2s/runtime/time.h"

namespace ros2s::object {

class PostedFetch {
  public:
    // The bytes of the extent, where they arrived. Another process may change them at any time:
    // copy them once, and look at the copy only. `second` continues `first`.
    struct Payload {
        ConstBytes first, second;
    };
    // What a store in between counts.
    class Observer {
      public:
        virtual void fetched(uint64_t bytes, Time begun) noexcept = 0;

      protected:
        ~Observer() = default;
    };
    // The store's part.
    class Request {
      public:
        virtual void drop() noexcept = 0;

      protected:
        ~Request() = default;
    };

    PostedFetch& operator=(PostedFetch&&) = delete;
    // Nothing follows.
    void drop() noexcept {
        if (request != nullptr) std::exchange(request, nullptr)->drop();
    }

    // Called by the store, which has set the item as fetch() does. The payload is valid until it
    // returns.
    virtual void fetched(const Payload& payload) noexcept = 0;
    // There is no result: fetch() finds out why.
    virtual void lost() noexcept = 0;

    // Set by the stores.
    Request* request = nullptr;  // while it is posted
    Observer* observer = nullptr;
    Time begun{};

  protected:
    ~PostedFetch() = default;
};

}  // namespace ros2s::object
