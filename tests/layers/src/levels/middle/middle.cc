#include "ros2s/middle/middle.h"

#include "ros2s/low/low.h"

int middle() { return low() + 1; }
