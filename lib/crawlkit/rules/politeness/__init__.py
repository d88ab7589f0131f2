"""When a host may be asked, and when it is to be left alone."""
