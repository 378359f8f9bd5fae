// Certificates for tests: an authority in a temporary directory, which signed one certificate of a
// server (localhost, 127.0.0.1), and those of two clients.
#pragma once
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "ros2s/base/check.h"
#include "ros2s/fabric/tls/tls.h"
#include "ros2s/pki/authority.h"

namespace ros2s::fabric::tls {

class TestAuthority {
  public:
    TestAuthority() {
        std::string name = std::filesystem::temp_directory_path() / "ros2store-tls-XXXXXX";
        ROS2S_CHECK(::mkdtemp(name.data()) != nullptr);
        parent_ = name;
        directory_ = name + "/certs";
        Report report;
        const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
        const auto made =
            pki::make_authority(directory_,
                                {.certificates = {{.name = "server",
                                                   .alternative_names = {"localhost", "127.0.0.1"},
                                                   .server = true},
                                                  {.name = "client", .alternative_names = {}},
                                                  {.name = "other", .alternative_names = {}}}},
                                now, report);
        if (!made) std::fprintf(stderr, "%s\n", report.text().c_str());
        ROS2S_CHECK(made);
    }
    TestAuthority& operator=(TestAuthority&&) = delete;
    ~TestAuthority() { std::filesystem::remove_all(parent_); }

    [[nodiscard]] const std::string& directory() const { return directory_; }
    [[nodiscard]] Options server() const {
        return {.identity = pki::identity_in(directory_, "server")};
    }
    [[nodiscard]] Options client(const std::string& name = "client") const {
        return {.identity = pki::identity_in(directory_, name), .server_name = "localhost"};
    }

  private:
    std::string parent_, directory_;
};

// The authority that both sides of most tests trust.
inline const TestAuthority& authority() {
    static const TestAuthority made;
    return made;
}

}  // namespace ros2s::fabric::tls
