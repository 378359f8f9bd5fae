#include "link_client.h"

#include <algorithm>
#include <cstring>

#include "link_ask.h"
#include "ros2s/base/crc32c.h"
#include "ros2s/fs/payload_checksums.h"
#include "ros2s/object/checksum.h"
#include "ros2s/runtime/slices.h"

namespace ros2s::hostlink {
namespace {

// Longer writes are split at multiples of it. A chunk of at most this size is therefore written
// atomically.
constexpr uint64_t cut_bytes = uint64_t{1} << 20;
constexpr size_t forgets_at_once = 64;
constexpr size_t closers_max = 64;
// The checksums of more pieces would not fit into a message.
constexpr uint64_t pieces_max = 2048;

// Copies the bytes that a read found, unless they arrived at their destination. Returns their
// checksum. It is computed in slices, while a slice is in the cache.
uint32_t place(const rpc::Reply& reply, Bytes found) {
    if (reply.where == rpc::Reply::Payload::placed) return crc32c(found);
    uint32_t crc = crc32c({});
    for (size_t at = 0; at < found.size(); at += slice_bytes) {
        const Bytes slice = found.subspan(at, std::min(slice_bytes, found.size() - at));
        std::memcpy(slice.data(), reply.payload.data() + at, slice.size());
        crc = crc32c_extend(crc, slice);
    }
    return crc;
}

class ReadMoved final : public rpc::ReplyReader {
  public:
    explicit ReadMoved(Bytes into) : into_(into) {}
    Result<> read(const rpc::Reply& reply) override {
        ROS2S_TRY_ASSIGN(const MovedBody moved,
                         rpc::read_body<MovedBody>(reply.body, moved_fields));
        if (moved.bytes != reply.payload_bytes || moved.bytes > into_.size()) {
            return fail(Code::corrupt);
        }
        if (place(reply, into_.first(moved.bytes)) != moved.crc) return fail(Code::corrupt);
        bytes = moved.bytes;
        return {};
    }
    uint64_t bytes = 0;

  private:
    Bytes into_;
};

Result<> check_local(const fs::Window& window) {
    if (!window.is_local()) return fail(Code::unsupported);
    return {};
}

}  // namespace

LinkClient::LinkClient(Reactor& reactor, rpc::Channel& channel, session::MountLocator& locator,
                       Options options)
    : reactor_(reactor),
      channel_(channel),
      locator_(locator),
      options_(std::move(options)),
      slots_(reactor, {.client = options_.client}, update_slots),
      leases_(reactor),
      forgetting_(reactor, forgets_at_once),
      closers_(reactor, closers_max),
      listening_(reactor, 1),
      watching_(reactor, 1),
      summing_(reactor) {
    if (options_.takes_leases) ROS2S_CHECK(listening_.try_spawn(listen(*this)));
}
LinkClient::~LinkClient() { ROS2S_CHECK(open_.empty()); }

// More groups than a request has room for are left out: the server then grants less.
fs::Caller LinkClient::user_of(const Call& call) const {
    fs::Caller user{
        .uid = options_.user.uid, .gid = options_.user.gid, .groups = options_.user.groups};
    if (call.caller != nullptr) user = *call.caller;
    user.groups = user.groups.first(std::min(user.groups.size(), fs::caller_groups_max));
    return user;
}

Task<> LinkClient::close_all() {
    // If the server is away, its handles end with the session.
    closes_until_ = reactor_.now() + options_.close_within;
    const Call call{.deadline = closes_until_};
    closing_.request_stop();
    co_await listening_.join();
    co_await watching_.join();
    while (!open_.empty()) {
        const auto first = open_.begin();
        const session::MountLocation place = first->second.place;
        const fs::FileHandle there = first->second.there;
        open_.erase(first);
        (void)co_await close_there(call, place, there);
    }
    co_await closers_.join();
    co_await forgetting_.join();
}

// ---- bytes of files -------------------------------------------------------------------------

Task<Result<uint64_t>> LinkClient::pread(const Call& call, fs::FileHandle handle, fs::Window into,
                                         uint64_t offset) {
    ROS2S_CO_TRY(check_local(into));
    ROS2S_CO_TRY(opened(handle));
    const Bytes whole = into.bytes();
    uint64_t done = 0;
    do {
        const uint64_t most = channel_.welcome().payload_bytes_max;
        const Bytes part = whole.subspan(done, std::min<uint64_t>(whole.size() - done, most));
        ROS2S_CO_TRY_ASSIGN(const uint64_t bytes,
                            co_await read_part(call, handle, part, offset + done));
        done += bytes;
        if (bytes < part.size()) break;
    } while (done < whole.size());
    if (const auto file = opened(handle)) {
        ++(*file)->report.reads;
        (*file)->report.read_bytes += done;
    }
    co_return done;
}

Task<Result<uint64_t>> LinkClient::read_part(const Call& call, fs::FileHandle handle, Bytes into,
                                             uint64_t offset) {
    ROS2S_CO_TRY_ASSIGN(const Open* const file, opened(handle));
    const NodeId leased = is_leased(*file) ? file->node : NodeId{};
    const Method method = leased != NodeId{} ? Method::read_node : Method::read;
    const fs::UserClaim opener = leased != NodeId{} ? file->user : fs::UserClaim{};
    Buffer body;
    const Bytes sink[] = {into};
    ReadMoved reader(into);
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method),
                                   .repeatable = true,
                                   .sink = sink,
                                   .reply_body_bytes_max = sizeof(uint64_t) + sizeof(uint32_t)};
    const auto encode = [&](const ServerHandle& at) {
        const session::MountId mount = at.place.mount;
        if (method == Method::read) {
            return rpc::build(body, file_fields,
                              FileBody{.mount = mount, .handle = at.handle, .offset = offset});
        }
        return rpc::build(body, with_user(node_read_fields), opener,
                          NodeReadBody{.mount = mount, .node = leased, .offset = offset});
    };
    const fs::FileHandle there = method == Method::read ? handle : fs::FileHandle{};
    ROS2S_CO_TRY(co_await ask(call, there, request, reader, encode));
    co_return reader.bytes;
}

Task<Result<uint64_t>> LinkClient::pwrite(const Call& call, fs::FileHandle handle, fs::Window from,
                                          uint64_t offset) {
    ROS2S_CO_TRY(check_local(from));
    ROS2S_CO_TRY_ASSIGN(Open* const file, opened(handle));
    const ConstBytes whole = from.bytes();
    if (call.checksums != nullptr) {
        ROS2S_CO_TRY(co_await fs::compare_checksums(call, whole, offset));
    }
    const uint64_t most = channel_.welcome().payload_bytes_max;
    file->unsynced = true;
    // An append must be one request.
    const bool appends = file->flags.append;
    if (appends && whole.size() > most) co_return fail(Code::too_large, most);
    object::Checksums checksums;
    uint64_t done = 0;
    do {
        uint64_t length = whole.size() - done;
        if (length > most) length = most - (offset + done + most) % cut_bytes;
        const ConstBytes part = whole.subspan(done, length);
        FileBody body{.offset = offset + done};
        // Pieces depend on nothing else of an offset, which may be any number here. That of an
        // append is not known.
        const uint64_t within = body.offset % block_bytes;
        const uint64_t pieces = appends ? 1 : object::piece_count(within, length);
        Method method = Method::write;
        if (pieces > 1 && pieces <= pieces_max) {
            method = Method::write_pieces;
            const auto summed =
                co_await object::array_checksums_in_slices(summing_, call, within, part, checksums);
            if (!summed && done > 0) break;  // a call with the rest gets the error
            ROS2S_CO_TRY(summed);
        } else {
            body.crc = crc32c(part);
        }
        const auto bytes = co_await update(call, method, handle, body, part, checksums);
        if (!bytes && done > 0) break;
        if (!bytes) co_return fail(bytes.error());
        if (*bytes > part.size()) co_return fail(Code::corrupt);
        done += *bytes;
        if (*bytes < part.size()) break;  // the rest failed, as when space runs out
    } while (done < whole.size());
    if (const auto still = opened(handle)) {
        (*still)->unsynced = true;  // also if it was synced before the last request
        ++(*still)->report.writes;
        (*still)->report.written_bytes += done;
        if ((*still)->flags.sync && is_deferred()) ROS2S_CO_TRY(co_await fsync(call, handle));
    }
    co_return done;
}

Task<Result<>> LinkClient::punch_hole(const Call& call, fs::FileHandle handle, uint64_t offset,
                                      uint64_t length) {
    ROS2S_CO_TRY(opened(handle));
    ROS2S_CO_TRY(co_await update(call, Method::punch_hole, handle,
                                 {.offset = offset, .length = length}, {}, {}));
    co_return Result<>{};
}

Task<Result<>> LinkClient::allocate(const Call& call, fs::FileHandle handle, uint64_t offset,
                                    uint64_t length, bool keeps_size) {
    ROS2S_CO_TRY(opened(handle));
    ROS2S_CO_TRY(co_await update(call, keeps_size ? Method::allocate_inside : Method::allocate,
                                 handle, {.offset = offset, .length = length}, {}, {}));
    co_return Result<>{};
}

Task<Result<uint64_t>> LinkClient::update(const Call& call, Method method, fs::FileHandle handle,
                                          FileBody file, ConstBytes payload,
                                          std::span<const uint32_t> checksums) {
    co_await slots_.wait();
    auto slot = slots_.take();
    Buffer body;
    session::MountLocation place;
    ReadAs<MovedBody> reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method),
                                   .id = slot.id(),
                                   .payload = std::span(&payload, payload.empty() ? 0 : 1),
                                   .reply_body_bytes_max = sizeof(uint64_t) + sizeof(uint32_t)};
    const auto encode = [&](const ServerHandle& at) {
        file.mount = at.place.mount;
        file.handle = at.handle;
        place = at.place;
        if (method == Method::write_pieces) {
            return rpc::build(body, pieces_fields, file, checksums);
        }
        return rpc::build(body, file_fields, file);
    };
    const auto done = co_await ask(call, handle, request, reader, encode);
    if (done) {
        acknowledged(place);
        co_return reader.value.bytes;
    }
    slot.failed(done.error());
    co_return fail(done.error());
}

Task<Result<uint64_t>> LinkClient::seek(const Call& call, fs::FileHandle handle, uint64_t offset,
                                        fs::SeekFor what) {
    ROS2S_CO_TRY(opened(handle));
    Buffer body;
    ReadAs<MovedBody> reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::seek),
                                   .repeatable = true};
    const auto encode = [&](const ServerHandle& at) {
        return rpc::build(body, file_fields,
                          FileBody{.mount = at.place.mount,
                                   .handle = at.handle,
                                   .offset = offset,
                                   .length = static_cast<uint64_t>(what)});
    };
    ROS2S_CO_TRY(co_await ask(call, handle, request, reader, encode));
    co_return reader.value.bytes;
}

Task<Result<>> LinkClient::fsync(const Call& call, fs::FileHandle handle) {
    Buffer body;
    ReadAs<Nothing> reader;
    const rpc::CallRequest request{.method = static_cast<uint16_t>(Method::sync),
                                   .repeatable = true};
    const auto encode = [&](const ServerHandle& at) {
        return rpc::build(body, file_fields,
                          FileBody{.mount = at.place.mount, .handle = at.handle});
    };
    ROS2S_CO_TRY_ASSIGN(Open* const file, opened(handle));
    file->unsynced = false;
    const session::MountLocation place = locator_.location();
    const Time sent = reactor_.now();
    auto synced = co_await ask(call, handle, request, reader, encode);
    if (synced && place == locator_.location()) changes_.durable_before(place, sent);
    if (synced && changes_.must_ask(locator_.location())) synced = co_await ask_for_losses(call);
    if (synced && tells_loss(handle)) co_return fail(Code::io);
    if (const auto still = opened(handle); still && !synced) (*still)->unsynced = true;
    co_return synced;
}

}  // namespace ros2s::hostlink
