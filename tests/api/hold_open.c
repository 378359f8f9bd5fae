// Opens a container, writes "open" or the reason, and closes it at the end of its input.
#include <ros2store/ros2store.h>
#include <stdio.h>

int main(int count, char** arguments) {
    char error[512];
    ros2s_fs* fs;
    if (count != 2) return 2;
    if (ros2s_open(arguments[1], 0, &fs, error, sizeof error) != 0) {
        puts(error);
        return 1;
    }
    puts("open");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    ros2s_close(fs);
    return 0;
}
