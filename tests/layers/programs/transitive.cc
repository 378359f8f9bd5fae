// low is a private dependency of middle's.
#include "ros2s/low/low.h"

int main() {}
