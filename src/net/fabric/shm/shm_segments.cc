// Segments of payload beyond the first (layout.h): the client asks for them, uses them and returns
// them; the server makes, counts and unmaps them. Both give back the pages that they do not use.
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "shm_endpoint.h"

namespace ros2s::fabric::shm {
namespace {

// Frees the pages. The memory reads as zeros then.
void drop_pages(Bytes memory) noexcept { madvise(memory.data(), memory.size(), MADV_REMOVE); }

}  // namespace

// A full socket has enough bytes to wake the peer.
void ShmEndpoint::send_byte(uint8_t byte) noexcept {
    (void)::send(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

uint64_t ShmEndpoint::further_bytes() const noexcept {
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < segments_most; ++i) {
        if (payloads_[i] != nullptr) bytes += payloads_[i]->memory.bytes().size();
    }
    return bytes;
}

// ---- the client ---------------------------------------------------------------------------------

uint32_t ShmEndpoint::segment_of(ConstBytes memory) const noexcept {
    for (uint32_t i = 0; i < segments_most; ++i) {
        if (payloads_[i] == nullptr) continue;
        const Bytes all = payloads_[i]->memory.bytes();
        const bool is_inside =
            memory.data() >= all.data() && memory.data() + memory.size() <= all.data() + all.size();
        if (is_inside) return i;
    }
    return segments_most;
}

Result<> ShmEndpoint::ask_for_memory(uint64_t size) {
    if (initiates()) return fail(Code::denied);
    if (!alive()) return fail(Code::disconnected);
    const uint64_t all = limits_.memory_bytes_max;
    const uint64_t need = round_up<uint64_t>(size, block_bytes);
    if (!shm_session_.gets_further || need > all) return fail(Code::no_memory, all);
    if (asking_failed_) return std::unexpected(*std::exchange(asking_failed_, std::nullopt));
    if (asked_for_ != 0) return {};
    // Free segments that are too small may go.
    for (uint32_t i = 1; i < segments_most && further_bytes() + need > all; ++i) {
        if (payloads_[i] != nullptr && payloads_[i]->taken == 0) return_segment(i);
    }
    const uint64_t has = further_bytes();
    if (has + need > all) return fail(Code::no_memory, all);
    bool is_returning = false;
    for (uint32_t i = 1; i < segments_most; ++i) {
        if (payloads_[i] != nullptr) continue;
        // The server has not taken it back yet.
        if (shared(page().segments[i].given).load(std::memory_order_acquire) != 0) {
            is_returning = true;
            continue;
        }
        // As much again, so that a few steps are enough, unless others wait for it.
        const bool is_scarce = shared(page().scarce.value).load(std::memory_order_relaxed) != 0;
        const uint64_t more = std::min(has + shm_session_.layout.payload_bytes, all - has);
        asked_for_ = i;
        asked_least_ = need;
        asked_most_ = is_scarce ? need : std::max(need, more / block_bytes * block_bytes);
        shared(page().segments[i].least).store(asked_least_, std::memory_order_relaxed);
        want(i, asked_most_);
        return {};
    }
    if (is_returning) return {};
    return fail(Code::no_memory, all);
}

void ShmEndpoint::want(uint32_t number, uint64_t bytes) noexcept {
    shared(page().segments[number].wanted).store(bytes, std::memory_order_release);
    shared(page().asks.value).fetch_add(1, std::memory_order_release);
    send_byte(wake_byte);
}

void ShmEndpoint::return_segment(uint32_t number) noexcept {
    payloads_[number].reset();
    want(number, 0);
}

void ShmEndpoint::receive_wakes() noexcept {
    std::array<std::byte, 4096> bytes;
    iovec part{bytes.data(), bytes.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // The server has no room for descriptors: the kernel closes those that a client sends.
    if (!initiates()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
    }
    const ssize_t got = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    disarm();
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return hung_up();
    if (initiates()) {
        const uint64_t asks = shared(page().asks.value).load(std::memory_order_acquire);
        if (std::exchange(asks_seen_, asks) == asks) return;
        connections_.serve(*this);
        return;
    }
    // A byte with a descriptor is the last one that is received with it.
    Descriptor descriptor;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
        descriptor = Descriptor(fd);
    }
    const auto last = static_cast<uint8_t>(bytes[static_cast<size_t>(got) - 1]);
    const uint32_t came = last >= segment_byte ? last - segment_byte : 0;
    if (last >= segment_byte) take_segment(came, std::move(descriptor));
    // The server may have taken segments back, too.
    memory_event().wake_all();
    if (shared(page().scarce.value).load(std::memory_order_relaxed) == 0) return;
    for (uint32_t i = 1; i < segments_most && alive(); ++i) {
        if (i != came && payloads_[i] != nullptr && payloads_[i]->taken == 0) return_segment(i);
    }
}

void ShmEndpoint::take_segment(uint32_t number, Descriptor descriptor) noexcept {
    if (number == 0 || number != asked_for_) return end(End::violation);
    asked_for_ = 0;
    const uint64_t bytes = shared(page().segments[number].given).load(std::memory_order_acquire);
    if (bytes != asked_least_ && bytes != asked_most_) return end(End::violation);
    // Without a descriptor: this process has as many as it may have.
    Result<Segment> taken = fail_errno(EMFILE);
    Report report;
    if (descriptor.open()) taken = Segment::take_in(std::move(descriptor), bytes, report);
    if (!taken && taken.error().code == Code::denied) return end(End::violation);
    if (!taken) {
        asking_failed_ = taken.error();
        return want(number, 0);
    }
    taken->close_descriptor();
    payloads_[number] = std::make_unique<Payload>(std::move(*taken), bytes);
    connections_.used();
}

// ---- the server ---------------------------------------------------------------------------------

// The client may write anything into `wanted`, at any time: each is loaded once.
std::expected<void, Obstacle> ShmEndpoint::serve_segments() noexcept {
    if (!alive() || !shm_session_.gets_further) return {};
    std::expected<void, Obstacle> given;
    bool has_taken = false;
    std::array<uint64_t, segments_most> wanted{};
    for (uint32_t i = 1; i < segments_most; ++i) {
        wanted[i] = shared(page().segments[i].wanted).load(std::memory_order_acquire);
        Payload* const payload = payloads_[i].get();
        if (payload == nullptr || payload->is_leaving || wanted[i] != 0) continue;
        payload->is_leaving = true;
        if (payload->mappings == 0) drop_segment(i);
        has_taken = true;
    }
    for (uint32_t i = 1; i < segments_most && alive(); ++i) {
        if (payloads_[i] != nullptr || wanted[i] == 0) continue;
        const uint64_t least = shared(page().segments[i].least).load(std::memory_order_relaxed);
        given = give_segment(i, wanted[i], least);
        break;  // a client asks for one at a time
    }
    if (has_taken && alive()) send_byte(wake_byte);
    return given;
}

// At most one descriptor is on its way to a client. The kernel counts those that no client has
// received yet, for all connections together.
bool ShmEndpoint::has_read_the_last() noexcept {
    int unread = 1;
    if (sent_descriptor_ && ::ioctl(socket_.get(), SIOCOUTQ, &unread) == 0 && unread == 0) {
        sent_descriptor_ = false;
    }
    return !sent_descriptor_;
}

std::expected<void, Obstacle> ShmEndpoint::give_segment(uint32_t number, uint64_t most,
                                                        uint64_t least) noexcept {
    if (most % block_bytes != 0 || least % block_bytes != 0 || least == 0 || least > most ||
        most > limits_.memory_bytes_max) {
        end(End::violation);
        return {};
    }
    const uint64_t has = further_bytes();
    // The client has returned another one since that was looked at. Its next byte says so.
    if (most > limits_.memory_bytes_max - has) return {};
    if (!has_read_the_last() || !connections_.has_time()) return std::unexpected(std::nullopt);
    const uint64_t bytes = is_scarce_ || !connections_.has_room(most, has, who()) ? least : most;
    auto room = connections_.take_further_room(bytes, has, who());
    if (!room) return std::unexpected(room.error());
    auto made = Segment::create("ros2store-payload", bytes);
    if (!made) return std::unexpected(std::nullopt);
    uint64_t& given = page().segments[number].given;
    shared(given).store(bytes, std::memory_order_release);
    const auto byte = static_cast<std::byte>(segment_byte + number);
    if (!send_descriptor_now(socket_.get(), byte, made->descriptor())) {
        shared(given).store(0, std::memory_order_release);
        return std::unexpected(std::nullopt);
    }
    sent_descriptor_ = true;
    connections_.spend_time(bytes);
    made->close_descriptor();
    payloads_[number] = std::make_unique<Payload>(std::move(*made), 0, std::move(*room));
    return {};
}

// Its pages go, even if the client keeps its mapping.
void ShmEndpoint::drop_segment(uint32_t number) noexcept {
    drop_pages(payloads_[number]->memory.bytes());
    payloads_[number].reset();
    shared(page().segments[number].given).store(0, std::memory_order_release);
}

void ShmEndpoint::tell_scarce(bool scarce) noexcept {
    if (!initiates() || is_scarce_ == scarce || !alive()) return;
    is_scarce_ = scarce;
    shared(page().scarce.value).store(scarce ? 1 : 0, std::memory_order_relaxed);
    if (scarce && further_bytes() > 0) send_byte(wake_byte);
}

// ---- both ---------------------------------------------------------------------------------------

bool ShmEndpoint::tidy() noexcept {
    if (!alive()) return false;
    bool has_more = false;
    if (std::exchange(wrote_, false)) {
        ring_has_pages_ = has_more = true;
    } else if (ring_has_pages_ && !out_.refresh()) {
        end(End::violation);
    } else if (ring_has_pages_ && out_.room() < out_.size()) {
        has_more = true;
    } else if (std::exchange(ring_has_pages_, false)) {
        // The memory of an empty ring belongs to its writer: the reader looks at no byte before the
        // tail says that it was written.
        drop_pages(out_.memory());
    }
    for (const auto& payload : payloads_) {
        if (payload != nullptr && !payload->was_used) payload->mapped_upto = 0;
        if (payload != nullptr && initiates()) payload->was_used = false;
    }
    if (initiates()) return has_more;
    for (uint32_t i = 0; i < segments_most && alive(); ++i) {
        Payload* const payload = payloads_[i].get();
        if (payload == nullptr) continue;
        if (std::exchange(payload->was_used, false) || payload->taken > 0) {
            payload->has_pages = has_more = true;
        } else if (i > 0) {
            return_segment(i);
        } else if (std::exchange(payload->has_pages, false)) {
            drop_pages(payload->memory.bytes());
        }
    }
    return has_more;
}

}  // namespace ros2s::fabric::shm
