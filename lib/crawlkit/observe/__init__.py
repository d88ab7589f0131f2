"""Looking at a crawl: status, explain, views, diff, doctor, one URL by itself."""
