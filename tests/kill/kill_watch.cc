#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <set>

#include "promises.h"

namespace ros2s::kill_test {
namespace {

constexpr size_t blocks_at_once = 32;
constexpr size_t names_watched = 256;  // the latest
constexpr auto between_lines = std::chrono::milliseconds(100);

class Watch {
  public:
    explicit Watch(ros2s_fs* fs) : fs_(fs) {}
    ~Watch() {
        if (file_ != nullptr) ros2s_file_close(file_);
    }
    Watch& operator=(Watch&&) = delete;

    enum class Taken : uint8_t { some, end, nonsense };
    // The received acknowledgements. Waits only while there are none at all.
    Taken take() {
        pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
        if (::poll(&input, 1, promises_.count == 0 ? -1 : 0) <= 0) return Taken::some;
        const ssize_t got = ::read(STDIN_FILENO, &unread_[held_], sizeof unread_ - held_);
        if (got <= 0) return Taken::end;
        held_ += static_cast<size_t>(got);
        const size_t whole = held_ / sizeof(Acknowledged);
        for (size_t i = 0; i < whole; ++i) {
            Acknowledged each;
            std::memcpy(&each, &unread_[i * sizeof each], sizeof each);
            if (!promises_.add(each)) return Taken::nonsense;
            if (each.kind >= Acknowledged::renamed) remember(each);
        }
        held_ -= whole * sizeof(Acknowledged);
        std::memmove(unread_.data(), &unread_[whole * sizeof(Acknowledged)], held_);
        return Taken::some;
    }
    // Continues its round over all blocks and names.
    void look() {
        for (size_t i = 0; i < blocks_at_once && !promises_.blocks.empty(); ++i) look_at_block();
        if (!names_.empty()) look_at_name(names_[next_name_++ % names_.size()]);
    }
    void say(bool now) {
        const auto time = std::chrono::steady_clock::now();
        if (!now && time < said_ + between_lines) return;
        said_ = time;
        std::printf("%zu %llu %zu\n", promises_.blocks.size() + names_.size(),
                    static_cast<unsigned long long>(read_), lost_.size());
        std::fflush(stdout);
    }

  private:
    void remember(const Acknowledged& each) {
        names_.push_back(each);
        if (names_.size() > names_watched) names_.pop_front();
    }
    void look_at_block() {
        if (file_ == nullptr && ros2s_file_open(fs_, data_name, O_RDONLY, 0, &file_) != 0) {
            lose({Acknowledged::written, 0}, std::string("the file itself: ") + ros2s_last_error());
            return;
        }
        auto next = promises_.blocks.lower_bound(next_block_);
        if (next == promises_.blocks.end()) next = promises_.blocks.begin();
        const auto& [block, sequence] = *next;
        next_block_ = block + 1;
        ++read_;
        const std::string fault = block_fault(file_, block, sequence);
        if (!fault.empty()) lose({Acknowledged::written, block}, fault);
    }
    void look_at_name(const Acknowledged& each) {
        ++read_;
        const std::string is_there = " is there after step " + std::to_string(each.kind);
        if (exists(fs_, new_name(each.sequence))) {
            lose({each.kind, each.sequence}, new_name(each.sequence) + is_there);
        } else if (each.kind == Acknowledged::unlinked && exists(fs_, kept_name(each.sequence))) {
            lose({each.kind, each.sequence}, kept_name(each.sequence) + is_there);
        }
    }
    // Counts each loss once. The first few are named.
    void lose(std::pair<uint32_t, uint64_t> what, const std::string& fault) {
        if (lost_.insert(what).second && lost_.size() <= 5) {
            std::fprintf(stderr, "LOST: %s\n", fault.c_str());
        }
    }

    ros2s_fs* const fs_;
    ros2s_file* file_ = nullptr;
    Promises promises_;
    std::deque<Acknowledged> names_;
    uint64_t next_block_ = 0, next_name_ = 0;
    uint64_t read_ = 0;
    std::set<std::pair<uint32_t, uint64_t>> lost_;
    std::chrono::steady_clock::time_point said_;
    std::array<char, size_t{64} << 10> unread_;
    size_t held_ = 0;
};

}  // namespace

int watch(ros2s_fs* fs) {
    Watch watch(fs);
    while (true) {
        const Watch::Taken taken = watch.take();
        if (taken == Watch::Taken::nonsense) return 2;
        if (taken == Watch::Taken::end) break;
        watch.look();
        watch.say(false);
    }
    watch.say(true);
    return 0;
}

}  // namespace ros2s::kill_test
