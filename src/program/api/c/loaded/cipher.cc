// The entry of libros2store-cipher.
#include "libraries.h"

extern "C" [[gnu::visibility("default")]] const ros2s::api::c::CipherLibrary* ros2store_cipher() {
    static constexpr ros2s::api::c::CipherLibrary library{.decrypt_with =
                                                              ros2s::cipher::decrypt_with};
    return &library;
}
