// An update whose payload stays in the client's memory: what the client can still change when the
// store has it.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

#include "ros2s/fabric/providers/providers.h"
#include "ros2s/object/forwarding_store.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "test_support/remote.h"

namespace ros2s::remote {
namespace {

using object::AkeyAddress;
using object::Batch;

constexpr size_t array_bytes = 16 << 10;

// The client changes its memory as soon as the store has the transaction. Its values are behind
// the bytes of an array.
class WithChangingClient final : public object::ForwardingStore {
  public:
    using ForwardingStore::ForwardingStore;
    Task<Result<object::Commit>> update(const Call& call, object::ContainerId container,
                                        const object::Transaction& transaction) override {
        const object::Window array = transaction.operations.front().window;
        is_mapped = array.shared;
        if (is_mapped) {
            std::ranges::fill(Bytes(array.bytes().data() + array.length, values_bytes),
                              std::byte{'!'});
        }
        return below().update(call, container, transaction);
    }
    bool is_mapped = false;
    size_t values_bytes = 0;
};

struct Stage {
    Stage() : reactor(made_reactor()), behind(*reactor, {}), changing(behind) {
        char name[] = "/tmp/ros2store-test-XXXXXX";
        directory = mkdtemp(name);
    }
    Stage& operator=(Stage&&) = delete;
    ~Stage() { rmdir(directory.c_str()); }
    void run(Task<> (*body)(Stage&)) { reactor->run(whole(*this, body)); }
    static Task<> whole(Stage& self, Task<> (*body)(Stage&)) {
        auto domain = fabric::open_domain(*self.reactor, "shm", "lo", self.report, {});
        auto client = fabric::open_domain(*self.reactor, "shm", "lo", self.report, {});
        EXPECT_TRUE(domain && client) << self.report.text();
        StoreServer service(self.changing);
        auto server =
            co_await rpc::Server::listen(*self.reactor, **domain, self.directory + "/store",
                                         service, self.gate, {}, self.report);
        EXPECT_TRUE(server) << self.report.text();
        rpc::ChannelOptions options{.service = object_service};
        options.client.bytes[0] = 1;
        auto channel = co_await rpc::Channel::open(*self.reactor, **client, (*server)->address(),
                                                   self.tickets, options, self.report);
        EXPECT_TRUE(channel) << self.report.text();
        self.store = *co_await RemoteStore::open({}, **channel, self.report);
        self.container = (co_await self.store->create_container({}, {.label = "c"}))->id;
        co_await body(self);
        self.store.reset();
        co_await (*channel)->close();
        co_await (*server)->close();
        co_await (*client)->close();
        co_await (*domain)->close();
    }
    // An array, and so many values of `bytes` bytes.
    Task<> update_with(size_t values, size_t bytes) {
        Batch batch = Batch().write({{1, 1}, "d", "array"}, 0, std::string(array_bytes, 'a'));
        for (size_t i = 0; i < values; ++i) {
            batch.put({{1, 1}, "d", "v" + std::to_string(i)}, std::string(bytes, 'v'));
        }
        changing.values_bytes = values * bytes;
        EXPECT_TRUE(co_await store->update({}, container, batch.transaction()));
        for (size_t i = 0; i < values; ++i) {
            std::string got(bytes, '?');
            auto item = object::fetch_item({1, 1}, {"d"}, {"v" + std::to_string(i)}, 0,
                                           std::as_writable_bytes(std::span(got)));
            EXPECT_TRUE(co_await store->fetch({}, container, {&item, 1}));
            EXPECT_EQ(got, std::string(bytes, 'v')) << i;
        }
    }

    std::unique_ptr<OsReactor> reactor;
    std::string directory;
    object::MemoryStore behind;
    WithChangingClient changing;
    OpenGate gate;
    NoTickets tickets;
    Report report;
    std::unique_ptr<RemoteStore> store;
    object::ContainerId container;
};

Task<> few(Stage& stage) {
    co_await stage.update_with(3, 100);
    EXPECT_TRUE(stage.changing.is_mapped);
}
TEST(MappedUpdate, ClientCannotChangeValuesThatTheStoreHas) { Stage().run(few); }

Task<> many(Stage& stage) {
    co_await stage.update_with(3, 40 << 10);
    EXPECT_FALSE(stage.changing.is_mapped);
}
TEST(MappedUpdate, MoreValuesThanASliceAreReceived) { Stage().run(many); }

}  // namespace
}  // namespace ros2s::remote
