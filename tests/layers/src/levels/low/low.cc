#include "ros2s/low/low.h"

#include "hidden.h"

int low() { return hidden; }
