// For tests of both ends: a client of a server that has a MemoryStore with one container.
#pragma once
#include <string>
#include <vector>

#include "remote.h"
#include "ros2s/object/test_support/batch.h"
#include "ros2s/object/test_support/memory_store.h"

namespace ros2s::remote {

using namespace object;

inline constexpr ObjectId first_object{1, 1};

inline std::string pattern(uint64_t seed, size_t length) {
    std::string text(length, '\0');
    Random random(seed);
    for (char& c : text) c = static_cast<char>(random.next());
    return text;
}

// Permits everything, or nothing.
struct AllOrNothing final : ContainerPolicy {
    bool permits(const rpc::Request& /*request*/, ContainerId /*container*/,
                 Use /*use*/) const override {
        return !denies;
    }
    Task<Result<>> decide(rpc::Request& /*request*/, ContainerId /*container*/, Use use) override {
        denied.push_back(use);
        co_return fail(Code::denied);
    }
    Result<> permit_creation(const rpc::Request& /*request*/,
                             const std::string& /*label*/) override {
        return denies ? Result<>(fail(Code::denied)) : Result<>();
    }
    Result<> own(const rpc::Request& /*request*/, ContainerProperties& properties) override {
        if (properties.owner == "another") return fail(Code::denied);
        properties.owner = "the client";
        return {};
    }
    bool shows(const rpc::Request& /*request*/,
               const ContainerRecord& /*container*/) const override {
        return !denies;
    }
    void made(const rpc::Request& /*request*/, const ContainerRecord& /*container*/) override {}
    void destroyed(const rpc::Request& /*request*/, ContainerId /*container*/) override {}

    bool denies = false;
    std::vector<Use> denied;
};

struct Bench {
    explicit Bench(WireOptions options = {}, uint64_t seed = 1)
        : world(seed),
          group(world.core(), options.server.admission),
          behind(world.core(), {}),
          wired(world, in(group, options)) {}
    static WireOptions& in(rpc::ServerGroup& group, WireOptions& options) {
        options.server.group = &group;
        return options;
    }
    void run(Task<> (*body)(Bench&)) { world.run(whole(*this, body)); }
    static Task<> whole(Bench& self, Task<> (*body)(Bench&)) {
        co_await self.wired.serve(self.behind, &self.policy);
        co_await self.wired.connect();
        const auto made = co_await self.store().create_container({}, {.label = "c"});
        EXPECT_TRUE(made);
        if (made) self.container = made->id;
        co_await body(self);
        co_await self.wired.disconnect();
        co_await self.wired.stop_serving();
    }
    RemoteStore& store() { return wired.store(); }
    static Uuid client() {
        Uuid uuid;
        uuid.bytes[0] = 1;
        return uuid;
    }
    Task<Result<Commit>> update(const Batch& batch) {
        return store().update(call, container, batch.transaction());
    }

    sim::World world;
    rpc::ServerGroup group;
    MemoryStore behind;
    AllOrNothing policy;
    Wired wired;
    ContainerId container;
    Call call;
};

}  // namespace ros2s::remote
