// UCX has state for the whole process: settings that it reads from the environment, and a log. This
// code restricts it to our settings.
#include "context.h"

#include <cstring>
#include <utility>

#include "ros2s/fabric/lanes/plain_environment.h"

namespace ros2s::fabric::ucx {
namespace {

Error error_of(ucs_status_t status) {
    switch (status) {
        case UCS_ERR_NO_MEMORY: return {Code::no_memory, 0, 0};
        case UCS_ERR_NO_DEVICE:
        case UCS_ERR_UNSUPPORTED: return {Code::unsupported, 0, 0};
        default: return {Code::io, 0, 0};
    }
}

}  // namespace

Context::Context(Context&& other) noexcept
    : ucx_(other.ucx_),
      context_(std::exchange(other.context_, nullptr)),
      worker_(std::exchange(other.worker_, nullptr)),
      event_(std::exchange(other.event_, -1)),
      address_(std::move(other.address_)),
      environment_(std::move(other.environment_)) {}

Context::~Context() {
    if (worker_ != nullptr) ucx_.ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucx_.ucp_cleanup(context_);
}

ucs_status_t Context::create(const Settings& settings) {
    const lanes::PlainEnvironment plain("UCX_", environment_);
    // Failures reach us as a status. A peer must not be able to fill a log.
    ucx_.ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    ucp_config_t* config = nullptr;
    ucs_status_t status = ucx_.ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return status;
    for (const auto& [name, value] : settings) {
        if (status == UCS_OK) status = ucx_.ucp_config_modify(config, name.c_str(), value.c_str());
    }
    if (status == UCS_OK) {
        ucp_params_t parameters{};
        parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
        parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
        parameters.name = "ros2store";
        status =
            ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &parameters, config, &context_);
    }
    ucx_.ucp_config_release(config);
    return status == UCS_OK ? create_worker() : status;
}

ucs_status_t Context::create_worker() {
    ucp_worker_params_t parameters{};
    parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucs_status_t status = ucx_.ucp_worker_create(context_, &parameters, &worker_);
    if (status == UCS_OK) status = ucx_.ucp_worker_get_efd(worker_, &event_);
    if (status != UCS_OK) return status;
    ucp_address_t* address = nullptr;
    size_t length = 0;
    status = ucx_.ucp_worker_get_address(worker_, &address, &length);
    if (status != UCS_OK) return status;
    address_.resize(length);
    std::memcpy(address_.data(), address, length);
    ucx_.ucp_worker_release_address(worker_, address);
    return UCS_OK;
}

Result<Context> Context::open(const Options& options, const Settings& settings, Report& report) {
    ROS2S_TRY_ASSIGN(const UcxLibrary* ucx, ucx_library(report));
    Context made(*ucx);
    const ucs_status_t status = made.create(settings);
    if (status == UCS_OK) return made;
    return report.fail(error_of(status),
                       "provider " + options.provider + " cannot be opened on device " +
                           options.device + ": UCX reports '" + ucx->ucs_status_string(status) +
                           "': check that the device is up, or name another as device=");
}

}  // namespace ros2s::fabric::ucx
