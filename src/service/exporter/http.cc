#include "http.h"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>

#include "ros2s/base/text_parts.h"

namespace ros2s::exporter {
namespace {

bool is_same_word(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::ranges::equal(a, b, {}, lower, lower);
}

// Without what precedes the first `mark`, and that; empty if there is none.
std::string_view after(std::string_view text, char mark) {
    const size_t at = text.find(mark);
    return at == text.npos ? std::string_view() : text.substr(at + 1);
}

// Up to the first character that is not base64.
std::string from_base64(std::string_view text) {
    constexpr std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    uint32_t bits = 0;
    unsigned count = 0;
    for (const char c : text) {
        const size_t digit = digits.find(c);
        if (digit == digits.npos) break;
        bits = bits << 6 | static_cast<uint32_t>(digit);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        bytes.push_back(static_cast<char>(bits >> count & 0xff));
    }
    return bytes;
}

// Takes the same time whichever part of it is right; its length is no secret.
bool is_password(std::string_view wanted, std::string_view given) {
    return !wanted.empty() && wanted.size() == given.size() &&
           CRYPTO_memcmp(wanted.data(), given.data(), wanted.size()) == 0;
}

// The value of the first field of that name, or empty.
std::string_view field(std::string_view head, std::string_view name) {
    while (!head.empty()) {
        head = after(head, '\n');
        const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
        if (is_same_word(line.substr(0, line.find(':')), name))
            return without_spaces(after(line, ':'));
    }
    return {};
}

}  // namespace

Verdict verdict_on(std::string_view head, std::string_view password) {
    if (!head.starts_with("GET ")) return Verdict::other_method;
    std::string_view path = head.substr(4, head.find_first_of(" \r\n", 4) - 4);
    path = path.substr(0, path.find('?'));
    const std::string_view credential = field(head, "authorization");
    const bool is_basic = is_same_word(credential.substr(0, credential.find(' ')), "basic");
    const std::string given = is_basic ? from_base64(without_spaces(after(credential, ' '))) : "";
    if (!is_password(password, after(given, ':'))) return Verdict::unknown_password;
    if (path == "/metrics") return Verdict::metrics;
    return path == "/traces" ? Verdict::traces : Verdict::other_path;
}

std::string http_reply(std::string_view status, std::string_view type, std::string_view fields,
                       std::string_view body) {
    return fmt::format(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n{}\r\n{}",
        status, type, body.size(), fields, body);
}

}  // namespace ros2s::exporter
