// hidden.h is not among low's listed headers.
#include "ros2s/low/hidden.h"

int main() {}
