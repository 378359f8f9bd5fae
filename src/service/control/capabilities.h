// Capabilities: the part of a server that has the capabilities of its pools. An engine issues and
// verifies them; a DPU passes requests on, and keeps what tenants hand to it. Implemented by the
// composing code.
//
// Used on the core. Errors come with a sentence; a refusal also leaves an audit line.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ros2s/capability/chain.h"
#include "ros2s/runtime/call.h"
#include "ros2s/runtime/task.h"
#include "ros2s/session/sessions.h"

namespace ros2s::control {

// To see which containers exist, and no more.
inline capability::Use seeing_only() {
    return {.rights = {}, .directories = false, .container = {"*"}};
}

// A request for a capability, and the program that signed it.
struct SignedCapabilityRequest {
    std::string wanted;        // capability::encode(CapabilityRequest)
    std::string certificates;  // PEM, the program's first
    std::string signature;     // by its key, over capability::request_message()
};

// A capability that a session uses now.
struct CapabilityInUse {
    Uuid first, last;  // the engine's, and the one that is shown
    capability::Use use;
    std::string shown_by;  // the subject of the session
    WallTime expires{};
};

class Capabilities {
  public:
    virtual ~Capabilities() = default;
    struct Description {
        Uuid audience;
        std::vector<capability::PublicKey> issuers;     // known only to an engine
        std::optional<capability::PublicKey> delegate;  // of a DPU that needs capabilities
    };
    // Nothing: there is no such pool.
    [[nodiscard]] virtual std::optional<Description> describe(std::string_view pool) const = 0;
    // For `caller`, at `peer`, which may forward the request of another program. At most what was
    // requested, less if the tenant has less. Errors: denied, invalid; those of reaching the
    // engine.
    virtual Task<Result<std::string>> issue(const Call& call, std::string caller, std::string peer,
                                            std::string pool, SignedCapabilityRequest wanted,
                                            Report& report) = 0;

    // ---- a DPU
    // Keeps a chain for the tenant of the subject, at `peer`. Errors: denied, busy, unsupported,
    // deadline, cancelled.
    virtual Task<Result<>> take(const Call& /*call*/, std::string /*subject*/, std::string /*peer*/,
                                std::string /*pool*/, capability::Chain /*chain*/, Report& report) {
        co_return report.fail(Code::unsupported, "this server takes no capabilities");
    }

    // ---- an engine
    // Returns true if the subject is a DPU to which tenants may hand capabilities.
    // It may also list all tenants.
    [[nodiscard]] virtual bool is_delegate(std::string_view /*subject*/) const { return false; }
    // Returns true if the subject may open sessions in which it shows capabilities: its own, or as
    // a DPU.
    [[nodiscard]] virtual bool may_show(std::string_view /*subject*/,
                                        std::string_view /*pool*/) const {
        return false;
    }
    // Verifies the chain and the proof for this nonce, and gives the session its rights. Errors:
    // denied, stale (the tenant was changed since), deadline, cancelled.
    virtual Task<Result<>> show(const Call& /*call*/, session::Session& /*session*/,
                                capability::Chain /*chain*/, std::string /*nonce*/,
                                std::string /*proof*/, Report& report) {
        co_return report.fail(Code::unsupported, "this server takes no capabilities");
    }
    // Revokes that capability of the tenant, and what was made of it. Its program gets no other one
    // for an hour. Returns how many sessions used it. Errors: not_found, invalid (another
    // tenant's), too_large, no_space, io.
    virtual Task<Result<uint64_t>> revoke(std::string /*pool*/, std::string /*tenant*/,
                                          Uuid /*capability*/, Report& report) {
        co_return report.fail(Code::unsupported, "this server issues no capabilities");
    }
    // Those of the tenant.
    [[nodiscard]] virtual std::vector<CapabilityInUse> in_use(std::string_view /*pool*/,
                                                              std::string_view /*tenant*/) const {
        return {};
    }
    // Another key signs from now on. Errors: those of capability::Issuer::rotate().
    virtual Task<Result<>> rotate(std::string /*pool*/, Report& report) {
        co_return report.fail(Code::unsupported, "this server issues no capabilities");
    }
};

}  // namespace ros2s::control
