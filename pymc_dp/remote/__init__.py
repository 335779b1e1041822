"""Records that are not in this process: shards of one data set, and several data owners."""
