// Random: a small seeded generator (xoshiro256**, Blackman and Vigna 2018, seeded by splitmix64).
// Its sequence never changes, because simulation seeds must reproduce across releases and standard
// libraries. The std:: distributions do not promise that.
#pragma once
#include <bit>
#include <cstdint>

namespace ros2s {

class Random {
  public:
    explicit Random(uint64_t seed) {
        for (auto& word : state_) {
            seed += 0x9e3779b97f4a7c15;
            uint64_t z = seed;
            z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
            z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
            word = z ^ (z >> 31);
        }
    }
    uint64_t next() {
        const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
        const uint64_t t = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }
    // Uniform in [0, bound); bound > 0. The bias of the modulo is below bound / 2^64.
    uint64_t below(uint64_t bound) { return next() % bound; }
    // True with probability 1 / n.
    bool one_in(uint64_t n) { return below(n) == 0; }

  private:
    uint64_t state_[4];
};

// A seed from the operating system, for everything except simulations.
[[nodiscard]] uint64_t random_seed();

// Secrets: numbers that cannot be predicted from earlier ones. Use them for all that a peer sees
// and for all names (connections, sessions, clients, containers, records). They come from the
// kernel's generator; each costs a system call. Outputs of Random reveal its state, so use Random
// only for jitter, sampling and simulations.
class Secrets {
  public:
    Secrets() = default;
    // For a simulation: the numbers follow from its seed.
    explicit Secrets(Random& simulated) : simulated_(&simulated) {}
    [[nodiscard]] uint64_t next() const;

  private:
    Random* simulated_ = nullptr;
};

}  // namespace ros2s
