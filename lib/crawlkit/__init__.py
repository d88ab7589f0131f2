"""A batch web crawler in the MapReduce manner on Spark and Delta Lake."""

__version__ = "0.1.0"
