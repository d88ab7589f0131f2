"""What a page needs to be shown again: the addresses that its markup and style sheets load."""
