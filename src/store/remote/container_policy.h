// ContainerPolicy: what the clients of a StoreServer may do with containers. A StoreServer without
// one serves every client everything.
//
// Owned by the composing code; outlives the server. Used on its core.
#pragma once

#include "ros2s/object/object_store.h"
#include "ros2s/rpc/request.h"

namespace ros2s::remote {

class ContainerPolicy {
  public:
    // `read` includes pins, which keep a file that is open.
    enum class Use : uint8_t { read, write, destroy };

    virtual ~ContainerPolicy() = default;

    // True: the client may. False: it may not, or a look-up is needed; decide() has the answer.
    // Called for each request.
    [[nodiscard]] virtual bool permits(const rpc::Request& request, object::ContainerId container,
                                       Use use) const = 0;
    // Errors: denied, with an audit line; those of ObjectStore::list_containers(). No error for a
    // container that does not exist: the store has the answer to that. Charges the request for what
    // it looks at.
    virtual Task<Result<>> decide(rpc::Request& request, object::ContainerId container,
                                  Use use) = 0;
    // Errors: denied, with an audit line.
    virtual Result<> permit_creation(const rpc::Request& request, const std::string& label) = 0;
    // Sets the owner of what the client creates. A client that claims one may have to be refused.
    // Errors: denied, with an audit line.
    virtual Result<> own(const rpc::Request& request, object::ContainerProperties& properties) = 0;
    // Returns true if the client may see that it exists.
    [[nodiscard]] virtual bool shows(const rpc::Request& request,
                                     const object::ContainerRecord& container) const = 0;

    // The client made or destroyed it.
    virtual void made(const rpc::Request& request, const object::ContainerRecord& container) = 0;
    virtual void destroyed(const rpc::Request& request, object::ContainerId container) = 0;
};

}  // namespace ros2s::remote
