// tree.cpp: lists what is in a container, with sizes.
//
//     ./tree URI
#include <iostream>
#include <ros2store/ros2store.hpp>

namespace {

void list(const ros2store::FileSystem& fs, const std::string& path, int depth) {
    const auto directory = fs.open_directory(path);
    for (auto some = directory.next_many(); !some.empty(); some = directory.next_many()) {
        for (const auto& [entry, stat] : some) {
            const std::string name = entry.name;
            std::cout << std::string(static_cast<size_t>(depth) * 2, ' ') << name;
            if (S_ISDIR(entry.type)) {
                std::cout << "/\n";
                list(fs, path.empty() ? name : path + "/" + name, depth + 1);
            } else {
                std::cout << "  " << stat.st_size << '\n';
            }
        }
    }
}

}  // namespace

int main(int count, char** arguments) try {
    if (count != 2) {
        std::cerr << "usage: tree URI\n";
        return 2;
    }
    list(ros2store::FileSystem(arguments[1]), "", 0);
    return 0;
} catch (const ros2store::Error& error) {
    std::cerr << "tree: " << error.sentence() << '\n';
    return 1;
}
