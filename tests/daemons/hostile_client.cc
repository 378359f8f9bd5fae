// An admitted client of a daemon that then misbehaves. It is a separate program, because its own
// attack may crash it.
//
//     hostile_client CONTROL CERTIFICATES NAME engine|dpu CONTAINER PROVIDER DEVICE
//                    garbage|indices|stall|die|LIE SEED [MARKER]
//
// garbage  writes random words into the memory that it shares with the daemon: rings, indices and
//          payload
// indices  the same at the beginning of each segment, where the ring indices are
// stall    stops in the middle of its requests, and keeps its resources
// die      is killed in the middle of its requests
// LIE      uses false keys of its memory over an RDMA adapter (false_keys.h lists them)
//
// It reads and writes files at the same time. It prints "working" when it has begun. NAME: the
// name of its certificate. MARKER: it plants this in its files, and fails if memory that it shares
// with the daemon contains another tenant's marker (planted.h).
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "client.h"
#include "false_keys.h"
#include "planted.h"
#include "ros2s/base/random.h"
#include "verified_load.h"

namespace ros2s::tests {
namespace {

using Words = std::span<uint64_t>;

// The memory that it shares with daemons: every memfd that it has mapped writable.
std::vector<Words> shared_memory() {
    std::vector<Words> found;
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        unsigned long begin = 0, end = 0;
        if (line.find("/memfd:") == std::string::npos || line.find(" rw-s ") == std::string::npos ||
            std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) {
            continue;
        }
        found.emplace_back(reinterpret_cast<uint64_t*>(begin), (end - begin) / sizeof(uint64_t));
    }
    return found;
}

void scribble(Random& random, size_t bytes) {
    for (const Words& words : shared_memory()) {
        const size_t span = std::min(bytes / sizeof(uint64_t), words.size());
        for (int i = 0; i < 2000; ++i) {
            const uint64_t bits = random.next();
            const uint64_t value = random.one_in(3)   ? bits
                                   : random.one_in(2) ? bits >> (bits & 63)
                                                      : ~(bits >> (bits & 63));
            std::atomic_ref(words[random.below(span)]).store(value);
        }
    }
}

// Runs on the core of its connection, which therefore does not read the random words itself.
Task<> scribble_for_a_while(size_t bytes, uint64_t seed) {
    Random random(seed);
    EXPECT_FALSE(shared_memory().empty());
    for (int burst = 0; burst < 100; ++burst) {
        scribble(random, bytes);
        ::usleep(2000);
    }
    co_return;
}

// Sends false keys until the daemon has used a few of them. It gets further ones only when earlier
// requests have ended. Afterwards it sends correct keys and must be served. False: one of the two
// did not happen.
bool lie_for_a_while(const std::string& how, VerifiedLoad& load) {
    constexpr uint64_t enough = 20;
    lie_about_keys(how);
    for (int i = 0; i < 300 && lies_told() < enough; ++i) ::usleep(100'000);
    EXPECT_GT(lies_told(), 0U);
    std::fprintf(stderr, "%s: told %llu times\n", how.c_str(),
                 static_cast<unsigned long long>(lies_told()));
    ::usleep(2'000'000);
    lie_about_keys("");
    load.expect_progress(20);
    return !testing::Test::HasFailure();
}

// Misbehaves for a while. False: it could not.
bool misbehave(OsReactor& reactor, VerifiedLoad& load, const std::string& how, uint64_t seed) {
    if (how == "die") ::raise(SIGKILL);
    if (how == "stall") ::raise(SIGSTOP);
    if (is_lie(how)) return lie_for_a_while(how, load);
    const size_t bytes = how == "indices" ? 4096 : size_t{256} << 10;
    run_blocking(reactor, [&] { return scribble_for_a_while(bytes, seed); });
    return true;
}

struct Arguments {
    std::string control, certificates, name, daemon, container, provider, device, how;
    uint64_t seed = 0;
    std::string marker;
};

Result<> open(Client& client, OsReactor& reactor, const Arguments& by, Report& report) {
    const connection::ServerAccess server{.control = by.control,
                                          .server_name = "localhost",
                                          .identity = pki::identity_in(by.certificates, by.name),
                                          .pool = "pool",
                                          .program = "hostile",
                                          .providers = {by.provider},
                                          .ucx_device = by.device};
    if (by.daemon == "dpu") {
        return client.open(
            reactor, connection::HostOptions{.dpu = server, .container = by.container}, report);
    }
    return client.open(reactor, connection::Options{.server = server}, report);
}

// Searches all shared memory: sent and received data, and earlier contents.
bool has_others_bytes(const std::string& marker) {
    if (marker.empty()) return false;
    const Plant plant(marker);
    for (const Words& words : shared_memory()) {
        const std::string found = plant.others_in(std::as_bytes(words));
        if (found.empty()) continue;
        std::fprintf(stderr, "%s shares memory that has another's bytes: %s\n", marker.c_str(),
                     found.c_str());
        return true;
    }
    return false;
}

int run(const Arguments& arguments) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    Report report;
    auto reactor = OsReactor::create({.thread_name = "hostile"}, report);
    if (!reactor || !(*reactor)->start(report)) return 1;
    Client client;
    if (!open(client, **reactor, arguments, report)) {
        std::fprintf(stderr, "%s\n", report.text().c_str());
        return 1;
    }
    // Other hostile clients may run at the same time.
    VerifiedLoad load(**reactor, client.files(), arguments.how, arguments.marker);
    load.begin();
    load.expect_progress(20);
    std::puts("working");
    std::fflush(stdout);
    if (has_others_bytes(arguments.marker)) ::_exit(3);
    const bool done = misbehave(**reactor, load, arguments.how, arguments.seed);
    // Exits without cleaning up. The daemon has to do that.
    ::_exit(done ? 0 : 1);
}

}  // namespace
}  // namespace ros2s::tests

int main(int count, char** arguments) {
    const std::vector<std::string> all(arguments, arguments + count);
    if (all.size() < 10 || all.size() > 11) return 2;
    return ros2s::tests::run({all[1], all[2], all[3], all[4], all[5], all[6], all[7], all[8],
                              std::stoull(all[9]), all.size() > 10 ? all[10] : ""});
}
