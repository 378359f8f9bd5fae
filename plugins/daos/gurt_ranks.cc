// Lists of ranks, times, and the environment, as DAOS's helper library has them.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>

#include "daos_errno.h"
#include "gurt/common.h"

namespace ros2s::daos {
namespace {

constexpr uint64_t ns_per_s = 1'000'000'000;
// A time is a count of 1/16 ns since 2021; the lowest 18 bits distinguish calls.
constexpr uint64_t start_s = 1609459200;
constexpr uint64_t units_per_ns = 16;
constexpr uint64_t call_bits = 0x3'ffff;
std::atomic<uint64_t> last_time = 0;

std::span<d_rank_t> ranks_of(const d_rank_list_t& list) {
    return {list.rl_ranks, list.rl_ranks == nullptr ? 0 : list.rl_nr};
}

int set_ranks(d_rank_list_t& list, std::span<const d_rank_t> ranks) {
    auto* const copy = static_cast<d_rank_t*>(std::calloc(ranks.size() + 1, sizeof(d_rank_t)));
    if (copy == nullptr) return -DER_NOMEM;
    std::ranges::copy(ranks, copy);
    std::free(list.rl_ranks);
    list = {.rl_ranks = copy, .rl_nr = static_cast<uint32_t>(ranks.size())};
    return 0;
}

}  // namespace
}  // namespace ros2s::daos

using namespace ros2s::daos;

// ---- ranks

d_rank_list_t* d_rank_list_alloc(uint32_t size) {
    auto* const list = static_cast<d_rank_list_t*>(std::calloc(1, sizeof(d_rank_list_t)));
    if (list == nullptr || size == 0) return list;
    list->rl_ranks = static_cast<d_rank_t*>(std::calloc(size, sizeof(d_rank_t)));
    if (list->rl_ranks == nullptr) {
        std::free(list);
        return nullptr;
    }
    list->rl_nr = size;
    for (uint32_t i = 0; i < size; ++i) list->rl_ranks[i] = i;
    return list;
}

void d_rank_list_free(d_rank_list_t* rank_list) {
    if (rank_list == nullptr) return;
    std::free(rank_list->rl_ranks);
    std::free(rank_list);
}

int d_rank_list_dup(d_rank_list_t** dst, const d_rank_list_t* src) {
    if (dst == nullptr) return -DER_INVAL;
    *dst = nullptr;
    if (src == nullptr) return 0;
    auto* const copy = d_rank_list_alloc(0);
    if (copy == nullptr || set_ranks(*copy, ranks_of(*src)) != 0) {
        d_rank_list_free(copy);
        return -DER_NOMEM;
    }
    *dst = copy;
    return 0;
}

int d_rank_list_copy(d_rank_list_t* dst, d_rank_list_t* src) {
    if (dst == nullptr || src == nullptr) return -DER_INVAL;
    return dst == src ? 0 : set_ranks(*dst, ranks_of(*src));
}

bool d_rank_list_find(d_rank_list_t* rank_list, d_rank_t rank, int* idx) {
    if (rank_list == nullptr) return false;
    const auto ranks = ranks_of(*rank_list);
    const auto found = std::ranges::find(ranks, rank);
    if (found == ranks.end()) return false;
    if (idx != nullptr) *idx = static_cast<int>(found - ranks.begin());
    return true;
}

bool d_rank_in_rank_list(d_rank_list_t* rank_list, d_rank_t rank) {
    return d_rank_list_find(rank_list, rank, nullptr);
}

int d_rank_list_del(d_rank_list_t* rank_list, d_rank_t rank) {
    int at = 0;
    if (rank_list == nullptr) return -DER_INVAL;
    if (!d_rank_list_find(rank_list, rank, &at)) return 0;
    const auto later = ranks_of(*rank_list).subspan(static_cast<size_t>(at) + 1);
    std::ranges::copy(later, rank_list->rl_ranks + at);
    --rank_list->rl_nr;
    return 0;
}

bool d_rank_list_identical(d_rank_list_t* rank_list1, d_rank_list_t* rank_list2) {
    if (rank_list1 == nullptr || rank_list2 == nullptr) return rank_list1 == rank_list2;
    return std::ranges::equal(ranks_of(*rank_list1), ranks_of(*rank_list2));
}

// [0-3,7], in the order of the list.
int d_rank_list_to_str(d_rank_list_t* ranks, char** ranks_str) {
    if (ranks_str == nullptr) return -DER_INVAL;
    *ranks_str = nullptr;
    if (ranks == nullptr) return 0;
    std::string text = "[";
    const auto all = ranks_of(*ranks);
    for (size_t i = 0; i < all.size(); ++i) {
        size_t last = i;
        while (last + 1 < all.size() && all[last + 1] == all[last] + 1) ++last;
        if (text.size() > 1) text += ',';
        text += std::to_string(all[i]);
        if (last > i) text += '-' + std::to_string(all[last]);
        i = last;
    }
    text += ']';
    *ranks_str = ::strdup(text.c_str());
    return *ranks_str == nullptr ? -DER_NOMEM : 0;
}

// ---- times

uint64_t d_hlc_get(void) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    uint64_t time = 0;
    d_timespec2hlc(now, &time);
    time &= ~call_bits;
    uint64_t last = last_time;
    uint64_t next = 0;
    do {
        next = std::max(time, last + 1);
    } while (!last_time.compare_exchange_weak(last, next));
    return next;
}

uint64_t d_hlc2nsec(uint64_t hlc) { return hlc / units_per_ns; }
uint64_t d_nsec2hlc(uint64_t nsec) { return nsec * units_per_ns; }
uint64_t d_hlc2unixnsec(uint64_t hlc) { return hlc / units_per_ns + start_s * ns_per_s; }

// Returns 0 if the result cannot be represented.
uint64_t d_unixnsec2hlc(uint64_t unixnsec) {
    const uint64_t since = unixnsec - start_s * ns_per_s;
    return unixnsec < start_s * ns_per_s || since > UINT64_MAX / units_per_ns
               ? 0
               : since * units_per_ns;
}

int d_hlc2timespec(uint64_t hlc, struct timespec* ts) {
    if (ts == nullptr) return -DER_INVAL;
    const uint64_t ns = d_hlc2nsec(hlc);
    *ts = {.tv_sec = static_cast<time_t>(ns / ns_per_s + start_s),
           .tv_nsec = static_cast<long>(ns % ns_per_s)};
    return 0;
}

int d_timespec2hlc(struct timespec ts, uint64_t* hlc) {
    if (hlc == nullptr) return -DER_INVAL;
    const uint64_t s = static_cast<uint64_t>(ts.tv_sec) - start_s;
    *hlc = d_nsec2hlc(s * ns_per_s + static_cast<uint64_t>(ts.tv_nsec));
    return 0;
}

// ---- the environment

int d_agetenv_str(char** str_val, const char* name) {
    if (str_val == nullptr || name == nullptr) return -DER_INVAL;
    *str_val = nullptr;
    const char* const text = std::getenv(name);
    if (text == nullptr) return -DER_NONEXIST;
    *str_val = ::strdup(text);
    return *str_val == nullptr ? -DER_NOMEM : 0;
}

void d_freeenv_str(char** str_val) {
    std::free(*str_val);
    *str_val = nullptr;
}

int d_setenv(const char* name, const char* value, int overwrite) {
    return ::setenv(name, value, overwrite);
}
int d_unsetenv(const char* name) { return ::unsetenv(name); }
bool d_isenv_def(const char* name) { return std::getenv(name) != nullptr; }
