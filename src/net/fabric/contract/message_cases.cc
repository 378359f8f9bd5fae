// Messages: sizes, order, numbers, and peers that read slowly or not at all.
#include <array>

#include "cases.h"

namespace ros2s::fabric::contract {
namespace {

constexpr std::array<uint64_t, 17> sizes{0,
                                         1,
                                         7,
                                         63,
                                         64,
                                         65,
                                         4095,
                                         4096,
                                         4097,
                                         60 * kib,
                                         64 * kib - 1,
                                         64 * kib,
                                         64 * kib + 1,
                                         mib - 1,
                                         3 * mib + 17,
                                         16 * mib,
                                         64 * mib};

// Each size goes to the server and back, with the head split off at different positions.
Task<> all_sizes_client(Client& client) {
    for (const uint64_t size : sizes) {
        AlignedBuffer buffer(size);
        fill(buffer.bytes(), size);
        const size_t head = size / 3;
        const auto sent = co_await client.endpoint->send(ConstBytes(buffer.bytes()).first(head),
                                                         ConstBytes(buffer.bytes()).subspan(head));
        EXPECT_TRUE(sent) << size << ": " << describe(sent.error());
        auto echo = co_await client.endpoint->receive();
        EXPECT_TRUE(echo) << size << ": " << describe(echo.error());
        if (!echo) co_return;
        EXPECT_EQ(echo->bytes().size(), size);
        EXPECT_TRUE(holds(echo->bytes(), size)) << size;
    }
    EXPECT_EQ(client.domain->counters().messages_sent.value(), sizes.size());
    EXPECT_EQ(client.domain->counters().messages_received.value(), sizes.size());
}
Task<> all_sizes_server(Server& server) {
    for (size_t i = 0; i < sizes.size(); ++i) {
        auto message = co_await server.endpoint->receive();
        EXPECT_TRUE(message) << describe(message.error());
        if (!message) co_return;
        EXPECT_TRUE(co_await server.endpoint->send(message->bytes()));
    }
}

Task<> too_large_client(Client& client) {
    AlignedBuffer buffer(client.endpoint->send_bytes_max() + 1);
    fill(buffer.bytes(), 1);
    const auto sent = co_await client.endpoint->send(buffer.bytes());
    EXPECT_FALSE(sent);
    if (!sent) {
        EXPECT_EQ(sent.error().code, Code::too_large);
        EXPECT_EQ(sent.error().detail, client.endpoint->send_bytes_max());
    }
    EXPECT_TRUE(co_await client.endpoint->send(ConstBytes(buffer.bytes()).subspan(1)));
    co_await expect_to_hear(*client.endpoint, "done");
}
Task<> too_large_server(Server& server) {
    auto message = co_await server.endpoint->receive();
    EXPECT_TRUE(message);
    if (message) EXPECT_EQ(message->bytes().size(), server.endpoint->limits().message_bytes_max);
    co_await say(*server.endpoint, "done");
}

constexpr uint64_t thousands = 5000;

Task<> send_numbers(Endpoint& endpoint) {
    for (uint64_t i = 0; i < thousands; ++i) {
        const auto sent = co_await endpoint.send(object_bytes(i));
        EXPECT_TRUE(sent) << describe(sent.error());
    }
}
Task<> thousands_client(Client& client) {
    Nursery nursery(client.core, 1);
    co_await nursery.spawn(send_numbers(*client.endpoint));
    for (uint64_t i = 0; i < thousands; ++i) {
        auto answer = co_await client.endpoint->receive();
        if (!answer) ADD_FAILURE() << describe(answer.error());
        if (!answer) break;
        uint64_t got = 0;
        EXPECT_EQ(answer->bytes().size(), sizeof got);
        std::memcpy(&got, answer->bytes().data(), sizeof got);
        EXPECT_EQ(got, i * i);
    }
    co_await nursery.join();
}
// Replies use the room that was reserved for them, in batches of the available messages.
Task<> thousands_server(Server& server) {
    for (uint64_t i = 0; i < thousands; ++i) {
        auto request = co_await server.endpoint->receive();
        if (!request) ADD_FAILURE() << describe(request.error());
        if (!request) break;
        uint64_t got = 0;
        std::memcpy(&got, request->bytes().data(), sizeof got);
        EXPECT_EQ(got, i);
        got *= got;
        EXPECT_TRUE(server.endpoint->reply(*request, object_bytes(got)));
        EXPECT_EQ(server.endpoint->reply(*request, object_bytes(got)).error().code,
                  Code::too_large);  // once for each
    }
    co_await server.endpoint->end_event();
}

// Headers alone fill a packet as well.
Task<> empty_ones_client(Client& client) {
    for (uint64_t i = 0; i < thousands; ++i) EXPECT_TRUE(co_await client.endpoint->send({}));
    co_await expect_to_hear(*client.endpoint, "done");
}
Task<> empty_ones_server(Server& server) {
    for (uint64_t i = 0; i < thousands; ++i) {
        auto message = co_await server.endpoint->receive();
        EXPECT_TRUE(message) << describe(message.error());
        if (!message) co_return;
        EXPECT_EQ(message->bytes().size(), 0U);
    }
    co_await say(*server.endpoint, "done");
}

// A reply may be larger than what is reserved, but never takes what others have reserved. The
// server does not look for room between its replies, so the client's speed does not matter.
constexpr size_t kept_requests = 20;
constexpr uint64_t reserved_bytes = kib;
Task<> larger_replies_client(Client& client) {
    for (uint64_t i = 0; i < kept_requests; ++i) {
        EXPECT_TRUE(co_await client.endpoint->send(object_bytes(i)));
    }
    for (uint64_t i = 0; i < kept_requests; ++i) {
        auto answer = co_await client.endpoint->receive();
        if (!answer) ADD_FAILURE() << describe(answer.error());
        if (!answer) co_return;
        EXPECT_TRUE(holds(answer->bytes(), i));
    }
}
Task<> larger_replies_server(Server& server) {
    std::vector<Message> requests;
    while (requests.size() < kept_requests) {
        auto request = co_await server.endpoint->receive();
        if (!request) ADD_FAILURE() << describe(request.error());
        if (!request) co_return;
        requests.push_back(std::move(*request));
    }
    AlignedBuffer buffer(60 * kib);
    size_t refused = 0;
    for (size_t i = 0; i < kept_requests; ++i) {
        fill(buffer.bytes(), i);
        const auto sent = server.endpoint->reply(requests[i], buffer.bytes());
        if (sent) continue;
        ++refused;
        EXPECT_EQ(sent.error(), (Error{Code::too_large, 0, reserved_bytes}));
        EXPECT_TRUE(server.endpoint->reply(requests[i], buffer.bytes().first(reserved_bytes)));
    }
    EXPECT_GT(refused, 0U);
    EXPECT_LT(refused, kept_requests);
    requests.clear();
    co_await server.endpoint->end_event();
}

// A peer that does not read makes the sender wait, and has no other effect.
Task<> slow_peer_client(Client& client) {
    AlignedBuffer buffer(32 * kib);
    StopSource stop;
    struct Stopper {
        static Task<> run(Client& of, StopSource& source) {
            co_await sleep_for(of.core, std::chrono::milliseconds(50));
            source.request_stop();
        }
    };
    uint64_t sent = 0;
    Nursery nursery(client.core, 1);
    co_await nursery.spawn(Stopper::run(client, stop));
    while (true) {
        fill(buffer.bytes(), sent);
        const auto result = co_await client.endpoint->send(buffer.bytes(), {}, stop.token());
        if (!result) {
            EXPECT_EQ(result.error().code, Code::cancelled);
            break;
        }
        ++sent;
    }
    co_await nursery.join();
    EXPECT_GE(client.domain->counters().waits_for_room.value(), 1U);
    // Its incoming budget, our frames, data in transit: a few MiB, not everything.
    EXPECT_LT(sent * buffer.size(), 8 * mib);
    // The last message has room in the budget, but must wait its turn: until the peer reads.
    co_await say(*client.endpoint, std::to_string(sent));
    co_await expect_to_hear(*client.endpoint, "all there");
}
Task<> slow_peer_server(Server& server) {
    co_await sleep_for(server.core, std::chrono::milliseconds(120));
    EXPECT_LE(server.domain->counters().message_bytes_received.value(),
              server.endpoint->limits().incoming_bytes_max);
    uint64_t count = 0;
    while (true) {
        auto message = co_await server.endpoint->receive();
        EXPECT_TRUE(message);
        if (!message) co_return;
        if (message->bytes().size() != 32 * kib) {
            EXPECT_EQ(as_text(message->bytes()), std::to_string(count));
            break;
        }
        EXPECT_TRUE(holds(message->bytes(), count));
        ++count;
    }
    co_await say(*server.endpoint, "all there");
}

// A client that floods and does not read its replies: the server never waits for it, uses no more
// than its budget, and serves it again when it reads.
Task<> flood_client(Client& client) {
    Nursery nursery(client.core, 1);
    co_await nursery.spawn(send_numbers(*client.endpoint));
    co_await sleep_for(client.core, std::chrono::milliseconds(80));
    for (uint64_t i = 0; i < thousands; ++i) {
        auto answer = co_await client.endpoint->receive();
        if (!answer) ADD_FAILURE() << describe(answer.error());
        if (!answer) break;
        EXPECT_EQ(answer->bytes().size(), 2 * kib);
    }
    co_await nursery.join();
}
Task<> flood_server(Server& server) {
    AlignedBuffer answer(2 * kib);
    for (uint64_t i = 0; i < thousands; ++i) {
        auto request = co_await server.endpoint->receive();
        if (!request) ADD_FAILURE() << describe(request.error());
        if (!request) break;
        EXPECT_TRUE(server.endpoint->reply(*request, answer.bytes()));
    }
    co_await server.endpoint->end_event();
}

// Messages may be kept and released in any order.
Task<> kept_messages_client(Client& client) {
    AlignedBuffer buffer(10 * kib);
    for (uint64_t i = 0; i < 200; ++i) {
        fill(buffer.bytes(), i);
        EXPECT_TRUE(co_await client.endpoint->send(buffer.bytes()));
    }
    co_await expect_to_hear(*client.endpoint, "done");
}
Task<> kept_messages_server(Server& server) {
    std::vector<std::pair<uint64_t, Message>> kept;
    for (uint64_t i = 0; i < 200; ++i) {
        auto message = co_await server.endpoint->receive();
        EXPECT_TRUE(message);
        if (!message) co_return;
        kept.emplace_back(i, std::move(*message));
        if (kept.size() < 50) continue;
        const size_t victim = i * 7 % kept.size();
        EXPECT_TRUE(holds(kept[victim].second.bytes(), kept[victim].first));
        kept.erase(kept.begin() + static_cast<ptrdiff_t>(victim));
    }
    for (const auto& [stamp, message] : kept) EXPECT_TRUE(holds(message.bytes(), stamp));
    co_await say(*server.endpoint, "done");
}

// Takes messages with even numbers where they arrive. Their content follows the number.
constexpr uint64_t numbered = 4000;
uint64_t numbered_bytes(uint64_t number) { return sizeof number + number * 37 % (3 * kib); }

class TakeEven final : public MessageReader {
  public:
    bool read(const BorrowedMessage& message) noexcept override {
        uint64_t number = 0;
        if (message.size() < sizeof number) return false;
        message.copy(0, {reinterpret_cast<std::byte*>(&number), sizeof number});
        if (number % 2 != 0) return false;
        AlignedBuffer content(message.size() - sizeof number);
        const size_t half = content.size() / 2;
        message.copy(sizeof number, content.bytes().first(half));
        message.copy(sizeof number + half, content.bytes().subspan(half));
        EXPECT_EQ(message.size(), numbered_bytes(number));
        EXPECT_TRUE(holds(content.bytes(), number));
        EXPECT_GE(number, next_);
        next_ = number + 1;
        ++taken;
        return true;
    }
    uint64_t taken = 0;

  private:
    uint64_t next_ = 0;
};
Task<> read_in_place_client(Client& client) {
    TakeEven reader;
    client.endpoint->read_in_place(&reader);
    co_await say(*client.endpoint, "begin");
    uint64_t number = 0, received = 0;
    // No message follows the last one, which is odd.
    while (number != numbered - 1) {
        auto message = co_await client.endpoint->receive();
        if (!message) ADD_FAILURE() << describe(message.error());
        if (!message) break;
        std::memcpy(&number, message->bytes().data(), sizeof number);
        EXPECT_EQ(message->bytes().size(), numbered_bytes(number));
        EXPECT_TRUE(holds(message->bytes().subspan(sizeof number), number));
        ++received;
    }
    // A provider may deliver some in pieces, which are never offered.
    EXPECT_EQ(reader.taken + received, numbered);
    EXPECT_GT(reader.taken, numbered / 4);
    EXPECT_EQ(client.domain->counters().messages_received.value(), numbered);
    client.endpoint->read_in_place(nullptr);
    co_await say(*client.endpoint, "end");
    co_await expect_to_hear(*client.endpoint, "to receive() again");
}
Task<> read_in_place_server(Server& server) {
    co_await expect_to_hear(*server.endpoint, "begin");
    for (uint64_t number = 0; number < numbered; ++number) {
        AlignedBuffer content(numbered_bytes(number) - sizeof number);
        fill(content.bytes(), number);
        EXPECT_TRUE(co_await server.endpoint->send(object_bytes(number), content.bytes()));
    }
    co_await expect_to_hear(*server.endpoint, "end");
    co_await say(*server.endpoint, "to receive() again");
}

// Ends the connection at the first message, from within the call.
class Abandon final : public MessageReader {
  public:
    explicit Abandon(Endpoint& endpoint) : endpoint_(endpoint) {}
    bool read(const BorrowedMessage&) noexcept override {
        ++calls;
        endpoint_.abandon();
        return true;
    }
    int calls = 0;

  private:
    Endpoint& endpoint_;
};
Task<> reader_abandons_client(Client& client) {
    Abandon reader(*client.endpoint);
    client.endpoint->read_in_place(&reader);
    co_await say(*client.endpoint, "begin");
    const auto nothing = co_await client.endpoint->receive();
    EXPECT_EQ(nothing.error().code, Code::disconnected);
    EXPECT_EQ(reader.calls, 1);
    EXPECT_EQ(client.endpoint->ended(), End::closed_here);
    client.endpoint->read_in_place(nullptr);
}
Task<> reader_abandons_server(Server& server) {
    co_await expect_to_hear(*server.endpoint, "begin");
    for (int i = 0; i < 3; ++i) (void)co_await server.endpoint->send(as_bytes("message"));
    co_await server.endpoint->end_event();
}

Task<> receive_is_cancelled_client(Client& client) {
    StopSource stop;
    struct Stopper {
        static Task<> run(Client& of, StopSource& source) {
            co_await sleep_for(of.core, std::chrono::milliseconds(5));
            source.request_stop();
        }
    };
    Nursery nursery(client.core, 1);
    co_await nursery.spawn(Stopper::run(client, stop));
    EXPECT_EQ((co_await client.endpoint->receive(stop.token())).error().code, Code::cancelled);
    co_await nursery.join();
    co_await say(*client.endpoint, "now");
    co_await expect_to_hear(*client.endpoint, "later");
}
Task<> receive_is_cancelled_server(Server& server) {
    co_await expect_to_hear(*server.endpoint, "now");
    co_await say(*server.endpoint, "later");
}

}  // namespace

std::vector<Case> message_cases() {
    const Limits large{.message_bytes_max = 64 * mib};
    const Limits small{.incoming_bytes_max = 256 * kib};
    return {
        {"MessagesOfAllSizesArrive", all_sizes_client, all_sizes_server, large, large},
        {"TooLargeMessageIsRefused", too_large_client, too_large_server},
        {"ThousandsOfRequestsAreAnswered",
         thousands_client,
         thousands_server,
         {},
         {.reply_bytes = 64}},
        {"ThousandsOfEmptyMessagesArrive", empty_ones_client, empty_ones_server},
        {"LargerReplyLeavesReservedRoom",
         larger_replies_client,
         larger_replies_server,
         small,
         {.outgoing_bytes_max = 64 * kib, .reply_bytes = reserved_bytes}},
        {"SenderToASlowPeerWaits", slow_peer_client, slow_peer_server, {}, small},
        {"FloodingClientDoesNotBlockTheServer",
         flood_client,
         flood_server,
         small,
         {.outgoing_bytes_max = 64 * kib, .reply_bytes = 2 * kib}},
        {"KeptMessagesStayValid", kept_messages_client, kept_messages_server},
        {"MessagesReadInPlaceAreComplete", read_in_place_client, read_in_place_server},
        {"ReaderCanAbandonTheConnection", reader_abandons_client, reader_abandons_server},
        {"CancelledReceiveReturns", receive_is_cancelled_client, receive_is_cancelled_server},
    };
}

}  // namespace ros2s::fabric::contract
