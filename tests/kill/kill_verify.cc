#include <fcntl.h>

#include <cstdio>
#include <optional>

#include "promises.h"

namespace ros2s::kill_test {
namespace {

std::optional<Promises> read_promises() {
    Promises promised;
    Acknowledged each;
    while (std::fread(&each, sizeof each, 1, stdin) == 1) {
        if (!promised.add(each)) return std::nullopt;
    }
    return promised;
}

// The first few are named, all are counted.
class Losses {
  public:
    void add(const std::string& what) {
        if (++count_ <= 5) std::printf("lost: %s\n", what.c_str());
    }
    [[nodiscard]] uint64_t count() const { return count_; }

  private:
    uint64_t count_ = 0;
};

void verify_blocks(ros2s_file* file, const Promises& promised, Losses& losses) {
    for (const auto& [block, sequence] : promised.blocks) {
        const std::string fault = block_fault(file, block, sequence);
        if (!fault.empty()) losses.add(fault);
    }
}

// An acknowledged step must have happened. The next one may have.
void verify_names(ros2s_fs* fs, const Promises& promised, Losses& losses) {
    for (const auto& [sequence, step] : promised.names) {
        const bool is_new = exists(fs, new_name(sequence));
        const bool is_kept = exists(fs, kept_name(sequence));
        if ((is_new && !holds(fs, new_name(sequence), sequence)) ||
            (is_kept && !holds(fs, kept_name(sequence), sequence))) {
            losses.add("file " + std::to_string(sequence) + " holds other bytes");
        }
        // Its unlink began only after the rename of this later file had been acknowledged.
        const auto later = promised.names.find(sequence + names_kept);
        const bool may_be_unlinked =
            later != promised.names.end() && later->second >= Acknowledged::renamed;
        bool kept = false;
        switch (step) {
            case Acknowledged::created: kept = is_new != is_kept; break;
            case Acknowledged::renamed: kept = !is_new && (is_kept || may_be_unlinked); break;
            default: kept = !is_new && !is_kept; break;
        }
        if (!kept) {
            losses.add("file " + std::to_string(sequence) + " after step " + std::to_string(step) +
                       (is_new ? ", new- is there" : "") + (is_kept ? ", kept- is there" : ""));
        }
    }
}

}  // namespace

int verify(ros2s_fs* fs) {
    const auto promised = read_promises();
    if (!promised) return 2;
    ros2s_file* file = nullptr;
    Losses losses;
    if (ros2s_file_open(fs, data_name, O_RDONLY, 0, &file) == 0) {
        verify_blocks(file, *promised, losses);
        ros2s_file_close(file);
    } else if (!promised->blocks.empty()) {
        losses.add(std::string("the file itself: ") + ros2s_last_error());
    }
    verify_names(fs, *promised, losses);
    std::printf("%llu acknowledged, %zu blocks and %zu files read back, %llu lost\n",
                static_cast<unsigned long long>(promised->count), promised->blocks.size(),
                promised->names.size(), static_cast<unsigned long long>(losses.count()));
    return losses.count() == 0 ? 0 : 1;
}

}  // namespace ros2s::kill_test
