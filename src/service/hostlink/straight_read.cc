#include "straight_read.h"

#include <algorithm>

#include "fields.h"
#include "ros2s/object/checksum.h"

namespace ros2s::hostlink {

std::optional<NotStraight> StraightRead::begin(rpc::Request& asked,
                                               std::coroutine_handle<> waiter) {
    const Call& call = asked.call();
    const uint64_t length = asked.sink_bytes();
    if (call.trace != nullptr) return NotStraight::traced;
    if (call.deadline != Time::max()) return NotStraight::deadline;
    if (!asked.has_no_sink_windows() || !asked.fits_inline(moved_bytes, length)) {
        return NotStraight::large;
    }
    if (server_.sessions_.rights().is_over(asked.arrived())) return NotStraight::rights;

    // The general way finds the same, and reports it.
    const auto file = rpc::read_body<FileBody>(asked.body(), file_fields);
    auto session = server_.sessions_.use({asked.guest().session}, asked.arrived());
    if (!file || !session || call.stop.stop_requested()) return NotStraight::invalid;
    auto mount = server_.mounts_.try_find(**session, file->mount);
    if (!mount || !(*mount)->has(file->handle)) return NotStraight::invalid;

    const auto place = (*mount)->file_system().locate(file->handle, file->offset, length, item_);
    if (!place) return NotStraight::file;
    observer = nullptr;
    if (!place->store.post_fetch(call, place->container, item_, *this)) return NotStraight::store;
    request_ = &asked;
    waiter_ = waiter;
    handle_ = file->handle;
    entered_.emplace(std::move(*session), std::move(*mount));
    stop_.emplace(call.stop, *this);
    return std::nullopt;
}

void StraightRead::fetched(const Payload& payload) noexcept {
    const auto [offset, length] = item_.extent;
    const bool has_checksums = item_.checksums.size() == object::piece_count(offset, length);
    // An absent chunk has none. The file learns of it, so that the next read does not try the same.
    if (item_.status && !has_checksums) return lost();
    if (!entered_->fs().finish_located(handle_, item_)) return lost();
    const uint32_t crc = object::combined_checksum(offset, length, item_.checksums);
    const ConstBytes body = encode_moved(answer_, {.bytes = length, .crc = crc});

    ConstBytes bytes = payload.first;
    rpc::PayloadMemory joined;
    if (!payload.second.empty()) [[unlikely]] {
        joined = request_->memory(length);
        const auto rest = std::ranges::copy(payload.first, joined.bytes().begin()).out;
        std::ranges::copy(payload.second, rest);
        bytes = joined.bytes();
    }
    if (!request_->reply_at_once(body, bytes)) return lost();
    server_.metrics_.straight_reads.add();
    server_.metrics_.reads.add();
    server_.metrics_.read_bytes.add(length);
    server_.metrics_.dpu_bytes.add(length);
    server_.times_.add(request_->method(), request_->took());
    end();
}

void StraightRead::lost() noexcept {
    server_.metrics_.not_straight[static_cast<size_t>(NotStraight::lost)].add();
    end();
}

void StraightRead::Stop::fire(StopCallback& self) noexcept {
    StraightRead& read = static_cast<Stop&>(self).read;
    read.drop();
    read.lost();
}

void StraightRead::end() noexcept {
    stop_.reset();
    entered_.reset();
    server_.straight_unused_.push_back(this);
    server_.reactor_.post(waiter_);
}

bool LinkServer::serve_straight(rpc::Request& request, std::coroutine_handle<> waiter) {
    const bool is_read = request.method() == static_cast<uint16_t>(Method::read);
    std::optional<NotStraight> why;
    if (is_read) {
        if (straight_unused_.empty()) {
            straight_unused_.push_back(
                straight_.emplace_back(std::make_unique<StraightRead>(*this)).get());
        }
        why = straight_unused_.back()->begin(request, waiter);
        if (!why) straight_unused_.pop_back();
    } else if (request.method() == static_cast<uint16_t>(Method::read_node)) {
        why = NotStraight::node;
    }
    if (why) metrics_.not_straight[static_cast<size_t>(*why)].add();
    return is_read && !why;
}

}  // namespace ros2s::hostlink
