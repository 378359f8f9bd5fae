#include "attack.h"

namespace ros2s::fabric::ucx {
namespace {

constexpr Duration patience = std::chrono::seconds(30);

}  // namespace

Stage::Stage(ListenOptions listening)
    : contract::Stage(
          [](Reactor& reactor, Report& report) {
              return open_domain(reactor, {.provider = "ucx+tcp", .device = "lo"}, report);
          },
          listening) {}

AllUcx::AllUcx() {
    Report report;
    const auto loaded = ucx_library(report);
    if (!loaded) std::fprintf(stderr, "%s\n", report.text().c_str());
    ROS2S_CHECK(loaded);
    static_cast<UcxLibrary&>(*this) = **loaded;
#define ROS2S_UCX_LOOK_UP(function)                                           \
    function = reinterpret_cast<decltype(AllUcx::function)>(find(#function)); \
    ROS2S_CHECK(function != nullptr);
    ROS2S_UCX_ATTACK_FUNCTIONS(ROS2S_UCX_LOOK_UP)
#undef ROS2S_UCX_LOOK_UP
}

RawUcx::RawUcx() {
    ucp_config_t* config = nullptr;
    EXPECT_EQ(ucx_.ucp_config_read(nullptr, nullptr, &config), UCS_OK);
    EXPECT_EQ(ucx_.ucp_config_modify(config, "TLS", "tcp"), UCS_OK);
    EXPECT_EQ(ucx_.ucp_config_modify(config, "NET_DEVICES", "lo"), UCS_OK);
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES;
    parameters.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64;
    EXPECT_EQ(ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_),
              UCS_OK);
    ucx_.ucp_config_release(config);
    ucp_worker_params_t worker{};
    EXPECT_EQ(ucx_.ucp_worker_create(context_, &worker, &worker_), UCS_OK);
    // It drops what it receives.
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    handler.id = active_message_id;
    handler.cb = [](void*, const void*, size_t, void*, size_t, const ucp_am_recv_param_t*) {
        return UCS_OK;
    };
    EXPECT_EQ(ucx_.ucp_worker_set_am_recv_handler(worker_, &handler), UCS_OK);
}

RawUcx::~RawUcx() {
    ucx_.ucp_worker_destroy(worker_);
    ucx_.ucp_cleanup(context_);
}

std::vector<std::byte> RawUcx::address() const {
    ucp_address_t* address = nullptr;
    size_t length = 0;
    EXPECT_EQ(ucx_.ucp_worker_get_address(worker_, &address, &length), UCS_OK);
    const auto* bytes = reinterpret_cast<const std::byte*>(address);
    std::vector<std::byte> copy(bytes, bytes + length);
    ucx_.ucp_worker_release_address(worker_, address);
    return copy;
}

Task<bool> say_hello(Stage& stage, Attacker& attacker, std::vector<std::byte> greeting) {
    const auto welcome = co_await contract::say_hello(stage, attacker.socket, "ucx+tcp",
                                                      stage.honest->id() + 1, std::move(greeting));
    if (!welcome) co_return false;
    attacker.hello = welcome->hello;
    const auto server = decode_greeting(welcome->greeting);
    EXPECT_TRUE(server);
    if (server) attacker.server = *server;
    co_return server.has_value();
}

Task<> attack(Stage& stage, Attacker& attacker) {
    const bool welcome = co_await say_hello(
        stage, attacker, encode_greeting(stage.core().random().next(), attacker.ucx.address()));
    EXPECT_TRUE(welcome);
    if (!welcome) co_return;
    ucp_ep_params_t parameters{};
    parameters.field_mask =
        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    parameters.address = reinterpret_cast<const ucp_address_t*>(attacker.server.address.data());
    parameters.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    EXPECT_EQ(
        attacker.ucx.ucx().ucp_ep_create(attacker.ucx.worker(), &parameters, &attacker.endpoint),
        UCS_OK);
    const FrameHeader first = attacker.header();
    co_await attacker.send(stage, object_bytes(first), {});
    auto accepted = co_await stage.listener->accept();
    EXPECT_TRUE(accepted);
    if (accepted) attacker.victim = std::move(*accepted);
}

Task<> Attacker::send(Stage& stage, ConstBytes header_bytes, ConstBytes data, unsigned id,
                      uint32_t flags) {
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = flags;
    void* request =
        ucx.ucx().ucp_am_send_nbx(endpoint, id, header_bytes.data(), header_bytes.size(),
                                  data.data(), data.size(), &parameters);
    const Time until = stage.core().now() + patience;
    while (request != nullptr && !UCS_PTR_IS_ERR(request) &&
           ucx.ucx().ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucx.progress();
        co_await yield(stage.core());
        if (stage.core().now() < until) continue;
        ADD_FAILURE() << "the attacker's message does not go";
        break;
    }
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) ucx.ucx().ucp_request_free(request);
    ucx.progress();
}

Task<> Attacker::look(Stage& stage, Duration how_long) const {
    const Time until = stage.core().now() + how_long;
    while (stage.core().now() < until) {
        ucx.progress();
        co_await yield(stage.core());
    }
}

Task<> Attacker::finish(Stage& stage) {
    socket.reset();
    if (victim != nullptr) co_await victim->close();
    victim.reset();
    if (endpoint == nullptr) co_return;
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* request = ucx.ucx().ucp_ep_close_nbx(std::exchange(endpoint, nullptr), &parameters);
    const Time until = stage.core().now() + patience;
    while (request != nullptr && !UCS_PTR_IS_ERR(request) && stage.core().now() < until &&
           ucx.ucx().ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucx.progress();
        co_await yield(stage.core());
    }
    if (request != nullptr && !UCS_PTR_IS_ERR(request)) ucx.ucx().ucp_request_free(request);
}

Task<End> how_it_ended(Stage& stage, Attacker& attacker) {
    return contract::how_it_ended(stage, *attacker.victim, [&] { attacker.ucx.progress(); });
}

}  // namespace ros2s::fabric::ucx
