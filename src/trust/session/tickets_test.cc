// Tickets are redeemed once, in time, by their holder; never otherwise.
#include "tickets.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "ros2s/runtime/sim/world.h"

namespace ros2s::session {
namespace {

using namespace std::chrono_literals;

constexpr Uuid alice{{1}};
constexpr Uuid mallory{{2}};

class Tickets : public testing::Test {
  protected:
    Tickets() {
        table_.emplace(world_.core(),
                       TicketTable::Options{.lifetime = 30s,
                                            .per_subject_max = 8,
                                            .tickets_max = 20,
                                            .entropy = [this] { return world_.random().next(); }});
    }
    static TicketHolder holder(uint64_t session, std::string subject = "CN=alice",
                               uint64_t tenant = 7) {
        return {.session = {session},
                .subject = std::move(subject),
                .tenant = tenant,
                .purpose = Purpose::link,
                .client = alice};
    }
    void pass(Duration duration) {
        world_.run([](Reactor& reactor, Duration time) -> Task<> {
            co_await sleep_for(reactor, time);
        }(world_.core(), duration));
    }
    Code refused(const Ticket& ticket, Purpose purpose = Purpose::link, Uuid client = alice) {
        const auto got = table_->redeem(ticket, {.purpose = purpose}, client);
        return got ? Code::exists : got.error().code;
    }

    sim::World world_{1};
    std::optional<TicketTable> table_;
};

TEST_F(Tickets, TicketIsRedeemedOnce) {
    const auto issued = table_->issue(holder(5));
    ASSERT_TRUE(issued);
    const auto parsed = Ticket::parse(issued->ticket.view());
    ASSERT_TRUE(parsed);
    const auto got = table_->redeem(*parsed, {.purpose = Purpose::link}, alice);
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, holder(5));
    EXPECT_EQ(refused(*parsed), Code::denied);
    EXPECT_EQ(table_->metrics().refused_unknown.value(), 1u);
    EXPECT_EQ(table_->waiting(), 0u);
    EXPECT_EQ(Ticket::parse("short").error().code, Code::invalid);
}

TEST_F(Tickets, TicketExpiresAtItsDeadline) {
    const auto early = table_->issue(holder(1));
    pass(20s);
    const auto late = table_->issue(holder(2));
    EXPECT_EQ(late->expires, world_.now() + 30s);
    pass(10s);
    EXPECT_EQ(refused(early->ticket), Code::denied);
    EXPECT_TRUE(table_->redeem(late->ticket, {.purpose = Purpose::link}, alice));
    EXPECT_EQ(table_->metrics().expired.value(), 1u);
}

TEST_F(Tickets, FlippedBitIsRefused) {
    const auto issued = table_->issue(holder(1));
    for (size_t bit = 0; bit < ticket_bytes * 8; ++bit) {
        Ticket forged = issued->ticket;
        forged.bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
        EXPECT_EQ(refused(forged), Code::denied) << bit;
    }
    EXPECT_EQ(table_->metrics().refused_secret.value(), 256u);
    EXPECT_EQ(table_->metrics().refused_unknown.value(), 64u);
    EXPECT_TRUE(table_->redeem(issued->ticket, {.purpose = Purpose::link}, alice))
        << "guessing used nothing up";
}

TEST_F(Tickets, WrongClientOrPurposeSpendsTicket) {
    const auto stolen = table_->issue(holder(1));
    EXPECT_EQ(refused(stolen->ticket, Purpose::link, mallory), Code::denied);
    EXPECT_EQ(refused(stolen->ticket), Code::denied) << "its secret was out";
    const auto other = table_->issue(holder(1));
    EXPECT_EQ(refused(other->ticket, Purpose::store), Code::denied);
    EXPECT_EQ(table_->metrics().refused_holder.value(), 2u);
}

TEST_F(Tickets, WrongCertificateSpendsTicket) {
    for (const char* subject : {"CN=mallory", "CN=alic", "CN=alicee", "cn=alice"}) {
        const auto stolen = table_->issue(holder(1));
        const ListenerScope scope{.purpose = Purpose::link, .subject = subject};
        EXPECT_EQ(table_->redeem(stolen->ticket, scope, alice).error().code, Code::denied);
        EXPECT_EQ(refused(stolen->ticket), Code::denied) << "its secret was out";
    }
    EXPECT_EQ(table_->metrics().refused_holder.value(), 4u);
    const auto own = table_->issue(holder(1));
    const ListenerScope scope{.purpose = Purpose::link, .subject = "CN=alice"};
    EXPECT_TRUE(table_->redeem(own->ticket, scope, alice));
}

TEST_F(Tickets, WrongTenantSpendsTicket) {
    for (const uint64_t tenant : {0, 6, 8}) {
        const auto stolen = table_->issue(holder(1));
        TicketHolder whose;
        const ListenerScope scope{.purpose = Purpose::link, .tenant = tenant};
        EXPECT_EQ(table_->redeem(stolen->ticket, scope, alice, &whose).error().code, Code::denied);
        EXPECT_EQ(whose, holder(1));
        EXPECT_EQ(refused(stolen->ticket), Code::denied) << "it is spent";
    }
    EXPECT_EQ(table_->metrics().refused_tenant.value(), 3u);
    const auto own = table_->issue(holder(1));
    EXPECT_TRUE(
        table_->redeem(own->ticket, ListenerScope{.purpose = Purpose::link, .tenant = 7}, alice));
}

TEST_F(Tickets, TicketsEndWithTheirSession) {
    const auto first = table_->issue(holder(1));
    const auto second = table_->issue(holder(2));
    const auto third = table_->issue(holder(1));
    EXPECT_EQ(table_->revoke({1}), 2u);
    EXPECT_EQ(refused(first->ticket), Code::denied);
    EXPECT_EQ(refused(third->ticket), Code::denied);
    EXPECT_TRUE(table_->redeem(second->ticket, {.purpose = Purpose::link}, alice));
    EXPECT_EQ(table_->metrics().revoked.value(), 2u);
}

TEST_F(Tickets, TicketsAreBoundedPerSubjectAndInTotal) {
    std::vector<IssuedTicket> alices;
    for (int i = 0; i < 8; ++i) alices.push_back(*table_->issue(holder(1)));
    EXPECT_EQ(table_->issue(holder(1)).error().code, Code::busy);
    EXPECT_TRUE(table_->issue(holder(2, "CN=bob", 8))) << "others are not concerned";
    // However many clients take as much as they can, another one finds room.
    const auto take_all = [&](const std::string& subject, uint64_t tenant) {
        for (size_t count = 0;; ++count) {
            const auto issued = table_->issue(holder(2, subject, tenant));
            if (!issued) return std::pair(count, issued.error().code);
        }
    };
    EXPECT_EQ(take_all("CN=bob", 8), std::pair(size_t{5}, Code::busy)) << "beside the first one";
    EXPECT_EQ(take_all("CN=carol", 9), std::pair(size_t{3}, Code::busy));
    EXPECT_EQ(take_all("CN=dave", 10), std::pair(size_t{2}, Code::busy));
    EXPECT_EQ(take_all("CN=eve", 11), std::pair(size_t{1}, Code::busy));
    EXPECT_EQ(table_->issue(holder(3, "CN=frank", 12)).error().code, Code::no_memory);
    EXPECT_TRUE(table_->redeem(alices[0].ticket, {.purpose = Purpose::link}, alice));
    EXPECT_TRUE(table_->issue(holder(3, "CN=frank", 12)));
    pass(30s);
    for (int i = 0; i < 8; ++i) EXPECT_TRUE(table_->issue(holder(1))) << "expired ones make room";
}

// Another certificate of the tenant brings it no more.
TEST_F(Tickets, TicketsOfOneTenantLeaveRoomForOthers) {
    const size_t most = table_->options().tickets_max;
    size_t issued = 0;
    for (size_t i = 0; i < most; ++i) {
        issued += table_->issue(holder(1, "CN=" + std::to_string(i))) ? 1 : 0;
    }
    EXPECT_EQ(issued, most / 2);
    EXPECT_TRUE(table_->issue(holder(2, "CN=bob", 8)));
    pass(30s);
    EXPECT_TRUE(table_->issue(holder(1, "CN=0"))) << "expired ones make room";
}

TEST_F(Tickets, NumbersAreNotReused) {
    const auto old = table_->issue(holder(1));
    EXPECT_TRUE(table_->redeem(old->ticket, {.purpose = Purpose::link}, alice));
    const auto next = table_->issue(holder(2));
    EXPECT_NE(std::memcmp(old->ticket.bytes.data(), next->ticket.bytes.data(), 8), 0);
    EXPECT_EQ(refused(old->ticket), Code::denied);
    EXPECT_EQ(table_->redeem(next->ticket, {.purpose = Purpose::link}, alice)->session.value, 2u);
}

// Compared with a model: a map from ticket to deadline.
TEST_F(Tickets, RandomOperationsMatchModel) {
    std::map<std::string, std::pair<uint64_t, Time>, std::less<>> model;
    for (int step = 0; step < 4000; ++step) {
        std::erase_if(model, [&](auto& each) { return each.second.second <= world_.now(); });
        switch (world_.random().below(4)) {
            case 0: {
                const uint64_t session = world_.random().below(5);
                const auto issued = table_->issue(holder(session, "CN=" + std::to_string(session)));
                if (issued) {
                    model[std::string(issued->ticket.view())] = {session, issued->expires};
                } else {
                    EXPECT_TRUE(model.size() == 20 || issued.error().code == Code::busy);
                }
                break;
            }
            case 1: {
                if (model.empty()) break;
                auto at = model.begin();
                std::advance(at, static_cast<long>(world_.random().below(model.size())));
                const auto got =
                    table_->redeem(*Ticket::parse(at->first), {.purpose = Purpose::link}, alice);
                ASSERT_TRUE(got);
                EXPECT_EQ(got->session.value, at->second.first);
                EXPECT_EQ(refused(*Ticket::parse(at->first)), Code::denied);
                model.erase(at);
                break;
            }
            case 2: {
                const uint64_t session = world_.random().below(5);
                const size_t gone =
                    std::erase_if(model, [&](auto& each) { return each.second.first == session; });
                const size_t revoked = table_->revoke({session});
                EXPECT_GE(revoked, gone) << "those expired unnoticed count as well";
                break;
            }
            default: pass(std::chrono::seconds(world_.random().below(20)));
        }
    }
    EXPECT_GT(table_->metrics().redeemed.value(), 100u);
    EXPECT_GT(table_->metrics().expired.value(), 10u);
}

}  // namespace
}  // namespace ros2s::session
