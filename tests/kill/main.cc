// kill_writer write URI BLOCKS DEPTH FIRST-SEQUENCE
//     Writes until it is killed; acknowledgements go to standard output.
// kill_writer verify URI
//     Acknowledgements come from standard input; exit status 1: something is lost.
// kill_writer watch URI
//     The same while another one writes; lines of what it found so far go to standard output.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kill_test.h"

int main(int argc, char** argv) {
    using namespace ros2s::kill_test;
    const std::string_view command = argc > 1 ? argv[1] : "";
    const bool writes = command == "write" && argc == 6;
    const bool watches = command == "watch" && argc == 3;
    if (!writes && !watches && !(command == "verify" && argc == 3)) {
        std::fprintf(stderr,
                     "usage: kill_writer write URI BLOCKS DEPTH FIRST-SEQUENCE\n"
                     "       kill_writer verify URI\n"
                     "       kill_writer watch URI\n");
        return 2;
    }
    char error[512];
    ros2s_fs* fs = nullptr;
    if (ros2s_open(argv[2], nullptr, &fs, error, sizeof error) != 0) {
        std::fprintf(stderr, "kill_writer: %s\n", error);
        return 2;
    }
    if (writes) {
        return write_until_killed(fs, std::strtoull(argv[3], nullptr, 10),
                                  static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)),
                                  std::strtoull(argv[5], nullptr, 10));
    }
    const int status = watches ? watch(fs) : verify(fs);
    return ros2s_close(fs) == 0 ? status : 2;
}
