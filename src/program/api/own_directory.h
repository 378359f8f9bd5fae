#pragma once
#include <string>

namespace ros2s::api {

// The directory of libros2store.so, or of the library that has all of it inside (plugins/daos),
// also if it was loaded by a symbolic link. It depends on no variable of the environment.
[[nodiscard]] std::string own_directory();

}  // namespace ros2s::api
