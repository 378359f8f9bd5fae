// This program does not name high among its modules.
#include "ros2s/high/high.h"

int main() {}
