// Settings of ros2store-engine: one YAML file, every setting with a default.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/result.h"
#include "ros2s/runtime/os_reactor.h"

namespace ros2s::engined {

struct Listen {
    std::string provider;  // "shm", "ucx+tcp"
    std::string address;   // as the provider takes it
    friend bool operator==(const Listen&, const Listen&) = default;
};

struct Settings {
    std::string pools;
    std::string control = "127.0.0.1:7400";
    std::string certificates = "/etc/ros2store/certs";
    std::string data = "shm /run/ros2store/engine.sock, ucx+tcp 127.0.0.1:7401";
    std::string ucx_device = "lo";
    std::string metrics = "127.0.0.1:7409";
    Duration poll = std::chrono::microseconds(100);
    Duration drain = std::chrono::seconds(10);

    // Errors: invalid; the report has a sentence for each thing that is wrong.
    [[nodiscard]] static Result<Settings> parse(std::string_view yaml, std::string_view where,
                                                Report& report);
    // The file, with every setting's documentation.
    [[nodiscard]] std::string document() const;

    [[nodiscard]] std::vector<std::string> pool_directories() const;
    [[nodiscard]] std::vector<std::string> control_addresses() const;
    // Errors: invalid, with a sentence.
    [[nodiscard]] Result<std::vector<Listen>> data_addresses(std::string_view where,
                                                             Report& report) const;
};

}  // namespace ros2s::engined
