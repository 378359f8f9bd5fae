// HeldLog: what the modules below log while a command runs. It is kept until the command ends,
// because one cause may make several of them speak, and a failed command says one line: its own,
// with the first cause. What a successful one leaves is told as warnings.
//
// Thread rule: log() may be used on any thread, the rest after those that use it have ended.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ros2s/base/log.h"
#include "session.h"

namespace ros2s::cli {

class HeldLog {
  public:
    HeldLog();
    // Warnings and errors; may outlive this.
    [[nodiscard]] Log log() const;
    // `complaint`, and behind it the first error, or else the first warning, unless it says it.
    [[nodiscard]] std::string with_cause(std::string complaint) const;
    // The errors; where there are none, the warnings: these are often consequences.
    void warn(const Session& session) const;

  private:
    struct Lines;
    std::shared_ptr<Lines> lines_;
};

}  // namespace ros2s::cli
