#include "scrape.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "ros2s/base/trusted_file.h"
#include "ros2s/fabric/deadline.h"
#include "ros2s/fabric/socket/socket.h"
#include "ros2s/runtime/ring.h"

namespace ros2s::cli {
namespace {

constexpr auto scrape_max = std::chrono::seconds(5);
// 65 tenants with all their metrics are less than 1 MiB.
constexpr size_t reply_bytes_max = size_t{16} << 20;

Result<std::string> password_in(const std::string& file, Report& report) {
    constexpr size_t bytes_max = 4096;
    Report why;
    const auto text = read_trusted(file, bytes_max, why);
    const std::string line = text ? text->substr(0, text->find('\n')) : "";
    if (!line.empty()) return line;
    return report.fail(
        text ? Error{.code = Code::not_found} : text.error(),
        "the password of the metrics: {}; name the file that 'metrics: password_file' in the "
        "daemon's settings names, or a copy, with --password-file",
        text ? file + " is empty" : why.text());
}

// Everything until the peer hangs up.
Task<Result<std::string>> receive_all(Reactor& reactor, int fd, StopToken stop) {
    std::string reply;
    for (;;) {
        std::array<char, 16384> part;
        const ssize_t got = ::recv(fd, part.data(), part.size(), MSG_DONTWAIT);
        if (got == 0) co_return reply;
        if (got > 0) {
            reply.append(part.data(), static_cast<size_t>(got));
            if (reply.size() > reply_bytes_max) co_return fail(Code::too_large, reply_bytes_max);
        } else if (errno == EAGAIN) {
            const auto polled = co_await reactor.ring()->poll(fd, POLLIN, stop);
            if (!polled) co_return fail(polled.error());
        } else if (errno != EINTR) {
            co_return fail_errno(errno);
        }
    }
}

Task<Result<std::string>> exchange(Reactor& reactor, std::string address, std::string request,
                                   StopToken stop, Report& report) {
    ROS2S_CO_TRY_ASSIGN(const auto socket,
                        co_await fabric::connect_to(reactor, address, stop, report));
    ROS2S_CO_TRY(co_await fabric::send_all(reactor, socket.get(), as_bytes(request), stop));
    co_return co_await receive_all(reactor, socket.get(), stop);
}

}  // namespace

std::string authorization(std::string_view password) {
    const std::string credential = fmt::format("ros2store:{}", password);
    std::string encoded(4 * ((credential.size() + 2) / 3), '\0');
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                    reinterpret_cast<const unsigned char*>(credential.data()),
                    static_cast<int>(credential.size()));
    return "Authorization: Basic " + encoded;
}

Result<std::string_view> page_in(std::string_view reply, Report& report) {
    constexpr std::string_view field = "\r\nContent-Length: ";
    const size_t end = reply.find("\r\n\r\n");
    // "HTTP/1.1 200 OK"
    constexpr size_t status_at = 9;
    if (!reply.starts_with("HTTP/1.") || end == reply.npos || end < status_at) {
        return report.fail(Code::corrupt, "its reply is not HTTP");
    }
    int status = 0;
    (void)std::from_chars(reply.data() + status_at, reply.data() + end, status);
    if (status == 401) return report.fail(Code::denied, "it refuses the password");
    if (status != 200) {
        return report.fail(Code::corrupt, "it replies with HTTP status {}", status);
    }
    const std::string_view head = reply.substr(0, end), page = reply.substr(end + 4);
    size_t size = 0;
    if (const size_t at = head.find(field); at != head.npos) {
        (void)std::from_chars(head.data() + at + field.size(), head.data() + end, size);
    }
    if (size == 0 || size != page.size()) {
        return report.fail(Code::corrupt, "its reply is not complete");
    }
    return page;
}

Task<Result<std::string>> scrape(CommandContext context, MetricsServer location) {
    ROS2S_CO_TRY_ASSIGN(const std::string password,
                        password_in(location.password_file, context.report));
    Reactor& reactor = context.environment.reactor;
    fabric::Deadline deadline(reactor, reactor.now() + scrape_max, context.call.stop);
    Report why;
    const auto reply = co_await exchange(
        reactor, location.address,
        fmt::format("GET /metrics HTTP/1.1\r\nHost: {}\r\n{}\r\nConnection: close\r\n\r\n",
                    location.address, authorization(password)),
        deadline.token(), why);
    const bool late = deadline.passed();
    co_await deadline.finish();
    if (reply) {
        const auto page = page_in(*reply, why);
        if (page) co_return std::string(*page);
        if (page.error().code == Code::denied) {
            why.say(
                "it is not the first line of {}: name the file that 'metrics: password_file' in "
                "its settings names, with --password-file",
                location.password_file);
        }
        co_return context.report.fail(page.error(), why.text());
    }
    if (reply.error().code != Code::cancelled) {
        co_return context.report.fail(reply.error(),
                                      why.empty() ? describe(reply.error()) : why.text());
    }
    if (!late) co_return fail(Code::cancelled);
    co_return context.report.fail(Code::deadline,
                                  "it does not answer within {} s; it may hang: see its log",
                                  scrape_max.count());
}

}  // namespace ros2s::cli
