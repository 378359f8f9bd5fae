"""3FS's Python interface to its USRBIO, over a mounted ros2store container (docs/usrbio.md)."""
