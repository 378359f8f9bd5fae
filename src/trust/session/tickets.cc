#include "tickets.h"

#include <openssl/crypto.h>

#include <cstring>

namespace ros2s::session {

Result<Ticket> Ticket::parse(std::string_view bytes) {
    if (bytes.size() != ticket_bytes) return fail(Code::invalid, bytes.size());
    Ticket ticket;
    std::memcpy(ticket.bytes.data(), bytes.data(), bytes.size());
    return ticket;
}

void TicketMetrics::visit(const MetricVisitor& visit) const {
    visit("ros2store_tickets_issued_total", "Tickets issued for the data plane", issued.value());
    visit("ros2store_tickets_redeemed_total", "Tickets that admitted a connection",
          redeemed.value());
    visit("ros2store_tickets_expired_total", "Tickets that expired unused", expired.value());
    visit("ros2store_tickets_revoked_total", "Tickets ended with their session", revoked.value());
    visit("ros2store_tickets_refused_unknown_total",
          "Tickets refused because they were used, expired, revoked or invalid",
          refused_unknown.value());
    visit("ros2store_tickets_refused_secret_total", "Tickets refused for a wrong secret",
          refused_secret.value());
    visit("ros2store_tickets_refused_holder_total",
          "Tickets refused because of another client, certificate or purpose",
          refused_holder.value());
    visit("ros2store_tickets_refused_tenant_total", "Tickets refused at another tenant's listener",
          refused_tenant.value());
}

TicketTable::TicketTable(Reactor& reactor, Options options)
    : reactor_(reactor),
      options_(std::move(options)),
      bound_({.per_subject = options_.per_subject_max, .in_all = options_.tickets_max}) {}

TicketTable::Entry::~Entry() { OPENSSL_cleanse(secret.data(), secret.size()); }

// A client must not learn from its tickets how many others draw.
uint64_t TicketTable::draw() const {
    for (;;) {
        const uint64_t number = options_.entropy();
        if (!by_number_.contains(number)) return number;
    }
}

Result<IssuedTicket> TicketTable::issue(const TicketHolder& holder) {
    end_expired();
    const Bound::Who who{.tenant = holder.tenant, .subject = holder.subject};
    auto share = bound_.take(who);
    if (!share) {
        return share.error() == Bound::Limit::all ? fail(Code::no_memory, options_.tickets_max)
                                                  : fail(Code::busy, bound_.used(who));
    }
    Entry& entry = tickets_.emplace_back();
    entry.share = std::move(*share);
    entry.number = draw();
    entry.holder = holder;
    entry.expires = reactor_.now() + options_.lifetime;
    for (size_t i = 0; i < entry.secret.size(); i += 8) {
        const uint64_t bits = options_.entropy();
        std::memcpy(entry.secret.data() + i, &bits, 8);
    }
    by_number_.emplace(entry.number, std::prev(tickets_.end()));
    metrics_.issued.add();
    Ticket ticket;
    std::memcpy(ticket.bytes.data(), &entry.number, 8);
    std::memcpy(ticket.bytes.data() + 8, entry.secret.data(), entry.secret.size());
    return IssuedTicket{.ticket = ticket, .expires = entry.expires};
}

Result<TicketHolder> TicketTable::redeem(const Ticket& ticket, ListenerScope scope,
                                         const Uuid& client, TicketHolder* whose) {
    end_expired();
    uint64_t number = 0;
    std::memcpy(&number, ticket.bytes.data(), 8);
    const auto numbered = by_number_.find(number);
    if (numbered == by_number_.end()) {
        metrics_.refused_unknown.add();
        return fail(Code::denied);
    }
    const Tickets::iterator found = numbered->second;
    const Entry& entry = *found;
    if (CRYPTO_memcmp(entry.secret.data(), ticket.bytes.data() + 8, entry.secret.size()) != 0) {
        metrics_.refused_secret.add();
        return fail(Code::denied);
    }
    const TicketHolder holder = entry.holder;
    if (whose != nullptr) *whose = holder;
    const bool its_holder = holder.purpose == scope.purpose && holder.client == client &&
                            (scope.subject.empty() || scope.subject == holder.subject);
    if (!its_holder || (scope.tenant && *scope.tenant != holder.tenant)) {
        // Another party has the secret, so the ticket is no longer valid.
        (its_holder ? metrics_.refused_tenant : metrics_.refused_holder).add();
        end(found);
        return fail(Code::denied);
    }
    end(found);
    metrics_.redeemed.add();
    return holder;
}

size_t TicketTable::revoke(SessionId session) {
    size_t count = 0;
    for (auto at = tickets_.begin(); at != tickets_.end();) {
        const bool of_session = at->holder.session == session;
        count += of_session;
        at = of_session ? end(at) : std::next(at);
    }
    metrics_.revoked.add(count);
    return count;
}

void TicketTable::end_expired() {
    const Time now = reactor_.now();
    while (!tickets_.empty() && tickets_.front().expires <= now) {
        metrics_.expired.add();
        end(tickets_.begin());
    }
}

TicketTable::Tickets::iterator TicketTable::end(Tickets::iterator at) {
    by_number_.erase(at->number);
    return tickets_.erase(at);
}

}  // namespace ros2s::session
