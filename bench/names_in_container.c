/* names_in_container.c: a URI of ros2store. */
#include <fcntl.h>
#include <ros2store/ros2store.h>
#include <sys/stat.h>

#include "names_in.h"

static ros2s_fs* fs;

int names_open(const char* uri) { return ros2s_open(uri, NULL, &fs, NULL, 0); }
int names_close(void) { return ros2s_close(fs); }
int names_mkdir(const char* path) { return ros2s_mkdir(fs, path, 0755); }
const char* names_why(int result) {
    (void)result;
    return ros2s_last_error();
}

int names_do(enum operation operation, const char* path, const char* to) {
    struct stat st;
    ros2s_file* file;
    if (operation == STAT) return ros2s_stat(fs, path, &st);
    if (operation == UNLINK) return ros2s_unlink(fs, path);
    if (operation == RENAME) return ros2s_rename(fs, path, to, 0);
    const int flags = operation == CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY;
    const int rc = ros2s_file_open(fs, path, flags, 0644, &file);
    return rc < 0 ? rc : ros2s_file_close(file);
}
