#pragma once
inline constexpr int hidden = 1;
