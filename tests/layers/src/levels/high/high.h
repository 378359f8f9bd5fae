#pragma once
inline int high() { return 3; }
