// Put and get: sizes, alignment, numbers, order, revocation in progress.
#include <array>

#include "cases.h"

namespace ros2s::fabric::contract {
namespace {

constexpr std::array<uint64_t, 14> moved_sizes{
    0,    1,        63,           64,      65,      4095,         4096,
    4097, 60 * kib, 64 * kib + 1, mib - 1, 5 * mib, 16 * mib + 3, 64 * mib};
constexpr std::array<uint64_t, 3> offsets{0, 1, 4095};

struct Granted {
    Bytes memory;
    MemoryRegion region;
};
// The client's part: allocates memory, grants it, and sends the key to the server.
Task<Granted> grant_memory(Client& client, uint64_t size, Rights rights,
                           RegionOptions options = {}) {
    Granted granted;
    auto memory = client.endpoint->allocate(size);
    EXPECT_TRUE(memory) << describe(memory.error());
    if (!memory) co_return granted;
    granted.memory = *memory;
    auto region = client.endpoint->grant(*memory, rights, options);
    EXPECT_TRUE(region) << describe(region.error());
    if (!region) co_return granted;
    granted.region = std::move(*region);
    co_await send_key(*client.endpoint, granted.region.key());
    co_return granted;
}
Task<> revoke_and_free(Client& client, Granted& granted) {
    co_await granted.region.revoke();
    client.endpoint->free(granted.memory);
}

Task<> all_moves_client(Client& client) {
    Granted granted = co_await grant_memory(client, 65 * mib, Rights::read_write);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(granted.memory.data()) % block_bytes, 0U);
    for (const uint64_t size : moved_sizes) {
        for (const uint64_t offset : offsets) {
            if (size > mib && offset != 1) continue;
            co_await expect_to_hear(*client.endpoint, "put");
            EXPECT_TRUE(holds(granted.memory.subspan(offset, size), size))
                << size << " at " << offset;
            if (offset > 0) EXPECT_EQ(granted.memory[offset - 1], std::byte{0x5a});
            EXPECT_EQ(granted.memory[offset + size], std::byte{0x5a});
            fill(granted.memory.subspan(offset, size), size + 1);
            co_await say(*client.endpoint, "get");
        }
    }
    co_await expect_to_hear(*client.endpoint, "done");
    co_await revoke_and_free(client, granted);
}
Task<> all_moves_server(Server& server) {
    Endpoint& endpoint = *server.endpoint;
    const RemoteKey key = co_await receive_key(endpoint);
    const std::array<std::byte, 1> mark{std::byte{0x5a}};
    uint64_t bytes = 0;
    for (const uint64_t size : moved_sizes) {
        for (const uint64_t offset : offsets) {
            if (size > mib && offset != 1) continue;
            AlignedBuffer buffer(size + 3);
            const Bytes odd = buffer.bytes().subspan(offset % 3, size);
            fill(odd, size);
            if (offset > 0) EXPECT_TRUE(co_await endpoint.put(key, offset - 1, mark));
            EXPECT_TRUE(co_await endpoint.put(key, offset + size, mark));
            const auto put = co_await endpoint.put(key, offset, odd);
            EXPECT_TRUE(put) << size << ": " << describe(put.error());
            co_await say(endpoint, "put");
            co_await expect_to_hear(endpoint, "get");
            const auto got = co_await endpoint.get(key, offset, odd);
            EXPECT_TRUE(got) << size << ": " << describe(got.error());
            EXPECT_TRUE(holds(odd, size + 1)) << size << " at " << offset;
            bytes += size;
        }
    }
    EXPECT_EQ(server.domain->counters().get_bytes.value(), bytes);
    EXPECT_GT(server.domain->counters().put_bytes.value(), bytes);
    co_await say(endpoint, "done");
}

constexpr uint64_t many = 4000;
constexpr uint64_t piece = 4 * kib;

Task<> many_client(Client& client) {
    Granted granted = co_await grant_memory(client, many * piece, Rights::read_write);
    co_await expect_to_hear(*client.endpoint, "put");
    for (uint64_t i = 0; i < many; ++i) {
        EXPECT_TRUE(holds(granted.memory.subspan(i * piece, piece), i)) << i;
    }
    co_await say(*client.endpoint, "seen");
    co_await expect_to_hear(*client.endpoint, "done");
    co_await revoke_and_free(client, granted);
}
Task<> put_piece(Endpoint& endpoint, const RemoteKey& key, uint64_t i) {
    AlignedBuffer buffer(piece);
    fill(buffer.bytes(), i);
    const auto put = co_await endpoint.put(key, i * piece, buffer.bytes());
    EXPECT_TRUE(put) << i << ": " << describe(put.error());
}
Task<> get_piece(Endpoint& endpoint, const RemoteKey& key, uint64_t i) {
    AlignedBuffer buffer(piece);
    const auto got = co_await endpoint.get(key, i * piece, buffer.bytes());
    EXPECT_TRUE(got) << i << ": " << describe(got.error());
    EXPECT_TRUE(holds(buffer.bytes(), i)) << i;
}
Task<> many_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    Nursery nursery(server.core, many);
    for (uint64_t i = 0; i < many; ++i) {
        co_await nursery.spawn(put_piece(*server.endpoint, key, i));
    }
    co_await nursery.join();
    co_await say(*server.endpoint, "put");
    co_await expect_to_hear(*server.endpoint, "seen");
    for (uint64_t i = 0; i < many; ++i) {
        co_await nursery.spawn(get_piece(*server.endpoint, key, i));
    }
    co_await nursery.join();
    EXPECT_EQ(server.domain->counters().puts.value(), many);
    EXPECT_EQ(server.domain->counters().gets.value(), many);
    co_await say(*server.endpoint, "done");
}

// A message sent after an ordered put finds the bytes in place.
Task<> ordered_client(Client& client) {
    Granted granted = co_await grant_memory(client, mib, Rights::write);
    for (uint64_t i = 0; i < 50; ++i) {
        co_await expect_to_hear(*client.endpoint, std::to_string(i));
        EXPECT_TRUE(holds(granted.memory, i));
        co_await say(*client.endpoint, "next");
    }
    co_await revoke_and_free(client, granted);
}
Task<> ordered_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    AlignedBuffer buffer(mib);
    for (uint64_t i = 0; i < 50; ++i) {
        fill(buffer.bytes(), i);
        EXPECT_TRUE(co_await server.endpoint->put(key, 0, buffer.bytes(), PutReturns::ordered));
        std::memset(buffer.data(), 0, buffer.size());  // the granted memory
        co_await say(*server.endpoint, std::to_string(i));
        co_await expect_to_hear(*server.endpoint, "next");
    }
}

// Revocation in the middle: when it has returned, nothing accesses the memory any more.
Task<> revoked_midway_client(Client& client) {
    Granted granted = co_await grant_memory(client, 8 * mib, Rights::read_write);
    co_await expect_to_hear(*client.endpoint, "going");
    co_await granted.region.revoke();
    std::memset(granted.memory.data(), 0x77, granted.memory.size());
    co_await say(*client.endpoint, "revoked");
    co_await expect_to_hear(*client.endpoint, "stopped");
    for (const std::byte byte : granted.memory) {
        if (byte != std::byte{0x77}) ADD_FAILURE() << "written after it was revoked";
        if (byte != std::byte{0x77}) break;
    }
    client.endpoint->free(granted.memory);
    co_await refused_by_both(*client.endpoint, client.domain->counters(), Refusal::stale);
}
Task<> until_refused(Endpoint& endpoint, const RemoteKey& key, bool put, uint64_t& stale) {
    AlignedBuffer buffer(8 * mib);
    while (true) {
        const auto done = put ? co_await endpoint.put(key, 0, buffer.bytes())
                              : co_await endpoint.get(key, 0, buffer.bytes());
        if (!done) {
            EXPECT_EQ(done.error().code, Code::stale);
            ++stale;
            co_return;
        }
    }
}
Task<> revoked_midway_server(Server& server) {
    const RemoteKey key = co_await receive_key(*server.endpoint);
    uint64_t stale = 0;
    Nursery nursery(server.core, 8);
    for (int i = 0; i < 8; ++i) {
        co_await nursery.spawn(until_refused(*server.endpoint, key, i % 2 == 0, stale));
    }
    co_await say(*server.endpoint, "going");
    co_await expect_to_hear(*server.endpoint, "revoked");
    co_await nursery.join();
    EXPECT_EQ(stale, 8U);
    co_await say(*server.endpoint, "stopped");
    EXPECT_GE(co_await refused_by_both(*server.endpoint, server.domain->counters(), Refusal::stale),
              1U);
}

// Transfers that come too late do not make a revocation fail, which would end the connection.
constexpr int late_rounds = 600;
Task<> late_client(Client& client) {
    for (int round = 0; round < late_rounds && client.endpoint->alive(); ++round) {
        Granted granted = co_await grant_memory(client, 64 * kib, Rights::read);
        co_await expect_to_hear(*client.endpoint, "going");
        co_await revoke_and_free(client, granted);
        co_await expect_to_hear(*client.endpoint, "stopped");
    }
}
Task<> until_often_refused(Server& server, const RemoteKey& key) {
    AlignedBuffer buffer(4 * kib);
    for (int refusals = 0; refusals < 20;) {
        const auto done = co_await server.endpoint->get(key, 0, buffer.bytes());
        if (!done) EXPECT_EQ(done.error().code, Code::stale);
        if (!done && done.error().code != Code::stale) co_return;
        refusals += done ? 0 : 1;
        co_await yield(server.core);
    }
}
Task<> late_server(Server& server) {
    for (int round = 0; round < late_rounds && server.endpoint->alive(); ++round) {
        const RemoteKey key = co_await receive_key(*server.endpoint);
        Nursery nursery(server.core, 8);
        for (int i = 0; i < 8; ++i) co_await nursery.spawn(until_often_refused(server, key));
        co_await say(*server.endpoint, "going");
        co_await nursery.join();
        co_await say(*server.endpoint, "stopped");
    }
}

// Grants are cheap enough to make one for each request, and their slots are reused.
Task<> many_grants_client(Client& client) {
    auto memory = client.endpoint->allocate(64 * kib);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    for (uint64_t i = 0; i < 500; ++i) {
        auto region = client.endpoint->grant(memory->subspan(i, 4096), Rights::write);
        EXPECT_TRUE(region);
        if (!region) co_return;
        co_await send_key(*client.endpoint, region->key());
        co_await expect_to_hear(*client.endpoint, "put");
        EXPECT_TRUE(holds(memory->subspan(i, 4096), i));
        co_await region->revoke();
    }
    co_await say(*client.endpoint, "done");
    EXPECT_EQ(client.domain->counters().grants.value(), 500U);
    EXPECT_EQ(client.domain->counters().revocations.value(), 500U);
    client.endpoint->free(*memory);
}
Task<> many_grants_server(Server& server) {
    AlignedBuffer buffer(4096);
    for (uint64_t i = 0; i < 500; ++i) {
        const RemoteKey key = co_await receive_key(*server.endpoint);
        fill(buffer.bytes(), i);
        EXPECT_TRUE(co_await server.endpoint->put(key, 0, buffer.bytes(), PutReturns::ordered));
        co_await say(*server.endpoint, "put");
    }
    co_await expect_to_hear(*server.endpoint, "done");
}

Task<> budgets_client(Client& client) {
    Endpoint& endpoint = *client.endpoint;
    EXPECT_EQ(endpoint.allocate(uint64_t{1} << 40).error().code, Code::no_memory);
    EXPECT_EQ(endpoint.allocate(~uint64_t{0}).error().code, Code::no_memory);
    auto memory = endpoint.allocate(64 * kib);
    EXPECT_TRUE(memory);
    if (!memory) co_return;
    std::vector<MemoryRegion> regions;
    while (true) {
        auto region = endpoint.grant(memory->first(1), Rights::read);
        if (!region) {
            EXPECT_EQ(region.error().code, Code::no_memory);
            break;
        }
        regions.push_back(std::move(*region));
        EXPECT_LE(regions.size(), endpoint.limits().regions_max);
        if (regions.size() > endpoint.limits().regions_max) break;
    }
    for (MemoryRegion& region : regions) co_await region.revoke();
    auto again = endpoint.grant(*memory, Rights::read);
    EXPECT_TRUE(again);
    if (again) co_await again->revoke();
    endpoint.free(*memory);
    // All of it can be allocated again.
    auto all = endpoint.allocate(endpoint.limits().memory_bytes_max);
    EXPECT_TRUE(all);
    if (all) endpoint.free(*all);
    co_await say(endpoint, "done");
}
Task<> budgets_server(Server& server) {
    AlignedBuffer buffer(16);
    // Memory of the side that initiates is never exposed.
    EXPECT_EQ(server.endpoint->grant(buffer.bytes(), Rights::read).error().code, Code::denied);
    co_await expect_to_hear(*server.endpoint, "done");
}

}  // namespace

std::vector<Case> transfer_cases() {
    const Limits large{.memory_bytes_max = 65 * mib};
    return {
        {"TransfersOfAllSizesAreExact", all_moves_client, all_moves_server, large, large},
        {"ThousandsOfTransfersAreExact", many_client, many_server},
        {"OrderedPutArrivesBeforeTheMessage", ordered_client, ordered_server},
        // Operations in progress take long on a busy machine with an adapter in software.
        {"RevocationStopsTransfersInProgress",
         revoked_midway_client,
         revoked_midway_server,
         {.answer_within = std::chrono::seconds(30)},
         {}},
        {"LateTransfersDoNotFailARevocation",
         late_client,
         late_server,
         {.answer_within = std::chrono::seconds(30)},
         {}},
        {"GrantsPerRequestReuseSlots", many_grants_client, many_grants_server},
        {"GrantsBeyondTheBudgetAreRefused",
         budgets_client,
         budgets_server,
         {.regions_max = 100},
         {}},
    };
}

}  // namespace ros2s::fabric::contract
