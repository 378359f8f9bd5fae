// Small files with secrets: keys, and the PIN of a token.
//
// Any thread.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include "ros2s/base/result.h"

namespace ros2s::cipher {

// The content of a file with a secret, at most `bytes_max`. The memory is overwritten when the
// object ends.
class PrivateText {
  public:
    static constexpr size_t bytes_max = 256;
    PrivateText() = default;
    PrivateText(const PrivateText&) = delete;
    PrivateText& operator=(const PrivateText&) = delete;
    ~PrivateText();
    // Without the newline at its end.
    [[nodiscard]] std::string_view text() const;

  private:
    friend Result<> read_private_file(const std::string& path, PrivateText& into, Report& report);
    std::array<char, bytes_max> bytes_{};
    size_t size_ = 0;
};

// Reads a file of open_trusted() that no other user may read. A symbolic link in the last place is
// not followed. A file of more than `bytes_max` is refused.
// Errors: EKEYREJECTED, with a sentence that names the file and what to do.
[[nodiscard]] Result<> read_private_file(const std::string& path, PrivateText& into,
                                         Report& report);

}  // namespace ros2s::cipher
