// middle's public header, and what it is made of at link time.
#include "ros2s/middle/middle.h"

int main() { return middle() == 2 ? 0 : 1; }
