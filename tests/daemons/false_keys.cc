#include "false_keys.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <utility>

// The ABI of rdma-core (libibverbs/verbs.h, IBVERBS_1.1). It is declared here, so the build needs
// no headers of it.
extern "C" {
struct ibv_context;
struct ibv_pd {
    ibv_context* context;
    uint32_t handle;
};
struct ibv_mr {
    ibv_context* context;
    ibv_pd* pd;
    void* addr;
    size_t length;
    uint32_t handle, lkey, rkey;
};
}

namespace ros2s::tests {
namespace {

constexpr std::array<std::string_view, 6> lies{"",      "forged",  "foreign",
                                               "stale", "bounded", "rightless"};
enum Lie : uint32_t { none, forged, foreign, stale, bounded, rightless };

constexpr unsigned remote_write = 2, remote_read = 4, remote_any = remote_write | remote_read;
constexpr size_t payload_least = size_t{16} << 10;  // what is smaller travels in messages

std::atomic<uint32_t> lie = none;
std::atomic<uint64_t> told = 0;
// One function of libibverbs calls another one, and then finds the replacement here.
thread_local bool registering = false;

template <class Function>
Function* real(const char* name) {
    void* const library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
    auto* const found =
        library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
    if (found == nullptr) std::abort();
    return found;
}

using Register = ibv_mr*(ibv_pd*, void*, size_t, int);
using Forget = int(ibv_mr*);
using Allocate = ibv_pd*(ibv_context*);

// libfabric ends the registration itself. Only the key that it hands out belongs to another
// registration.
uint32_t key_of(ibv_pd* pd, void* address, size_t length, unsigned access, bool ends) {
    ibv_mr* const other =
        real<Register>("ibv_reg_mr")(pd, address, length, static_cast<int>(access));
    if (other == nullptr) std::abort();
    const uint32_t key = other->rkey;
    if (ends) (void)real<Forget>("ibv_dereg_mr")(other);
    return key;
}

template <class Honest>
ibv_mr* with_a_lie(unsigned access, const Honest& honest) {
    if (std::exchange(registering, true)) return honest();
    ibv_mr* const made = honest();
    const auto how = static_cast<Lie>(lie.load());
    const bool is_payload =
        made != nullptr && (access & remote_any) != 0 && made->length >= payload_least;
    if (how != none && is_payload) {
        constexpr unsigned local = 1;
        ibv_pd* const pd = made->pd;
        if (how == forged) made->rkey ^= 0x5500;
        if (how == foreign) {
            made->rkey = key_of(real<Allocate>("ibv_alloc_pd")(made->context), made->addr,
                                made->length, access, false);
        }
        if (how == stale) made->rkey = key_of(pd, made->addr, made->length, access, true);
        if (how == bounded) made->rkey = key_of(pd, made->addr, made->length / 2, access, false);
        if (how == rightless) made->rkey = key_of(pd, made->addr, made->length, local, false);
        ++told;
    }
    registering = false;
    return made;
}

}  // namespace

bool is_lie(std::string_view name) {
    return !name.empty() && std::ranges::find(lies, name) != lies.end();
}
void lie_about_keys(std::string_view how) {
    lie = static_cast<uint32_t>(std::ranges::find(lies, how) - lies.begin());
}
uint64_t lies_told() { return told; }

}  // namespace ros2s::tests

// The program defines these, so the loader finds them before those of libibverbs.
extern "C" {
__attribute__((visibility("default"))) ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length,
                                                          int access) {
    using namespace ros2s::tests;
    return with_a_lie(static_cast<unsigned>(access),
                      [&] { return real<Register>("ibv_reg_mr")(pd, address, length, access); });
}
__attribute__((visibility("default"))) ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address,
                                                                size_t length, uint64_t iova,
                                                                unsigned access) {
    using namespace ros2s::tests;
    using RegisterAt = ibv_mr*(ibv_pd*, void*, size_t, uint64_t, unsigned);
    return with_a_lie(access, [&] {
        return real<RegisterAt>("ibv_reg_mr_iova2")(pd, address, length, iova, access);
    });
}
}
