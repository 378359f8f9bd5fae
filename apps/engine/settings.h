// Settings of ros2store-engine: one YAML file, every setting with a default.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/daemon/daemon.h"
#include "ros2s/daemon/limits.h"
#include "ros2s/daemon/listen_text.h"
#include "ros2s/rights/settings.h"

namespace ros2s::engined {

struct Settings {
    std::string pools;
    std::string control = "127.0.0.1:7400";
    std::string certificates = "/etc/ros2store/engine";
    std::string data = "shm /run/ros2store/engine/data.sock";
    std::string trusted_network = "no";
    std::string ucx_device = "lo";
    KeyLines lines, capability_lines;  // of the settings at the top, and under `capabilities`
    std::string administrators_given;
    std::vector<std::string> administrators;  // the parsed form
    std::string delegates_given;
    std::vector<std::string> delegates;  // the parsed form
    std::string capability_authority;    // empty: ca.crt of `certificates`
    Duration capability_life = std::chrono::minutes(5);
    uint32_t reactors = 1;
    rights::AccessSettings access_given;
    RecordLines access_lines;
    rights::Subjects access;  // the parsed form
    daemon::LimitSettings limits_given;
    RecordLines limit_lines;
    admission::Allowances allowances;  // the parsed form
    daemon::CommonSettings common;

    // Errors: invalid; the report has a sentence for each problem.
    [[nodiscard]] static Result<Settings> parse(std::string_view yaml, std::string_view where,
                                                Report& report);
    // The text of the file, with the documentation of every setting.
    [[nodiscard]] std::string document() const;

    [[nodiscard]] std::vector<std::string> pool_directories() const;
    [[nodiscard]] std::vector<std::string> control_addresses() const;
    // Errors: invalid, with a sentence.
    [[nodiscard]] Result<std::vector<daemon::Listen>> data_addresses(std::string_view where,
                                                                     Report& report) const;
};

}  // namespace ros2s::engined
