// Trust: whether a caller's certificate is good now, and not just when its connection shook hands:
// every certificate of its chain is in its time, and the authority in the server's file today
// signed it. A certificate that is good no more ends its sessions, with their tickets, connections
// and mounts, and calls over connections that stand are refused.
//
// Owned by the control server; used on the core, which never waits for the files.
#pragma once
#include <map>
#include <string>

#include "ros2s/base/result.h"
#include "ros2s/runtime/blocking.h"
#include "ros2s/runtime/reactor.h"
#include "ros2s/runtime/stop.h"
#include "ros2s/session/sessions.h"
#include "watched_identity.h"

namespace ros2s::control {

class Trust {
  public:
    // Whoever reads the same files for handshakes says what is wrong with them.
    Trust(Reactor& reactor, BlockingPool& blocking, session::SessionTable& sessions,
          pki::Identity identity)
        : reactor_(reactor),
          blocking_(blocking),
          sessions_(sessions),
          files_(std::move(identity), Log()) {}

    // Reads the authority for the first time. Blocks; before anything else.
    void begin();

    // `chain`: a client's certificate, and those that it sent with it, as PEM. Returns until when
    // it is good. Errors: denied, with a sentence for `subject`.
    [[nodiscard]] Result<WallTime> check(const std::string& subject, const std::string& chain,
                                         Report& report);
    // Looks at the files, and ends the sessions of those whom a new authority does not know, until
    // it is stopped.
    Task<> watch(StopToken stop);

  private:
    // What was found out, so that a call costs a look-up. Small enough to be thrown away whole.
    static constexpr size_t known_max = 4096;
    struct Known {
        pki::Seconds until{};  // the beginning of time: it is not good
        std::string why_not;
    };
    const Known& know(const std::string& chain);
    void expel_strangers();

    Reactor& reactor_;
    BlockingPool& blocking_;
    session::SessionTable& sessions_;
    WatchedIdentity files_;
    Pem pem_;
    std::map<std::string, Known> known_;
};

}  // namespace ros2s::control
