"""Variables, writes, and the devices that hold them."""
