// Uri: the grammar of the names of containers and of paths in them, for people and programs:
//
//     ros2s[+local|+dpu]://[host:port]/pool/container[/path][?provider=…&socket=…&dir=…&timeout=…]
//         [&durability=durable]
//     ros2s+local:///pool/container[/path]?rados=CONF[&user=…&metadata=…&data=…]
//
// Bytes outside [A-Za-z0-9._~-] may be percent-encoded anywhere after the scheme. Spaces and
// non-ASCII bytes may also be written as they are. Parsing checks only the form. Whether the pool
// exists, and whether this version supports the transport, is known when it is opened.
//
// Invariants
// - to_string() of a parsed Uri parses to an equal one, by the same function.
// - pool and container are valid labels (object::is_valid_label), container may be empty after
//   parse_pool(); path has no empty, "." or ".." components and no leading or trailing '/'.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::api {

struct Uri {
    enum class Transport : uint8_t {
        direct,  // ros2s://      to an engine, over a fabric
        local,   // ros2s+local:// the engine in this process, on a pool directory
        dpu,     // ros2s+dpu://   to a DPU
        rados,   // ros2s+local:// with `rados`: a Ceph cluster, by this process
    };
    Transport transport = Transport::local;
    std::string host;   // empty: none; an IPv6 address without its brackets
    uint16_t port = 0;  // 0: none
    std::string pool;
    std::string container;
    std::string path;  // "": the container's root; otherwise "a/b"
    std::string provider;
    std::string socket;
    std::string dir;
    // For each request to a server, from 1 s to timeout_max. 0: not limited.
    static constexpr std::chrono::seconds timeout_max = std::chrono::hours(24);
    std::chrono::seconds timeout{0};
    // Each change is durable when it returns, also if the container asks for less.
    bool is_durable = false;
    // Of a Ceph cluster: its configuration file, the user (client.NAME), and the RADOS pools for
    // metadata and data. Empty: see rados_address().
    std::string rados;
    std::string user;
    std::string metadata;
    std::string data;
    friend bool operator==(const Uri&, const Uri&) = default;

    [[nodiscard]] std::string to_string() const;
    // Makes the paths of files absolute, for a process that may change its directory.
    void make_absolute();
    // Errors: invalid; the report gets one sentence: what is wrong, at which character, and an
    // example.
    [[nodiscard]] static Result<Uri> parse(std::string_view text, Report& report);
    // The same for what is about a whole pool: the container may be left out.
    [[nodiscard]] static Result<Uri> parse_pool(std::string_view text, Report& report);
};

// An example of a correct URI of that transport, for messages.
[[nodiscard]] std::string_view example_of(Uri::Transport transport);

}  // namespace ros2s::api
