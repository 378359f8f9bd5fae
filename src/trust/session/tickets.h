// TicketTable: the tickets that admit data-plane connections. The control plane issues a ticket to
// an authenticated client. The client presents it once, as the first thing on a data-plane
// connection. The data plane redeems it and learns its holder. A ticket has no information: only a
// random number, by which this table finds it, and 256 random bits.
//
// Owned by the program that has both planes. Tickets are in memory and do not survive the process.
// Thread rule: used on one core. Nothing suspends.
//
// Invariants
// - A ticket is redeemed at most once. A wrong secret does not use up a ticket, so no client can
//   use up another client's ticket.
// - The time of a refusal does not depend on the number of matching bytes of the secret. The peer
//   does not receive the reason: unknown, used, expired and revoked tickets are refused alike.
//   Counters record the reason.
// - A secret is erased when its ticket ends.
// - Unredeemed tickets are bounded (base/quota.h). Each ends at its deadline.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "ros2s/base/metrics.h"
#include "ros2s/base/quota.h"
#include "ros2s/base/result.h"
#include "ros2s/base/uuid.h"
#include "ros2s/runtime/reactor.h"

namespace ros2s::session {

struct SessionId {
    uint64_t value = 0;
    friend auto operator<=>(const SessionId&, const SessionId&) = default;
};

// The purpose of a connection.
enum class Purpose : uint8_t {
    store = 1,  // objects: a client of an engine
    link = 2,   // files: a host of a DPU
};
[[nodiscard]] constexpr std::string_view to_string(Purpose purpose) noexcept {
    return purpose == Purpose::store ? "store" : "link";
}

// Whom a ticket admits.
struct TicketHolder {
    SessionId session{};
    std::string subject;  // of the client's certificate
    uint64_t tenant = 0;
    Purpose purpose = Purpose::store;
    Uuid client;  // the only client instance that may present it
    friend bool operator==(const TicketHolder&, const TicketHolder&) = default;
};

// On the wire: the number (little-endian), then the secret.
inline constexpr size_t ticket_bytes = 40;
struct Ticket {
    std::array<uint8_t, ticket_bytes> bytes{};
    friend bool operator==(const Ticket&, const Ticket&) = default;
    // Errors: invalid (another size).
    [[nodiscard]] static Result<Ticket> parse(std::string_view bytes);
    [[nodiscard]] std::string_view view() const {
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
};

// The connections that a listener admits.
struct ListenerScope {
    Purpose purpose = Purpose::store;
    // Only the tenant with this number; no tenant has number 0. Empty: any tenant.
    std::optional<uint64_t> tenant{};
    // Only the subject of the certificate that the connection showed. Empty: it showed none.
    std::string_view subject{};
};

struct IssuedTicket {
    Ticket ticket;
    Time expires{};
};

struct TicketMetrics {
    Counter issued, redeemed, expired, revoked;
    Counter refused_unknown;  // no such ticket now: used, expired, revoked or invented
    Counter refused_secret;   // the ticket with that number has another secret
    // The right secret from another client or certificate, or for another purpose.
    Counter refused_holder;
    Counter refused_tenant;  // the right secret at another tenant's listener
    void visit(const MetricVisitor& visit) const;
};

class TicketTable {
  public:
    struct Options {
        Duration lifetime = std::chrono::seconds(30);
        uint32_t per_subject_max = 1024;  // not yet redeemed
        uint32_t tickets_max = 16 * 1024;
        // 64 unpredictable bits. A simulation provides seeded ones.
        std::function<uint64_t()> entropy = random_seed;
    };
    TicketTable(Reactor& reactor, Options options);
    TicketTable& operator=(TicketTable&&) = delete;

    // Errors: busy (the subject or its tenant has as many unredeemed tickets as it may), no_memory
    // (the table is full).
    [[nodiscard]] Result<IssuedTicket> issue(const TicketHolder& holder);
    // Errors: denied. If the secret is right, sets `whose` to the holder, even on an error.
    [[nodiscard]] Result<TicketHolder> redeem(const Ticket& ticket, ListenerScope scope,
                                              const Uuid& client, TicketHolder* whose = nullptr);
    // Ends the session's unredeemed tickets and returns their number.
    size_t revoke(SessionId session);

    [[nodiscard]] size_t waiting() const { return tickets_.size(); }
    [[nodiscard]] const TicketMetrics& metrics() const { return metrics_; }
    [[nodiscard]] const Options& options() const { return options_; }

  private:
    using Bound = QuotaOf<uint64_t, std::string>;
    struct Entry {
        ~Entry();  // erases the secret
        Bound::Share share;
        uint64_t number = 0;
        std::array<uint8_t, 32> secret{};
        TicketHolder holder{};
        Time expires{};
    };
    // Oldest first. All have the same lifetime, so the oldest expires first.
    using Tickets = std::list<Entry>;
    // Returns the next one.
    Tickets::iterator end(Tickets::iterator at);
    void end_expired();
    // Returns a number that no present ticket has.
    [[nodiscard]] uint64_t draw() const;

    Reactor& reactor_;
    Options options_;
    Bound bound_;
    Tickets tickets_;
    std::map<uint64_t, Tickets::iterator> by_number_;
    TicketMetrics metrics_;
};

}  // namespace ros2s::session
