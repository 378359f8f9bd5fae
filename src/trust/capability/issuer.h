// Issuer: the keys with which an engine signs the capabilities of one pool, in a file of the pool's
// directory that only its user may read. rotate() makes another key while the engine runs. A key
// that is no longer used verifies until the last capability that it signed has expired.
//
// Owned by the program; used on one core. The blocking pool reads and writes the file.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "ros2s/capability/chain.h"
#include "ros2s/runtime/environment.h"
#include "ros2s/runtime/sync.h"
#include "ros2s/runtime/task.h"

namespace ros2s::capability {

class Issuer {
  public:
    static constexpr size_t keys_max = 8;

    // Makes the file if there is none. Errors, with a sentence: invalid, denied (others may read
    // the file), those of reading and writing it.
    [[nodiscard]] static Task<Result<std::unique_ptr<Issuer>>> open(Environment environment,
                                                                    std::string path,
                                                                    Report& report);
    Issuer& operator=(Issuer&&) = delete;
    ~Issuer() = default;

    // Those that verify now, the one that signs first.
    [[nodiscard]] std::vector<PublicKey> keys() const;
    // Fills depth, id, issuer and times, and signs it. `life`: from now.
    [[nodiscard]] std::string issue(Capability capability, Duration life) const;
    // Signs with a new key from now on. It is durable on return. Errors, with a sentence: busy (too
    // many in an hour), those of writing the file.
    Task<Result<>> rotate(Report& report);

  private:
    struct StoredKey {
        Seed seed{};
        WallTime retired = WallTime::max();
    };
    Issuer(Environment environment, std::string path);
    [[nodiscard]] static std::string document_of(const std::vector<StoredKey>& keys);
    [[nodiscard]] static Result<std::vector<StoredKey>> parse(std::string_view text);
    Task<Result<>> keep(std::vector<StoredKey> keys, Report& report);

    Environment environment_;
    const std::string path_;
    Semaphore turn_;
    std::vector<StoredKey> kept_;  // the one that signs first
    std::vector<SigningKey> keys_;
};

}  // namespace ros2s::capability
