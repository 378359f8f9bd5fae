#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kill_test.h"

namespace ros2s::kill_test {
namespace {

struct Promised {
    uint64_t count = 0;
    std::map<uint64_t, uint64_t> blocks;           // block: the last sequence
    std::map<uint64_t, Acknowledged::Kind> names;  // sequence: the last step
};

std::optional<Promised> read_promises() {
    Promised promised;
    Acknowledged each;
    while (std::fread(&each, sizeof each, 1, stdin) == 1) {
        ++promised.count;
        if (each.kind == Acknowledged::written) {
            uint64_t& last = promised.blocks[each.block];
            last = std::max(last, each.sequence);
        } else if (each.kind >= Acknowledged::created && each.kind <= Acknowledged::unlinked) {
            promised.names[each.sequence] = static_cast<Acknowledged::Kind>(each.kind);
        } else {
            std::fprintf(stderr, "kill_writer: standard input holds no acknowledgements\n");
            return std::nullopt;
        }
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

void verify_blocks(ros2s_file* file, const Promised& promised, Losses& losses) {
    const auto found = std::make_unique<Block>();
    for (const auto& [block, sequence] : promised.blocks) {
        const std::string name =
            "block " + std::to_string(block) + ", written as " + std::to_string(sequence);
        const ssize_t bytes = ros2s_pread(file, found.get(), block_size, block * block_size);
        if (bytes < 0) {
            losses.add(name + ": " + ros2s_last_error());
        } else if (bytes < static_cast<ssize_t>(block_size)) {
            losses.add(name + ": the file ends before it");
        } else if (!found->is_whole(block)) {
            losses.add(name + ": holds other bytes");
        } else if (found->words[0] < sequence) {
            // A greater one was in flight and not acknowledged: it may be there.
            losses.add(name + ": holds " + std::to_string(found->words[0]));
        }
    }
}

bool exists(ros2s_fs* fs, const std::string& name) {
    struct stat found{};
    return ros2s_stat(fs, name.c_str(), &found) == 0 && found.st_size == sizeof(uint64_t);
}

// A step that was acknowledged holds; the next one may have happened too.
void verify_names(ros2s_fs* fs, const Promised& promised, Losses& losses) {
    for (const auto& [sequence, step] : promised.names) {
        const bool is_new = exists(fs, new_name(sequence));
        const bool is_kept = exists(fs, kept_name(sequence));
        // Its unlink began only when this later file's rename had been acknowledged.
        const auto later = promised.names.find(sequence + names_kept);
        const bool may_be_unlinked =
            later != promised.names.end() && later->second >= Acknowledged::renamed;
        bool holds = false;
        switch (step) {
            case Acknowledged::created: holds = is_new != is_kept; break;
            case Acknowledged::renamed: holds = !is_new && (is_kept || may_be_unlinked); break;
            default: holds = !is_new && !is_kept; break;
        }
        if (!holds) {
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
