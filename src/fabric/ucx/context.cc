// UCX is a library with state of the whole process: settings that it takes from the environment,
// a log, handlers of signals. It is kept to what we ask for.
#include "context.h"

#include <dlfcn.h>
#include <signal.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

namespace ros2s::fabric::ucx {
namespace {

// UCX applies UCX_* variables whatever prefix it is asked to read. So it sees an
// environment without them while it reads. Another thread's getenv() meanwhile lacks only those; if
// one calls setenv(), the environment that it made stays.
class PlainEnvironment {
  public:
    // `plain` outlives it for long: another thread's getenv() may still be looking there.
    explicit PlainEnvironment(std::vector<char*>& plain)
        : lock_(one_at_a_time()), before_(environ), plain_(plain) {
        for (char** each = before_; each != nullptr && *each != nullptr; ++each) {
            if (!std::string_view(*each).starts_with("UCX_")) plain_.push_back(*each);
        }
        plain_.push_back(nullptr);
        environ = plain_.data();
    }
    PlainEnvironment(const PlainEnvironment&) = delete;
    PlainEnvironment& operator=(const PlainEnvironment&) = delete;
    ~PlainEnvironment() {
        if (environ == plain_.data()) environ = before_;
    }

  private:
    static std::mutex& one_at_a_time() {
        static std::mutex mutex;
        return mutex;
    }
    std::lock_guard<std::mutex> lock_;
    char** before_;
    std::vector<char*>& plain_;
};

// Loading UCX installs handlers that print a backtrace; whoever's process this is has its own wish.
void take_out_signal_handlers() {
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
        struct sigaction now{};
        Dl_info owner{};
        if (sigaction(signal, nullptr, &now) != 0) continue;
        const void* handler = (now.sa_flags & SA_SIGINFO) != 0
                                  ? reinterpret_cast<const void*>(now.sa_sigaction)
                                  : reinterpret_cast<const void*>(now.sa_handler);
        if (dladdr(handler, &owner) == 0 || owner.dli_fname == nullptr) continue;
        if (std::strstr(owner.dli_fname, "libucs") != nullptr) ucs_debug_disable_signal(signal);
    }
}

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
    : context_(std::exchange(other.context_, nullptr)),
      worker_(std::exchange(other.worker_, nullptr)),
      event_(std::exchange(other.event_, -1)),
      address_(std::move(other.address_)),
      environment_(std::move(other.environment_)) {}

Context::~Context() {
    if (worker_ != nullptr) ucp_worker_destroy(worker_);
    if (context_ != nullptr) ucp_cleanup(context_);
}

ucs_status_t Context::create(const Settings& settings) {
    const PlainEnvironment plain(environment_);
    take_out_signal_handlers();
    // What goes wrong reaches us as a status; a peer must not be able to fill a log.
    ucs_global_opts_set_value("LOG_LEVEL", "fatal");
    ucp_config_t* config = nullptr;
    ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return status;
    for (const auto& [name, value] : settings) {
        if (status == UCS_OK) status = ucp_config_modify(config, name.c_str(), value.c_str());
    }
    if (status == UCS_OK) {
        ucp_params_t parameters{};
        parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
        parameters.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
        parameters.name = "ros2store";
        status = ucp_init(&parameters, config, &context_);
    }
    ucp_config_release(config);
    return status == UCS_OK ? create_worker() : status;
}

ucs_status_t Context::create_worker() {
    ucp_worker_params_t parameters{};
    parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    parameters.thread_mode = UCS_THREAD_MODE_SINGLE;
    ucs_status_t status = ucp_worker_create(context_, &parameters, &worker_);
    if (status == UCS_OK) status = ucp_worker_get_efd(worker_, &event_);
    if (status != UCS_OK) return status;
    ucp_address_t* address = nullptr;
    size_t length = 0;
    status = ucp_worker_get_address(worker_, &address, &length);
    if (status != UCS_OK) return status;
    address_.resize(length);
    std::memcpy(address_.data(), address, length);
    ucp_worker_release_address(worker_, address);
    return UCS_OK;
}

Result<Context> Context::open(const Options& options, const Settings& settings, Report& report) {
    Context made;
    const ucs_status_t status = made.create(settings);
    if (status == UCS_OK) return made;
    return report.fail(error_of(status),
                       "provider " + options.provider + " cannot be opened on device " +
                           options.device + ": UCX says '" + ucs_status_string(status) +
                           "': check that the device is up, or name another as device=");
}

}  // namespace ros2s::fabric::ucx
