#include "ros2s/api/uri.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "ros2s/base/text_parts.h"
#include "ros2s/object/object_store.h"

namespace ros2s::api {
namespace {

constexpr size_t uri_bytes_max = 8192;
constexpr std::string_view safe_in_path = "-._~/";
constexpr std::string_view safe_in_value = "-._~/:,;+";

bool is_alphanumeric(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

std::string encode(std::string_view text, std::string_view safe) {
    std::string out;
    for (const char c : text) {
        if (is_alphanumeric(c) || safe.contains(c)) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
        }
    }
    return out;
}

// One pass over the text; `at_` is the position of the next unread character.
class Parser {
  public:
    Parser(std::string_view text, bool needs_container, Report& report)
        : text_(text), needs_container_(needs_container), report_(report) {}

    Result<Uri> parse() {
        if (text_.size() > uri_bytes_max) return too_long(text_.size());
        ROS2S_TRY(parse_scheme());
        ROS2S_TRY(parse_authority());
        ROS2S_TRY(parse_names());
        ROS2S_TRY(parse_path());
        ROS2S_TRY(parse_query());
        ROS2S_TRY(check_timeout());
        ROS2S_TRY(check_durability());
        ROS2S_TRY(check_transport());
        // The written form must be a valid URI again, and there a byte may take three.
        if (const size_t length = uri_.to_string().size(); length > uri_bytes_max) {
            return too_long(length);
        }
        return std::move(uri_);
    }

  private:
    std::unexpected<Error> wrong(size_t at, std::string_view what) {
        return report_.fail(Code::invalid,
                            "bad URI '{}': {} (at character {}); it is written like {}", text_,
                            what, at + 1, example_of(uri_.transport));
    }

    std::unexpected<Error> too_long(size_t length) {
        text_ = text_.substr(0, 40);
        return wrong(0, fmt::format("it has {} bytes, and {} is the limit", length, uri_bytes_max));
    }

    Result<> parse_scheme() {
        const auto end = text_.find("://");
        if (text_.empty()) return wrong(0, "it is empty");
        if (end == std::string_view::npos) return wrong(0, "it has no '://'");
        const auto scheme = text_.substr(0, end);
        if (scheme == "ros2s") {
            uri_.transport = Uri::Transport::direct;
        } else if (scheme == "ros2s+local") {
            uri_.transport = Uri::Transport::local;
        } else if (scheme == "ros2s+dpu") {
            uri_.transport = Uri::Transport::dpu;
        } else {
            return wrong(
                0,
                fmt::format("the scheme '{}' is not one of ros2s, ros2s+local, ros2s+dpu", scheme));
        }
        at_ = end + 3;
        return {};
    }

    Result<> parse_authority() {
        const size_t end = std::min(text_.find_first_of("/?#", at_), text_.size());
        const auto authority = text_.substr(at_, end - at_);
        const size_t begin = std::exchange(at_, end);
        if (authority.empty()) return {};
        if (authority.contains('@'))
            return wrong(begin, "it names a user; leave out the part before '@'");
        std::string_view host = authority;
        std::string_view port;
        bool has_port = false;
        if (authority.front() == '[') {
            const auto close = authority.find(']');
            if (close == std::string_view::npos) return wrong(begin, "'[' has no ']'");
            host = authority.substr(1, close - 1);
            const auto rest = authority.substr(close + 1);
            has_port = rest.starts_with(':');
            if (!rest.empty() && !has_port) return wrong(begin + close + 1, "':' must follow ']'");
            if (has_port) port = rest.substr(1);
        } else if (const auto colon = authority.find(':'); colon != std::string_view::npos) {
            host = authority.substr(0, colon);
            port = authority.substr(colon + 1);
            has_port = true;
            if (port.contains(':')) return wrong(begin, "an IPv6 address is written in brackets");
        }
        if (host.empty()) return wrong(begin, "the host before ':' is empty");
        uri_.host = host;
        if (!has_port) return {};
        const size_t port_at = begin + static_cast<size_t>(port.data() - authority.data());
        if (!parse_number(port, uri_.port) || uri_.port == 0) {
            return wrong(port_at,
                         fmt::format("the port '{}' is not a number from 1 to 65535", port));
        }
        return {};
    }

    // The next component of the path, decoded; empty at the end of the path.
    Result<std::optional<std::string>> component() {
        if (at_ == text_.size() || text_[at_] != '/') return std::nullopt;
        const size_t begin = ++at_;
        at_ = std::min(text_.find_first_of("/?#", at_), text_.size());
        ROS2S_TRY_ASSIGN(std::string name, decode(begin, at_));
        return name;
    }

    Result<> parse_names() {
        for (auto [field, what] : {std::pair{&uri_.pool, "pool"}, {&uri_.container, "container"}}) {
            const size_t begin = at_ + 1;
            ROS2S_TRY_ASSIGN(auto name, component());
            if (!name || name->empty()) {
                const bool is_end = at_ == text_.size() || text_[at_] != '/';
                if (field == &uri_.container && !needs_container_ && is_end) return {};
                return wrong(std::min(begin, text_.size()), fmt::format("no {} is named", what));
            }
            if (!object::is_valid_label(*name)) {
                return wrong(begin,
                             fmt::format("the {} name '{}' is not 1 to 127 of A-Z a-z 0-9 . _ -",
                                         what, *name));
            }
            *field = std::move(*name);
        }
        return {};
    }

    Result<> parse_path() {
        while (true) {
            const size_t begin = at_ + 1;
            ROS2S_TRY_ASSIGN(auto name, component());
            if (!name) return {};
            if (name->empty()) continue;  // "a//b" is "a/b", and "a/" is "a", as in a shell
            if (*name == "." || *name == "..") {
                return wrong(begin, fmt::format("the path has a component '{}'", *name));
            }
            if (name->contains('/')) return wrong(begin, "a name in the path contains '/' (%2F)");
            if (name->size() > 255) {
                return wrong(begin, "a name in the path is longer than 255 bytes");
            }
            if (!uri_.path.empty()) uri_.path += '/';
            uri_.path += *name;
        }
    }

    Result<> parse_query() {
        if (at_ < text_.size() && text_[at_] == '?') {
            do {
                ROS2S_TRY(parse_parameter());
            } while (at_ < text_.size() && text_[at_] == '&');
        }
        if (at_ < text_.size()) return wrong(at_, "'#' has no meaning here; write %23 for it");
        return {};
    }

    Result<> parse_parameter() {
        const size_t begin = ++at_;
        const size_t end = std::min(text_.find_first_of("&#", begin), text_.size());
        at_ = end;
        const auto parameter = text_.substr(begin, end - begin);
        const auto equals = parameter.find('=');
        const auto key = parameter.substr(0, equals);
        std::string* const field = parameter_of(key);
        if (parameter.empty()) {
            return wrong(begin - 1,
                         fmt::format("no parameter follows '{}': leave it out", text_[begin - 1]));
        }
        if (field == nullptr) {
            return wrong(begin, fmt::format("the parameter '{}' is not one of provider, socket, "
                                            "dir, timeout, durability, rados, user, metadata, data",
                                            key));
        }
        if (!field->empty()) return wrong(begin, fmt::format("'{}' is given twice", key));
        if (equals == std::string_view::npos || equals + 1 == parameter.size()) {
            return wrong(begin, fmt::format("the parameter '{}' has no value", key));
        }
        ROS2S_TRY_ASSIGN(*field, decode(begin + equals + 1, end));
        return {};
    }

    std::string* parameter_of(std::string_view key) {
        for (const auto& [name, field] : {std::pair{"provider", &uri_.provider},
                                          {"socket", &uri_.socket},
                                          {"dir", &uri_.dir},
                                          {"timeout", &timeout_},
                                          {"durability", &durability_},
                                          {"rados", &uri_.rados},
                                          {"user", &uri_.user},
                                          {"metadata", &uri_.metadata},
                                          {"data", &uri_.data}}) {
            if (key == name) return field;
        }
        return nullptr;
    }

    Result<> check_timeout() {
        if (timeout_.empty()) return {};
        if (uri_.transport == Uri::Transport::local) {
            return wrong(text_.find('?'),
                         "'timeout' is for requests to a server, and ros2s+local sends none: leave "
                         "it out (a Ceph cluster has rados_osd_op_timeout in its configuration)");
        }
        uint32_t seconds = 0;
        if (!parse_number(timeout_, seconds) || seconds == 0 ||
            seconds > Uri::timeout_max.count()) {
            return wrong(text_.find('?'),
                         fmt::format("the timeout '{}' is not a number of seconds from 1 to {}",
                                     timeout_, Uri::timeout_max.count()));
        }
        uri_.timeout = std::chrono::seconds(seconds);
        return {};
    }

    // A program asks for more than the container, never for less.
    Result<> check_durability() {
        if (durability_.empty()) return {};
        if (durability_ != "durable") {
            return wrong(text_.find('?'),
                         fmt::format("the durability '{}' is not 'durable': less can only be set "
                                     "for a container (ros2store container set --durability)",
                                     durability_));
        }
        uri_.is_durable = true;
        return {};
    }

    // Checks the parameters that only a Ceph cluster has.
    Result<> check_rados() {
        if (uri_.rados.empty()) {
            for (const auto& [key, value] : {std::pair{"user", &uri_.user},
                                             {"metadata", &uri_.metadata},
                                             {"data", &uri_.data}}) {
                if (value->empty()) continue;
                return wrong(text_.find('?'),
                             fmt::format("'{}' is of a Ceph cluster, whose configuration file is "
                                         "missing: add rados=/etc/ceph/ceph.conf",
                                         key));
            }
            return {};
        }
        if (uri_.transport != Uri::Transport::local) {
            return wrong(0,
                         "only ros2s+local:// opens a Ceph cluster (rados). To reach one through a "
                         "DPU, name it under 'pools' in the DPU's settings");
        }
        if (!uri_.dir.empty()) {
            return wrong(text_.find('?'),
                         "the pool is in a directory (dir) or in a Ceph cluster (rados), not both");
        }
        uri_.transport = Uri::Transport::rados;
        return {};
    }

    Result<> check_transport() {
        ROS2S_TRY(check_rados());
        const bool is_rados = uri_.transport == Uri::Transport::rados;
        if (is_rados || uri_.transport == Uri::Transport::local) {
            if (!uri_.host.empty()) {
                return wrong(text_.find("://") + 3,
                             "ros2s+local opens a pool in this process and takes no host: three "
                             "slashes follow 'ros2s+local:'");
            }
            if (uri_.dir.empty() && !is_rados) {
                return wrong(text_.size(), "the pool's directory is missing: add ?dir=DIRECTORY");
            }
            for (const auto& [key, value] :
                 {std::pair{"provider", &uri_.provider}, {"socket", &uri_.socket}}) {
                if (value->empty()) continue;
                return wrong(text_.find('?'),
                             fmt::format("ros2s+local opens a pool in this process over no "
                                         "network, and '{}' selects one: leave it out",
                                         key));
            }
        }
        return {};
    }

    Result<std::string> decode(size_t begin, size_t end) {
        std::string out;
        for (size_t i = begin; i < end; ++i) {
            const char c = text_[i];
            if (c == '\0') return wrong(i, "it contains a NUL byte");
            if (c != '%') {
                out += c;
                continue;
            }
            uint8_t byte = 0;
            if (i + 2 >= end || !parse_number(text_.substr(i + 1, 2), byte, 16)) {
                return wrong(i,
                             "'%' is not followed by two hexadecimal digits (write %25 for '%')");
            }
            if (byte == 0) return wrong(i, "it contains a NUL byte");
            out += static_cast<char>(byte);
            i += 2;
        }
        return out;
    }

    std::string_view text_;
    const bool needs_container_;
    Report& report_;
    Uri uri_;
    std::string timeout_, durability_;
    size_t at_ = 0;
};

}  // namespace

std::string_view example_of(Uri::Transport transport) {
    switch (transport) {
        case Uri::Transport::direct: return "ros2s://server:7400/pool/main/data";
        case Uri::Transport::dpu: return "ros2s+dpu://dpu:7500/pool/main/data";
        case Uri::Transport::rados:
            return "ros2s+local:///pool/main/data?rados=/etc/ceph/ceph.conf";
        case Uri::Transport::local: break;
    }
    return "ros2s+local:///pool/main/data?dir=/srv/ros2s";
}

Result<Uri> Uri::parse(std::string_view text, Report& report) {
    return Parser(text, true, report).parse();
}

Result<Uri> Uri::parse_pool(std::string_view text, Report& report) {
    return Parser(text, false, report).parse();
}

void Uri::make_absolute() {
    for (std::string* const path : {&socket, &dir, &rados}) {
        // A socket can also be an abstract one.
        if (path->empty() || path->starts_with('@')) continue;
        std::error_code failed;
        auto whole = std::filesystem::absolute(*path, failed).string();
        if (!failed) *path = std::move(whole);
    }
}

std::string Uri::to_string() const {
    std::string out = transport == Transport::direct ? "ros2s://"
                      : transport == Transport::dpu  ? "ros2s+dpu://"
                                                     : "ros2s+local://";
    out += host.contains(':') ? '[' + host + ']' : host;
    if (port != 0) out += fmt::format(":{}", port);
    out += '/' + pool;
    if (!container.empty()) out += '/' + container;
    if (!path.empty()) out += '/' + encode(path, safe_in_path);
    char separator = '?';
    const auto add = [&](std::string_view key, const std::string& value) {
        if (value.empty()) return;
        out += std::exchange(separator, '&');
        out += key;
        out += '=';
        out += encode(value, safe_in_value);
    };
    add("provider", provider);
    add("socket", socket);
    add("dir", dir);
    add("timeout", timeout.count() == 0 ? "" : std::to_string(timeout.count()));
    add("durability", is_durable ? "durable" : "");
    add("rados", rados);
    add("user", user);
    add("metadata", metadata);
    add("data", data);
    return out;
}

}  // namespace ros2s::api
