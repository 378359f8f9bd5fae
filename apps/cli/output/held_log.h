// HeldLog: the log of the modules below while a command runs. It is kept until the command ends,
// because one cause may be logged by several modules, and a failed command prints one line: its
// own, with the first cause. After a successful command the messages are printed as warnings.
//
// Thread rule: log() may be used on any thread, the rest after the users of log() have ended.
#pragma once
#include <memory>
#include <string>

#include "console.h"
#include "ros2s/base/log.h"

namespace ros2s::cli {

class HeldLog {
  public:
    HeldLog();
    // Warnings and errors; may outlive this.
    [[nodiscard]] Log log() const;
    // `complaint`, followed by the first error, or else the first warning, unless it contains it.
    [[nodiscard]] std::string with_cause(std::string complaint) const;
    // Prints the errors, or the warnings if there are no errors: with errors they are often
    // consequences.
    void warn(const Console& console) const;

  private:
    struct Lines;
    std::shared_ptr<Lines> lines_;
};

}  // namespace ros2s::cli
