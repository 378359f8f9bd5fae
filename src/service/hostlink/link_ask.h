// The requests of a LinkClient: it sends them to the mount's location, and again if the mount has
// moved. Private to LinkClient.
#pragma once
#include "link_client.h"
#include "names_wire.h"
#include "ros2s/session/mount_names.h"

namespace ros2s::hostlink {

template <class Encode>
Task<Result<>> LinkClient::ask(const Call& call, fs::FileHandle handle, rpc::CallRequest request,
                               rpc::ReplyReader& reader, Encode encode) {
    for (;;) {
        ServerHandle at{.place = locator_.location()};
        if (handle.value != 0) {
            ROS2S_CO_TRY_ASSIGN(const Open* file, opened(handle));
            if (file->place != at.place) [[unlikely]] {
                ROS2S_CO_TRY(co_await where(call, handle));
                ROS2S_CO_TRY_ASSIGN(file, opened(handle));
            }
            if (has_lost_lock(*file)) [[unlikely]]
                co_return fail(Code::io);
            at = {.place = file->place, .handle = file->there};
        }
        request.body = encode(at);
        const auto done = co_await channel_.call(call, request, reader);
        if (done || done.error().code != Code::stale) co_return done;
        ROS2S_CO_TRY(co_await locator_.moved(call, at.place));
        // It may have been done at the old location.
        request.repeated = true;
    }
}

// Reads a body by its declared fields.
template <class T>
class ReadAs final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply& reply) override {
        return rpc::read(reply.body, fields_of(value), value);
    }
    T value{};
};

// The same, with the leases that cover it. T: void for an empty body.
template <class T>
class ReadLeased final : public rpc::ReplyReader {
  public:
    Result<> read(const rpc::Reply& reply) override {
        return rpc::read(reply.body, with_leases(fields_of(value)), leases, value);
    }
    Result<T> take() {
        if constexpr (std::is_void_v<T>) {
            return {};
        } else {
            return std::move(value);
        }
    }
    std::conditional_t<std::is_void_v<T>, Nothing, T> value{};
    std::vector<Leased> leases;
};

template <class Body>
Task<Result<session::MountLocation>> LinkClient::send(const Call& call, rpc::CallRequest request,
                                                      Body body, rpc::ReplyReader& reader) {
    Buffer buffer;
    session::MountLocation place;
    const fs::Caller user = user_of(call);
    const auto encode = [&](const ServerHandle& at) {
        place = at.place;
        body.mount = place.mount;
        return rpc::build(buffer, with_user(fields_of(body)), user, body);
    };
    ROS2S_CO_TRY(co_await ask(call, {}, request, reader, encode));
    co_return place;
}

template <class Reply, class Body>
Task<Result<Reply>> LinkClient::find(const Call& call, Method method, Body body) {
    ReadLeased<Reply> reader;
    const uint64_t era = leases_.era();
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method), .repeatable = true};
    ROS2S_CO_TRY_ASSIGN(const auto place, co_await send(call, request, body, reader));
    take(call, era, place, reader.leases);
    co_return reader.take();
}

template <class Reply, class Body>
Task<Result<Reply>> LinkClient::change(const Call& call, Method method, Body body,
                                       session::MountLocation* place) {
    co_await slots_.wait();
    auto slot = slots_.take();
    ReadLeased<Reply> reader;
    const uint64_t era = leases_.era();
    const rpc::CallRequest request{.method = static_cast<uint16_t>(method), .id = slot.id()};
    const auto done_at = co_await send(call, request, body, reader);
    if (!done_at) {
        slot.failed(done_at.error());
        co_return fail(done_at.error());
    }
    acknowledged(*done_at);
    if (place != nullptr) *place = *done_at;
    take(call, era, *done_at, reader.leases);
    co_return reader.take();
}

}  // namespace ros2s::hostlink
