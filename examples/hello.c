/* hello.c: writes a file into a container and reads it back.
 *
 *     ros2store up --no-daemons /tmp/pool         # once
 *     cc hello.c $(pkg-config --cflags --libs ros2store) -o hello
 *     ./hello 'ros2s+local:///pool/main?dir=/tmp/pool'
 */
#include <fcntl.h>
#include <ros2store/ros2store.h>
#include <stdio.h>
#include <string.h>

static int fail(void) {
    fprintf(stderr, "hello: %s\n", ros2s_last_error());
    return 1;
}

int main(int count, char** arguments) {
    static const char text[] = "hello, objects\n";
    char back[sizeof text] = "";
    ros2s_fs* fs;
    ros2s_file* file;
    if (count != 2) {
        fprintf(stderr, "usage: hello URI\n");
        return 2;
    }
    if (ros2s_open(arguments[1], NULL, &fs, NULL, 0) < 0) return fail();
    if (ros2s_file_open(fs, "hello.txt", O_RDWR | O_CREAT | O_TRUNC, 0644, &file) < 0) {
        return fail();
    }
    /* Durable when it returns. */
    if (ros2s_pwrite(file, text, strlen(text), 0) < 0) return fail();
    if (ros2s_pread(file, back, strlen(text), 0) < 0) return fail();
    fputs(back, stdout);
    if (ros2s_file_close(file) < 0 || ros2s_close(fs) < 0) return fail();
    return 0;
}
