#include "audit.h"

#include <fmt/format.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tls.h"

namespace ros2s::control {

// All audits of the process. gRPC takes a plain function as its log, so this is where it finds
// them; a mutex, because it calls on its own threads.
struct AuditedProcess {
    // A refusal whose connection is not known yet.
    struct Refusal {
        std::thread::id thread;
        std::string why;
        bool after_handshake = false;
    };
    std::mutex mutex;
    std::vector<Audit*> audits;
    std::vector<Refusal> waiting;  // at most one for each thread

    static AuditedProcess& instance() {
        static AuditedProcess process;
        return process;
    }
    static void hear(gpr_log_func_args* line) noexcept {
        constexpr std::string_view failed = "Handshaking failed: ";
        const std::string_view text = line->message;
        const bool refusal = text.starts_with(failed);
        // What the TLS library says of a handshake comes again, whole, with the refusal.
        const bool error = line->severity == GPR_LOG_SEVERITY_ERROR &&
                           !std::string_view(line->file).ends_with("ssl_transport_security.cc");
        if (!refusal && !error) return;
        AuditedProcess& process = instance();
        const std::lock_guard lock(process.mutex);
        if (refusal) {
            process.say_waiting({});
            process.wait(text.substr(failed.size()));
            return;
        }
        for (Audit* audit : process.audits) audit->log_.error(fmt::format("grpc: {}", text));
    }

    void wait(std::string_view grpc_line) {
        for (Audit* audit : audits) audit->refused_.add();
        const std::string certificate = take_refused_certificate();
        waiting.push_back({.thread = std::this_thread::get_id(),
                           .why = certificate.empty()
                                      ? why_refused(grpc_line)
                                      : fmt::format("{} ({})", why_refused(grpc_line), certificate),
                           .after_handshake = grpc_line.contains("HTTP/2 settings")});
    }
    [[nodiscard]] auto of_this_thread() {
        return std::ranges::find(waiting, std::this_thread::get_id(), &Refusal::thread);
    }
    // What this thread told last. `from`: where the connection came from; empty: nobody knows.
    void say_waiting(std::string_view from) {
        const auto found = of_this_thread();
        if (found == waiting.end()) return;
        for (Audit* audit : audits) audit->refuse(found->why, from);
        waiting.erase(found);
    }
};

namespace {

struct Reason {
    std::string_view grpc, ours;
};
constexpr Reason reasons[] = {
    {"certificate verify failed", "its certificate is not good here"},
    {"peer did not return a certificate", "it showed no certificate"},
    {"unsupported protocol", "it speaks an older TLS than 1.3"},
    {"http request", "it does not speak TLS"},
    {"wrong version number", "it does not speak TLS"},
    {"Handshake timed out", "it did not finish the handshake in time"},
    {"Did not receive HTTP/2 settings", "it did not go on after the handshake"},
    {"ALPN", "it does not speak HTTP/2"},
    {"alert", "it refused this server's certificate"},
    {"Connection reset by peer", "it went away in the handshake"},
    {"Socket closed", "it went away in the handshake"},
};

}  // namespace

std::string why_refused(std::string_view grpc_line) {
    const auto* const reason = std::ranges::find_if(
        reasons, [&](const Reason& each) { return grpc_line.contains(each.grpc); });
    if (reason != std::end(reasons)) return std::string(reason->ours);
    return std::string(grpc_line.substr(0, grpc_line.find(" {")));
}

Audit::Audit(Log log) : log_(std::move(log)) {
    AuditedProcess& process = AuditedProcess::instance();
    const std::lock_guard lock(process.mutex);
    process.audits.push_back(this);
    gpr_set_log_function(&AuditedProcess::hear);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);  // at which gRPC tells of handshakes
}

Audit::~Audit() {
    AuditedProcess& process = AuditedProcess::instance();
    const std::lock_guard lock(process.mutex);
    for (const AuditedProcess::Refusal& each : process.waiting) refuse(each.why, {});
    std::erase(process.audits, this);
    if (!process.audits.empty()) return;
    process.waiting.clear();
    gpr_set_log_function(nullptr);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

void Audit::connection_ended(std::string_view address, bool handshake_was_done) {
    AuditedProcess& process = AuditedProcess::instance();
    const std::lock_guard lock(process.mutex);
    const auto found = process.of_this_thread();
    if (found == process.waiting.end() || found->after_handshake != handshake_was_done) return;
    process.say_waiting(address);
}

void Audit::refuse(std::string_view why, std::string_view from) {
    const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count();
    if (second != second_) lines_ = 0;
    second_ = second;
    if (lines_++ >= lines_per_second_max) {
        ++unsaid_;
        return;
    }
    const std::string more =
        unsaid_ == 0 ? "" : fmt::format(" ({} more were refused before and not said)", unsaid_);
    unsaid_ = 0;
    log_.warning(fmt::format("audit: a connection to the control plane was refused: {}{}{}{}", why,
                             from.empty() ? "" : ", from ", from, more));
}

}  // namespace ros2s::control
