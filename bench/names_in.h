/* names_in.h: where name_bench works, if not in a directory of the machine: in a container of ROS2
 * (names_in_container.c).
 *
 * A path has no leading '/'. Functions return 0 or a negative number, and names_why() what it
 * means. Any thread may call them after names_open(). */
#ifndef NAMES_IN_H
#define NAMES_IN_H

enum operation { CREATE, STAT, OPEN, RENAME, UNLINK, OPERATIONS };

int names_open(const char* uri);
int names_close(void);
int names_mkdir(const char* path);
/* `to` is the new path of RENAME. A file that is created or opened is closed again. */
int names_do(enum operation operation, const char* path, const char* to);
const char* names_why(int result);

#endif
