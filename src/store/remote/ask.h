// A request without payload, and a reader that decodes its reply's body.
#pragma once
#include "fields.h"
#include "ros2s/rpc/channel.h"

namespace ros2s::remote {

// Decodes with a function of one argument, the body, that returns any Result.
template <class Decode>
class ReadBody final : public rpc::ReplyReader {
  public:
    explicit ReadBody(Decode decode) : decode_(std::move(decode)) {}
    Result<> read(const rpc::Reply& reply) override {
        if (reply.payload_bytes > 0) return fail(Code::corrupt);
        return decode_(reply.body);
    }

  private:
    Decode decode_;
};

// The reply is one value with these fields.
template <class T>
Task<Result<T>> ask(rpc::Channel& channel, const Call& call, rpc::CallRequest request,
                    auto fields) {
    Result<T> answer = fail(Code::corrupt);
    ReadBody reader([&answer, fields](ConstBytes body) -> Result<> {
        answer = rpc::read_body<T>(body, fields);
        if (!answer) return fail(answer.error());
        return {};
    });
    ROS2S_CO_TRY(co_await channel.call(call, request, reader));
    co_return answer;
}

// A request without an update name says who asks in its place.
[[nodiscard]] inline UpdateName client_in(const Call& call) {
    if (call.client == nullptr) return {};
    return {.client = call.client->id, .sequence = call.client->incarnation};
}

[[nodiscard]] constexpr uint16_t number(Method method) { return static_cast<uint16_t>(method); }

}  // namespace ros2s::remote
