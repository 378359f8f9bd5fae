// IssuedCapabilities: issues the capabilities of this engine's pools, and verifies those that
// clients show in their sessions.
//
//     request ─ signed by a certificate's key ─► tenant of its subject ─► capability
//     chain, proof ─► verified ─► rights of the session (StoreRouter)
//
// Owned by Engine; used on its core. Signatures of peers are verified on the blocking pool.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pools.h"
#include "ros2s/admission/admission.h"
#include "ros2s/capability/issuer.h"
#include "ros2s/control/capabilities.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/turns.h"
#include "ros2s/session/sessions.h"

namespace ros2s::engined {

class IssuedCapabilities final : public control::Capabilities {
  public:
    struct Options {
        std::string authority_file;  // of the certificates of tenants' programs
        Duration life{};
    };
    // Of one caller, verifications of each kind that are in progress or wait for the helper
    // threads.
    static constexpr size_t of_caller_max = 4;
    // All references outlive it.
    IssuedCapabilities(Environment environment, Pools& pools, session::SessionTable& sessions,
                       admission::Admission& admission, Options options);
    // A mistake in the setting would otherwise be found by the first mount. Errors: those of
    // reading the authority's certificate and lists of revoked ones.
    Task<Result<>> check_authority(Report& report);
    // The pools are open. Errors: those of capability::Issuer::open().
    Task<Result<>> begin(Report& report);

    [[nodiscard]] std::optional<Description> describe(std::string_view pool) const override;
    Task<Result<std::string>> issue(const Call& call, std::string caller, std::string peer,
                                    std::string pool, control::SignedCapabilityRequest wanted,
                                    Report& report) override;
    [[nodiscard]] bool is_delegate(std::string_view subject) const override;
    [[nodiscard]] bool may_show(std::string_view subject, std::string_view pool) const override;
    Task<Result<>> show(const Call& call, session::Session& session, capability::Chain chain,
                        std::string nonce, std::string proof, Report& report) override;
    Task<Result<uint64_t>> revoke(std::string pool, std::string tenant, Uuid capability,
                                  Report& report) override;
    [[nodiscard]] std::vector<control::CapabilityInUse> in_use(
        std::string_view pool, std::string_view tenant) const override;
    Task<Result<>> rotate(std::string pool, Report& report) override;

  private:
    struct Requester {
        std::string subject;
        WallTime until{};  // of its certificate
    };
    // The caller's turn, and one of the places at the helper threads.
    struct Turn {
        Turns<std::string>::Permit of_caller;
        SemaphoreHold verifier;
    };
    // Errors: deadline, cancelled.
    Task<Result<Turn>> take_turn(Turns<std::string>& turns, const Call& call, std::string caller,
                                 Report& report);
    // Verifies the certificate and the signature. Errors: denied, with a sentence.
    Task<Result<Requester>> verify_requester(const control::SignedCapabilityRequest& wanted,
                                             const std::string& pool, Report& report);
    // Returns true if it owns the container of that label. Waits for the tenant's turn: a listing
    // looks at all containers of the pool. Errors: cancelled, those of listing containers.
    Task<Result<bool>> is_owner(const Call& call, const std::string& pool,
                                const tenancy::Tenant& tenant, const std::string& label);
    // Returns the part of `use` that the tenant has. Errors: denied, those of is_owner().
    Task<Result<capability::Use>> part_granted(const Call& call, const std::string& pool,
                                               const tenancy::Tenant& tenant, capability::Use use);
    // An attempt of a subject, for the audit line of its refusal.
    struct Attempt {
        std::string_view pool, peer;
        uint64_t session;  // 0: none
        std::string what;
    };
    std::unexpected<Error> refuse(std::string_view subject, const Attempt& attempt,
                                  std::string_view why, Report& report);

    Environment environment_;
    Pools& pools_;
    session::SessionTable& sessions_;
    admission::Admission& admission_;
    // By account. Each exists while a call of its tenant waits or lists.
    std::map<uint64_t, admission::Line> lines_;
    const Options options_;
    // Requests of a DPU for its hosts do not delay the capabilities that it shows.
    Turns<std::string> issuing_, showing_;
    Semaphore verifying_;
    std::map<std::string, std::unique_ptr<capability::Issuer>, std::less<>> issuers_;
};

}  // namespace ros2s::engined
