#include "tickets.h"

#include <algorithm>
#include <cstring>

#include "ros2s/base/check.h"

namespace ros2s::session {
namespace {

// Compares every byte in any case; `volatile` keeps the compiler from ending early.
bool equal_in_constant_time(const uint8_t* a, const uint8_t* b, size_t size) {
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < size; ++i) {
        difference = static_cast<uint8_t>(difference | static_cast<uint8_t>(a[i] ^ b[i]));
    }
    return difference == 0;
}

// The compiler would omit a plain fill of memory that is not read again.
void wipe(std::array<uint8_t, 32>& secret) {
    volatile uint8_t* bytes = secret.data();
    for (size_t i = 0; i < secret.size(); ++i) bytes[i] = 0;
}

}  // namespace

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
    : reactor_(reactor), options_(std::move(options)) {}

TicketTable::~TicketTable() {
    for (Entry& slot : slots_) wipe(slot.secret);
}

Ticket TicketTable::ticket_of(uint32_t index) const {
    const Entry& slot = slots_[index];
    Ticket ticket;
    std::memcpy(ticket.bytes.data(), &index, 4);
    std::memcpy(ticket.bytes.data() + 4, &slot.generation, 4);
    std::memcpy(ticket.bytes.data() + 8, slot.secret.data(), slot.secret.size());
    return ticket;
}

Result<IssuedTicket> TicketTable::issue(const TicketGrant& grant) {
    end_expired();
    const auto subject = by_subject_.find(grant.subject);
    if (subject != by_subject_.end() && subject->second >= options_.per_subject_max) {
        return fail(Code::busy, options_.per_subject_max);
    }
    if (waiting_ >= options_.tickets_max) return fail(Code::no_memory, options_.tickets_max);
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(slots_.size()));
        slots_.emplace_back();
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    Entry& slot = slots_[index];
    slot.live = true;
    slot.grant = grant;
    slot.expires = reactor_.now() + options_.lifetime;
    for (size_t i = 0; i < slot.secret.size(); i += 8) {
        const uint64_t bits = options_.entropy();
        std::memcpy(slot.secret.data() + i, &bits, 8);
    }
    slot.older = newest_;
    slot.newer = none;
    (newest_ != none ? slots_[newest_].newer : oldest_) = index;
    newest_ = index;
    ++waiting_;
    ++by_subject_[grant.subject];
    metrics_.issued.add();
    return IssuedTicket{.ticket = ticket_of(index), .expires = slot.expires};
}

Result<TicketGrant> TicketTable::redeem(const Ticket& ticket, ListenerScope scope,
                                        const Uuid& client, TicketGrant* whose) {
    end_expired();
    uint32_t index = 0;
    uint32_t generation = 0;
    std::memcpy(&index, ticket.bytes.data(), 4);
    std::memcpy(&generation, ticket.bytes.data() + 4, 4);
    if (index >= slots_.size() || !slots_[index].live || slots_[index].generation != generation) {
        metrics_.refused_unknown.add();
        return fail(Code::denied);
    }
    const Entry& slot = slots_[index];
    if (!equal_in_constant_time(slot.secret.data(), ticket.bytes.data() + 8, slot.secret.size())) {
        metrics_.refused_secret.add();
        return fail(Code::denied);
    }
    if (whose != nullptr) *whose = slot.grant;
    const bool its_holder = slot.grant.purpose == scope.purpose && slot.grant.client == client &&
                            (scope.subject.empty() || scope.subject == slot.grant.subject);
    if (!its_holder || (scope.tenant && *scope.tenant != slot.grant.tenant)) {
        // Another party has the secret, so the ticket is no longer valid.
        (its_holder ? metrics_.refused_tenant : metrics_.refused_holder).add();
        end(index);
        return fail(Code::denied);
    }
    const TicketGrant grant = slot.grant;
    end(index);
    metrics_.redeemed.add();
    return grant;
}

size_t TicketTable::revoke(SessionId session) {
    size_t count = 0;
    for (uint32_t index = oldest_; index != none;) {
        const uint32_t next = slots_[index].newer;
        if (slots_[index].grant.session == session) {
            end(index);
            ++count;
        }
        index = next;
    }
    metrics_.revoked.add(count);
    return count;
}

void TicketTable::end_expired() {
    const Time now = reactor_.now();
    while (oldest_ != none && slots_[oldest_].expires <= now) {
        metrics_.expired.add();
        end(oldest_);
    }
}

void TicketTable::end(uint32_t index) {
    Entry& slot = slots_[index];
    ROS2S_CHECK(slot.live);
    wipe(slot.secret);
    (slot.older != none ? slots_[slot.older].newer : oldest_) = slot.newer;
    (slot.newer != none ? slots_[slot.newer].older : newest_) = slot.older;
    const auto subject = by_subject_.find(slot.grant.subject);
    if (--subject->second == 0) by_subject_.erase(subject);
    slot.grant = {};
    slot.live = false;
    ++slot.generation;
    free_.push_back(index);
    --waiting_;
}

}  // namespace ros2s::session
