// Limits and invalid requests: each has its own error code, and nothing changes.
#include "probe.h"

namespace ros2s::object::contract {
namespace {

const AkeyAddress limited_array{one, "a", "array"};
const std::string longest(key_bytes_max, 'k');
const std::string too_long(key_bytes_max + 1, 'k');

Task<> keys_up_to_the_limit(Probe& probe) {
    const std::string nul_ff = std::string("\0\xff", 2);
    std::string hostile;
    while (hostile.size() < key_bytes_max - 1) hostile += nul_ff;
    for (const std::string& key :
         {longest, hostile, std::string(255, '\0'), std::string(1, '\0')}) {
        const AkeyAddress address{one, key, key};
        co_await probe.must(Batch().write(address, 0, key));
        co_await probe.expect_array(address, key);
        const QueryReply query = co_await probe.query(one, key);
        EXPECT_EQ(query.highest_dkey.bytes, key);
    }
    const AkeyAddress empty_dkey{one, "", "a"};
    co_await probe.must(Batch().put(empty_dkey, "v"));
    co_await probe.expect_value(empty_dkey, "v");
}

Task<> keys_over_the_limit(Probe& probe) {
    for (const AkeyAddress& address :
         {AkeyAddress{one, too_long, "a"}, AkeyAddress{one, "d", too_long}}) {
        co_await probe.refused(Batch().touch(address), Code::too_large, key_bytes_max);
        co_await probe.refused(Batch().exists(address), Code::too_large, key_bytes_max);
        const Fetched got = co_await probe.fetch(address, {0, 10});
        EXPECT_EQ(got.status, Result<>(fail(Code::too_large, key_bytes_max)));
    }
    const AkeyAddress no_akey{one, "d", ""};
    co_await probe.refused(Batch().touch(no_akey), Code::invalid);
    co_await probe.refused(Batch().punch_akey(no_akey), Code::invalid);
    co_await probe.refused(Batch().size_equals(no_akey, 0), Code::invalid);
    co_await probe.refused(Batch().epoch_equals(no_akey, {0}), Code::invalid);
    co_await probe.refused(Batch().no_dkeys(one, ""), Code::invalid);
    const Fetched got = co_await probe.fetch(no_akey, {0, 10});
    EXPECT_EQ(got.status, Result<>(fail(Code::invalid)));
    const Akey nameless{};
    const auto query = co_await probe.store().query(probe.call(), probe.container(), one, nameless);
    EXPECT_FALSE(query.has_value());
}

Task<> extents_over_the_limit(Probe& probe) {
    for (const Extent extent : {Extent{array_bytes_max, 1}, Extent{~uint64_t{0}, 1},
                                Extent{~uint64_t{0} - 1, 10}, Extent{0, array_bytes_max + 1}}) {
        co_await probe.refused(Batch().punch_extent(limited_array, extent), Code::too_large,
                               array_bytes_max);
        if (extent.length > 100) continue;
        co_await probe.refused(
            Batch().write(limited_array, extent.offset, std::string(extent.length, 'x')),
            Code::too_large, array_bytes_max);
        const Fetched got = co_await probe.fetch(limited_array, extent);
        EXPECT_EQ(got.status, Result<>(fail(Code::too_large, array_bytes_max)));
    }
    co_await probe.refused(Batch().set_size(limited_array, array_bytes_max + 1), Code::too_large,
                           array_bytes_max);
    co_await probe.expect_absent(limited_array);
}

Task<> values_over_the_limit(Probe& probe) {
    co_await probe.refused(Batch().put(limited_array, std::string(value_bytes_max + 1, 'v')),
                           Code::too_large, value_bytes_max);
    co_await probe.expect_absent(limited_array);
}

Task<> transactions_over_the_limit(Probe& probe) {
    Batch most, many, asks_most, asks_many;
    for (size_t i = 0; i <= transaction_operations_max; ++i) {
        const AkeyAddress address{one, Dkey::integer(i).bytes, "a"};
        many.touch(address);
        asks_many.absent(address);
        if (i == transaction_operations_max) continue;
        most.touch(address);
        asks_most.absent(address);
    }
    co_await probe.refused(std::move(many), Code::too_large, transaction_operations_max);
    co_await probe.refused(std::move(asks_many), Code::too_large, transaction_operations_max);
    co_await probe.must(std::move(asks_most));
    co_await probe.must(std::move(most));
    const QueryReply query = co_await probe.query(one, "a");
    EXPECT_EQ(query.highest_dkey, Dkey::integer(transaction_operations_max - 1));
}

Task<> payload_up_to_the_limit(Probe& probe) {
    // 16 writes from the same 4 MiB are 64 MiB of payload.
    const std::string bytes = pattern(5, 4 << 20);
    Transaction transaction;
    for (uint64_t i = 0; i < 16; ++i) {
        transaction.operations.push_back({.kind = Operation::Kind::write,
                                          .object = one,
                                          .dkey = Dkey::integer(i),
                                          .akey = {"a"},
                                          .extent = {0, bytes.size()},
                                          .window = Window::local(as_bytes(bytes))});
    }
    const auto fits = co_await probe.store().update(probe.call(), probe.container(), transaction);
    EXPECT_TRUE(fits.has_value()) << describe(fits.error());
    co_await probe.expect_array({one, Dkey::integer(15).bytes, "a"}, bytes);
    transaction.operations.push_back(
        {.kind = Operation::Kind::put, .object = one, .dkey = {"v"}, .akey = {"v"}});
    transaction.operations.back().window = Window::local(as_bytes(std::string_view("x")));
    const auto over = co_await probe.store().update(probe.call(), probe.container(), transaction);
    EXPECT_EQ(over, Result<Commit>(fail(Code::too_large, transaction_bytes_max)));
    co_await probe.expect_absent({one, "v", "v"});
}

Task<> nonsense(Probe& probe) {
    Batch reversed = Batch().punch_dkeys(one, "b", "a");
    co_await probe.refused(std::move(reversed), Code::invalid);
    co_await probe.refused(Batch().operation({.kind = static_cast<Operation::Kind>(200),
                                              .object = one,
                                              .dkey = {"d"},
                                              .akey = {"a"}}),
                           Code::invalid);
    co_await probe.refused(Batch().condition(static_cast<Condition::Kind>(200), limited_array),
                           Code::invalid);
    Uuid client;
    client.bytes[3] = 1;
    co_await probe.refused(Batch().id({client, 0, 0}).touch(limited_array), Code::invalid);
    const std::string bytes = "1234";
    for (const uint64_t length : {3, 5}) {
        co_await probe.refused(Batch().operation({.kind = Operation::Kind::write,
                                                  .object = one,
                                                  .dkey = {"d"},
                                                  .akey = {"a"},
                                                  .extent = {0, length},
                                                  .window = Window::local(as_bytes(bytes))}),
                               Code::invalid);
    }
    ListRequest request{.what = ListRequest::What::dkeys, .object = one, .limit = 0};
    auto reply = co_await probe.store().list(probe.call(), probe.container(), request);
    EXPECT_FALSE(reply.has_value());
    request = {.what = ListRequest::What::objects, .after = "short"};
    reply = co_await probe.store().list(probe.call(), probe.container(), request);
    EXPECT_FALSE(reply.has_value());
    request = {.what = static_cast<ListRequest::What>(200)};
    reply = co_await probe.store().list(probe.call(), probe.container(), request);
    EXPECT_FALSE(reply.has_value());
    co_await probe.expect_absent(limited_array);
}

Task<> a_request_given_up_before_it_starts(Probe& probe) {
    StopSource source;
    source.request_stop();
    const struct {
        Call call;
        Code code;
    } table[] = {{{.deadline = probe.reactor().now()}, Code::deadline},
                 {{.stop = source.token()}, Code::cancelled}};
    for (const auto& [call, code] : table) {
        const Batch batch = Batch().touch(limited_array);
        const auto commit =
            co_await probe.store().update(call, probe.container(), batch.transaction());
        EXPECT_EQ(commit, Result<Commit>(fail(code)));
        FetchItem item{.object = one, .akey = {"a"}};
        const auto fetched = co_await probe.store().fetch(call, probe.container(), {&item, 1});
        EXPECT_EQ(fetched, Result<>(fail(code)));
    }
    co_await probe.expect_absent(limited_array);
}

Task<> read_only_takes_no_updates(Probe& probe) {
    co_await probe.must(Batch().write(limited_array, 0, "abc"));
    if (!probe.setup().make_read_only()) co_return;
    co_await probe.refused(Batch().write(limited_array, 0, "xyz"), Code::read_only);
    const ContainerProperties properties{.label = "other"};
    const auto made = co_await probe.store().create_container(probe.call(), properties);
    EXPECT_FALSE(made.has_value());
    if (!made) EXPECT_EQ(describe(made.error().code), describe(Code::read_only));
    const auto destroyed =
        co_await probe.store().destroy_container(probe.call(), probe.container());
    EXPECT_EQ(destroyed, Result<>(fail(Code::read_only)));
    co_await probe.expect_array(limited_array, "abc");
}

}  // namespace

std::vector<Case> limit_cases() {
    return {
        {"KeyUpToTheLimitIsAccepted", keys_up_to_the_limit},
        {"KeyOverTheLimitIsRefused", keys_over_the_limit},
        {"ExtentOverTheLimitIsRefused", extents_over_the_limit},
        {"ValueOverTheLimitIsRefused", values_over_the_limit},
        {"TransactionOverTheLimitIsRefused", transactions_over_the_limit, {}, has_transactions},
        {"PayloadUpToTheLimitIsAccepted", payload_up_to_the_limit, {.capacity_bytes = 160 << 20}},
        {"InvalidRequestIsRefused", nonsense},
        {"RequestEndedBeforeItsStartDoesNothing", a_request_given_up_before_it_starts},
        {"ReadOnlyStoreRefusesUpdates", read_only_takes_no_updates}};
}

}  // namespace ros2s::object::contract
