// A peer that writes anything into the shared memory of its session (rings, indices, grants,
// requests for further segments), and sends anything on its socket, also descriptors, between any
// two turns of the other side. At worst that side's session ends. Both sides are tested: the
// server, and the client of a false server. Memory that an honest side gets can be accessed from
// end to end.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "ros2s/base/check.h"
#include "ros2s/fabric/test_support/fuzz_script.h"
#include "ros2s/runtime/nursery.h"
#include "ros2s/runtime/test_support/made_reactor.h"
#include "shm_endpoint.h"

using namespace ros2s;
using namespace ros2s::fabric;
using namespace ros2s::fabric::shm;

namespace {

constexpr uint64_t domain = 7, peer_domain = 8, session = 9;
constexpr Limits limits{.message_bytes_max = 20'000,
                        .incoming_bytes_max = 40'000,
                        .outgoing_bytes_max = 40'000,
                        .reply_bytes = 256,
                        .regions_max = 4,
                        .memory_bytes_max = 65'536,
                        .answer_within = std::chrono::milliseconds(1)};

ShmHello layout_of() {
    ShmHello layout{.to_server_bytes = ring_bytes_least,
                    .to_client_bytes = ring_bytes_least,
                    .payload_bytes = 16'384,
                    .slots = limits.regions_max};
    layout.control_bytes = control_bytes(layout);
    return layout;
}

class Trial {
  public:
    Trial(Reactor& reactor, Counters& counters, ShmConnections& connections, ConstBytes input)
        : reactor_(reactor),
          counters_(counters),
          connections_(connections),
          script_(input),
          sending_(reactor, 8) {}

    Task<> run() {
        make_victim();
        while (!script_.over()) {
            if (peer_step()) continue;
            if (victim_is_server_) {
                co_await server_step();
            } else {
                co_await client_step();
            }
            co_await yield(reactor_);
            look_at_messages();
        }
        stop_.request_stop();
        mapped_.end();
        peer_.reset();
        co_await sending_.join();
        co_await victim_->close();
    }

  private:
    void make_victim() {
        victim_is_server_ = (script_.take<uint8_t>() & 1) == 0;
        auto control = Segment::create("control", layout_.control_bytes);
        auto payload = Segment::create("payload", layout_.payload_bytes);
        int ends[2] = {-1, -1};
        ROS2S_CHECK(control && payload &&
                    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
        control_ = control->bytes();
        peer_ = Descriptor(ends[1]);
        Hello hello{.domain = peer_domain,
                    .message_bytes_max = 20'000,
                    .incoming_bytes_max = 40'000,
                    .operations_max = 16};
        victim_ = std::make_unique<ShmEndpoint>(
            reactor_, counters_, connections_, ShmEndpoint::normalized(limits),
            ShmConnection{.domain = domain,
                          .session = session,
                          .peer = hello,
                          .layout = layout_,
                          .gets_further = true,
                          .initiates = victim_is_server_},
            std::move(*control), std::move(*payload), Descriptor(ends[0]));
    }
    [[nodiscard]] SharedWord& word(uint8_t index) const {
        return reinterpret_cast<SharedWord*>(control_.data())[index % 10];
    }
    [[nodiscard]] SharedSegment& segment(uint8_t number) const {
        return reinterpret_cast<ControlPage*>(control_.data())->segments[number % segments_most];
    }
    // False: it is the victim's turn.
    bool peer_step() {
        switch (script_.take<uint8_t>() % 10) {
            case 0: return false;
            case 1: write_entry(); return true;
            case 2: {
                const uint64_t at = script_.take<uint32_t>() % (control_.size() - 64);
                const ConstBytes bytes = script_.bytes(script_.take<uint8_t>() % 64);
                std::ranges::copy(bytes, control_.begin() + static_cast<long>(at));
                return true;
            }
            case 3: word(script_.take<uint8_t>()).value = script_.take<uint64_t>(); return true;
            case 4:
                word(script_.take<uint8_t>()).value += 64 * script_.take<uint8_t>();
                return true;
            case 5: write_grant(); return true;
            case 6: (void)::send(peer_.get(), "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL); return true;
            case 7: ask_for_segment(); return true;
            case 8: send_segment(); return true;
            default: word(script_.take<uint8_t>()).value = script_.take<uint8_t>(); return true;
        }
    }
    // A number of bytes that is mostly one of blocks, and not too large.
    uint64_t size_of_segment() {
        const auto pages = script_.take<uint8_t>();
        return pages % 32 * block_bytes + (pages < 250 ? 0 : pages);
    }
    void ask_for_segment() {
        SharedSegment& asked = segment(script_.take<uint8_t>());
        asked.least = size_of_segment();
        asked.wanted = asked.least == 0 ? 0 : asked.least + size_of_segment();
        ++word(8).value;
        (void)::send(peer_.get(), &wake_byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    // The one that was asked for, or another one, as it must be or wrong in one respect.
    void send_segment() {
        auto number = script_.take<uint8_t>();
        for (uint8_t i = 1; i < segments_most && number < 200; ++i) {
            if (segment(i).wanted != 0 && segment(i).given == 0) number = i;
        }
        SharedSegment& sent = segment(number);
        const auto wrong = script_.take<uint8_t>() % 8;
        sent.given = wrong == 0 ? size_of_segment() : sent.wanted;
        const uint64_t size = wrong == 1 ? size_of_segment() : sent.given % (uint64_t{1} << 20);
        const Descriptor made(::memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
        ROS2S_CHECK(made.open() && ::ftruncate(made.get(), static_cast<off_t>(size)) == 0);
        const int seals = wrong == 2 ? F_SEAL_GROW : F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
        ROS2S_CHECK(::fcntl(made.get(), F_ADD_SEALS, seals) == 0);
        const auto byte = static_cast<std::byte>(segment_byte + number % segments_most);
        if (wrong == 3) {
            (void)::send(peer_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        } else {
            (void)send_descriptor_now(peer_.get(), byte, made.get());
        }
    }
    // An entry with mostly valid fields.
    void write_entry() {
        const Packet header{.type = static_cast<Packet::Type>(1 + script_.take<uint8_t>() / 128),
                            .length = script_.take<uint16_t>(),
                            .operation = script_.take<uint16_t>(),
                            .offset = script_.take<uint16_t>()};
        Bytes ring = control_.subspan(control_page_bytes, layout_.to_server_bytes);
        if (!victim_is_server_) {
            ring = control_.subspan(control_page_bytes + layout_.to_server_bytes,
                                    layout_.to_client_bytes);
        }
        uint64_t& tail = word(victim_is_server_ ? 4 : 6).value;
        const uint64_t place = tail / entry_alignment * entry_alignment % ring.size();
        std::memcpy(ring.data() + place, &header, sizeof header);
        tail += entry_bytes(header.length);
    }
    uint64_t address() {
        const auto offset = script_.take<uint16_t>();
        return payload_address(script_.take<uint8_t>() % (segments_most + 1), offset);
    }
    void write_grant() {
        const uint32_t slot = script_.take<uint8_t>() % layout_.slots;
        auto* grants =
            reinterpret_cast<SharedRegionEntry*>(control_.data() + grants_offset(layout_));
        grants[slot] = {.state = uint64_t{1} << 32 | (script_.take<uint8_t>() & 7),
                        .address = address(),
                        .length = script_.take<uint16_t>(),
                        .lease = 0,
                        .expires = Time::max().time_since_epoch().count(),
                        .padding = {}};
    }

    void look_at_messages() {
        Message message;
        while (victim_->try_receive(message)) {
            ROS2S_CHECK(message.bytes().size() <= limits.message_bytes_max);
            (void)victim_->reply(message, as_bytes("answer"));
            message = Message();
        }
    }
    Task<> server_step() {
        RemoteKey key{.rights = Rights::read_write,
                      .domain = peer_domain,
                      .session = session,
                      .slot = script_.take<uint8_t>() % 8U,
                      .generation = 1,
                      .address = address(),
                      .length = script_.take<uint16_t>()};
        key.seal();
        std::vector<std::byte> memory(script_.take<uint16_t>() % 20'000);
        const uint64_t offset = script_.take<uint16_t>();
        switch (script_.take<uint8_t>() % 4) {
            case 0: (void)co_await victim_->put(key, offset, memory); break;
            case 1: (void)co_await victim_->get(key, offset, memory); break;
            case 2: {
                // It is used once more, when the peer has had several turns.
                std::ranges::fill(mapped_.bytes(), std::byte{2});
                mapped_.end();
                auto mapped = victim_->map(key, offset, memory.size(), Rights::write);
                if (!mapped) break;
                mapped_ = std::move(*mapped);
                std::ranges::fill(mapped_.bytes(), std::byte{2});
                break;
            }
            default: begin_send(memory.size());
        }
    }
    Task<> client_step() {
        const size_t size = 1 + script_.take<uint16_t>();
        if (script_.take<uint8_t>() % 2 == 0) {
            begin_send(1 + size % 8000);
            co_return;
        }
        const auto memory = victim_->allocate(size);
        if (!memory) {
            if (memory.error().code == Code::no_memory) (void)victim_->ask_for_memory(size);
            co_return;
        }
        std::ranges::fill(*memory, std::byte{2});
        if (auto region = victim_->grant(*memory, Rights::read_write)) co_await region->revoke();
        victim_->free(*memory);
    }
    void begin_send(size_t size) { (void)sending_.try_spawn(send(*victim_, size, stop_.token())); }
    static Task<> send(Endpoint& victim, size_t size, StopToken stop) {
        const std::vector<std::byte> bytes(size);
        (void)co_await victim.send(bytes, {}, stop);
    }

    Reactor& reactor_;
    Counters& counters_;
    ShmConnections& connections_;
    FuzzScript script_;
    const ShmHello layout_ = layout_of();
    bool victim_is_server_ = true;
    Bytes control_;
    Descriptor peer_;
    std::unique_ptr<Endpoint> victim_;
    Mapping mapped_;
    StopSource stop_;
    Nursery sending_;
};

struct Base {
    Base() {
        reactor = made_reactor();
        connections = std::make_unique<ShmConnections>(*reactor);
    }
    std::unique_ptr<OsReactor> reactor;
    Counters counters;
    std::unique_ptr<ShmConnections> connections;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static auto* const base = new Base;
    Trial trial(*base->reactor, base->counters, *base->connections,
                std::as_bytes(std::span(data, size)));
    base->reactor->run(trial.run());
    return 0;
}
