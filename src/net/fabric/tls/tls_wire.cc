#include "tls_wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "ros2s/base/check.h"

namespace ros2s::fabric::tls {
namespace {

// A machine that died does not acknowledge: the kernel would send again for a quarter of an hour. A
// peer that is stopped and does not read for as long loses its connection, too.
constexpr unsigned unanswered_ms = 30'000;

}  // namespace

void TlsWire::Frames::push(Frame& frame) noexcept {
    frame.next = nullptr;
    (last != nullptr ? last->next : first) = &frame;
    last = &frame;
}

Frame* TlsWire::Frames::pop() noexcept {
    Frame* const frame = first;
    if (frame != nullptr) {
        first = frame->next;
        if (first == nullptr) last = nullptr;
    }
    return frame;
}

TlsWire::TlsWire(Sockets& sockets, Descriptor socket, std::unique_ptr<SecureSocket> secure)
    : sockets_(sockets),
      socket_(std::move(socket)),
      secure_(std::move(secure)),
      shut_event_(sockets.reactor()) {}

TlsWire::~TlsWire() {
    ROS2S_CHECK(shut_ && !queued && waiting_.first == nullptr && sent_.first == nullptr);
}

void TlsWire::start(WireUser& user) noexcept {
    user_ = &user;
    keep_alive(socket_.get());
    setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
    secure_->read_ahead();
    if (!sockets_.add(*this, socket_.get())) failure_ = End::failed;
    readable_ = true;
    queue();
}

void TlsWire::queue() noexcept {
    // Its user may destroy it before another turn.
    if (!shut_) sockets_.queue(*this);
}

void TlsWire::happened(uint32_t events) noexcept {
    const bool hung_up = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    if (hung_up || (events & EPOLLIN) != 0) {
        secure_->became_readable(hung_up);
        readable_ = true;
    }
    if ((events & EPOLLOUT) != 0) {
        output_blocked_ = false;
        readable_ |= std::exchange(input_needs_output_, false);
    }
    if (readable_ || waiting_.first != nullptr) queue();
}

void TlsWire::write(Frame& frame) noexcept {
    const FrameLength length{.bytes = frame.used};
    std::memcpy(frame.head, &length, sizeof length);
    waiting_.push(frame);
    send_waiting();
}

void TlsWire::send_waiting() noexcept {
    while (waiting_.first != nullptr && !output_blocked_ && failure_ == End::none) {
        Frame& frame = *waiting_.first;
        const ConstBytes all{frame.head, sizeof frame.head + frame.used};
        const Moved moved = secure_->write(all.subspan(first_sent_), frame.next != nullptr);
        if (moved.progress == Progress::wants_output) {
            output_blocked_ = true;
            return;
        }
        if (moved.progress != Progress::done) return failed(moved.progress);
        first_sent_ += moved.bytes;
        if (first_sent_ < all.size()) continue;
        first_sent_ = 0;
        sent_.push(*waiting_.pop());
        queue();
    }
}

void TlsWire::failed(Progress progress) noexcept {
    if (failure_ == End::none) {
        failure_ = progress == Progress::refused ? End::violation : End::peer_died;
    }
    queue();
}

void TlsWire::give_back() noexcept {
    while (Frame* const frame = sent_.pop()) user_->frame_sent(*frame);
}

void TlsWire::receive() noexcept {
    size_t bytes = 0;
    while (readable_ && !shut_) {
        const Moved moved = secure_->read(reader_.wanted());
        if (moved.progress != Progress::done) {
            readable_ = false;
            if (moved.progress == Progress::wants_output) {
                input_needs_output_ = true;
            } else if (moved.progress != Progress::wants_input) {
                failed(moved.progress);
            }
            return;
        }
        if (!reader_.took(moved.bytes)) {
            readable_ = false;
            return failed(Progress::refused);
        }
        if (reader_.is_whole()) {
            user_->frame_came(reader_.frame());
            reader_.next();
        }
        bytes += std::max(moved.bytes, read_bytes_least);
        if (bytes >= turn_bytes_max) return queue();
    }
}

void TlsWire::turn() noexcept {
    if (shut_) return;
    give_back();
    // Also after a failure to send: what the peer has sent before it left.
    receive();
    if (shut_) return;
    send_waiting();
    if (failure_ != End::none && !readable_) user_->broke(failure_);
}

Task<> TlsWire::farewell() {
    while (!shut_) co_await shut_event_;  // broke() ends this
}

void TlsWire::shut() noexcept {
    if (shut_) return;
    shut_ = true;
    sockets_.remove(*this, socket_.get());
    // The peer learns of it now.
    ::shutdown(socket_.get(), SHUT_RDWR);
    shut_event_.wake_all();
}

Task<> TlsWire::close() {
    shut();
    while (Frame* const frame = waiting_.pop()) sent_.push(*frame);
    if (user_ != nullptr) give_back();
    co_return;
}

}  // namespace ros2s::fabric::tls
