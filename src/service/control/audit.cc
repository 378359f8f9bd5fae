#include "audit.h"

#include <fmt/format.h>
#include <grpc/support/log.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>
#include <vector>

#include "ros2s/base/audit_event.h"
#include "tls.h"

namespace ros2s::control {

// All audits of the process: gRPC takes a plain function as its log, so it needs a global. A mutex,
// because gRPC calls it on its own threads.
struct AuditedProcess {
    std::mutex mutex;
    std::vector<Audit*> audits;

    static AuditedProcess& instance() {
        static AuditedProcess process;
        return process;
    }
    static void hear(gpr_log_func_args* line) noexcept {
        constexpr std::string_view failed = "Handshaking failed: ";
        const std::string_view text = line->message;
        const bool refusal = text.starts_with(failed);
        // The TLS library's own message is skipped: the refusal repeats it.
        const bool error = line->severity == GPR_LOG_SEVERITY_ERROR &&
                           !std::string_view(line->file).ends_with("ssl_transport_security.cc");
        if (!refusal && !error) return;
        AuditedProcess& process = instance();
        const std::lock_guard lock(process.mutex);
        for (Audit* audit : process.audits) {
            if (refusal) {
                audit->refuse(text.substr(failed.size()));
            } else {
                audit->log_.error("grpc: {}", text);
            }
        }
    }
};

namespace {

struct Reason {
    std::string_view grpc, ours;
};
constexpr Reason reasons[] = {
    {"certificate verify failed", "its certificate is not valid here"},
    {"peer did not return a certificate", "it presented no certificate"},
    {"unsupported protocol", "its TLS is older than 1.3"},
    {"http request", "it does not speak TLS"},
    {"wrong version number", "it does not speak TLS"},
    {"Handshake timed out", "it did not finish the handshake in time"},
    {"Did not receive HTTP/2 settings", "it sent nothing after the handshake"},
    {"ALPN", "it does not speak HTTP/2"},
    {"alert", "it refused this server's certificate"},
    {"Connection reset by peer", "it disconnected during the handshake"},
    {"Socket closed", "it disconnected during the handshake"},
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
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);  // at which gRPC logs handshakes
}

Audit::~Audit() {
    AuditedProcess& process = AuditedProcess::instance();
    const std::lock_guard lock(process.mutex);
    std::erase(process.audits, this);
    if (!process.audits.empty()) return;
    gpr_set_log_function(nullptr);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

void Audit::refuse(std::string_view why) {
    refused_.add();
    const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                               std::chrono::steady_clock::now().time_since_epoch())
                               .count();
    if (second != second_) lines_ = 0;
    second_ = second;
    if (lines_++ >= lines_per_second_max) {
        ++unsaid_;
        return;
    }
    const std::string certificate = take_refused_certificate();
    log_.warning(audit_line(
        {.subject = "",
         .peer = "",
         .session = 0U,
         .action = AuditAction::connect,
         .object = AuditObject{},
         .decision = AuditDecision::refused,
         .reason = Error{.code = Code::denied},
         .text =
             fmt::format("a connection to the control plane was refused: {}{}", why_refused(why),
                         certificate.empty() ? "" : fmt::format(" ({})", certificate))},
        std::exchange(unsaid_, 0)));
}

}  // namespace ros2s::control
