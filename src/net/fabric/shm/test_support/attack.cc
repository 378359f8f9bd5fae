#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attack.h"
#include "ring.h"

namespace ros2s::fabric::shm {
namespace {

std::string make_directory() {
    char name[] = "/tmp/ros2store-test-XXXXXX";
    return mkdtemp(name);
}

Bytes map(int fd, uint64_t size) {
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ROS2S_CHECK(memory != MAP_FAILED);
    return {static_cast<std::byte*>(memory), size};
}

}  // namespace

Stage::Stage(ListenOptions listening, Options options)
    : Stage(make_directory(), listening, options) {}

Stage::Stage(const std::string& directory, ListenOptions listening, Options options)
    : contract::Stage(
          // Only the server's domain, which is opened first, has the options.
          [options, opened = 0](Reactor& reactor,
                                Report&) mutable -> Result<std::unique_ptr<Domain>> {
              return open_domain(reactor, opened++ == 0 ? options : Options{});
          },
          listening, directory + "/fabric", {.limits = {.memory_bytes_max = 1 << 20}}),
      directory_(directory) {}

Stage::~Stage() { rmdir(directory_.c_str()); }

Attacker::~Attacker() {
    if (!control.empty()) munmap(control.data(), control.size());
    if (!payload.empty()) munmap(payload.data(), payload.size());
}

void Attacker::write_entry(const Packet& header, ConstBytes bytes, uint64_t advance) {
    const uint64_t tail = page().to_server_tail.value;
    const uint64_t place = tail & (layout.to_server_bytes - 1);
    std::memcpy(ring_to_server().data() + place, &header, sizeof header);
    if (!bytes.empty()) {
        std::memcpy(ring_to_server().data() + place + sizeof header, bytes.data(), bytes.size());
    }
    shared(page().to_server_tail.value).store(tail + advance);
}

RemoteKey Attacker::key(uint32_t slot, uint64_t address, uint64_t length) {
    RemoteKey made{.rights = Rights::read_write,
                   .domain = victim->peer().domain,
                   .session = victim->session(),
                   .slot = slot,
                   .generation = 1,
                   .address = address,
                   .length = length};
    made.seal();
    return made;
}

Task<> attack(Stage& stage, Attacker& attacker, Domain& as, uint64_t memory, uint64_t first) {
    Report report;
    auto socket = co_await connect_to(stage.core(), stage.address(), {}, report);
    EXPECT_TRUE(socket) << report.text();
    if (!socket) co_return;
    attacker.socket = std::move(*socket);
    Hello hello{.domain = as.id() + 1,
                .message_bytes_max = 65536,
                .incoming_bytes_max = 1 << 20,
                .memory_bytes = memory,
                .operations_max = 16,
                .memory_first_blocks = static_cast<uint32_t>(first / block_bytes)};
    hello.set_provider("shm");
    EXPECT_TRUE(co_await ask_admission(stage.core(), attacker.socket.get(), hello, stage.address(),
                                       {}, {}, report));
    std::array<std::byte, sizeof(Hello)> answer{};
    std::array<std::byte, sizeof(ShmHello)> layout{};
    std::vector<Descriptor> descriptors;
    EXPECT_TRUE(co_await receive_descriptors(stage.core(), attacker.socket.get(), answer,
                                             descriptors, 2, {}));
    EXPECT_TRUE(co_await receive_all(stage.core(), attacker.socket.get(), layout, {}));
    EXPECT_EQ(descriptors.size(), 2U);
    if (descriptors.size() != 2) co_return;
    attacker.hello = Hello::decode(answer).value();
    std::memcpy(&attacker.layout, layout.data(), sizeof(ShmHello));
    attacker.control_descriptor = std::move(descriptors[0]);
    attacker.payload_descriptor = std::move(descriptors[1]);
    attacker.control = map(attacker.control_descriptor.get(), attacker.layout.control_bytes);
    attacker.payload = map(attacker.payload_descriptor.get(), attacker.layout.payload_bytes);
    auto accepted = co_await stage.listener->accept();
    EXPECT_TRUE(accepted);
    if (accepted) attacker.victim = std::move(*accepted);
}

}  // namespace ros2s::fabric::shm
