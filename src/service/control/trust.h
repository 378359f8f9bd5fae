// Trust: whether a caller's certificate is valid now, and not only at the handshake. Every
// certificate of its chain must be within its time, signed by the authority in the server's current
// file, and not revoked by a list beside it. When it becomes invalid, its sessions end, with their
// tickets, connections and mounts. Calls over existing connections are refused.
//
// Owned by the control server; used on the core, which never waits for the files.
#pragma once
#include <map>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/pki/watched_identity.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/session/sessions.h"

namespace ros2s::control {

class Trust {
  public:
    // Problems of the files are logged by the reader that serves the handshakes.
    Trust(Reactor& reactor, BlockingPool& blocking, session::SessionTable& sessions,
          pki::Identity identity)
        : reactor_(reactor),
          blocking_(blocking),
          sessions_(sessions),
          files_(std::move(identity), Log()) {}

    // Reads the files for the first time. Blocks. Called before anything else.
    void begin();

    // `chain`: a client's certificate, and those that it sent with it, as PEM. Returns the end of
    // its validity. Errors: denied, with a sentence for `subject`.
    [[nodiscard]] Result<WallTime> check(const std::string& subject, const std::string& chain,
                                         Report& report);
    // Watches the files, and ends the sessions whose certificates a new authority did not sign, or
    // a new list revokes, until it is stopped.
    Task<> watch(StopToken stop);

  private:
    // Earlier results, so that a call costs one look-up. Small enough to be dropped as a whole.
    static constexpr size_t results_max = 4096;
    struct CachedResult {
        pki::Seconds until{};  // the beginning of time: it is not valid
        std::string why_not{};
        // A refusal may depend on the clock, which may be set.
        Time look_again = Time::max();
    };
    const CachedResult& result_of(const std::string& chain);
    void evict_strangers();

    Reactor& reactor_;
    BlockingPool& blocking_;
    session::SessionTable& sessions_;
    pki::WatchedIdentity files_;
    pki::Pem pem_;
    std::map<std::string, CachedResult> results_;
};

}  // namespace ros2s::control
