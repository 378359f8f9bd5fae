// Settings of ros2store-dpu: one YAML file, every setting with a default.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "daos_pools.h"
#include "directories.h"
#include "ros2s/cipher/container_keys.h"
#include "ros2s/config/config.h"
#include "ros2s/connection/rados_pool.h"
#include "ros2s/daemon/daemon.h"
#include "ros2s/daemon/limits.h"
#include "ros2s/daemon/listen_text.h"
#include "ros2s/rights/settings.h"

namespace ros2s::dpud {

struct Settings {
    std::string pools;  // of the engine, separated by commas
    std::string administrators_given;
    std::vector<std::string> administrators;                           // the parsed form
    KeyLines lines;                                                    // of the settings at the top
    std::map<std::string, config::Entries> engine_given, rados_given;  // or one by one
    DaosSettings daos;
    std::vector<std::string> engine_pools;  // the parsed form
    std::map<std::string, connection::RadosOptions> rados_pools;
    DirectorySettings directories;
    rights::AccessSettings access_given;
    RecordLines access_lines;
    rights::Subjects access;  // the parsed form
    daemon::LimitSettings limits_given;
    RecordLines limit_lines;
    admission::Allowances allowances;  // the parsed form
    std::string engine = "127.0.0.1:7400";
    std::string engine_name;
    std::string engine_providers = "shm";
    std::string trusted_network = "no";
    std::string engine_certificates = "/etc/ros2store/dpu/storage";
    std::string ucx_device = "lo";
    std::string engine_access = "own";
    std::string control = "127.0.0.1:7500";
    std::string certificates = "/etc/ros2store/dpu/hosts";
    std::string data = "shm /run/ros2store/dpu/data.sock";
    std::string data_device;
    std::string placement = "host";
    std::string keys;
    Duration keep_keys = cipher::keep_keys;
    std::string new_container_key;
    daemon::CommonSettings common;

    // Errors: invalid; the report has a sentence for each problem.
    [[nodiscard]] static Result<Settings> parse(std::string_view yaml, std::string_view where,
                                                Report& report);
    // The text of the file, with the documentation of every setting.
    [[nodiscard]] std::string document() const;

    // Whether the DPU has only the capabilities that tenants hand to it.
    [[nodiscard]] bool is_delegated() const { return engine_access == "delegated"; }
    // The providers of the connection to the engine; without addresses.
    [[nodiscard]] std::vector<daemon::Listen> ways_to_engine() const;
};

}  // namespace ros2s::dpud
